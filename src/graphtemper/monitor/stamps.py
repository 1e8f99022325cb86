"""Whether files are still what they were: a checksum, and a cheap sign that it need not be taken.

A file that was written to or replaced has another time of change, which only the system sets. So
where size, times and place are as they were when the checksum was taken, so is the content, unless
the file changed again within the grain of the clock. A `Stamp` that is younger than that grain is
therefore not to be relied on.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from graphtemper.errors import FileError

_CHUNK = 1 << 20
# The coarsest clocks of file systems tick every two seconds.
_GRAIN = 2_000_000_000


class Stamp(NamedTuple):
    """A short text that changes when files do, and the newest of their times in nanoseconds."""

    text: str
    newest: int

    def settled(self, now: int | None = None) -> bool:
        """Whether the files are old enough, at a time in nanoseconds, to rely on the stamp.

        Examples
        --------
        >>> Stamp("", 10**18).settled(10**18 + 1), Stamp("", 10**18).settled(10**18 + 3 * 10**9)
        (False, True)
        """
        return self.newest + _GRAIN < (time.time_ns() if now is None else now)


def stamp(files: Sequence[Path]) -> Stamp:
    """Return the stamp of some files: names, sizes, times and places, without opening any.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x"
    >>> _ = path.write_text("one")
    >>> before = stamp([path])
    >>> _ = path.write_text("other")
    >>> stamp([path]) == before
    False
    """
    found, newest = hashlib.sha256(), 0
    for path in files:
        try:
            seen = path.stat()
        except OSError as error:
            raise _unreadable(path, error) from error
        facts = (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino, seen.st_dev)
        found.update(os.fsencode(path.name) + b"\0" + repr(facts).encode())
        newest = max(newest, seen.st_mtime_ns, seen.st_ctime_ns)
    return Stamp(found.hexdigest(), newest)


def digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 of a file, or of the names and checksums of several.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "x"
    >>> _ = path.write_text("one")
    >>> digest([path])[:16]
    '7692c3ad3540bb80'
    """
    each = [(path.name, _digest(path)) for path in files]
    if len(each) == 1:
        return each[0][1]
    found = hashlib.sha256()
    for name, one in each:
        found.update(os.fsencode(name) + b"\0" + one.encode())
    return found.hexdigest()


def _digest(path: Path) -> str:
    found = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                found.update(chunk)
    except OSError as error:
        raise _unreadable(path, error) from error
    return found.hexdigest()


def _unreadable(path: Path, error: OSError) -> FileError:
    return FileError(f"{path} cannot be read: {error.strerror or error}.")
