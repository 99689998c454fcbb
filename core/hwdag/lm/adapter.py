"""Low-rank adapters (LoRA, arXiv 2106.09685) in the file format of PEFT, merged into a model.

A merged adapter is part of the weights, so a forward costs as much as without one. PEFT's
`merge_and_unload` gives bit-identical weights (float32, bfloat16 and float16, the shipped adapter) in
two to five times the time, but only warns about missing tensors and accepts weights that are not
finite. This module refuses such files.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn
from transformers import PreTrainedModel

from hwdag.checks import json_bytes, regular
from hwdag.errors import InputError, ModelNotFound
from hwdag.text.prompts import SearchPrompts

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
PREFIX, DOWN, UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"

TURNS = "search_turns"  # our own key in PEFT's settings; PEFT ignores it

NAME_DIGITS = 12  # digits of the fingerprint in a reader's name

OTHER_KINDS = (
    "alora_invocation_tokens",
    "alpha_pattern",
    "fan_in_fan_out",
    "layer_replication",
    "lora_bias",
    "modules_to_save",
    "rank_pattern",
    "target_parameters",
    "trainable_token_indices",
    "use_dora",
    "use_qalora",
    "use_rslora",
)
"""PEFT settings that need more than `W + lora_alpha / r * B A`."""

KEEP_THE_BASE = (True, False, "gaussian", "eva", "orthogonal")
"""Values of `init_lora_weights` that leave the base model unchanged when training starts."""

PLAIN = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""Data types of weights that are numbers by themselves; smaller ones have separate scales."""

HUB_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Adapter:
    """A low-rank change of some linear layers of a model.

    Attributes:
        base: name of the model it was trained on, from its settings.
        scale: `lora_alpha / r`.
        factors: A (r, inputs) and B (outputs, r) by name of the layer.
        fingerprint: SHA-256 of the weights file and the scale.
        prompts: the prompts it was trained on (`search_turns` in its settings): one turn, or the papers'
            two; None if it was trained for something else.
    """

    base: str
    scale: float
    factors: Mapping[str, tuple[Tensor, Tensor]]
    fingerprint: str
    prompts: SearchPrompts | None

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read PEFT's two files. Raises `ModelNotFound`, or `InputError` unless it is plain LoRA."""
        folder = Path(folder)
        try:
            config, weights = json_bytes(folder / CONFIG), regular(folder / WEIGHTS).read_bytes()
        except OSError as error:
            raise ModelNotFound(
                f"no adapter in {folder}: {error.strerror} ({error.filename}); pass the folder that "
                f"PEFT's save_pretrained wrote, with {CONFIG} and {WEIGHTS}"
            ) from error
        try:
            settings = json.loads(config)
            rank, scale = _checked(settings)
            prompts, factors = _prompts(settings), _pairs(load(weights), rank)
        except (ValueError, OverflowError, RecursionError, SafetensorError) as error:
            raise InputError(
                f"the adapter in {folder} cannot be used: {error}. It must be a plain LoRA adapter "
                "in PEFT's format. Merge others with PEFT (merge_and_unload) and save a checkpoint; "
                "if the head is changed, untie it from the embeddings before"
            ) from error
        digest = hashlib.sha256(weights + repr(scale).encode())
        base = str(settings.get("base_model_name_or_path") or "")
        return cls(base, scale, factors, digest.hexdigest(), prompts)

    def reader_name(self, source: str) -> str:
        """Name of a reader with this adapter. Raises `InputError` if it was trained on another model."""
        names = [
            name
            for name in (self.base, source)
            if HUB_NAME.fullmatch(name) and not Path(name).exists()
        ]
        if len({name.rpartition("/")[2].casefold() for name in names}) > 1:
            raise InputError(
                f"the adapter was trained on {self.base!r}, got {source!r}; pass the model that it "
                "belongs to. If both have the same weights, load the model yourself and call "
                "Adapter.load(folder).merge(model)"
            )
        return f"{source}+{self.fingerprint[:NAME_DIGITS]}"

    @torch.no_grad()
    def merge(self, model: PreTrainedModel) -> None:
        """Add it to the weights, in float32. `InputError` if it does not fit; the model stays unchanged.

        A weight that other layers share, as a tied head does, is copied first: the others stay as they are.
        """
        layers = {name: _layer(model, name, *pair) for name, pair in self.factors.items()}
        for name, (down, up) in self.factors.items():
            weight, factors = layers[name].weight, float(down.abs().max()) * float(up.abs().max())
            largest = abs(self.scale) * len(down) * factors + float(weight.abs().max())
            if not largest <= torch.finfo(weight.dtype).max:
                raise InputError(
                    f"the adapter's change of {name} is as large as {largest:.2g}, and the weight "
                    f"there, of {weight.dtype}, cannot hold that; the file is broken or made to "
                    "break the model"
                )
        for name, pair in self.factors.items():
            weight = _untied(model, layers[name])
            down, up = (factor.to(weight.device, torch.float32) for factor in pair)
            weight.copy_(weight.float() + self.scale * (up @ down))


