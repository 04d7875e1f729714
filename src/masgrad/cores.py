"""How many cores this process may use."""

import os


def cores() -> int:
    """NPROC, which XLA reads too, if it is a positive number; otherwise the cores granted to us."""
    wanted = os.environ.get("NPROC", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):  # neither on macOS nor on Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
