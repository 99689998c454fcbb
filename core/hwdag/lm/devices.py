"""Where a model computes, and in which data type."""

from __future__ import annotations

import platform
from pathlib import Path

import torch
from transformers import PreTrainedModel

from hwdag.errors import InputError


def fast_dtype(device: torch.device) -> torch.dtype:
    """What "auto" stands for: bfloat16 where the device is faster in it, else float32, and so on MPS."""
    on_cuda = device.type == "cuda" and torch.cuda.is_available()
    is_fast = on_cuda and torch.cuda.is_bf16_supported(False)
    is_fast = is_fast or (device.type == "cpu" and _cpu_is_fast_in_bfloat16())
    return torch.bfloat16 if is_fast else torch.float32


def _cpu_is_fast_in_bfloat16() -> bool:
    """Whether products in bfloat16 are faster: with AMX, with FEAT_BF16, and with AVX512-BF16 on AMD.

    Without instructions torch only emulates it, and AVX512-BF16 on Intel's processors has no higher
    rate than float32 (`docs/performance.md`; virtual machines often hide their AMX).
    """
    try:
        if platform.machine() in ("aarch64", "arm64"):
            # why not on x86: there it is true for every AVX-512, which only emulates bfloat16
            has_kernels = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
            return bool(has_kernels and torch.ops.mkldnn._is_mkldnn_bf16_supported())
        if torch.cpu._is_amx_tile_supported():
            return True
        return torch.cpu._is_avx512_bf16_supported() and "GenuineIntel" not in _processor()
    except AttributeError:  # torch has no public way to ask, and not every version this one
        return False


def _processor() -> str:
    """What the system says of its processor, the name of its maker among it."""
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:  # no Linux
        return platform.processor()


def weights_dtype(dtype: torch.dtype | str, device: torch.device) -> torch.dtype | str:
    """What transformers takes; raises `InputError`."""
    if dtype == "auto":
        return fast_dtype(device)
    if dtype == "checkpoint":
        return "auto"
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if isinstance(found, torch.dtype) and found.is_floating_point:
        return found
    raise InputError(
        'dtype must be "auto", "checkpoint", a floating torch dtype or its name such as "bfloat16", '
        f"got {dtype!r}"
    )


def device_of(device: torch.device | str | None) -> torch.device:
    """The device that was asked for, the best for None; raises `InputError`."""
    if device is None:
        best = "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device("cuda" if torch.cuda.is_available() else best)
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise _no_such_device(device, error) from error


def move(model: PreTrainedModel, device: torch.device) -> None:
    """Put the weights there; raises `InputError`."""
    try:
        torch.nn.Module.to(model, device)
    except (AssertionError, RuntimeError) as error:  # torch asserts that it was built with CUDA
        raise _no_such_device(device, error) from error


def _no_such_device(device: object, error: Exception) -> InputError:
    return InputError(
        f"the model cannot be put on device {str(device)!r}: {first_line(error)}; use a device that "
        'this machine has, such as "cpu"'
    )


def first_line(error: Exception) -> str:
    """What an error says, short."""
    return next(filter(None, map(str.strip, str(error).splitlines())), "no reason given")
