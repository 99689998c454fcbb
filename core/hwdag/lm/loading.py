"""A model and its tokenizer by name or path, on the best device."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from hwdag.errors import InputError, ModelNotFound
from hwdag.quiet import without_bars


def load(
    source: str,
    *,
    dtype: torch.dtype | str,
    device: torch.device | str | None,
    device_map: Any,
    trust_remote_code: bool,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """What `HuggingFaceLM.from_pretrained` takes; raises what it raises."""
    if device is not None and device_map is not None:
        raise InputError("pass either device or device_map, not both")
    dtype = _checked_dtype(dtype)
    common = {"trust_remote_code": trust_remote_code}
    try:
        with without_bars():
            tokenizer = AutoTokenizer.from_pretrained(source, **common)
            model = AutoModelForCausalLM.from_pretrained(
                source, dtype=dtype, device_map=device_map, **common
            )
    except (OSError, ValueError) as error:
        raise ModelNotFound(
            f"cannot load {source!r}: {_first_line(error)} Pass the path of a folder with a "
            "transformers checkpoint, a hub name that is reachable, or loaded model and "
            "tokenizer objects to HuggingFaceLM(model, tokenizer)"
        ) from error
    if device_map is None:
        _move(model, device or _best_device())
    return model, tokenizer


def _checked_dtype(dtype: torch.dtype | str) -> torch.dtype | str:
    found = getattr(torch, dtype, None) if isinstance(dtype, str) and dtype != "auto" else dtype
    if found == "auto" or (isinstance(found, torch.dtype) and found.is_floating_point):
        return found
    raise InputError(
        f'dtype must be "auto", a floating torch dtype or its name such as "bfloat16", got {dtype!r}'
    )


def _move(model: PreTrainedModel, device: torch.device | str) -> None:
    try:
        torch.nn.Module.to(model, device)
    except (AssertionError, RuntimeError) as error:  # torch asserts that it was built with CUDA
        raise InputError(
            f"the model cannot be put on device {str(device)!r}: {_first_line(error)}; use a device "
            'that this machine has, such as "cpu"'
        ) from error


def _best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _first_line(error: Exception) -> str:
    return next(
        (line.strip() for line in str(error).splitlines() if line.strip()), "no reason given"
    )
