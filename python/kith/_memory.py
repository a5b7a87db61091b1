# SPDX-License-Identifier: Apache-2.0
"""Copies of what was given: how large they may be."""

from __future__ import annotations

import pathlib

_SURE = 64 << 20
"""Bytes that are not worth asking about."""
_GROUPS = (  # what a group of processes may have, and has
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
    ),
)


def _number_in(path: str) -> int | None:
    try:
        return int(pathlib.Path(path).read_text())
    except (OSError, ValueError):  # there is none, or it says "max"
        return None


def free_bytes() -> int:
    """What this process may still take before the system takes it from others."""
    free = 2**63
    try:
        for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) << 10
    except OSError:
        pass
    for most, taken in _GROUPS:
        allowed, used = _number_in(most), _number_in(taken)
        if allowed is not None and used is not None:
            free = min(free, max(0, allowed - used))
    return free


def size_text(size: float) -> str:
    """A number of bytes for a person."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def refuse_large(size: int, limit: int, what: str, advice: str) -> None:
    """A copy of so many bytes. limit is what the call may take; 0: as much as is free."""
    if limit:
        if size > limit:
            raise MemoryError(
                f"{what} takes {size_text(size)}, more than the memory_limit of "
                f"{size_text(limit)} leaves ({advice})"
            )
    elif size > _SURE and size > (free := free_bytes()):
        raise MemoryError(
            f"{what} takes {size_text(size)}, and {size_text(free)} are free ({advice})"
        )
