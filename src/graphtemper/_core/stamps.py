"""Stamps of files: a cheap sign that their contents need not be read again.

A file that is written to or replaced gets a new change time, which only the operating system sets.
If size, times and inode are the same as when the contents were read, so are the contents, unless
the file changed twice within the resolution of the clock.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from graphtemper import errors


def stamp(files: Sequence[Path]) -> str:
    """Return a short string that changes when files do, without opening any.

    It is made of names, sizes, times and inodes.

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
    digest = hashlib.sha256()
    for path in files:
        try:
            status = path.stat()
        except OSError as error:
            raise errors.unreadable(f"{path} cannot be read: {error.strerror or error}.") from error
        if not stat.S_ISREG(status.st_mode):
            raise errors.unreadable(f"{path} is not a regular file; write the snapshot to a file.")
        times = (status.st_mtime_ns, status.st_ctime_ns)
        facts = (status.st_size, *times, status.st_ino, status.st_dev)
        digest.update(os.fsencode(path.name) + b"\0" + repr(facts).encode())
    return digest.hexdigest()
