"""Does the evidence hold an answer, and is the answer right? Two calibrated probabilities (ours).

Logistic regressions over what a search knows anyway, fitted and reported by `benchmarks/found.py`
(`docs/evaluation.md`). The answerability of a question is told from the similarity of the nodes and the
words of the question that the evidence has, and from p_yes where the default reader read it. The
confidence in an answer is told from answerability and the likelihood of the answer.

They hold for the default embedder, whose cosines they were fitted to: with another one both are None.
The p_yes of another reader is not used, since it adds nothing; its likelihood is. An answerer has neither.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hwdag.arrays import Floats
from hwdag.text.headings import parted, searched_text
from hwdag.text.languages import told_language
from hwdag.text.words import MONTHS, content_words, words
from hwdag.types import Answer, Node, Retrieval

COEFFICIENTS = Path(__file__).with_suffix(".json")
MOST_NODES = 10_000  # more than the largest collection of the training rows count as so many
LEAST = 1e-4  # of a probability, before its logit is taken
LEAST_LIKELIHOOD = -3.0
NEAREST = 3  # sentences that are shown where there is no answer
LONGEST = 300  # characters of each
MOST_SAID = 8
"""Content words of a short answer, at most; a stream gives a longer one as it comes, unless it is doubtful."""

AMOUNTS = frozenset({"much", "many"})  # an answer to "How much is a ticket?" says neither

_NAME = re.compile(r"(?<=[\w,] )[^\W\d_a-z]\w+|\d[\w.,:]*")  # not the first word of a question
NOT_FOUND = {
    "en": "The documents do not seem to answer this. Nearest to the question:",
    "de": "Die Dokumente scheinen darauf keine Antwort zu haben. Der Frage am nächsten:",
    "es": "Los documentos no parecen responder a esto. Lo más cercano a la pregunta:",
    "fr": "Les documents ne semblent pas répondre à cette question. Au plus près :",
    "it": "I documenti non sembrano rispondere a questa domanda. Più vicino alla domanda:",
    "nl": "De documenten lijken hier geen antwoord op te geven. Het dichtst bij de vraag:",
    "pt": "Os documentos não parecem responder a isto. O mais próximo da pergunta:",
    "zh": "文档中似乎没有这个问题的答案。与问题最接近的内容：",
    "ar": "يبدو أن المستندات لا تجيب عن هذا السؤال. الأقرب إلى السؤال:",
}
"""What is said where the evidence holds no answer, by language of the question."""


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
    question: str, nodes: Sequence[Node], nearness: Nearness, p_yes: float | None
) -> float:
    """Return the probability that the evidence holds an answer.

    Args:
        question: as it was searched for.
        nodes: the evidence.
        nearness: of all nodes that could be seen.
        p_yes: of the default reader; None where it did not read the evidence.
    """
    signals = evidence_signals(question, list(map(searched_text, nodes)), nearness)
    if p_yes is None:
        return _probability("evidence", signals)
    return _probability("evidence and p_yes", signals | {"p_yes": logit(p_yes)})


def judged(answer: Answer) -> Answer:
    """Return an answer of the reader or an answerer with `confidence`, `found` and `reply`.

    An answer of the reader is found if its confidence is high enough, and a long one also where the evidence
    seems to hold an answer. Otherwise `not_found` takes its place. An answerer is told to say so.
    """
    retrieval, reply = answer.retrieval, answer.text
    likely = retrieval.answerability
    if likely is None:
        return replace(answer, reply=reply)
    sure, found = likely, is_answerable(retrieval)
    if answer.likelihood is not None:
        sure = _probability("answer", answer_signals(likely, answer.likelihood))
        found = sure >= fitted()["least confidence"] or (found and not is_short(reply))
    text = reply if found or answer.answered_by is not None else not_found(retrieval)
    return replace(answer, text=text, reply=reply, confidence=sure, found=found)


def is_short(text: str) -> bool:
    """Whether an answer is so short that its confidence alone tells whether it was found."""
    return len(content_words(text)) <= MOST_SAID


def is_answerable(retrieval: Retrieval) -> bool:
    """Whether the evidence seems to hold an answer."""
    likely = retrieval.answerability
    return likely is None or likely >= fitted()["least answerability"]


def not_found(retrieval: Retrieval) -> str:
    """Return what is said where the evidence holds no answer, with the best of what was found."""
    said = NOT_FOUND.get(told_language(retrieval.question) or "en", NOT_FOUND["en"])
    nearest = [bare(step.node)[:LONGEST] for step in retrieval.best(NEAREST)]
    if not nearest:
        said = re.split("(?<=[.。])", said)[0]
    return "\n- ".join([said, *nearest])


def bare(node: Node) -> str:
    """The text of a node in one line, without marks of Markdown, and without a heading before its sentence."""
    text = node.text.lstrip("# ").removeprefix("- ").removeprefix("* ")
    first, _, rest = text.partition("\n")
    return " ".join(
        (rest if first.strip() == parted(node.heading)[1] and rest.strip() else text).split()
    )


def evidence_signals(question: str, texts: Sequence[str], nearness: Nearness) -> dict[str, float]:
    """What is known of evidence that nobody has read, with its headings."""
    shown = {word for text in texts for word in words(text)}
    shown |= {name for name, number in MONTHS.items() if number in shown}
    wanted = [word for word in content_words(question) if word not in AMOUNTS]
    return {
        "closest": nearness.closest,
        "lead": nearness.closest - nearness.mean,
        "words met": _share(wanted, shown),
        "names met": _share(words(" ".join(_NAME.findall(question))), shown),
        "nodes": math.log(min(nearness.nodes, MOST_NODES)),
    }


def answer_signals(likely: float, likelihood: float) -> dict[str, float]:
    """What is known of an answer of a reader."""
    return {"answerability": logit(likely), "likelihood": max(likelihood, LEAST_LIKELIHOOD)}


def logit(probability: float) -> float:
    """Log-odds of a probability, which is kept from 0 and 1."""
    kept = min(max(probability, LEAST), 1 - LEAST)
    return math.log(kept / (1 - kept))


@cache
def fitted() -> Mapping[str, Any]:
    """What `benchmarks/found.py` fitted, and the models that it was fitted for."""
    found: dict[str, Any] = json.loads(COEFFICIENTS.read_text("utf-8"))
    return found


def _probability(name: str, signals: Mapping[str, float]) -> float:
    """Logistic regression: 1 / (1 + exp(-(intercept + weights . signals)))."""
    model = fitted()[name]
    total = model["intercept"] + sum(w * signals[key] for key, w in model["weights"].items())
    return 1 / (1 + math.exp(-total))


def _share(wanted: Sequence[str], shown: set[str]) -> float:
    """Share of the wanted words that are shown; 1 where none is wanted."""
    kinds = set(wanted)
    return len(kinds & shown) / len(kinds) if kinds else 1.0
