"""Advisory file lock, released when the process exits; standard library only."""

from __future__ import annotations

import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def try_lock(stream: IO[bytes]) -> bool:
        """Lock an open file against other processes; return False if one holds the lock."""
        try:
            stream.seek(0)
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
else:
    import fcntl

    def try_lock(stream: IO[bytes]) -> bool:
        """Lock an open file against other processes; return False if one holds the lock.

        The lock is released when the file is closed or the process ends.
        """
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
