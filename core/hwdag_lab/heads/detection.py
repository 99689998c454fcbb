"""Finding retrieval heads: each head alone ranks passages with known gold ones.

Three criteria, each a mean over examples. "qrhead": the score of the gold passages (QRHead, arXiv
2506.09944, equations 2 to 4). "ndcg": nDCG@10 of the head's ranking, which the QRHead release uses
for its question-answering sets. "core": the share of a gold passage in a softmax over it and all
other passages that are not gold (CoRe, arXiv 2510.02219); a head that attends to everything cannot
win.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from hwdag.arrays import Floats
from hwdag.checks import one_of, positive, whole
from hwdag.config import HeadList
from hwdag.errors import InputError
from hwdag.lm.model_file import ModelFile
from hwdag.rerank import local_model
from hwdag.trace.bars import Reporter, as_reporter
from hwdag_lab.heads.capture import Order, capture_ranking
from hwdag_lab.heads.data import Example
from hwdag_lab.heads.scoring import AttentionScoring

Criterion = Literal["qrhead", "ndcg", "core"]

CORE_TEMPERATURE = 0.001
"""Of the softmax; the CoRe release has 0.001 for Mistral and Granite, 0.1 for Llama and Phi."""

NDCG_AT = 10

TOP = 16  # heads in a list, as QRHead for models below 10 billion parameters; CoRe takes 8


@dataclass(frozen=True, slots=True, eq=False)
class Detection:
    """Scores of all heads.

    `pairs` are all (layer, head) pairs of the model, layer by layer.
    """

    criterion: Criterion
    scoring: AttentionScoring  # how each head scores passages
    pairs: HeadList
    values: Floats  # (examples, heads)

    @property
    def scores(self) -> Floats:
        """Mean over the examples, (heads,)."""
        return np.asarray(self.values.mean(axis=0), np.float64)

    def ranked(self) -> list[tuple[tuple[int, int], float]]:
        """Return pairs with scores, best first; ties by layer and head."""
        scored = zip(self.pairs, self.scores.tolist(), strict=True)
        return sorted(scored, key=lambda item: (-item[1], item[0]))

    def model_file(self, reader: object, *, top: int = TOP, source: str = "") -> ModelFile:
        """Return the best heads as a list for the reader in which they were found.

        Raises:
            InputError: `top` is below 1.
        """
        lm, best = local_model(reader), self.ranked()[: whole("top", top, 1)]
        return ModelFile.of(
            lm.name,
            lm.model.config,
            source=source or self.description,
            heads=tuple(pair for pair, _ in best),
            scores=tuple(round(score, 6) for _, score in best),
            criterion=self.criterion,
        )

    @property
    def description(self) -> str:
        """How the heads were found, in words."""
        minus = " minus the null question" if self.scoring.needs_null else ""
        return (
            f"hwdag heads detect: {self.criterion} on {len(self.values)} questions, question "
            f"{self.scoring.order}{minus}"
        )


def detect_heads(
    reader: object,
    examples: Sequence[Example],
    *,
    criterion: Criterion = "qrhead",
    order: Order = "last",
    subtract_null: bool | None = None,
    temperature: float = CORE_TEMPERATURE,
    show_progress: bool | Reporter = False,
) -> Detection:
    """Score every head of a model on examples; two forwards each, or one and a few tokens.

    Args:
        reader: a `HuggingFaceLM`.
        examples: a few dozen; see `hwdag_lab.heads.data.read_examples`.
        criterion: the score of a head.
        order: whether the question is first or last.
        subtract_null: whether to subtract the attention of the null question; None follows
            the papers: QRHead subtracts it, CoRe does not.
        temperature: of the softmax of "core".
        show_progress: True for a bar, or your own.

    Raises:
        ReaderRequired: the reader is no `HuggingFaceLM`.
        InputError: there is no example, or the temperature is not above 0.
        UnknownOption: an unknown criterion.
        ContextTooSmall: an example exceeds the model's context.
    """
    lm, scoring = local_model(reader), detection_scoring(criterion, order, subtract_null)
    positive("temperature", temperature)
    if not examples:
        raise InputError("heads are found on at least one example, got none")
    found = []
    with as_reporter(show_progress).stage("heads", len(examples), "question") as advance:
        for example in examples:
            captured = capture_ranking(
                lm, example.question, example.passages, order=order, null=scoring.needs_null
            )
            scores = scoring.per_head(captured)
            found.append(head_values(scores, example, criterion, temperature))
            advance()
    return Detection(criterion, scoring, captured.pairs, np.stack(found))


def detection_scoring(
    criterion: Criterion, order: Order = "last", subtract_null: bool | None = None
) -> AttentionScoring:
    """Return how a single head scores passages: as in the releases, or as in the walk.

    With the question last, "core" is the plain attention to a passage; the other two subtract the
    null question, then leave out atypical tokens. With the question first it is the mean that the
    walk reads.
    """
    one_of("criterion", criterion, get_args(Criterion))
    is_core = criterion == "core"
    if order == "first":
        scoring = AttentionScoring.preset("garlic")
    else:
        scoring = AttentionScoring.preset("core" if is_core else "qrhead", heads="all")
    if is_core:
        scoring = replace(scoring, tokens="all")
    subtract = not is_core if subtract_null is None else subtract_null
    return replace(scoring, null_question="subtract" if subtract else "none")


def head_values(
    scores: Floats,
    example: Example,
    criterion: Criterion,
    temperature: float = CORE_TEMPERATURE,
) -> Floats:
    """Return the criterion for every head on one example, (heads, passages) -> (heads,)."""
    gold = list(example.gold)
    if criterion == "qrhead":
        return np.asarray(scores[:, gold].sum(axis=1), np.float64)
    if criterion == "ndcg":
        return ndcg(scores, gold)
    return contrast(scores, gold, example.negatives, temperature)


def ndcg(scores: Floats, gold: Sequence[int], *, at: int = NDCG_AT) -> Floats:
    """Return nDCG@`at` of the ranking by every row, with gain 1 for gold, (heads, passages) -> (heads,).

    The earlier of equal passages ranks first.
    """
    is_gold = np.isin(np.arange(scores.shape[1]), gold)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :at]
    discounts = 1.0 / np.log2(np.arange(2, at + 2))
    gains = is_gold[order] @ discounts[: order.shape[1]]
    return np.asarray(gains / discounts[: len(set(gold))].sum(), np.float64)


def contrast(
    scores: Floats, gold: Sequence[int], negatives: Sequence[int], temperature: float
) -> Floats:
    """Return the mean share of gold passages in a softmax with all negatives, (heads,)."""
    shares = []
    for index in gold:
        logits = scores[:, [index, *negatives]] / temperature
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares.append(powers[:, 0] / powers.sum(axis=1))
    return np.asarray(np.mean(shares, axis=0), np.float64)
