"""Low-rank adapters (LoRA, Hu et al. 2021) in the file format of PEFT, without the library."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel

PREFIX = "base_model.model."
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
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
        """The adapted output, in the type of the base layer."""
        down = nn.functional.linear(x, (self.lora_A * self.scale).to(x.dtype))
        return self.base(x) + nn.functional.linear(down, self.lora_B.to(x.dtype))


def add(model: PreTrainedModel, *, rank: int, alpha: float, first_layer: int, seed: int) -> None:
    """Freeze a model and put adapters on all projections from `first_layer` on.

    Layers below the first adapter need no backward pass.
    """
    model.requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for name, module in list(model.named_modules()):
        *path, leaf = name.split(".")
        if isinstance(module, nn.Linear) and leaf in PROJECTIONS and _layer(path) >= first_layer:
            parent = model.get_submodule(".".join(path))
            setattr(parent, leaf, LoRALinear(module, rank, alpha, generator))


def parameters(model: PreTrainedModel) -> dict[str, nn.Parameter]:
    """The trained parameters by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def save(model: PreTrainedModel, folder: Path, *, rank: int, alpha: float, base: str) -> None:
    """Write the adapter as PEFT does, in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors, layers = {}, set()
    for name, module in _adapted(model):
        layers.add(_layer(name.split(".")))
        for which in ("lora_A", "lora_B"):
            tensor = getattr(module, which).detach().to("cpu", torch.bfloat16).contiguous()
            tensors[f"{PREFIX}{name}.{which}.weight"] = tensor
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = {
        "base_model_name_or_path": base,
        "bias": "none",
        "layers_to_transform": sorted(layers),
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": list(PROJECTIONS),
        "task_type": "CAUSAL_LM",
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


@torch.no_grad()
def load(model: PreTrainedModel, folder: Path) -> None:
    """Give the low-rank layers of a model the weights of an adapter of the same shape."""
    tensors = load_file(folder / WEIGHTS)
    for name, module in _adapted(model):
        for which in ("lora_A", "lora_B"):
            getattr(module, which).copy_(tensors[f"{PREFIX}{name}.{which}.weight"])


@torch.no_grad()
def merge(model: PreTrainedModel, folder: Path) -> None:
    """Add an adapter to the weights of a plain model, so that it costs nothing at run time."""
    config = json.loads((folder / CONFIG).read_text("utf-8"))
    tensors = load_file(folder / WEIGHTS)
    scale = config["lora_alpha"] / config["r"]
    for key in [k for k in tensors if k.endswith(".lora_A.weight")]:
        name = key.removeprefix(PREFIX).removesuffix(".lora_A.weight")
        weight = model.get_submodule(name).weight
        up = tensors[f"{PREFIX}{name}.lora_B.weight"].float()
        change = scale * (up @ tensors[key].float())
        weight.copy_((weight.float() + change.to(weight.device)).to(weight.dtype))


def _adapted(model: PreTrainedModel) -> Iterator[tuple[str, LoRALinear]]:
    return ((n, m) for n, m in model.named_modules() if isinstance(m, LoRALinear))


def _layer(path: list[str]) -> int:
    """The number in "model.layers.7.mlp"."""
    return next((int(part) for part in path if part.isdigit()), -1)
