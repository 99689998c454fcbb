"""Reader cards: whether a model writes, judges and attends, and how it is asked.

What a model can do is measured (`hwdag probe`) and kept in a small JSON file, keyed as head lists are;
some ship with hwdag. Of other models it is assumed from their size.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from hwdag.config import NEVER, PAPER_CONFIDENCE, HeadList
from hwdag.errors import InputError
from hwdag.flops import ModelShape
from hwdag.lm.known import KINDS, REQUIRED, OfModel, shipped_json
from hwdag.text.prompts import SearchPrompts

PROBE = "hwdag probe --model {name} -o CARD.json"

CAPABLE_WEIGHTS = 1_000_000_000
"""A model without a card is taken to write and attend from this number of weights on, that of PECAN's
smallest reader (Table 2). Below, points mostly copy the text (`benchmarks/points.py`)."""

WINDOW_TOKENS = 1024
"""Tokens of prompt, window and points where a card says nothing else. From longer windows small models
copy more and leave more out (ours; the papers have 8,192)."""


@dataclass(frozen=True, slots=True)
class Card:
    """The known abilities of a reader.

    Attributes:
        writes: it writes Information Points that condense their window.
        judges: its p_yes separates enough evidence from too little.
        attends: its attention, of the heads that are known or else of all, meets what a text rests on.
        confidence: p_yes above which its "Yes" counts, t_p of PECAN.
        prompts: how it is asked at search time.
        window_tokens: default length of a summary call.
        source: how that is known, in words.
    """

    writes: bool
    judges: bool
    attends: bool
    confidence: float = PAPER_CONFIDENCE
    prompts: SearchPrompts = field(default_factory=SearchPrompts.one_turn)
    window_tokens: int = WINDOW_TOKENS
    source: str = "as its caller says"

    @property
    def is_capable(self) -> bool:
        """Whether a graph of points is of use to it; one that does not judge reads its whole budget."""
        return self.writes and self.attends

    @property
    def threshold(self) -> float:
        """The confidence where its p_yes may end a walk, else one that is never reached."""
        return self.confidence if self.judges else NEVER

    def __str__(self) -> str:
        said = ", ".join(
            f"{verb}s" if getattr(self, f"{verb}s") else f"does not {verb}"
            for verb in ("write", "judge", "attend")
        )
        return f"{said} ({self.source})"


@dataclass(frozen=True, slots=True)
class CardFile(OfModel):
    """The card of one model as a file holds it.

    Attributes:
        model, architecture, layers, heads_per_layer, hidden, also: as in `hwdag.lm.heads.HeadFile`.
        writes, judges, attends, confidence, window_tokens, source: as in `Card`.
        turns: how it is asked: in one turn, or two as in the papers.
        heads: its retrieval heads, best first; without them the shipped list counts.
    """

    what: ClassVar = "card"
    made_by: ClassVar = "hwdag probe"
    kinds: ClassVar = {
        **KINDS,
        **dict.fromkeys(("writes", "judges", "attends"), "true or false"),
        **dict.fromkeys(("window_tokens", "turns"), "a positive number"),
        "confidence": "a finite number",
        "source": "a text",
        "heads": "a list of [layer, head]",
    }
    required: ClassVar = {*REQUIRED, "writes", "judges", "attends", "source"}
    pairs_field: ClassVar = "heads"

    writes: bool
    judges: bool
    attends: bool
    source: str
    also: tuple[str, ...] = ()
    confidence: float = PAPER_CONFIDENCE
    window_tokens: int = WINDOW_TOKENS
    turns: int = 1
    heads: HeadList = ()

    def __post_init__(self) -> None:
        if self.turns not in (1, 2) or not 0 <= self.confidence <= NEVER:
            raise InputError(
                f"the card of {self.key} must have 1 or 2 turns and a confidence from 0 to 1, got "
                f"{self.turns} and {self.confidence}"
            )

    @property
    def card(self) -> Card:
        """Return the card that the file describes."""
        known = {one.name: getattr(self, one.name) for one in fields(Card) if one.name != "prompts"}
        prompts = SearchPrompts.one_turn() if self.turns == 1 else SearchPrompts()
        return Card(**known, prompts=prompts)


CardSource: TypeAlias = Card | CardFile | str | Path
"""A card, or a file of one."""


@cache
def shipped_cards() -> tuple[CardFile, ...]:
    """Return all cards that come with the package."""
    return tuple(map(CardFile.parse, shipped_json("reader_cards")))


def card_file(source: CardFile | str | Path | None, name: str, config: Any) -> CardFile | None:
    """Return the card file for a model: the one passed, else the shipped one, else None.

    Raises `InputError` for the card of a model of other sizes.
    """
    if source is None:
        return next((one for one in shipped_cards() if one.fits(name, config)), None)
    found = source if isinstance(source, CardFile) else CardFile.load(source)
    if not found.has_sizes_of(config):
        raise InputError(
            f"the card is one of {found.key}, which {name} is not; make its own with "
            f"`{PROBE.format(name=name)}`"
        )
    return found


def assumed(name: str, config: Any) -> Card:
    """Return what is assumed of a model without a card, from its size.

    Nobody is taken to judge: a p_yes that was never measured ends a walk at random. That of
    Qwen2.5-Coder-1.5B-Instruct is above one half whatever it has read (docs/results.md).
    """
    shape = ModelShape.from_config(config)
    weights = shape.layers * shape.layer_parameters + shape.hidden * shape.vocab
    capable = weights >= CAPABLE_WEIGHTS
    source = f"assumed from its {weights / 1e9:.1f} billion weights; `{PROBE.format(name=name)}` measures it"
    return Card(capable, judges=False, attends=capable, source=source)
