"""How relevant passages are, by attention that was captured once: composed of choices, all pure.

    tokens     mean over the chosen parts of the prompt and the chosen heads, (tokens,)
    less, or divided by, the same for the null question
    passages   one number each, tokens that fall far below their passage's mean left out
    scaled     made comparable, if wished

`AttentionScoring.preset` has the papers' choices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats
from hwdag.config import HeadList, Heads, SearchConfig
from hwdag.errors import InputError, UnknownOption
from hwdag.lm.heads import resolve
from hwdag.ranking.capture import PARTS, Order, RankingCapture

Parts = Literal["question", "instruction", "prompt"]
NullQuestion = Literal["none", "subtract", "divide", "absolute"]
Tokens = Literal["all", "typical"]
Aggregate = Literal["mean", "sum", "max", "geometric"]
Scale = Literal["none", "share", "standard"]

TYPICAL_DEVIATIONS = 2.0
"""Tokens this many standard deviations below the mean of their passage are atypical (ICR)."""

FIRST_POSITION = 2
"""Position of the first passage; the question is at 1 (PECAN App. C)."""

FLOOR = 1e-6
"""Least attention of a token in a quotient or geometric mean, as a share of the mean over all."""

_TINY = float(np.finfo(np.float64).tiny)

_COUNTED: Mapping[Parts, tuple[str, ...]] = {
    "question": ("question",),
    "instruction": ("before", "question"),
    "prompt": PARTS,
}

_PRESETS: Mapping[str, Mapping[str, Any]] = {
    "garlic": {
        "order": "first",
        "heads": "all",
        "null_question": "none",
        "tokens": "all",
        "aggregate": "mean",
    },
    "pecan": {
        "order": "first",
        "heads": "all",
        "null_question": "none",
        "tokens": "all",
        "aggregate": "mean",
        "position": True,
    },
    "icr": {"heads": "all", "parts": "prompt"},
    "qrhead": {"parts": "prompt"},
    "core": {"parts": "instruction"},
    "youra": {
        "heads": "all",
        "null_question": "absolute",
        "tokens": "all",
        "aggregate": "geometric",
    },
}


@dataclass(frozen=True, slots=True)
class AttentionScoring:
    """The choices that make scores of attention.

    Attributes:
        order: whether the question stands before the passages ("first": their tokens attend to it,
            as in the walk) or after them ("last": it attends to them).
        parts: what counts as the question: itself; with the "instruction" before it; or all of its
            "prompt", the opening of the reply included.
        heads: "auto" (the list known for the model, else all), "all" (that were captured), or
            (layer, head) pairs.
        layers: only heads of the layers from the first to below the second number; None is all.
        null_question: what is done with the attention that it gets: "subtract" it, "divide" by it
            (as a logarithm), or take the "absolute" difference.
        tokens: "typical" leaves out those far below the mean of their passage (ICR), "all" does not.
        aggregate: how the tokens of a passage make its score.
        position: multiply by the position of the passage, the first one having 2 (PECAN App. C).
        scale: "share" divides what is above 0 by its sum, "standard" gives mean 0 and deviation 1.

    Raises:
        UnknownOption: a word that is none of those above.
        InputError: heads or layers that cannot be.
    """

    order: Order = "last"
    parts: Parts = "question"
    heads: Heads = "auto"
    layers: tuple[int, int] | None = None
    null_question: NullQuestion = "subtract"
    tokens: Tokens = "typical"
    aggregate: Aggregate = "sum"
    position: bool = False
    scale: Scale = "none"

    def __post_init__(self) -> None:
        legal = {"order": Order, "parts": Parts, "null_question": NullQuestion}
        for name, kind in (
            legal | {"tokens": Tokens, "aggregate": Aggregate, "scale": Scale}
        ).items():
            if (value := getattr(self, name)) not in get_args(kind):
                raise UnknownOption(
                    f"{name} must be one of {', '.join(get_args(kind))}, got {value!r}"
                )
        if self.layers is not None and not (
            len(self.layers) == 2 and 0 <= self.layers[0] < self.layers[1]
        ):
            raise InputError(f"layers must be a range such as (8, 16), got {self.layers!r}")
        object.__setattr__(self, "heads", SearchConfig(heads=self.heads).heads)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The choices of a paper, and what is to differ from them.

        - "garlic": question first, mean over all heads and tokens (GARLIC 3.2).
        - "pecan": the same times the position (PECAN App. C).
        - "icr": question last, all heads, minus the null question, sum of typical tokens.
        - "qrhead": the same over the heads known for the model.
        - "core": the same, and the opening of the reply does not count.
        - "youra": absolute difference to the null question, over all heads, geometric mean. The
          reaction to the question alone (equation 1); `hwdag_lab.methods.youra` is the whole method.

        Raises:
            UnknownOption: there is no such preset.
        """
        if name not in _PRESETS:
            raise UnknownOption(f"no scoring {name!r}; there are {', '.join(_PRESETS)}")
        return cls(**{**_PRESETS[name], **changes})

    @property
    def needs_null(self) -> bool:
        """Whether the null question must have been captured too."""
        return self.null_question != "none"

    def scores(self, capture: RankingCapture) -> Floats:
        """A score for every passage, higher is more relevant, (passages,)."""
        return self.scaled(self.unscaled(capture))

    def per_head(self, capture: RankingCapture) -> Floats:
        """Scores of every chosen head alone, unscaled, (heads, passages)."""
        return self._passages(self._against_null(capture, each=True), capture.ranges)

    def unscaled(self, capture: RankingCapture) -> Floats:
        """The scores before they are scaled, (passages,)."""
        return self._passages(self._against_null(capture, each=False), capture.ranges)

    def scaled(self, scores: Floats) -> Floats:
        """Scores of all passages made comparable, (passages,)."""
        if self.scale == "share":
            above = np.maximum(scores, 0.0)
            return above / max(float(above.sum()), _TINY)
        if self.scale == "standard":
            centred: Floats = scores - scores.mean()
            return centred / max(float(scores.std()), _TINY)
        return scores

    def _against_null(self, capture: RankingCapture, *, each: bool) -> Floats:
        """One number per token, (tokens,), or per head and token, (heads, tokens)."""
        self._check(capture)
        rows = self._rows(capture)

        def pooled(attention: NDArray[np.float32], lengths: NDArray[np.int64]) -> Floats:
            found = _mean_of_parts(attention[:, rows], lengths, _COUNTED[self.parts])
            return found if each else np.asarray(found.mean(axis=0))

        asked = pooled(capture.attention, capture.lengths)
        if capture.null is None or self.null_question == "none":
            return asked
        return against_null(asked, pooled(capture.null, capture.null_lengths), self.null_question)

    def _check(self, capture: RankingCapture) -> None:
        if capture.order != self.order:
            raise InputError(
                f"the scoring has the question {self.order}, but it stood {capture.order} in the "
                f"capture; capture with order={self.order!r}"
            )
        if self.needs_null and capture.null is None:
            raise InputError(
                f"null_question={self.null_question!r} needs the null question, which was not captured; "
                'capture with null=True, or use null_question="none"'
            )

    def _rows(self, capture: RankingCapture) -> list[int]:
        """Which of the captured heads count."""
        row = {pair: i for i, pair in enumerate(capture.pairs)}
        wanted = self.pairs(capture.known, capture.pairs)
        if missing := [pair for pair in wanted if pair not in row]:
            raise InputError(f"the heads {missing} were not captured; capture them, or all")
        return [row[pair] for pair in wanted]

    def pairs(self, known: HeadList | None, every: HeadList) -> HeadList:
        """The heads that count: "auto" are the `known` ones, if there are any, and else `every`.

        Raises:
            InputError: none of them is in the layers that count.
        """
        wanted = resolve(self.heads, known) or every
        low, high = self.layers or (0, max(layer for layer, _ in wanted) + 1)
        if not (found := tuple(pair for pair in wanted if low <= pair[0] < high)):
            raise InputError(f"no head that counts is in the layers {low} to {high - 1}")
        return found

    def _passages(self, values: Floats, ranges: NDArray[np.int64]) -> Floats:
        """Tokens to passages along the last axis, (..., tokens) -> (..., passages)."""
        floor = FLOOR * np.abs(values).mean(axis=-1)
        scores = [self._aggregated(values[..., a:b], floor) for a, b in ranges.tolist()]
        found = np.stack(scores, axis=-1)
        if self.position:
            found *= np.arange(FIRST_POSITION, FIRST_POSITION + len(ranges))
        return found

    def _aggregated(self, values: Floats, floor: Floats) -> Floats:
        """One passage, (..., tokens) -> (...)."""
        kept = typical(values) if self.tokens == "typical" else np.ones(values.shape, bool)
        count = np.maximum(1, kept.sum(axis=-1))
        if self.aggregate == "max":
            return np.asarray(np.where(kept, values, -np.inf).max(axis=-1))
        if self.aggregate == "geometric":
            least = np.where(floor > 0, floor, 1.0)[..., None]
            logarithms = np.where(kept, np.log(np.maximum(values, least)), 0.0)
            return np.where(floor > 0, np.exp(logarithms.sum(axis=-1) / count), 0.0)
        total = np.where(kept, values, 0.0).sum(axis=-1)
        return np.asarray(total / count if self.aggregate == "mean" else total)


