"""Peak memory of a piece of work."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def reset_peaks() -> None:
    """Restart the count of peaks, if the system can (Linux, CUDA)."""
    with suppress(OSError):
        _CLEAR.write_text("5")
    if cuda := _cuda_in_use():
        cuda.reset_peak_memory_stats()


def peaks_mb() -> dict[str, float]:
    """Return the peak megabytes (2^20 bytes) since the last `reset_peaks`: "ram" and, if in use, "cuda".

    "ram" is resident memory, known on Linux only; "cuda" is allocated memory.
    """
    found = {}
    with suppress(OSError):
        for line in _STATUS.read_text("ascii", "replace").splitlines():
            if line.startswith("VmHWM:"):
                found["ram"] = float(line.split()[1]) / 2**10
    if cuda := _cuda_in_use():
        found["cuda"] = cuda.max_memory_allocated() / 2**20
    return {name: round(value, 1) for name, value in found.items()}


def _cuda_in_use() -> ModuleType | None:
    """Return `torch.cuda` if it is in use; does not import torch."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
