"""Attention between a question and passages, per head: captured once, scored in many ways.

The prompt has two orders. With the question last, its tokens attend to the passages, as in ICR
(arXiv 2410.02642), QRHead and CoRe; with the question first, tokens of passages attend to it, as in
the walk of GARLIC and PECAN. `hwdag_lab.heads.scoring` computes the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hwdag.checks import one_of
from hwdag.config import HeadList, Heads, SearchConfig
from hwdag.lm.attention import Capture, ColumnRequest, SpanRequest, attention_layers
from hwdag.lm.caches import croppable_cache
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.tokens import Range
from hwdag.rerank import NULL_QUESTION, RankingPrompt, append, check_texts, read
from hwdag.text.characters import one_line
from hwdag.text.prompts import SearchPrompts

Order = Literal["first", "last"]  # the question is before the passages, or after them

PARTS = ("before", "question", "after")
"""The parts of the prompt around the question.

The instruction before it, the question, and the text after it: the opening of a reply (question last),
or the introduction of the passages (question first).
"""


@dataclass(frozen=True, slots=True, eq=False)
class RankingCapture:
    """The attention of one question and one list of passages, reduced.

    Attributes:
        pairs: the captured (layer, head) pairs.
        known: the head list of the model, used for "auto"; None is all heads.
        attention: mean attention between every part of the prompt (`PARTS`) and every token of the
            passages, (parts, heads, tokens): from the part to the token with the question last,
            from the token to the part with the question first.
        lengths: tokens of every part, (parts,).
        ranges: token range of each passage, half-open, (passages, 2).
        null: the same attention with `NULL_QUESTION` as the question, or None.
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
    """Read a question and passages together in one forward, up to the last head in use.

    With the question last, the null question costs its own tokens, because the passages stay in the
    KV cache; with the question first, a second forward. All of it counts in the usage of `lm`.
    Errors as in `hwdag.rank_passages`, and `ContextTooSmall` if question and passages do not fit
    together.
    """
    check_texts(question, passages)
    pairs = lm.pairs_of(SearchConfig(heads=heads).heads)
    every = pairs or every_head(lm)
    prompts = [prompt_of(lm, text, passages, order) for text in _questions(question, null)]
    for prompt in prompts:
        prompt.check(lm)
    attention = (_last if order == "last" else _first)(lm, prompts, pairs, every)
    # ranges of the passages among their own tokens
    borders = np.cumsum([0, *np.diff(prompts[0].passages, axis=1)[:, 0]])
    lengths = [np.diff(prompt.parts, axis=1)[:, 0] for prompt in prompts]
    return RankingCapture(
        order,
        every,
        lm.known_heads,
        attention[0],
        lengths[0],
        np.stack([borders[:-1], borders[1:]], axis=1),
        attention[1] if null else None,
        lengths[-1],
    )


def every_head(lm: HuggingFaceLM) -> HeadList:
    """Return all (layer, head) pairs of a model, layer by layer; linear-attention layers have none."""
    layers = attention_layers(lm.model.config)
    return tuple((layer, head) for layer in layers for head in range(lm.engine.shape.heads))


def ranking_tokens(
    lm: HuggingFaceLM, question: str, passages: Sequence[str], *, order: Order = "last"
) -> int:
    """Return tokens of the prompt that `capture_ranking` would read."""
    asked = (prompt_of(lm, text, passages, order) for text in _questions(question, True))
    return max(len(prompt.ids) for prompt in asked)


def prompt_of(
    lm: HuggingFaceLM, question: str, passages: Sequence[str], order: Order
) -> RankingPrompt:
    """Return the prompt, with the question last or first (as in the walk)."""
    one_of("order", order, get_args(Order))
    if order == "last":
        return RankingPrompt.of(lm, question, passages)
    before, between, _ = SearchPrompts().cut()
    ids = list(lm.turns.head)
    parts = append(lm, ids, before, question, between)
    held = [append(lm, ids, "* ", one_line(text), "\n")[1] for text in passages]
    return RankingPrompt.placed(ids, parts, held)


def _last(
    lm: HuggingFaceLM, prompts: Sequence[RankingPrompt], pairs: HeadList | None, every: HeadList
) -> list[NDArray[np.float32]]:
    """Read the passages once, and every question after them on the same cache; a hybrid reads all anew."""
    cache = croppable_cache(lm.model.config)
    found = []
    for prompt in prompts:
        known, tail = cache.get_seq_length() if cache is not None else 0, int(prompt.parts[0, 0])
        asked = ColumnRequest(_filled(prompt.parts - known))
        captured = _stacked(read(lm, prompt.ids[known:], asked, pairs, cache), every)
        # (heads, filled parts, seen) -> (filled parts, heads, tokens)
        tokens = captured[:, :, _tokens(prompt)].transpose(1, 0, 2)
        found.append(_scattered(tokens, prompt.parts))
        if cache is not None:
            cache.crop(tail - len(prompt.ids))
    return found


def _first(
    lm: HuggingFaceLM, prompts: Sequence[RankingPrompt], pairs: HeadList | None, every: HeadList
) -> list[NDArray[np.float32]]:
    """Read every question with all passages after it."""
    found = []
    for prompt in prompts:
        rows = [(token, token + 1) for token in _tokens(prompt).tolist()]
        asked = SpanRequest(rows, _filled(prompt.parts))
        captured = _stacked(read(lm, prompt.ids, asked, pairs, None), every)
        # (heads, tokens, filled parts) -> (filled parts, heads, tokens)
        found.append(_scattered(captured.transpose(2, 0, 1), prompt.parts))
    return found


def _tokens(prompt: RankingPrompt) -> NDArray[np.int64]:
    """Return positions of the tokens of all passages."""
    return np.concatenate([np.arange(start, end) for start, end in prompt.passages])


def _stacked(captured: Capture, every: HeadList) -> NDArray[np.float32]:
    """Return attention in the order of the pairs, (heads, rows, keys)."""
    # within a layer, heads are in the order of the pairs
    left = {at: iter(heads.cpu().numpy()) for at, [heads] in captured.per_head.items()}
    return np.stack([next(left[layer]) for layer, _ in every])


def _filled(parts: NDArray[np.int64]) -> list[Range]:
    return [(start, end) for start, end in parts.tolist() if end > start]


def _scattered(read: NDArray[np.float32], parts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return attention of all parts, with zeros for those without tokens."""
    found = np.zeros((len(parts), *read.shape[1:]), np.float32)
    found[parts[:, 1] > parts[:, 0]] = read
    return found


def _questions(question: str, null: bool) -> list[str]:
    return [question, NULL_QUESTION] if null else [question]
