"""Passages ranked by attention, window by window where they do not fit into one context."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwdag.arrays import Floats
from hwdag.errors import ContextTooSmall, InputError, ReaderRequired
from hwdag.lm.default import as_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.ranking.capture import Order, capture_rankings, ranking_tokens
from hwdag.ranking.scoring import AttentionScoring

LABEL_TOKENS = 3  # more that a label such as "[1234]" may take than "[1]" does


def rank_passages(
    reader: object,
    question: str,
    passages: Sequence[str],
    *,
    scoring: AttentionScoring | str = "qrhead",
    window_tokens: int | None = None,
    batch_size: int = 1,
) -> Floats:
    """Relevance of passages to a question by the attention of a local model, higher is better.

    What does not fit into one window is read in several, of about the same length. A question that
    stands last spreads its attention over its window, so scores then are in units of what each token
    would get if it were spread evenly. With the question first, use a scoring with `position`.

    Args:
        reader: a `HuggingFaceLM`, whose usage has the cost; a model name, or None for the default.
        question: the question.
        passages: texts of at least a word.
        scoring: the choices, or the name of a preset.
        window_tokens: of a prompt; None is the model's context, which is never exceeded.
        batch_size: windows that are read in one padded forward; more than 1 is for GPUs.

    Returns:
        One score per passage, (passages,).

    Raises:
        ReaderRequired: the reader is no `HuggingFaceLM`.
        InputError: no passage, a blank text, or an option that cannot be.
        ContextTooSmall: one passage alone does not fit.
    """
    lm = local_model(as_reader(reader) if reader is None or isinstance(reader, str) else reader)
    scoring = AttentionScoring.preset(scoring) if isinstance(scoring, str) else scoring
    if not isinstance(scoring, AttentionScoring):
        raise InputError(
            f"scoring must be an AttentionScoring or the name of a preset, got {scoring!r}"
        )
    room = lm.context_tokens if window_tokens is None else min(window_tokens, lm.context_tokens)
    if room < 1:
        raise InputError(f"window_tokens must be at least 1, got {window_tokens!r}")
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size!r}")
    windows = _windows(lm, question, passages, scoring.order, room)
    is_spread = len(windows) > 1 and scoring.order == "last"
    found = []
    for start in range(0, len(windows), batch_size):
        for captured in capture_rankings(
            lm,
            question,
            [passages[a:b] for a, b in windows[start : start + batch_size]],
            order=scoring.order,
            heads=scoring.heads,
            null=scoring.needs_null,
        ):
            unit = captured.attention.shape[-1] if is_spread else 1
            found.append(unit * scoring.scores(captured))
    return np.concatenate(found)


def best_passages(
    reader: object,
    question: str,
    passages: Sequence[str],
    *,
    top_n: int,
    scoring: AttentionScoring | str = "qrhead",
    window_tokens: int | None = None,
    batch_size: int = 1,
) -> list[tuple[int, float]]:
    """Index and score of the best passages, best first; blank ones are left out.

    Arguments and errors as in `rank_passages`.
    """
    at = [i for i, text in enumerate(passages) if text.strip()]
    if not at:
        return []
    scores = rank_passages(
        reader,
        question,
        [passages[i] for i in at],
        scoring=scoring,
        window_tokens=window_tokens,
        batch_size=batch_size,
    )
    best = np.argsort(-scores, kind="stable")[:top_n].tolist()
    return [(at[i], float(scores[i])) for i in best]


def local_model(reader: object) -> HuggingFaceLM:
    """The reader itself. Raises `ReaderRequired` if its heads cannot be told apart."""
    if isinstance(reader, HuggingFaceLM):
        return reader
    raise ReaderRequired(
        f"single attention heads were asked of a {type(reader).__name__}; give a HuggingFaceLM, such "
        "as hwdag.lm.default.default_reader()"
    )


def _windows(
    lm: HuggingFaceLM, question: str, passages: Sequence[str], order: Order, room: int
) -> list[tuple[int, int]]:
    """Ranges of passages that fit into `room` tokens each: as few as possible, about equally long."""
    if not passages or ranking_tokens(lm, question, passages, order=order) <= room:
        return [(0, len(passages))]
    alone = [ranking_tokens(lm, question, [text], order=order) for text in passages]
    if (longest := max(alone)) > room:
        raise ContextTooSmall(
            f"passage {alone.index(longest)} takes {longest} tokens with the question and the prompt "
            f"around it, where {room} are allowed for {lm.name}; cut it, or allow more"
        )
    # the prompt around the passages is read once in every window
    around = 2 * alone[0] - ranking_tokens(lm, question, [passages[0]] * 2, order=order)
    costs = [tokens - around + LABEL_TOKENS for tokens in alone]
    count = len(_packed(costs, room - around))
    low, high = max(costs), max(*costs, room - around)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if len(_packed(costs, middle)) <= count else (middle + 1, high)
    return _packed(costs, low)


def _packed(costs: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Consecutive ranges whose costs do not exceed `room` together, or that are a single one."""
    borders, used = [0], 0
    for i, cost in enumerate(costs):
        if used and used + cost > room:
            borders.append(i)
            used = 0
        used += cost
    return list(zip(borders, [*borders[1:], len(costs)], strict=True))
