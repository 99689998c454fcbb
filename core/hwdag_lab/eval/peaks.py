"""Peak memory of a piece of work."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hwdag.trace.memory import cuda_in_use, peak_memory

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_PEAK = "VmHWM:"


def reset_peaks() -> None:
    """Let peaks count from now on, where the system can do so (Linux, CUDA)."""
    with suppress(OSError):
        _CLEAR.write_text("5")
    if cuda := cuda_in_use():
        cuda.reset_peak_memory_stats()


def peaks_mb() -> dict[str, float]:
    """Peak megabytes (2^20 bytes): "ram", resident, and "cuda", allocated, where there is CUDA.

    Since the last `reset_peaks` on Linux; on other systems "ram" is the peak of the whole process,
    and is left out where it is not known.
    """
    found = {} if (ram := _ram_mb()) is None else {"ram": ram}
    if cuda := cuda_in_use():
        found["cuda"] = cuda.max_memory_allocated() / 2**20
    return {name: round(value, 1) for name, value in found.items()}


def _ram_mb() -> float | None:
    try:
        lines = _STATUS.read_text("ascii", "replace").splitlines()
        return next(float(line.split()[1]) / 2**10 for line in lines if line.startswith(_PEAK))
    except (OSError, StopIteration):
        peak = peak_memory()
        return None if peak is None else peak / 2**20
