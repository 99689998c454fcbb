"""Peak memory of a piece of work."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_PEAK = "VmHWM:"


def reset_peaks() -> None:
    """Let peaks count from now on, where the system can do so (Linux, CUDA)."""
    with suppress(OSError):
        _CLEAR.write_text("5")
    if cuda := _cuda_in_use():
        cuda.reset_peak_memory_stats()


def peaks_mb() -> dict[str, float]:
    """Peak megabytes (2^20 bytes): "ram", resident, and "cuda", allocated, where there is CUDA.

    Since the last `reset_peaks` on Linux; on other systems "ram" is the peak of the whole process,
    and is left out where it is not known.
    """
    found = {} if (ram := _ram_mb()) is None else {"ram": ram}
    if cuda := _cuda_in_use():
        found["cuda"] = cuda.max_memory_allocated() / 2**20
    return {name: round(value, 1) for name, value in found.items()}


def _ram_mb() -> float | None:
    try:
        lines = _STATUS.read_text("ascii", "replace").splitlines()
        return next(float(line.split()[1]) / 2**10 for line in lines if line.startswith(_PEAK))
    except (OSError, StopIteration):
        peak = peak_memory()
        return None if peak is None else peak / 2**20


def peak_memory() -> int | None:
    """Most bytes that this process had in main memory; None where that is unknown."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 2**10
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


def _cuda_in_use() -> ModuleType | None:
    """`torch.cuda` if it is in use; torch is not imported for the question's sake."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
