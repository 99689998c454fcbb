"""Low-rank layers to train (LoRA, arXiv 2106.09685); the library merges them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

from hwdag.lm.adapter import CONFIG, DOWN, PREFIX, TURNS, UP, WEIGHTS

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class LoRALinear(nn.Module):
    """A frozen linear layer plus `scale * B A`; A and B are kept in float32."""

    def __init__(
        self, base: nn.Linear, rank: int, alpha: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.base, self.scale = base, alpha / rank
        start = torch.empty(rank, base.in_features)
        nn.init.kaiming_uniform_(start, a=math.sqrt(5), generator=generator)
        device = base.weight.device
        self.lora_A = nn.Parameter(start.to(device))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank, device=device))

    def forward(self, x: Tensor) -> Tensor:
        """Return the adapted output, in the type of the base layer."""
        down = nn.functional.linear(x, (self.lora_A * self.scale).to(x.dtype))
        plain: Tensor = self.base(x)
        return plain + nn.functional.linear(down, self.lora_B.to(x.dtype))

    @property
    def factors(self) -> dict[str, nn.Parameter]:
        """A and B by the ends of their names in a file."""
        return {DOWN: self.lora_A, UP: self.lora_B}


def add(
    model: PreTrainedModel,
    *,
    rank: int,
    alpha: float,
    first_layer: int,
    seed: int,
    projections: Sequence[str] = PROJECTIONS,
) -> None:
    """Freeze a model and put adapters on these projections from `first_layer` on.

    Layers below the first adapter need no backward pass.
    """
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, module in list(model.named_modules()):
        *path, leaf = name.split(".")
        if isinstance(module, nn.Linear) and leaf in projections and _layer(path) >= first_layer:
            parent = model.get_submodule(".".join(path))
            setattr(parent, leaf, LoRALinear(module, rank, alpha, generator))


def parameters(model: PreTrainedModel) -> dict[str, nn.Parameter]:
    """Return the trained parameters by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def save(
    model: PreTrainedModel,
    folder: Path,
    *,
    rank: int,
    alpha: float,
    base: str,
    turns: int | None = None,
    projections: Sequence[str] = PROJECTIONS,
) -> None:
    """Write the adapter as PEFT does, in bfloat16, and with it the turns that it was trained on.

    An adapter of an embedder has no `turns`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors, layers = {}, set()
    for name, module in _adapted(model):
        layers.add(_layer(name.split(".")))
        for end, factor in module.factors.items():
            tensor = factor.detach().to("cpu", torch.bfloat16).contiguous()
            tensors[PREFIX + name + end] = tensor
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = {
        "base_model_name_or_path": base,
        "bias": "none",
        "layers_to_transform": sorted(layers),
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": list(projections),
        "task_type": "CAUSAL_LM",
    } | ({} if turns is None else {TURNS: turns})
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


@torch.no_grad()
def load(model: PreTrainedModel, folder: Path) -> None:
    """Give the low-rank layers of a model the weights of an adapter of the same shape."""
    tensors = load_file(folder / WEIGHTS)
    for name, module in _adapted(model):
        for end, factor in module.factors.items():
            factor.copy_(tensors[PREFIX + name + end])


def _adapted(model: PreTrainedModel) -> Iterator[tuple[str, LoRALinear]]:
    return ((n, m) for n, m in model.named_modules() if isinstance(m, LoRALinear))


def _layer(path: list[str]) -> int:
    """Return the number in "model.layers.7.mlp"."""
    return next((int(part) for part in path if part.isdigit()), -1)
