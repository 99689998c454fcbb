"""Which heads count: "all" (the papers' mean), the list known for a model, or a given one.

A few middle-layer *retrieval heads* carry most of the retrieval signal (QRHead, arXiv 2506.09944;
CoRe, arXiv 2510.02219). Lists are small JSON files keyed by architecture, sizes and base-model
name, so that merging an adapter or quantising keeps them valid.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from hwdag.config import HeadList, Heads


@dataclass(frozen=True, slots=True)
class HeadFile:
    """One shipped list: the model it belongs to, the pairs (best first), and where it is from."""

    model: str
    architecture: str
    layers: int
    heads_per_layer: int
    hidden: int
    pairs: HeadList
    source: str

    def fits(self, name: str, config: Any) -> bool:
        """Whether a model of this name and config is the one that the list was made for."""
        text = config.get_text_config(decoder=True)
        return (
            name.rstrip("/").rsplit("/")[-1].lower() == self.model.rsplit("/")[-1].lower()
            and self.architecture in (config.architectures or ())
            and text.num_hidden_layers == self.layers
            and text.num_attention_heads == self.heads_per_layer
            and text.hidden_size == self.hidden
        )


@cache
def shipped() -> tuple[HeadFile, ...]:
    """All lists that come with the package."""
    folder = files("hwdag.lm") / "head_lists"
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda f: f.name)
    return tuple(_parse(json.loads(f.read_text("utf-8"))) for f in found)


def known_heads(name: str, config: Any) -> HeadList | None:
    """The shipped list for a model, or None."""
    return next((f.pairs for f in shipped() if f.fits(name, config)), None)


def resolve(heads: Heads, known: HeadList | None) -> HeadList | None:
    """(layer, head) pairs, or None for all of them."""
    if heads == "auto":
        return known
    return None if heads == "all" else heads


def _parse(data: dict[str, Any]) -> HeadFile:
    pairs = tuple((int(layer), int(head)) for layer, head in data.pop("heads"))
    return HeadFile(pairs=pairs, **data)
