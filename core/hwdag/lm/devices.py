"""Devices and data types of models."""

from __future__ import annotations

import platform
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from transformers import PreTrainedModel

from hwdag.errors import InputError, OutOfMemory, first_line

T = TypeVar("T")
R = TypeVar("R")


def fast_dtype(device: torch.device) -> torch.dtype:
    """Return the meaning of "auto": bfloat16 if the device is faster in it, else float32 (as on MPS)."""
    on_cuda = device.type == "cuda" and torch.cuda.is_available()
    is_fast = on_cuda and torch.cuda.is_bf16_supported(False)
    is_fast = is_fast or (device.type == "cpu" and _cpu_is_fast_in_bfloat16())
    return torch.bfloat16 if is_fast else torch.float32


def _cpu_is_fast_in_bfloat16() -> bool:
    """Return whether bfloat16 products are faster: with AMX, with FEAT_BF16, and with AVX512-BF16 on AMD.

    Without these instructions torch emulates them. On Intel, AVX512-BF16 is no faster than float32
    (`docs/performance.md`; virtual machines often hide AMX).
    """
    try:
        if platform.machine() in ("aarch64", "arm64"):
            # not on x86: there it is true for every AVX-512, which may only emulate bfloat16
            has_kernels = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
            return bool(has_kernels and torch.ops.mkldnn._is_mkldnn_bf16_supported())
        if torch.cpu._is_amx_tile_supported():
            return True
        return torch.cpu._is_avx512_bf16_supported() and "GenuineIntel" not in _processor()
    except AttributeError:  # a private function that not every version of torch has
        return False


def _processor() -> str:
    """Return the description of the processor, including its vendor."""
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:  # no Linux
        return platform.processor()


def weights_dtype(dtype: torch.dtype | str, device: torch.device) -> torch.dtype | str:
    """Return the dtype in the form that transformers takes. Raises `InputError`."""
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
    """Return the requested device, or the best for None. Raises `InputError`."""
    if device is None:
        best = "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device("cuda" if torch.cuda.is_available() else best)
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise _no_such_device(device, error) from error


def move(model: PreTrainedModel, device: torch.device) -> None:
    """Move the weights to a device. Raises `InputError`."""
    try:
        torch.nn.Module.to(model, device)
    except (AssertionError, RuntimeError) as error:  # torch asserts that it was built with CUDA
        raise _no_such_device(device, error) from error


def _no_such_device(device: object, error: Exception) -> InputError:
    return InputError(
        f"the model cannot be put on device {str(device)!r}: {first_line(error)}; use a device that "
        'this machine has, such as "cpu"'
    )


class _CudnnAttention:
    """Keeps torch's attention off cuDNN while any forward runs, in whatever thread."""

    def __init__(self) -> None:
        self._lock, self._running, self._before = threading.Lock(), 0, True

    @contextmanager
    def off(self) -> Iterator[None]:
        with self._lock:
            if not self._running:
                self._before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
                torch.backends.cuda.enable_cudnn_sdp(False)
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    torch.backends.cuda.enable_cudnn_sdp(self._before)


_CUDNN_ATTENTION = _CudnnAttention()


@contextmanager
def any_length(device: torch.device) -> Iterator[None]:
    """Run forwards of ever new lengths: on CUDA without cuDNN's attention.

    cuDNN plans for every new shape, which took 50 ms on an H200, and a context that grows by a token or
    a node has a new one in every forward. The switch holds for the process, and is put back.
    """
    if device.type != "cuda":
        yield
        return
    with _CUDNN_ATTENTION.off():
        yield


@contextmanager
def memory_errors(device: torch.device) -> Iterator[None]:
    """Raise `OutOfMemory` if a device has no memory left, and free the memory of the failed call."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)  # their tensors
        message = (
            f"device {str(device)!r} has no memory left for a forward ({first_line(error)}). What was "
            "finished is kept; stop what else uses the device, or take a smaller model, a lower "
            'concurrency=, token_budget= or window_tokens=, dtype="bfloat16", or device="cpu"'
        )
    else:
        return
    if device.type == "cuda":
        torch.cuda.empty_cache()
    raise OutOfMemory(message) from None


def in_halves(call: Callable[[Sequence[T]], Sequence[R]], batch: Sequence[T]) -> list[R]:
    """Return one result for each of a batch, in ever smaller batches if the device has no memory for it."""
    try:
        return list(call(batch))
    except OutOfMemory:
        if len(batch) < 2:
            raise
    half = len(batch) // 2
    return [*in_halves(call, batch[:half]), *in_halves(call, batch[half:])]
