"""What this machine's processor can do: its cores, and its instructions as text for a fingerprint."""

from __future__ import annotations

import os
import platform
from pathlib import Path

# Prefixes of the processor flags that change what `-march=native` emits.
VECTOR_FLAGS = ("sse", "ssse", "avx", "fma", "f16c", "amx", "bmi", "asimd", "sve", "bf16", "i8mm")


def num_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def instruction_set(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the vector instructions of the processor, sorted, or its name where they are unknown."""
    if not cpuinfo.is_file():
        return platform.processor() or platform.machine()
    for line in cpuinfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip().lower() in {"flags", "features"}:
            return " ".join(sorted(flag for flag in value.split() if flag.startswith(VECTOR_FLAGS)))
    return platform.machine()
