"""Relevance of passages from captured attention, composed of pure choices.

    tokens     mean over the chosen parts of the prompt and the chosen heads, (tokens,)
    less       the same for the null question
    passages   one number each, without tokens far below their passage's mean

`AttentionScoring.preset` has the choices of the papers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag.checks import one_of
from hwdag.config import Heads, SearchConfig
from hwdag.errors import InputError
from hwdag.lm.heads import resolve
from hwdag.options import CheckedOptions
from hwdag.rerank import typical
from hwdag.search.budget import FIRST_POSITION
from hwdag_lab.heads.capture import PARTS, Order, RankingCapture

Parts = Literal["question", "instruction", "prompt"]
NullQuestion = Literal["none", "subtract"]
Tokens = Literal["all", "typical"]
Aggregate = Literal["mean", "sum"]

_COUNTED: Mapping[Parts, tuple[str, ...]] = {
    "question": ("question",),
    "instruction": ("before", "question"),
    "prompt": PARTS,
}

_GARLIC = {
    "order": "first",
    "heads": "all",
    "null_question": "none",
    "tokens": "all",
    "aggregate": "mean",
}
_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "garlic": _GARLIC,
    "pecan": {**_GARLIC, "position": True},
    "icr": {"heads": "all", "parts": "prompt"},
    "qrhead": {"parts": "prompt"},
    "core": {"parts": "instruction"},
}


@dataclass(frozen=True, slots=True)
class AttentionScoring(CheckedOptions):
    """How attention becomes scores.

    Attributes:
        order: "first" if the question is before the passages (their tokens attend to it, as in the
            walk), "last" if after them (it attends to them).
        parts: the text that counts as the question: itself; with the "instruction" before it; or the whole
            "prompt", including the opening of the reply.
        heads: "auto" (the list known for the model, else all), "all" (captured heads), or (layer,
            head) pairs.
        null_question: whether to subtract the attention of the null question.
        tokens: "typical" leaves out tokens far below the mean of their passage (ICR), "all" does
            not.
        aggregate: how the tokens of a passage give its score.
        position: multiply by the position of the passage; the first has 2 (PECAN App. C).

    Raises:
        UnknownOption: another word.
        InputError: illegal heads.
    """

    order: Order = "last"
    parts: Parts = "question"
    heads: Heads = "auto"
    null_question: NullQuestion = "subtract"
    tokens: Tokens = "typical"
    aggregate: Aggregate = "sum"
    position: bool = False

    def __post_init__(self) -> None:
        CheckedOptions.__post_init__(self)
        object.__setattr__(self, "heads", SearchConfig(heads=self.heads).heads)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """Return the choices of a paper, with changes.

        - "garlic": question first, mean over all heads and tokens (GARLIC 3.2).
        - "pecan": the same times the position (PECAN App. C).
        - "icr": question last, all heads, minus the null question, sum of typical tokens.
        - "qrhead": the same over the heads known for the model.
        - "core": the same, without the opening of the reply.

        Raises:
            UnknownOption: there is no such preset.
        """
        return cls(**{**_PRESETS[one_of("preset", name, _PRESETS)], **changes})

    @property
    def needs_null(self) -> bool:
        """Whether the null question must be captured too."""
        return self.null_question != "none"

    def scores(self, capture: RankingCapture) -> Floats:
        """Score of every passage, (passages,); higher is more relevant."""
        return self._passages(self._less_null(capture, each=False), capture.ranges)

    def per_head(self, capture: RankingCapture) -> Floats:
        """Return scores by every chosen head alone, (heads, passages)."""
        return self._passages(self._less_null(capture, each=True), capture.ranges)

    def _less_null(self, capture: RankingCapture, *, each: bool) -> Floats:
        """Return the value of every token, (tokens,), or per head, (heads, tokens)."""
        if capture.order != self.order:
            raise InputError(
                f"the scoring has the question {self.order}, but it was {capture.order} in the "
                f"capture; capture with order={self.order!r}"
            )
        if self.needs_null and capture.null is None:
            raise InputError(
                f"null_question={self.null_question!r} needs the null question, which was not "
                'captured; capture with null=True, or use null_question="none"'
            )
        row = {pair: i for i, pair in enumerate(capture.pairs)}
        wanted = resolve(self.heads, capture.known) or capture.pairs
        if missing := [pair for pair in wanted if pair not in row]:
            raise InputError(f"the heads {missing} were not captured; capture them, or all")
        rows = [row[pair] for pair in wanted]

        def pooled(attention: NDArray[np.float32], lengths: NDArray[np.int64]) -> Floats:
            found = _mean_of_parts(attention[:, rows], lengths, _COUNTED[self.parts])
            return found if each else np.asarray(found.mean(axis=0))

        asked = pooled(capture.attention, capture.lengths)
        if capture.null is None or self.null_question == "none":
            return asked
        return asked - pooled(capture.null, capture.null_lengths)

    def _passages(self, values: Floats, ranges: NDArray[np.int64]) -> Floats:
        """Return tokens to passages along the last axis, (..., tokens) -> (..., passages)."""
        scores = [self._aggregated(values[..., a:b]) for a, b in ranges.tolist()]
        found = np.stack(scores, axis=-1)
        if self.position:
            found *= np.arange(FIRST_POSITION, FIRST_POSITION + len(ranges))
        return found

    def _aggregated(self, values: Floats) -> Floats:
        """Return one passage, (..., tokens) -> (...)."""
        kept = typical(values) if self.tokens == "typical" else np.ones(values.shape, bool)
        total = np.where(kept, values, 0.0).sum(axis=-1)
        if self.aggregate == "mean":
            total /= np.maximum(1, kept.sum(axis=-1))
        return np.asarray(total)


def _mean_of_parts(
    attention: NDArray[np.float32], lengths: NDArray[np.int64], counted: tuple[str, ...]
) -> Floats:
    """Return the mean over the tokens of some parts of the prompt, (parts, heads, tokens) -> (heads, tokens)."""
    weights = np.array(
        [n * (name in counted) for name, n in zip(PARTS, lengths, strict=True)], np.float64
    )
    total = np.tensordot(weights, attention.astype(np.float64), axes=1)
    # a token across a border may swallow a question, so nothing attends to it
    found: Floats = total / max(1.0, weights.sum())
    return found
