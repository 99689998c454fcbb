"""Attention between a question and passages, per head: captured once, scored in many ways.

Two orders of the prompt. With the question last its tokens attend to the passages, as in ICR (arXiv
2410.02642), QRHead and CoRe; with the question first the tokens of the passages attend to it, as in
the walk of GARLIC and PECAN. `hwdag.ranking.scoring` makes the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from transformers import DynamicCache

from hwdag.checks import one_of
from hwdag.config import HeadList, Heads, SearchConfig
from hwdag.errors import ContextTooSmall, InputError, ModelError
from hwdag.lm.attention import Capture, ColumnRequest, Request, SpanRequest
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.tokens import Range
from hwdag.text.characters import one_line
from hwdag.text.prompts import SearchPrompts

Order = Literal["first", "last"]  # where the question stands: before the passages, or after them

PARTS = ("before", "question", "after")
"""The question, and what stands around it in its part of the prompt: the instruction before it, and
after it the template's opening of a reply (question last), or what introduces the passages (first)."""

NULL_QUESTION = "N/A"
"""A question without content, whose attention is the bias of the prompt (ICR, QRHead)."""

OPENING = "Here are some paragraphs:\n\n"
INSTRUCTION = (
    "Please find information that is relevant to the following query in the paragraphs above.\n\n"
    "Query: "
)
"""Around the passages, after ICR and QRHead."""


@dataclass(frozen=True, slots=True, eq=False)
class RankingCapture:
    """What the attention of one question and one list of passages is reduced to.

    Attributes:
        pairs: the captured (layer, head) pairs.
        known: the head list known for the model, what "auto" stands for; None is all heads.
        attention: mean attention between every part of the prompt (`PARTS`) and every token of the
            passages, (parts, heads, tokens): from the part to the token with the question last, from
            the token to the part with the question first.
        lengths: tokens of every part, (parts,).
        ranges: which of the tokens are those of each passage, half-open, (passages, 2).
        null: the same attention for `NULL_QUESTION` in place of the question, or None.
        null_lengths: its tokens, (parts,).
    """

    order: Order
    pairs: HeadList
    known: HeadList | None
    attention: NDArray[np.float32]
    lengths: NDArray[np.int64]
    ranges: NDArray[np.int64]
    null: NDArray[np.float32] | None
    null_lengths: NDArray[np.int64]


def capture_ranking(
    lm: HuggingFaceLM,
    question: str,
    passages: Sequence[str],
    *,
    order: Order = "last",
    heads: Heads = "all",
    null: bool = True,
) -> RankingCapture:
    """Read a question and passages together: one forward, which ends with the last head in use.

    The null question costs its own tokens with the question last, where the passages stay in the
    KV cache, and a second forward with the question first. All is metered in the usage of `lm`.
    Errors as in `rank_passages`, and `ContextTooSmall` where question and passages do not fit together.
    """
    return capture_rankings(lm, question, [passages], order=order, heads=heads, null=null)[0]


def capture_rankings(
    lm: HuggingFaceLM,
    question: str,
    windows: Sequence[Sequence[str]],
    *,
    order: Order = "last",
    heads: Heads = "all",
    null: bool = True,
) -> list[RankingCapture]:
    """The same for several lists of passages, which are the rows of one padded batch."""
    for passages in windows:
        blank = [i for i, text in enumerate(passages) if not text.strip()]
        if not passages or blank or not question.strip():
            seen = f"passage {blank[0]} is blank" if blank else "there is none of them"
            raise InputError(
                "a ranking needs a question and at least one passage, none of them blank; "
                f"{seen if question.strip() else 'the question is blank'}"
            )
    pairs = lm.pairs_of(SearchConfig(heads=heads).heads)
    every = pairs or every_head(lm)
    read = _last if order == "last" else _first
    asked = [
        [_Layout.of(lm, text, passages, order) for passages in windows]
        for text in _questions(question, null)
    ]
    for layout in chain.from_iterable(asked):
        layout.check(lm)
    attention = read(lm, asked, pairs, every)
    if not all(np.isfinite(one).all() for one in chain.from_iterable(attention)):
        raise ModelError(
            f"{lm.name} in {lm.model.dtype} computed attention that is not a number; half precision "
            'overflows in some models: load it with dtype="bfloat16" or "float32"'
        )
    found = []
    for i, layout in enumerate(asked[0]):
        # ranges of the passages among their own tokens alone
        borders = np.cumsum([0, *np.diff(layout.passages, axis=1)[:, 0]])
        found.append(
            RankingCapture(
                order,
                every,
                lm.known_heads,
                attention[0][i],
                layout.lengths,
                np.stack([borders[:-1], borders[1:]], axis=1),
                attention[1][i] if null else None,
                asked[-1][i].lengths,
            )
        )
    return found


def every_head(lm: HuggingFaceLM) -> HeadList:
    """All (layer, head) pairs of a model, layer by layer."""
    shape = lm.engine.shape
    return tuple((layer, head) for layer in range(shape.layers) for head in range(shape.heads))


