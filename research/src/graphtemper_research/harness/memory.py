"""The peak memory of this process."""

from __future__ import annotations

import re
import resource
from pathlib import Path


def peak_gigabytes() -> float:
    """Return the peak of resident memory, of this process alone.

    ``ru_maxrss`` is inherited from the process that started this one, so it is only used where the
    kernel does not give the peak of the process.

    Examples
    --------
    >>> 0.001 < peak_gigabytes() < 1000
    True
    """
    try:
        match = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        match = None
    kilobytes = int(match[1]) if match else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * 1024 / 1e9
