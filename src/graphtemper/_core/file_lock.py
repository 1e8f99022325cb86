"""A lock on an open file, which the end of its holder frees; standard library only."""

from __future__ import annotations

import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def try_lock(stream: IO[bytes]) -> bool:
        """Lock an open file against other processes; False where one has it."""
        try:
            stream.seek(0)
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
else:
    import fcntl

    def try_lock(stream: IO[bytes]) -> bool:
        """Lock an open file against other processes; False where one has it.

        Closing the file, or the end of the process, releases the lock.
        """
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
