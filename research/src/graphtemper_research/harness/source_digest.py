"""A digest of the library's source, which identifies the code that computed a number."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import graphtemper

PACKAGE = Path(graphtemper.__file__).parent
# Parts of the package that choose what is run or how it is displayed, but change no number.
NOT_MEASURING = ("cli", "recalibration/report")


@cache
def source_digest(exclude: tuple[str, ...] = (), root: Path = PACKAGE) -> str:
    """Return a digest of the names and contents of the package's modules.

    It is computed once per process: a file that is edited later is not the code that runs.

    Parameters
    ----------
    exclude
        Folders of the package to leave out, as paths relative to its root.
    root
        The folder of the package; that of this library by default.

    Examples
    --------
    >>> len(source_digest()), source_digest() == source_digest(("cli",))
    (64, False)
    """
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not any(name.startswith(f"{folder}/") for folder in exclude):
            content = path.read_bytes()
            digest.update(b"%s %d\n" % (name.encode(), len(content)))
            digest.update(content)
    return digest.hexdigest()
