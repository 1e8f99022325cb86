"""Which code made a number: a digest of the library's source."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

NOT_MEASURING = ("experiments", "cli", "report", "explorer")
"""Parts of the package that decide what is run and how it is shown, but no number of a run."""


@cache
def source_digest(exclude: tuple[str, ...] = ()) -> str:
    """Return a digest of the names and contents of the package's modules.

    It is read once a process: what is edited later is not the code that runs.

    Parameters
    ----------
    exclude
        Folders at the top of the package that are left out.

    Examples
    --------
    >>> len(source_digest()), source_digest() == source_digest(("cli",))
    (64, False)
    """
    root, total = Path(__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root)
        if name.parts[0] not in exclude:
            text = path.read_bytes()
            total.update(b"%s %d\n" % (name.as_posix().encode(), len(text)))
            total.update(text)
    return total.hexdigest()
