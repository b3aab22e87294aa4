"""How much memory this process has used at most."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["peak_memory"]

STATUS = Path("/proc/self/status")
KILOBYTE = 1024


def peak_memory() -> int | None:
    """Bytes of main memory that this process has used at most, pages of mapped files included; None if unknown.

    >>> peak = peak_memory()
    >>> peak is None or peak > 2**20
    True
    """
    if STATUS.exists():  # Linux; what getrusage says there includes the process that started this one
        peaks = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:")]
        if peaks:
            return int(peaks[0]) * KILOBYTE
    if sys.platform == "win32":
        return None
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * KILOBYTE
