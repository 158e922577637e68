"""How much memory this process holds."""

import os
from pathlib import Path
from typing import Final

_STATM: Final = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return what is in memory; 0 where the system does not say.

    https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
    """
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
