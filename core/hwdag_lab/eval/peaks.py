"""Peak memory of a piece of work."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def reset_peaks() -> None:
    """Let peaks count from now on, where the system can do so (Linux, CUDA)."""
    with suppress(OSError):
        _CLEAR.write_text("5")
    if cuda := _cuda_in_use():
        cuda.reset_peak_memory_stats()


def peaks_mb() -> dict[str, float]:
    """Peak megabytes (2^20 bytes): "ram", resident, and "cuda", allocated, where there is CUDA.

    Since the last `reset_peaks`; "ram" is known on Linux only.
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
    """`torch.cuda` if it is in use; torch is not imported for the question's sake."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
