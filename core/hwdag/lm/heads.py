"""Head lists: all heads (the papers' mean), the known list of a model, or one of your own.

A few middle-layer *retrieval heads* carry most of the retrieval signal (QRHead, arXiv 2506.09944;
CoRe, arXiv 2510.02219). Lists are small JSON files keyed by architecture, sizes and base-model
name, so they stay valid after merging an adapter or quantising. `hwdag_lab.heads` finds them.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from reprlib import repr as brief
from typing import Any, Self

from hwdag.checks import json_bytes, json_object
from hwdag.config import HeadList, Heads
from hwdag.errors import InputError

_LOGGER = logging.getLogger("hwdag")

DETECT = "hwdag heads detect --model {name} --data DATA.jsonl -o HEADS.json"


@dataclass(frozen=True, slots=True)
class HeadFile:
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

    model: str
    architecture: str
    layers: int
    heads_per_layer: int
    hidden: int
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
                f"counted from 0 and none of them twice, got {brief(list(outside or self.pairs))}"
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
        text = config.get_text_config(decoder=True)
        return cls(
            model=base_name(name),
            architecture=next(iter(config.architectures or ()), ""),
            layers=text.num_hidden_layers,
            heads_per_layer=text.num_attention_heads,
            hidden=text.hidden_size,
            pairs=pairs,
            source=source,
            **facts,
        )

    @property
    def key(self) -> str:
        """The model that the list belongs to, in words."""
        return (
            f"{self.model} ({self.architecture or 'no architecture'}, {self.layers} layers of "
            f"{self.heads_per_layer} heads, hidden size {self.hidden})"
        )

    def fits(self, name: str, config: Any) -> bool:
        """Whether the list fits a model of this name and config."""
        return self.is_of(name) and self.has_sizes_of(config)

    def is_of(self, name: str) -> bool:
        """Whether the list was made for a model of this name: "somewhere/Model+adapter" is "Model"."""
        return _bare(name) in map(_bare, (self.model, *self.also))

    def has_sizes_of(self, config: Any) -> bool:
        """Whether a model of this config has the sizes of the list, and its architecture if known."""
        text = config.get_text_config(decoder=True)
        named = config.architectures or ()
        return (
            (not named or self.architecture in ("", *named))
            and text.num_hidden_layers == self.layers
            and text.num_attention_heads == self.heads_per_layer
            and text.hidden_size == self.hidden
        )

    def to_json(self) -> dict[str, Any]:
        """Return the list as JSON, without empty fields."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["heads"] = [list(pair) for pair in values.pop("pairs")]
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value or name in _REQUIRED
        }

    @property
    def digest(self) -> str:
        """A fingerprint of the list."""
        return hashlib.sha256(_pretty(self.to_json()).encode()).hexdigest()[:16]

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads."""
        try:
            Path(path).write_text(_pretty(self.to_json()), "utf-8")
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written ({error.strerror or error}); name a file in a folder "
                "that exists"
            ) from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file from `save` or `hwdag heads detect`. Raises `InputError` for anything else."""
        try:
            return cls.parse(json.loads(json_bytes(Path(path))))
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror or error}); give the file of a head list, "
                "as `hwdag heads detect` writes it"
            ) from error
        except (ValueError, RecursionError) as error:  # InputError and broken JSON are ValueErrors
            raise InputError(f"{path}: no head list: {error}") from error

    @classmethod
    def parse(cls, data: Any) -> Self:
        """Make a list from its JSON. Raises `InputError` for anything else."""
        values = json_object(data, _KINDS, _REQUIRED)
        values["pairs"] = tuple(map(tuple, values.pop("heads")))
        return cls(**values)


_KINDS = {
    **dict.fromkeys(("model", "architecture", "source", "criterion", "weights"), "a text"),
    **dict.fromkeys(("layers", "heads_per_layer", "hidden"), "a positive number"),
    "heads": "a list of [layer, head]",
    "also": "a list of texts",
    "scores": "a list of finite numbers",
}
"""The fields of a file and their kinds."""

_REQUIRED = {"model", "architecture", "layers", "heads_per_layer", "hidden", "heads", "source"}


HeadSource = HeadFile | str | Path | Sequence[tuple[int, int]]
"""A head list, the path of its file, or bare (layer, head) pairs."""


@cache
def shipped() -> tuple[HeadFile, ...]:
    """All lists that come with the package."""
    folder = files("hwdag.lm") / "head_lists"
    found = sorted((f for f in folder.iterdir() if f.name.endswith(".json")), key=lambda f: f.name)
    return tuple(HeadFile.parse(json.loads(f.read_text("utf-8"))) for f in found)


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
        "no retrieval heads are known for %s, so the mean over all heads is used, which ranks worse; "
        "find them with `%s` and pass heads=HEADS.json",
        name,
        DETECT.format(name=name),
    )


def base_name(name: str) -> str:
    """Drop "+adapter" from the last part of a name."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition("+")[0]


def _bare(name: str) -> str:
    return base_name(name.rstrip("/")).rpartition("/")[2].lower()


def _pretty(data: Mapping[str, Any]) -> str:
    lines = (f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in data.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
