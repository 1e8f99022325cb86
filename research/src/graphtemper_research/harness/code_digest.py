"""Which code made a number: a digest of the library and of the research package."""

from __future__ import annotations

from pathlib import Path

from graphtemper_research.harness.source_digest import NOT_MEASURING, source_digest

PACKAGE = Path(__file__).parents[1]
# Parts of this package that choose what is run or how it is shown, but change no number.
NOT_EVALUATING = ("commands", "explorer")


def code_digest() -> str:
    """Return 12 digits that change with the code that measures, in either package.

    Examples
    --------
    >>> len(code_digest()), code_digest() == code_digest()
    (12, True)
    """
    library = source_digest(NOT_MEASURING)
    return combined(library, source_digest(NOT_EVALUATING, PACKAGE))


def whole_digest() -> str:
    """Return 12 digits that change with any line of either package."""
    return combined(source_digest(), source_digest((), PACKAGE))


def combined(*digests: str) -> str:
    """Return 12 digits of several digests.

    Examples
    --------
    >>> combined("ab", "c") == combined("a", "bc")
    False
    """
    import hashlib

    return hashlib.sha256("\n".join(digests).encode()).hexdigest()[:12]
