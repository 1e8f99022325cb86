"""Stamps of files: a cheap sign that their contents need not be read again.

A file that is written to or replaced gets a new change time, which only the operating system sets.
If size, times and inode are the same as when the contents were read, so are the contents, unless
the file changed twice within the resolution of the clock. A stamp younger than that resolution is
therefore not reliable.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from graphtemper.errors import FileError

# The coarsest clocks of file systems have a resolution of two seconds.
_RESOLUTION = 2_000_000_000


class Stamp(NamedTuple):
    """A short string that changes when files do, and the newest of their times in nanoseconds."""

    text: str
    newest: int

    def is_reliable(self, now: int | None = None) -> bool:
        """Return whether the files are old enough, at a time in nanoseconds, to trust the stamp.

        Examples
        --------
        >>> stamp = Stamp("", 10**18)
        >>> stamp.is_reliable(10**18 + 1), stamp.is_reliable(10**18 + 3 * 10**9)
        (False, True)
        """
        return self.newest + _RESOLUTION < (time.time_ns() if now is None else now)


def stamp(files: Sequence[Path]) -> Stamp:
    """Return the stamp of files from names, sizes, times and inodes, without opening any.

    Anything but a regular file is refused: a pipe would block its reader, and a device may never
    end.

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
    digest, newest = hashlib.sha256(), 0
    for path in files:
        try:
            status = path.stat()
        except OSError as error:
            raise FileError(f"{path} cannot be read: {error.strerror or error}.") from error
        if not stat.S_ISREG(status.st_mode):
            raise FileError(f"{path} is not a regular file; write the snapshot to a file.")
        times = (status.st_mtime_ns, status.st_ctime_ns)
        facts = (status.st_size, *times, status.st_ino, status.st_dev)
        digest.update(os.fsencode(path.name) + b"\0" + repr(facts).encode())
        newest = max(newest, *times)
    return Stamp(digest.hexdigest(), newest)
