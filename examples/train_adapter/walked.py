"""Examples of real walks: the nodes that the library puts before its reader, in its order.

The order is made without a language model. A scripted reader, whose attention has no weight here,
walks an index of sentences by similarity, words and references.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.train_adapter.lines import Json
from hwdag.config import BuildConfig, SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.index import HWDAGIndex
from hwdag.text.characters import one_line
from hwdag.text.headings import Outline
from hwdag.text.sentences import sentences
from hwdag.text.words import content_words
from hwdag.types import Document, Span
from hwdag_lab.eval.text_metrics import normalised
from hwdag_lab.scripted import ScriptedLM

WORDS = 640
"""Words and signs that a walk may read: somewhat more than the 512 tokens of the longest example."""

BUILD = BuildConfig(method="evidence")
SEARCH = SearchConfig(token_budget=WORDS)


def merged(documents: Sequence[Json]) -> Json:
    """Documents as one, so that there is more to be distracted by."""
    if len(documents) == 1:
        return documents[0]
    paragraphs: list[Json] = []
    questions: list[Json] = []
    for i, document in enumerate(documents):
        paragraphs += [p | {"id": f"{i} {p['id']}"} for p in document.get("paragraphs", ())]
        for question in document["questions"]:
            steps = question.get("decomposition", ())
            questions.append(
                question
                | {"evidence": [f"{i} {key}" for key in question["evidence"]]}
                | {"decomposition": [s | {"evidence": f"{i} {s['evidence']}"} for s in steps]}
            )
    text = "\n\n".join(document["text"] for document in documents)
    return documents[0] | {"text": text, "paragraphs": paragraphs, "questions": questions}


class Walks:
    """The walks over one document."""

    def __init__(self, document: Json, embedder: Embedder) -> None:
        self._document, self._text = document, document["text"]
        self._places: dict[str, Span] = {}
        at = 0
        for paragraph in document.get("paragraphs", ()):
            start = self._text.find(paragraph["text"], at)
            # why: excerpts may list paragraphs out of order
            start = self._text.find(paragraph["text"]) if start < 0 else start
            at = start + len(paragraph["text"])
            self._places[paragraph["id"]] = Span(start, at)
        reader = ScriptedLM(context_tokens=10**6, window_tokens=10**6)
        self._outline = Outline(self._text)
        self._index = HWDAGIndex.from_documents(
            [Document("one", self._text)], reader=reader, embedder=embedder, config=BUILD
        )

    def example(self, question: Json, *, multi_hop: bool) -> Json | None:
        """Return the walk of a question; None if the evidence is unclear."""
        wanted = {
            span: one_line(self._text[span.start : span.end]) for span in self._needed(question)
        }
        multi_hop = multi_hop or len(question["evidence"]) > 1
        nodes: list[str] = []
        gold: list[int] = []
        where: dict[str, tuple[str, int]] = {}
        reached: set[Span] = set()
        for step in self._index.search(question["question"], config=SEARCH).steps:
            place, text = step.node.sources[0], one_line(step.node.text)
            # why: merged documents may share a paragraph, and say the same twice
            found = {s for s in wanted if 2 * place.overlap(s) > len(s) or wanted[s] == text}
            if text in nodes:
                continue
            where[text] = step.node.heading, place.start
            if found:
                gold.append(len(nodes))
                reached |= found
            elif not multi_hop and tells(text, question["answers"]):
                continue  # it may be evidence as well
            nodes.append(text)
        if not wanted or len(nodes) <= len(gold) + 1:
            return None
        missing = {text: span for span, text in wanted.items() if span not in reached}
        for text, span in missing.items():
            where.setdefault(text, (self._outline.heading_of(span), span.start))
        return {
            "skill": "walk",
            "dataset": question.get("dataset", self._document["dataset"]),
            "question": question["question"],
            "answers": [verdict(answer) for answer in question["answers"]],
            "nodes": nodes,
            "gold": gold,
            "missing": list(missing),
            "where": {text: where[text] for text in (*nodes, *missing)},
        }

    def _needed(self, question: Json) -> list[Span]:
        """Sentences of the text that the answer needs; none if a paragraph is not there."""
        if not question["evidence"] or not self._places.keys() >= {*question["evidence"]}:
            return []
        steps = question.get("decomposition", ())
        clues = [question["question"], *question["answers"]]
        clues += [f"{step['question']} {step['answer']}" for step in steps]
        words = set(content_words(" ".join(clues)))
        needed: dict[Span, None] = {}
        for key in question["evidence"]:
            place = self._places[key]
            paragraph = self._text[place.start : place.end]
            for span in needed_of(paragraph, question, words):
                needed[Span(place.start + span.start, place.start + span.end)] = None
        return list(needed)


def needed_of(text: str, question: Json, clues: set[str]) -> list[Span]:
    """Sentences of one paragraph of evidence that are needed.

    Those that the data quote, else the one that holds the answer, else the one that shares most
    words with the question and its steps.
    """
    spans = sentences(text)
    quoted = [
        Span(at, at + len(quote.strip()))
        for quote in question.get("evidence_text", ())
        if quote.strip() and (at := text.find(quote.strip())) >= 0
    ]
    if found := [s for s in spans if any(2 * s.overlap(q) > len(s) for q in quoted)]:
        return found
    telling = [s for s in spans if tells(text[s.start : s.end], question["answers"])]
    shared = {s: len(clues & set(content_words(text[s.start : s.end]))) for s in telling or spans}
    return [max(shared, key=lambda span: shared[span])] if shared else []


def verdict(answer: str) -> str:
    """Return an answer, "yes" and "no" always spelled as the model spells them."""
    return answer.capitalize() if is_verdict(answer) else answer


def is_verdict(answer: str) -> bool:
    """Return whether an answer is yes or no."""
    return normalised(answer) in ("yes", "no")


def tells(text: str, answers: Sequence[str]) -> bool:
    """Return whether a text holds one of the answers, "yes" and "no" apart."""
    padded = f" {normalised(text)} "
    wanted = {normalised(answer) for answer in answers} - {"", "yes", "no"}
    return any(f" {answer} " in padded for answer in wanted)
