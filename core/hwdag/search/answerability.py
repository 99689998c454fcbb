"""Does the evidence hold an answer, and is the answer right? Two calibrated probabilities (ours).

Logistic regressions over facts that a search has anyway, fitted and reported by `benchmarks/found.py`
(`docs/results.md`). The answerability of a question is estimated from the similarity of the nodes and the
words of the question that the evidence has, and from p_yes if the default reader read it. The
confidence in an answer is estimated from answerability and the likelihood of the answer.

They hold for the default embedder, whose cosines they were fitted to, and for Latin letters, which it
knows; otherwise both are None.
The p_yes of another reader is not used, since it adds nothing; its likelihood is. An answerer has neither.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hwdag.arrays import Floats
from hwdag.search.question import Question
from hwdag.text.dates import asks_for_present
from hwdag.text.headings import searched_text
from hwdag.text.languages import detect_language, is_function_word
from hwdag.text.words import MONTHS, words
from hwdag.types import Node, Retrieval

COEFFICIENTS = Path(__file__).with_suffix(".json")
MOST_NODES = 10_000  # larger collections than in the training rows count as this many
LEAST_PROBABILITY = 1e-4  # of a probability, before its logit is taken
LEAST_LIKELIHOOD = -3.0

AMOUNTS = frozenset({"much", "many"})  # an answer to "How much is a ticket?" says neither

_NAME = re.compile(r"(?<=[\w,] )[^\W\d_a-z]\w+|\d[\w.,:]*")  # not the first word of a question


class Nearness(NamedTuple):
    """Cosine similarity of a question to nodes: the highest and the mean, and how many nodes there are."""

    closest: float
    mean: float
    nodes: int

    @classmethod
    def of(cls, cosines: Floats) -> Nearness:
        """Take it from the similarity of every node that could be seen, (n,), at least one."""
        return cls(float(cosines.max()), float(cosines.mean()), len(cosines))


def answerability(
    question: Question, nodes: Sequence[Node], nearness: Nearness, p_yes: float | None
) -> float:
    """Return the probability that the evidence holds an answer.

    Args:
        question: as it was searched for.
        nodes: the evidence.
        nearness: of all nodes that could be seen.
        p_yes: of the default reader; None if it did not read the evidence.
    """
    signals = evidence_signals(
        question.text, question.content_words, list(map(searched_text, nodes)), nearness
    )
    if p_yes is None:
        return probability_of("evidence", signals)
    return probability_of("evidence and p_yes", signals | {"p_yes": logit(p_yes)})


def is_answerable(retrieval: Retrieval) -> bool:
    """Return whether the evidence seems to hold an answer."""
    likely = retrieval.answerability
    return likely is None or likely >= fitted()["least answerability"]


def evidence_signals(
    question: str, asked: Iterable[str], texts: Sequence[str], nearness: Nearness
) -> dict[str, float]:
    """Describe evidence, as texts with their headings, by a question and its content words."""
    shown = {word for text in texts for word in words(text)}
    shown |= {name for name, number in MONTHS.items() if number in shown}
    wanted = [word for word in asked if word not in AMOUNTS and not asks_for_present(word)]
    if detect_language(question) not in ("en", None):  # whose own words `asked` is without
        wanted = [word for word in wanted if not is_function_word(word)]
    return {
        "closest": nearness.closest,
        "lead": nearness.closest - nearness.mean,
        "words met": _share(wanted, shown),
        "names met": _share(words(" ".join(_NAME.findall(question))), shown),
        "nodes": math.log(min(nearness.nodes, MOST_NODES)),
    }


def answer_signals(likely: float, likelihood: float) -> dict[str, float]:
    """Return the facts about an answer of a reader."""
    return {"answerability": logit(likely), "likelihood": max(likelihood, LEAST_LIKELIHOOD)}


def logit(probability: float) -> float:
    """Log-odds of a probability, which is kept from 0 and 1."""
    kept = min(max(probability, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    return math.log(kept / (1 - kept))


@cache
def fitted() -> Mapping[str, Any]:
    """Return the values that `benchmarks/found.py` fitted, and the models that they were fitted for."""
    found: dict[str, Any] = json.loads(COEFFICIENTS.read_text("utf-8"))
    return found


def probability_of(name: str, signals: Mapping[str, float]) -> float:
    """Logistic regression: 1 / (1 + exp(-(intercept + weights . signals)))."""
    model = fitted()[name]
    total = model["intercept"] + sum(w * signals[key] for key, w in model["weights"].items())
    return 1 / (1 + math.exp(-total))


def _share(wanted: Sequence[str], shown: set[str]) -> float:
    """Share of the wanted words that are shown; 1 if no word is wanted."""
    kinds = set(wanted)
    return len(kinds & shown) / len(kinds) if kinds else 1.0
