"""Ranks passages from another retriever by the attention of a local model.

The score of QRHead (arXiv 2506.09944). The prompt has the passages first, then an instruction with the
question. A passage scores the attention of the retrieval heads from the instruction to its tokens, minus
the same for a question without content (ICR, arXiv 2410.02642). `hwdag_lab.heads` has other papers' scores.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Self

import numpy as np
from numpy.typing import NDArray
from transformers import DynamicCache

from hwdag.arrays import Floats
from hwdag.config import HeadList
from hwdag.errors import ContextTooSmall, InputError, ModelError, ReaderRequired
from hwdag.lm.attention import Capture, ColumnRequest, Request
from hwdag.lm.caches import croppable_cache
from hwdag.lm.default import as_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.tokens import Range
from hwdag.text.chunking import pack

NULL_QUESTION = "N/A"  # its attention is the bias of the prompt (ICR, QRHead)
OPENING = "Here are some paragraphs:\n\n"
INSTRUCTION = (
    "Please find information that is relevant to the following query in the paragraphs above.\n\n"
    "Query: "
)
"""Text around the passages, as in ICR and QRHead."""

TYPICAL_DEVIATIONS = 2.0
"""Tokens this many standard deviations below the mean of their passage are atypical (ICR)."""

LABEL_TOKENS = 3  # most that a label such as "[1234]" takes beyond "[1]"


def rank_passages(
    reader: object, question: str, passages: Sequence[str], *, window_tokens: int | None = None
) -> Floats:
    """Score the relevance of passages to a question by a local model's attention, higher is better.

    Passages that do not fit into one window are read in several of about the same length. Attention
    then spreads over each window, so scores are given in units of an even share.

    Args:
        reader: a `HuggingFaceLM`, whose `usage` gets the cost, a model name, or None for the default.
            Uses its known heads (`with_heads` sets others), else all.
        question: the question to rank for.
        passages: texts, none blank.
        window_tokens: longest prompt; None means the model's context, which is never exceeded.

    Returns:
        One score per passage, (passages,).

    Raises:
        ReaderRequired: the reader is not a `HuggingFaceLM`.
        InputError: no passage, a blank text, or no window.
        ContextTooSmall: one passage alone does not fit.
        ModelError: the attention is not a number.
    """
    lm = local_model(as_reader(reader))
    check_texts(question, passages)
    room = lm.context_tokens if window_tokens is None else min(window_tokens, lm.context_tokens)
    if room < 1:
        raise InputError(f"window_tokens must be at least 1, got {window_tokens!r}")
    windows = _windows(lm, question, passages, room)
    found = []
    for r in windows:
        attention, spans = _less_null(lm, question, passages[r.start : r.stop])
        unit = int(np.diff(spans).sum()) if len(windows) > 1 else 1
        held = (attention[a:b] for a, b in spans.tolist())
        found += [unit * values[typical(values)].sum() for values in held]
    return np.array(found)


def best_passages(
    reader: object,
    question: str,
    passages: Sequence[str],
    *,
    top_n: int,
    window_tokens: int | None = None,
) -> list[tuple[int, float]]:
    """Return index and score of the best passages, best first, without blank ones.

    Arguments and errors as in `rank_passages`.
    """
    at = [i for i, text in enumerate(passages) if text.strip()]
    if not at:
        return []
    texts = [passages[i] for i in at]
    scores = rank_passages(reader, question, texts, window_tokens=window_tokens)
    best = np.argsort(-scores, kind="stable")[:top_n].tolist()
    return [(at[i], float(scores[i])) for i in best]


def local_model(reader: object) -> HuggingFaceLM:
    """Return the reader. Raises `ReaderRequired` if its single heads cannot be read."""
    if isinstance(reader, HuggingFaceLM):
        return reader
    raise ReaderRequired(
        f"single attention heads were asked of a {type(reader).__name__}; give a HuggingFaceLM, such "
        "as hwdag.lm.default.load_reader()"
    )


def check_texts(question: str, passages: Sequence[str]) -> None:
    """Raise `InputError` for a blank text, or no passage."""
    blank = [i for i, text in enumerate(passages) if not text.strip()]
    if passages and not blank and question.strip():
        return
    seen = f"passage {blank[0]} is blank" if blank else "there is none of them"
    raise InputError(
        "a ranking needs a question and at least one passage, and each must have text; "
        f"{seen if question.strip() else 'the question is blank'}"
    )


@dataclass(frozen=True, slots=True, eq=False)
class RankingPrompt:
    """Token ids, and half-open ranges of the parts, (3, 2), and the passages, (passages, 2).

    The parts are the text before the question, the question, and the text after it.
    """

    ids: list[int]
    parts: NDArray[np.int64]
    passages: NDArray[np.int64]

    @classmethod
    def of(cls, lm: HuggingFaceLM, question: str, passages: Sequence[str]) -> Self:
        """Build the prompt with the question last, up to the start of the reply."""
        ids = list(lm.turns.head)
        labels = [f"[{i}] " for i in range(1, len(passages) + 1)]
        labels[0] = OPENING + labels[0]
        pairs = zip(labels, passages, strict=True)
        held = [append(lm, ids, label, text, "\n\n")[1] for label, text in pairs]
        before, asked, _ = append(lm, ids, INSTRUCTION, question, "")
        opening = len(ids)
        ids += lm.turns.summary_reply
        return cls.placed(ids, [before, asked, (opening, len(ids))], held)

    @classmethod
    def placed(cls, ids: list[int], parts: Sequence[Range], passages: Sequence[Range]) -> Self:
        """Give a passage without a token of its own the token at its start."""
        places = [(start, max(end, start + 1)) for start, end in passages]
        return cls(ids, np.array(parts, np.int64), np.array(places, np.int64))

    def check(self, lm: HuggingFaceLM) -> None:
        """Raise `ContextTooSmall` for a prompt that the model cannot read."""
        if len(self.ids) > lm.context_tokens:
            raise ContextTooSmall(
                f"a question and {len(self.passages)} passages take {len(self.ids)} tokens, the "
                f"context of {lm.name} holds {lm.context_tokens}; give fewer or shorter passages, or "
                "use hwdag.rank_passages, which reads them window by window"
            )


def append(lm: HuggingFaceLM, ids: list[int], *parts: str) -> list[Range]:
    """Append the tokens of texts to `ids`; returns the token range of each text."""
    new, ranges = lm.codec.encode_parts(*parts)
    found = [(len(ids) + start, len(ids) + end) for start, end in ranges]
    ids += new
    return found


def read(
    lm: HuggingFaceLM,
    ids: list[int],
    request: Request,
    pairs: HeadList | None,
    cache: DynamicCache | None,
) -> Capture:
    """Capture attention in one forward that ends at the last head in use, and charge its cost.

    Raises `ModelError` for attention that is not a number.
    """
    captured, cost = lm.engine.attention([ids], [request], pairs, cache=cache)
    lm.engine.charge(cost)
    if not all(heads.isfinite().all() for [heads] in captured.per_head.values()):
        raise ModelError(
            f"{lm.name} in {lm.model.dtype} computed attention that is not a number; half precision "
            'overflows in some models: load it with dtype="bfloat16" or "float32"'
        )
    return captured


def typical(values: Floats) -> NDArray[np.bool_]:
    """Mask out tokens far below the mean of their passage, (..., tokens)."""
    low = values.mean(axis=-1) - TYPICAL_DEVIATIONS * values.std(axis=-1)
    return np.asarray(values >= low[..., None])


def _less_null(
    lm: HuggingFaceLM, question: str, passages: Sequence[str]
) -> tuple[Floats, NDArray[np.int64]]:
    """Return attention to each token before the question, (tokens,), and the ranges of the passages.

    The passages stay in the KV cache, so the null question costs only its own tokens; a hybrid reads
    them twice.
    """
    pairs, cache, attention = lm.pairs_of("auto"), croppable_cache(lm.model.config), []
    for text in (question, NULL_QUESTION):
        prompt = RankingPrompt.of(lm, text, passages)
        prompt.check(lm)
        known, tail = cache.get_seq_length() if cache is not None else 0, int(prompt.parts[0, 0])
        asked = ColumnRequest([(tail - known, len(prompt.ids) - known)])
        mean = read(lm, prompt.ids[known:], asked, pairs, cache).mean(0)
        attention.append(mean[0, :tail].double().cpu().numpy())
        if cache is not None:
            cache.crop(tail - len(prompt.ids))
    return attention[0] - attention[1], prompt.passages


def _windows(lm: HuggingFaceLM, question: str, passages: Sequence[str], room: int) -> list[range]:
    """Split passages into as few ranges of at most `room` tokens as possible, about equally long."""

    def tokens(texts: Sequence[str]) -> int:
        return max(len(RankingPrompt.of(lm, q, texts).ids) for q in (question, NULL_QUESTION))

    if tokens(passages) <= room:
        return [range(len(passages))]
    alone = [tokens([text]) for text in passages]
    if (longest := max(alone)) > room:
        raise ContextTooSmall(
            f"the passage {brief(passages[alone.index(longest)])} takes {longest} tokens with the "
            f"question and the prompt around it, where {room} are allowed for {lm.name}; cut it, or "
            "allow more"
        )
    # every window reads the prompt around the passages once
    around = 2 * alone[0] - tokens([passages[0]] * 2)
    costs = [count - around + LABEL_TOKENS for count in alone]
    least, sizes = len(pack(costs, room - around)), range(max(*costs, room - around))
    size = bisect_left(sizes, True, max(costs), key=lambda size: len(pack(costs, size)) <= least)
    return pack(costs, size)
