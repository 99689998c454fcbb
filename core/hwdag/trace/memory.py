"""Peak memory of this process."""

from __future__ import annotations

import sys
from types import ModuleType


def peak_memory() -> int | None:
    """Return the most bytes that this process had in main memory; None where that is unknown."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 2**10
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


def peak_device_memory() -> int | None:
    """Return the most bytes that were allocated on a CUDA device; None where none is in use."""
    cuda = cuda_in_use()
    return None if cuda is None else int(cuda.max_memory_allocated())


def cuda_in_use() -> ModuleType | None:
    """Return `torch.cuda` if it is in use; torch is not imported for the question's sake."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