def against_null(asked: Floats, null: Floats, kind: NullQuestion) -> Floats:
    """Attention of tokens to a question against that to the null question, (..., tokens)."""
    if kind == "subtract":
        return asked - null
    if kind == "absolute":
        return np.abs(asked - null)
    # a head with a sliding window may see no passage at all
    floor = np.maximum(FLOOR * null.mean(axis=-1, keepdims=True), _TINY)
    quotient: Floats = np.log((asked + floor) / (null + floor))
    return quotient


def typical(values: Floats) -> NDArray[np.bool_]:
    """Tokens of a passage that are not far below its mean (ICR), (..., tokens)."""
    low = values.mean(axis=-1) - TYPICAL_DEVIATIONS * values.std(axis=-1)
    return np.asarray(values >= low[..., None])


def _mean_of_parts(
    attention: NDArray[np.float32], lengths: NDArray[np.int64], counted: tuple[str, ...]
) -> Floats:
    """Mean over the tokens of some parts of the prompt, (parts, heads, tokens) -> (heads, tokens)."""
    weights = np.array(
        [n * (name in counted) for name, n in zip(PARTS, lengths, strict=True)], np.float64
    )
    total = np.tensordot(weights, attention.astype(np.float64), axes=1)
    # a question may be swallowed by the token of a border, and then nobody attends to it
    found: Floats = total / max(1.0, weights.sum())
    return found
