"""Parameters of YOURA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from hwdag.config import SearchConfig
from hwdag.errors import InputError, UnknownOption
from hwdag_lab.methods.options import check_counts
from hwdag_lab.methods.youra.protocol import ColumnHeads

Difference = Literal["absolute", "increase"]
Mean = Literal["geometric", "arithmetic"]
Scale = Literal["none", "length", "mean"]

PAPER_SHARE = 0.8
"""At most this share of all sentences is retrieved (section 3.3)."""

PAPERS: Mapping[str, Any] = {
    "heads": "all",
    "difference": "absolute",
    "mean": "geometric",
    "scale": "none",
    "most_sentences": PAPER_SHARE,
}
"""Equations 1 to 5 and section 3.3."""

QUESTION_TOKENS = 256
"""Room for the question in every window."""


@dataclass(frozen=True, slots=True)
class YouraConfig:
    """What decides how much a sentence reacts, and how many are taken.

    The first two belong to the build, all others to the search. `YouraConfig.paper()` has the
    paper's settings.

    Attributes:
        window_tokens: of a context with its question; None takes the reader's own default, and its
            context is never exceeded. Longer documents are read window by window.
        heads: "auto" are the retrieval heads known for the model, else all; "all" is the mean of the
            paper, over all layers; "last" are the heads of the last layer, which the authors' code
            reads; or (layer, head) pairs.
        difference: "increase" is what a token gains by the question; in "absolute" (equation 1) one
            that loses attention counts as reacting too.
        mean: of the tokens of a sentence: "arithmetic" (equation 6) or "geometric" (section 3.3).
        scale: what makes windows of different length comparable: "none" (the paper), "length" takes
            as the unit what every token would get of evenly spread attention, "mean" the mean
            reaction of the window.
        most_sentences: at most this share of all sentences is taken, whatever the budget allows.
        memory_bytes: KV caches of windows are kept in memory up to this size, so that a question
            costs its own tokens only; 0 reads every window again for every question.

    Raises:
        InputError: a number outside its range.
        UnknownOption: a word that is none of those above.
    """

    window_tokens: int | None = None
    heads: ColumnHeads = "auto"
    difference: Difference = "increase"
    mean: Mean = "arithmetic"
    scale: Scale = "length"
    most_sentences: float = PAPER_SHARE
    memory_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        check_counts(self, {"window_tokens": 16, "memory_bytes": 0}, ["window_tokens"])
        if not 0.0 < self.most_sentences <= 1.0:
            raise InputError(
                f"most_sentences must be above 0 and at most 1, got {self.most_sentences!r}"
            )
        for name, kind in (("difference", Difference), ("mean", Mean), ("scale", Scale)):
            if (value := getattr(self, name)) not in get_args(kind):
                known = ", ".join(get_args(kind))
                raise UnknownOption(f"{name} must be one of {known}, got {value!r}")
        if self.heads != "last":
            object.__setattr__(self, "heads", SearchConfig(heads=self.heads).heads)

    @classmethod
    def paper(cls, **options: Any) -> Self:
        """Equation 1 over all heads and layers, geometric means, windows as they are."""
        return cls(**{**PAPERS, **options})

    @property
    def is_papers(self) -> bool:
        """Whether sentences are scored as in the paper."""
        return all(getattr(self, name) == value for name, value in PAPERS.items())