def _prompts(settings: Mapping[str, Any]) -> SearchPrompts | None:
    """Return the prompts it was trained on. Raises `ValueError` for an unknown number of turns."""
    turns = settings.get(TURNS)
    if turns is None:
        return None
    if turns not in (1, 2):
        raise ValueError(f"its {TURNS} is {turns!r}, not 1 or 2")
    return SearchPrompts.one_turn() if turns == 1 else SearchPrompts()


def _checked(settings: Any) -> tuple[int, float]:
    """Return rank and scale. Raises `ValueError` unless the settings are plain LoRA."""
    if not isinstance(settings, dict) or settings.get("peft_type") != "LORA":
        found = settings.get("peft_type") if isinstance(settings, dict) else None
        raise ValueError(f"its peft_type is {found!r}, not 'LORA'")
    others = [f"{name}={settings[name]!r}" for name in OTHER_KINDS if settings.get(name)]
    if settings.get("bias", "none") != "none":
        others.append(f"bias={settings['bias']!r}")
    if settings.get("init_lora_weights", True) not in KEEP_THE_BASE:
        others.append(f"init_lora_weights={settings['init_lora_weights']!r}")
    if others:
        raise ValueError(f"it has {', '.join(others)}")
    rank, alpha = settings.get("r"), settings.get("lora_alpha")
    if type(rank) is not int or rank < 1 or not isinstance(alpha, int | float):
        raise ValueError(f"r={rank!r} and lora_alpha={alpha!r} are no rank and no number")
    if not math.isfinite(scale := alpha / rank):
        raise ValueError(f"its lora_alpha is {alpha!r}")
    return rank, scale


def _pairs(tensors: Mapping[str, Tensor], rank: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return A and B by layer; raises `ValueError` for anything else."""
    layers = {
        key.removeprefix(PREFIX).removesuffix(end)
        for key in tensors
        for end in (DOWN, UP)
        if key.startswith(PREFIX) and key.endswith(end)
    }
    wanted = {PREFIX + layer + end for layer in layers for end in (DOWN, UP)}
    if odd := sorted(wanted ^ set(tensors)):
        raise ValueError(f"its tensors are not pairs of lora_A and lora_B: {', '.join(odd[:3])}")
    if not layers:
        raise ValueError("it has no tensors")
    pairs = {
        layer: (tensors[PREFIX + layer + DOWN], tensors[PREFIX + layer + UP])
        for layer in sorted(layers)
    }
    for layer, (down, up) in pairs.items():
        if down.ndim != 2 or up.ndim != 2 or not down.shape[0] == up.shape[1] == rank:
            shapes = f"{tuple(down.shape)} and {tuple(up.shape)}"
            raise ValueError(f"lora_A and lora_B of {layer} have shapes {shapes}, and r={rank}")
        if not (down.isfinite().all() and up.isfinite().all()):
            raise ValueError(f"lora_A or lora_B of {layer} has values that are not finite")
    return pairs


def _layer(model: PreTrainedModel, name: str, down: Tensor, up: Tensor) -> nn.Linear:
    """Return the layer that two factors change. Raises `InputError` if they do not fit."""
    try:
        layer = model.get_submodule(name)
    except AttributeError:
        layer = None
    if not isinstance(layer, nn.Linear):
        raise InputError(
            f"the adapter changes {name}, which is no linear layer of {type(model).__name__}; pass "
            "the model that it was trained on"
        )
    weight, wanted = layer.weight, (up.shape[0], down.shape[1])
    kind = type(
        weight.data
    )  # that of a quantised or distributed weight may have dtype and shape of a plain one
    is_plain = kind is Tensor and weight.dtype in PLAIN
    if weight.is_meta or not is_plain or tuple(weight.shape) != wanted:
        raise InputError(
            f"the adapter's change of {name} has shape {wanted}; the weight there is a {kind.__name__} of "
            f"{tuple(weight.shape)}, of {weight.dtype} on {weight.device.type}. Pass the model that "
            "it was trained on, not quantised, not distributed and not off-loaded"
        )
    return layer


def _untied(model: PreTrainedModel, layer: nn.Linear) -> Tensor:
    """Return the weight of a layer, which no other layer shares any more."""
    sharing = [
        one for _, one in model.named_parameters(remove_duplicate=False) if one is layer.weight
    ]
    if len(sharing) > 1:
        layer.weight = nn.Parameter(layer.weight.detach().clone(), layer.weight.requires_grad)
        if layer is model.get_output_embeddings():  # type: ignore[no-untyped-call]
            model.config.get_text_config(decoder=True).tie_word_embeddings = False
            model.config.tie_word_embeddings = False
    return layer.weight


def is_fingerprint(text: str) -> bool:
    """Return whether the text is a fingerprint as in a reader's name."""
    return re.fullmatch(rf"[0-9a-f]{{{NAME_DIGITS}}}", text) is not None
