"""Reader cards: whether a model writes, judges and attends, and how it is asked.

The abilities of a model are measured (`hwdag probe`) and kept in its file (`hwdag.lm.model_file`). Of models
without a file they are assumed from their size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hwdag.config import NEVER, PAPER_CONFIDENCE
from hwdag.flops import ModelShape
from hwdag.text.prompts import SearchPrompts

PROBE = "hwdag probe --model {name} -o MODEL.json"

CAPABLE_WEIGHTS = 1_000_000_000
"""A model without a card is taken to write and attend from this number of weights on, that of PECAN's
smallest reader (Table 2). Below, points mostly copy the text (`benchmarks/points.py`)."""

WINDOW_TOKENS = 1024
"""Tokens of prompt, window and points unless a card has another number. From longer windows small models
copy more and leave more out (ours; the papers have 8,192)."""


@dataclass(frozen=True, slots=True)
class Card:
    """The known abilities of a reader.

    Attributes:
        writes: it writes Information Points that condense their window.
        judges: its p_yes separates enough evidence from too little.
        attends: its attention, of the heads that are known or else of all, meets the sources of a text.
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
        """The confidence if its p_yes may end a walk, else one that is never reached."""
        return self.confidence if self.judges else NEVER

    def __str__(self) -> str:
        said = ", ".join(
            f"{verb}s" if getattr(self, f"{verb}s") else f"does not {verb}"
            for verb in ("write", "judge", "attend")
        )
        return f"{said} ({self.source})"


def assumed(name: str, config: Any) -> Card:
    """Return the card that is assumed for a model without one, from its size.

    Nobody is taken to judge: a p_yes that was never measured ends a walk at random. That of
    Qwen2.5-Coder-1.5B-Instruct is above one half whatever it has read (docs/results.md).
    """
    shape = ModelShape.from_config(config)
    weights = shape.layers * shape.layer_parameters + shape.hidden * shape.vocab
    capable = weights >= CAPABLE_WEIGHTS
    source = f"assumed from its {weights / 1e9:.1f} billion weights; `{PROBE.format(name=name)}` measures it"
    return Card(capable, judges=False, attends=capable, source=source)
