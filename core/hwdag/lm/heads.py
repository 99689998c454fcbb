"""Head lists: all heads (the papers' mean), the known list of a model, or one of your own.

A few middle-layer *retrieval heads* carry most of the retrieval signal (QRHead, arXiv 2506.09944;
CoRe, arXiv 2510.02219). Lists are small JSON files keyed by architecture, sizes and base-model
name, so they stay valid after merging an adapter or quantising. `hwdag_lab.heads` finds them.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from reprlib import repr as brief
from typing import Any, ClassVar, Self

from hwdag.config import HeadList, Heads
from hwdag.errors import InputError
from hwdag.lm.known import KINDS, REQUIRED, OfModel, facts_of, pretty, shipped_json

_LOGGER = logging.getLogger("hwdag")

DETECT = "hwdag heads detect --model {name} --data DATA.jsonl -o HEADS.json"


@dataclass(frozen=True, slots=True)
class HeadFile(OfModel):
    """The heads of one model, best first, and their source.

    Attributes:
        model: name of the model in which they were found.
        architecture: architecture named in the model's config.
        layers: number of layers.
        heads_per_layer: number of query heads per layer.
        hidden: width of the model.
        pairs: (layer, query head), both counted from 0, best first.
        source: where the list comes from, in words.
        also: names of models that share the list, such as the base of an instruction-tuned one.
        scores: score of each pair by the `criterion` it was found with, or empty.
        weights: digest of the model's weights, for information only.

    Raises `InputError` for duplicate pairs, pairs outside the model, or a wrong number of scores.
    """

    what: ClassVar = "head list"
    made_by: ClassVar = "hwdag heads detect"
    kinds: ClassVar = {
        **KINDS,
        **dict.fromkeys(("source", "criterion", "weights"), "a text"),
        "heads": "a list of [layer, head]",
        "scores": "a list of finite numbers",
    }
    required: ClassVar = {*REQUIRED, "heads", "source"}
    pairs_field: ClassVar = "pairs"

    pairs: HeadList
    source: str
    also: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    criterion: str = ""
    weights: str = ""

    def __post_init__(self) -> None:
        outside = [
            pair
            for pair in self.pairs
            if not (0 <= pair[0] < self.layers and 0 <= pair[1] < self.heads_per_layer)
        ]
        if outside or not self.pairs or len(set(self.pairs)) < len(self.pairs):
            raise InputError(
                f"a head list of {self.key} must name at least one (layer, head) pair of the model, "
                f"counted from 0 and without repetition, got {brief(list(outside or self.pairs))}"
            )
        if self.scores and len(self.scores) != len(self.pairs):
            raise InputError(
                f"a head list of {len(self.pairs)} pairs has {len(self.scores)} scores; give as "
                "many, or none"
            )

    @classmethod
    def of(cls, name: str, config: Any, pairs: HeadList, *, source: str, **facts: Any) -> Self:
        """Make a list for a model by name and transformers config; `facts` are other fields.

        Stores the model's base name, since an adapter does not move heads.
        """
        return cls(**facts_of(name, config), pairs=pairs, source=source, **facts)

    @property
    def digest(self) -> str:
        """A fingerprint of the list."""
        return hashlib.sha256(pretty(self.to_json()).encode()).hexdigest()[:16]


HeadSource = HeadFile | str | Path | Sequence[tuple[int, int]]
"""A head list, the path of its file, or bare (layer, head) pairs."""


@cache
def shipped() -> tuple[HeadFile, ...]:
    """Return all lists that come with the package."""
    return tuple(map(HeadFile.parse, shipped_json("head_lists")))


def head_file(source: HeadSource | None, name: str, config: Any) -> HeadFile | None:
    """Return the list for a model: the one passed, else the shipped one, else None.

    A passed list may come from a model of another name (a fine-tuned one). Raises `InputError` for other
    sizes.
    """
    if source is None:
        return next((f for f in shipped() if f.fits(name, config)), None)
    if isinstance(source, str | Path):
        source = HeadFile.load(source)
    if not isinstance(source, HeadFile):
        try:
            pairs = tuple((int(layer), int(head)) for layer, head in source)
        except (TypeError, ValueError) as error:
            raise InputError(
                "heads must be a HeadFile, the path of one, or (layer, head) pairs, got "
                f"{brief(source)}"
            ) from error
        return HeadFile.of(name, config, pairs, source="given by the caller")
    if not source.has_sizes_of(config):
        model = HeadFile.of(name, config, ((0, 0),), source="")
        raise InputError(
            f"the head list is one of {source.key}, but the model is {model.key}; find its own with "
            f"`{DETECT.format(name=name)}`"
        )
    return source


def resolve(heads: Heads, known: HeadList | None) -> HeadList | None:
    """Return (layer, head) pairs, or None for all heads."""
    if heads == "auto":
        return known
    return None if heads == "all" else heads


@cache
def warn_unknown(name: str) -> None:
    """Warn once per model that "auto" means all heads."""
    _LOGGER.warning(
        "no retrieval heads are known for %s, so the mean over all heads is used, which may rank worse; "
        "find them with `%s` and pass heads=HEADS.json",
        name,
        DETECT.format(name=name),
    )
