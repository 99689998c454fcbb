"""The facts about one model in a JSON file: its retrieval heads, its abilities as a reader, or both.

A file is keyed by architecture, sizes and base-model name, so it stays valid after merging an adapter or
quantising. `hwdag heads detect` and `hwdag probe` write such files; some ship with hwdag.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, dataclass, fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from reprlib import repr as brief
from typing import Any, Self, TypeAlias

from hwdag.checks import json_bytes, json_object
from hwdag.config import NEVER, PAPER_CONFIDENCE, HeadList
from hwdag.errors import InputError
from hwdag.lm.cards import PROBE, WINDOW_TOKENS, Card, assumed
from hwdag.text.prompts import SearchPrompts

DETECT = "hwdag heads detect --model {name} --data DATA.jsonl -o MODEL.json"

ABILITIES = ("writes", "judges", "attends")

KINDS = {
    **dict.fromkeys(("model", "architecture", "source", "criterion"), "a text"),
    **dict.fromkeys(("layers", "heads_per_layer", "hidden"), "a positive number"),
    **dict.fromkeys(("window_tokens", "turns"), "a positive number"),
    **dict.fromkeys(ABILITIES, "true or false"),
    "also": "a list of texts",
    "heads": "a list of [layer, head]",
    "scores": "a list of finite numbers",
    "confidence": "a finite number",
}
"""The kind of each field (`hwdag.checks.json_object`)."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """The facts about one model, as a file holds them: heads, abilities, or both.

    Attributes:
        model: name of the model in which they were found.
        architecture: architecture named in the model's config.
        layers, heads_per_layer, hidden: number of layers, query heads per layer, and width.
        source: where the facts come from, in words.
        also: names of models that share them, such as the base of an instruction-tuned one.
        heads: (layer, query head), both counted from 0, best first.
        scores: score of each head by the `criterion` it was found with, or empty.
        writes, judges, attends, confidence, window_tokens: as in `hwdag.lm.cards.Card`.
        turns: how it is asked: in one turn, or two as in the papers.

    Raises `InputError` for values that contradict each other.
    """

    model: str
    architecture: str
    layers: int
    heads_per_layer: int
    hidden: int
    source: str
    also: tuple[str, ...] = ()
    heads: HeadList = ()
    scores: tuple[float, ...] = ()
    criterion: str = ""
    writes: bool | None = None
    judges: bool | None = None
    attends: bool | None = None
    confidence: float = PAPER_CONFIDENCE
    window_tokens: int = WINDOW_TOKENS
    turns: int = 1

    def __post_init__(self) -> None:
        missing = [name for name in ABILITIES if getattr(self, name) is None]
        if len(missing) == len(ABILITIES) and not self.heads:
            raise InputError(f"the file of {self.key} names neither heads nor {list(ABILITIES)}")
        if 0 < len(missing) < len(ABILITIES):
            raise InputError(f"the card of {self.key} lacks {missing}; give all of {ABILITIES}")
        outside = [
            pair
            for pair in self.heads
            if not (0 <= pair[0] < self.layers and 0 <= pair[1] < self.heads_per_layer)
        ]
        if outside or len(set(self.heads)) < len(self.heads):
            raise InputError(
                f"the heads of {self.key} must be (layer, head) pairs of the model, counted from 0 and "
                f"without repetition, got {brief(list(outside or self.heads))}"
            )
        if self.scores and len(self.scores) != len(self.heads):
            raise InputError(
                f"{len(self.heads)} heads have {len(self.scores)} scores; give as many, or none"
            )
        if self.turns not in (1, 2) or not 0 <= self.confidence <= NEVER:
            raise InputError(
                f"the card of {self.key} must have 1 or 2 turns and a confidence from 0 to 1, got "
                f"{self.turns} and {self.confidence}"
            )

    @classmethod
    def of(cls, name: str, config: Any, *, source: str, **facts: Any) -> Self:
        """Make a file for a model by name and transformers config; `facts` are other fields.

        Stores the model's base name, since an adapter does not move heads.
        """
        text = config.get_text_config(decoder=True)
        return cls(
            base_name(name),
            next(iter(config.architectures or ()), ""),
            text.num_hidden_layers,
            text.num_attention_heads,
            text.hidden_size,
            source,
            **facts,
        )

    @property
    def card(self) -> Card | None:
        """The card that the file describes; None if it names no abilities."""
        if self.writes is None or self.judges is None or self.attends is None:
            return None
        prompts = SearchPrompts.one_turn() if self.turns == 1 else SearchPrompts()
        return Card(
            self.writes,
            self.judges,
            self.attends,
            self.confidence,
            prompts,
            self.window_tokens,
            self.source,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON, without fields that have their default."""
        values = {
            one.name: value
            for one in fields(self)
            if (value := getattr(self, one.name)) != one.default or one.default is MISSING
        }
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @property
    def digest(self) -> str:
        """A fingerprint of the facts."""
        return hashlib.sha256(_pretty(self.to_json()).encode()).hexdigest()[:16]

    @classmethod
    def parse(cls, data: Any) -> Self:
        """Make it from its JSON. Raises `InputError` for anything else."""
        required = {one.name for one in fields(cls) if one.default is MISSING}
        values = json_object(data, KINDS, required)
        return cls(**values | {"heads": tuple(map(tuple, values.get("heads", ())))})

    def save(self, path: str | Path) -> None:
        """Write a file that `load` reads, a field per line. Raises `InputError` if that fails."""
        try:
            Path(path).write_text(_pretty(self.to_json()), "utf-8")
        except OSError as error:
            raise InputError(
                f"{path}: cannot be written ({error.strerror or error}); name a file in a folder "
                "that exists"
            ) from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file from `save` or a command. Raises `InputError` for anything else."""
        try:
            return cls.parse(json.loads(json_bytes(Path(path))))
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror or error}); give a model file, as "
                "`hwdag heads detect` and `hwdag probe` write it"
            ) from error
        except (ValueError, RecursionError) as error:  # InputError and broken JSON are ValueErrors
            raise InputError(f"{path}: no model file (heads, card): {error}") from error

    @property
    def key(self) -> str:
        """The model that the facts belong to, in words."""
        return (
            f"{self.model} ({self.architecture or 'no architecture'}, {self.layers} layers of "
            f"{self.heads_per_layer} heads, hidden size {self.hidden})"
        )

    def fits(self, name: str, config: Any) -> bool:
        """Return whether the facts fit a model of this name and config."""
        return self.is_of(name) and self.has_sizes_of(config)

    def is_of(self, name: str) -> bool:
        """Return whether the model has this name: "somewhere/Model+adapter" is "Model"."""
        return _bare(name) in map(_bare, (self.model, *self.also))

    def has_sizes_of(self, config: Any) -> bool:
        """Return whether a model of this config has these sizes, and the architecture if known."""
        text = config.get_text_config(decoder=True)
        named = config.architectures or ()
        return (
            (not named or self.architecture in ("", *named))
            and text.num_hidden_layers == self.layers
            and text.num_attention_heads == self.heads_per_layer
            and text.hidden_size == self.hidden
        )


CardSource: TypeAlias = Card | ModelFile | str | Path
"""A card, or a model file that names abilities."""


@cache
def shipped() -> tuple[ModelFile, ...]:
    """Return all model files that come with the package, by name."""
    found = [f for f in (files("hwdag.lm") / "models").iterdir() if f.name.endswith(".json")]
    names = sorted(found, key=lambda f: f.name)
    return tuple(ModelFile.parse(json.loads(f.read_text("utf-8"))) for f in names)


def given_file(source: ModelFile | str | Path, name: str, config: Any) -> ModelFile:
    """Return a model file that was passed for a model, which may have another name (a fine-tuned one).

    Raises `InputError` for other sizes.
    """
    file = source if isinstance(source, ModelFile) else ModelFile.load(source)
    if not file.has_sizes_of(config):
        model = ModelFile.of(name, config, source="", heads=((0, 0),))
        raise InputError(
            f"the file is one of {file.key}, but the model is {model.key}; make its own with "
            f"`{PROBE.format(name=name)}` or `{DETECT.format(name=name)}`"
        )
    return file


def card_and_heads(
    source: CardSource | None, name: str, config: Any
) -> tuple[Card, HeadList | None]:
    """Return the card and the heads of a model: those passed, else the shipped ones.

    The card is assumed from the size if neither has one. Heads are None if they are unknown, and () if
    a measured card names none: then all heads are best.
    """
    ships = [one for one in shipped() if one.fits(name, config)]
    given = [] if source is None or isinstance(source, Card) else [given_file(source, name, config)]
    if given and given[0].card is None:
        raise InputError(
            f"the file of {given[0].key} names no abilities, so it is no card; make one with "
            f"`{PROBE.format(name=name)}`, or pass its heads as heads="
        )
    cards = [one.card for one in (*given, *ships) if one.card is not None]
    heads = next((one.heads for one in (*given, *ships) if one.heads), () if cards else None)
    card = source if isinstance(source, Card) else next(iter(cards), None)
    return card or assumed(name, config), heads


def base_name(name: str) -> str:
    """Drop "+adapter" from the last part of a name."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition("+")[0]


def _bare(name: str) -> str:
    return base_name(name.rstrip("/")).rpartition("/")[2].lower()


def _pretty(data: dict[str, Any]) -> str:
    """Return JSON with a field per line."""
    lines = (f"  {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in data.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