def ranking_tokens(
    lm: HuggingFaceLM, question: str, passages: Sequence[str], *, order: Order = "last"
) -> int:
    """Tokens of the prompt that `capture_ranking` would read."""
    asked = (_Layout.of(lm, text, passages, order) for text in _questions(question, True))
    return max(len(layout.ids) for layout in asked)


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Token ids of a prompt, and where its parts and passages stand."""

    ids: list[int]
    parts: NDArray[np.int64]  # (parts, 2)
    passages: NDArray[np.int64]  # (passages, 2)

    @classmethod
    def of(cls, lm: HuggingFaceLM, question: str, passages: Sequence[str], order: Order) -> Self:
        one_of("order", order, get_args(Order))
        if order == "last":
            labels = [f"[{i}] " for i in range(1, len(passages) + 1)]
            labels[0] = OPENING + labels[0]
            nodes = [[label, text, "\n\n"] for label, text in zip(labels, passages, strict=True)]
            asked = [INSTRUCTION, question, ""]
        else:
            before, between, _ = SearchPrompts().cut()
            nodes = [["* ", one_line(text), "\n"] for text in passages]
            asked = [before, question, between]
        codec, ids = lm.codec, list(lm.turns.head)

        def append(parts: list[str]) -> list[Range]:
            origin = len(ids)
            new, ranges = codec.encode_parts(*parts)
            ids.extend(new)
            return [(origin + start, origin + end) for start, end in ranges]

        if order == "first":
            around = append(asked)
        held = [ranges[1] for ranges in map(append, nodes)]
        # of a passage that is swallowed by the token of a border, that token
        places = [(start, max(end, start + 1)) for start, end in held]
        if order == "last":
            around = append(asked)
            ids.extend(lm.turns.summary_reply)
            around[2] = (around[2][0], len(ids))
        return cls(ids, np.array(around, np.int64), np.array(places, np.int64))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every part, (parts,)."""
        return np.diff(self.parts, axis=1)[:, 0]

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Positions of the tokens of all passages."""
        return np.concatenate([np.arange(start, end) for start, end in self.passages])

    def check(self, lm: HuggingFaceLM) -> None:
        if len(self.ids) > lm.context_tokens:
            raise ContextTooSmall(
                f"a question and {len(self.passages)} passages take {len(self.ids)} tokens, the "
                f"context of {lm.name} holds {lm.context_tokens}; give fewer or shorter passages, or "
                "use hwdag.rank_passages, which reads them window by window"
            )


def _last(
    lm: HuggingFaceLM, asked: list[list[_Layout]], pairs: HeadList | None, every: HeadList
) -> list[list[NDArray[np.float32]]]:
    """Read the passages once, and after them every question on top of the same cache."""
    cache = DynamicCache() if len(asked) > 1 else None  # no config, see KVSession
    padding = _padding(asked[0])
    found: list[list[NDArray[np.float32]]] = []
    for layouts in asked:
        # what stands before the question is in the cache by then, its padding included
        first = not found
        known = [0 if first else int(one.parts[0, 0]) for one in layouts]
        shifts = [pad * first - start for pad, start in zip(padding, known, strict=True)]
        captured = _forward(
            lm,
            [one.ids[start:] for one, start in zip(layouts, known, strict=True)],
            [
                ColumnRequest(_filled(one.parts + shift))
                for one, shift in zip(layouts, shifts, strict=True)
            ],
            pairs,
            cache,
            () if first else padding,
        )
        found.append(
            [
                # (heads, filled parts, seen) -> (filled parts, heads, tokens)
                _scattered(read[:, :, one.tokens + pad].transpose(1, 0, 2), one.parts)
                for read, one, pad in zip(_stacked(captured, every), layouts, padding, strict=True)
            ]
        )
        if cache is not None:
            cache.crop(int(layouts[0].parts[0, 0]) - len(layouts[0].ids))
    return found


def _first(
    lm: HuggingFaceLM, asked: list[list[_Layout]], pairs: HeadList | None, every: HeadList
) -> list[list[NDArray[np.float32]]]:
    """Read every question with all passages behind it."""
    found = []
    for layouts in asked:
        requests: list[Request] = [
            SpanRequest(
                [(token, token + 1) for token in (one.tokens + pad).tolist()],
                _filled(one.parts + pad),
            )
            for one, pad in zip(layouts, _padding(layouts), strict=True)
        ]
        captured = _forward(lm, [one.ids for one in layouts], requests, pairs, None)
        found.append(
            [
                # (heads, tokens, filled parts) -> (filled parts, heads, tokens)
                _scattered(read.transpose(2, 0, 1), one.parts)
                for read, one in zip(_stacked(captured, every), layouts, strict=True)
            ]
        )
    return found


def _padding(layouts: Sequence[_Layout]) -> list[int]:
    """Tokens that stand before each row of a batch to make all as long as the longest."""
    longest = max(len(one.ids) for one in layouts)
    return [longest - len(one.ids) for one in layouts]


def _forward(
    lm: HuggingFaceLM,
    rows: list[list[int]],
    requests: Sequence[Request],
    pairs: HeadList | None,
    cache: DynamicCache | None,
    padding: Sequence[int] = (),
) -> Capture:
    captured, cost = lm.engine.attention(rows, requests, pairs, cache=cache, padding=padding)
    lm.engine.charge(cost)
    return captured


def _stacked(captured: Capture, every: HeadList) -> list[NDArray[np.float32]]:
    """One array per row of the batch, in the order of the pairs, (heads, rows, keys)."""
    stacked = []
    for index in range(len(captured.requests)):
        # within a layer, heads are captured in the order of the pairs
        left = {at: iter(rows[index].cpu().numpy()) for at, rows in captured.per_head.items()}
        stacked.append(np.stack([next(left[layer]) for layer, _ in every]))
    return stacked


def _filled(parts: NDArray[np.int64]) -> list[Range]:
    return [(start, end) for start, end in parts.tolist() if end > start]


def _scattered(read: NDArray[np.float32], parts: NDArray[np.int64]) -> NDArray[np.float32]:
    """What was read of the parts that have tokens, with zeros for those that have none."""
    found = np.zeros((len(parts), *read.shape[1:]), np.float32)
    found[parts[:, 1] > parts[:, 0]] = read
    return found


def _questions(question: str, null: bool) -> list[str]:
    return [question, NULL_QUESTION] if null else [question]
