"""Default number of worker threads."""

from __future__ import annotations

import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of processor time, and in how many


def usable_cores() -> int:
    """The cores that this process may use: by its affinity, its container's quota, and OMP_NUM_THREADS if that is set.

    That variable is what other libraries go by, so a limit for those limits us too.
    """
    limits = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    try:
        quota, period = QUOTA.read_text(encoding="ascii").split()
        if quota != "max":
            limits.append(-(-int(quota) // int(period)))
    except (OSError, ValueError):  # no container, or another kind
        pass
    given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if given.isdigit():
        limits.append(int(given))
    return max(1, min(limits))
