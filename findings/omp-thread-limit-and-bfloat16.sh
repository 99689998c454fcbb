#!/usr/bin/env bash
# torch 2.13.0 on x86-64 CPUs (2026-11-28)
# Expected: OMP_THREAD_LIMIT=1, which OpenMP defines so that no program of a shared machine takes
#   more threads, makes torch slower.
# Seen: if torch is set to more threads than the limit allows (torch.set_num_threads, or
#   any library that sets the threads of OpenMP for all, as numba does when it starts), the product
#   of two bfloat16 matrices is memory that nothing was written to: the kernel divides the work among
#   two threads, gets one, and half of the result is never computed. float32 is right.
# Costs: NaN, or plausible logits from an earlier call; no error. It took days to find, since it
#   depends on what was freed before, and on whether a clustering library ran in the process.
. "$(dirname "$0")/lib/setup.sh" torch==2.13.0 numpy==2.4.6
OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=1 python - <<'PY'
import torch
from still import still

torch.manual_seed(0)
a, b = torch.randn(64, 256), torch.randn(256, 256)
right = a @ b


def wrong(threads: int, dtype: torch.dtype) -> int:
    """Count the wrong ones of 50 products into memory that held NaN."""
    torch.set_num_threads(threads)
    count = 0
    for _ in range(50):
        freed = torch.full((64, 256), float("nan"), dtype=dtype)
        del freed
        found = (a.to(dtype) @ b.to(dtype)).float()
        count += not torch.allclose(found, right, atol=2)
    return count


still(wrong(1, torch.bfloat16), 0, "wrong products of bfloat16 by one thread")
still(wrong(2, torch.float32), 0, "of float32 by two threads")
count = wrong(2, torch.bfloat16)
still(count > 5, True, f"of bfloat16 by two threads where one is allowed ({count} of 50)")
PY
