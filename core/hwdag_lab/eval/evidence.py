"""How much gold evidence the retrieved nodes hold, by exact character spans.

Strings are never compared: a paragraph counts because the text was taken from it, not because the
same words occur elsewhere. Overlapping spans count once.

Only text that was read is evidence: nodes cut or picked from the document. The sources of written
nodes were not read; the gold evidence in them is a separate figure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from hwdag.graph.dag import union_of_spans
from hwdag.types import Node, Origin, Span
from hwdag_lab.eval.schema import Question, Record

TOUCHED = 0.10
"""A gold paragraph is touched if at least this share of its characters is returned."""

HALF = 0.50
"""A gold paragraph is half covered if at least this share of its characters is returned."""

SENTENCE = 0.80
"""A gold sentence is found if at least this share of its characters is returned."""

VERBATIM: frozenset[Origin] = frozenset({"chunk", "extractive", "compressed"})
"""Origins of nodes whose sources are exactly the text that is read."""

PARAGRAPH_METRICS = (
    "paragraph_touched",
    "paragraph_half",
    "all_touched",
    "all_half",
    "evidence_precision",
)
"""Keys of `evidence_scores` for questions with gold paragraphs."""

SENTENCE_METRICS = ("sentence_recall", "all_sentences")
"""Keys of `evidence_scores` for questions with gold sentences."""

WRITTEN_METRICS = ("written_half",)
"""Further keys of `retrieval_scores` for questions with gold paragraphs."""

RANKS = (2, 5)
"""Depths of `passage_recall`."""

RANKED_METRICS = tuple(f"recall_at_{k}" for k in RANKS)
"""Keys of `passage_recall`."""


def retrieval_scores(nodes: Iterable[Node], record: Record, question: Question) -> dict[str, float]:
    """Return `evidence_scores` of the text read in these nodes of a record, and `written_half`.

    `written_half` is `paragraph_half` of the sources of written nodes. Nobody read those sources,
    so it is no evidence, but a bound on how much of it the written text could be about.
    """
    nodes = list(nodes)
    scores = evidence_scores(read_spans(nodes, record), question)
    if "paragraph_half" in scores:
        written = (span for n in nodes if n.origin not in VERBATIM for span in record.spans(n))
        scores["written_half"] = evidence_scores(written, question)["paragraph_half"]
    return scores


def read_spans(nodes: Iterable[Node], record: Record) -> list[Span]:
    """Return the spans of a record that the nodes hold verbatim."""
    return [span for n in nodes if n.origin in VERBATIM for span in record.spans(n)]


def passage_recall(nodes: Iterable[Node], record: Record, question: Question) -> dict[str, float]:
    """Return `recall_at_k`, the share of the gold paragraphs among the first k that a ranking of nodes meets.

    A node counts for the paragraph in which it starts; a node that holds several, for each in turn.
    With `evidence_sets` it is the best over the sets. Empty without paragraphs, or without gold
    ones.
    """
    sets = _gold_sets(question)
    if not sets or not record.paragraphs:
        return {}
    met = list(dict.fromkeys(_paragraphs(read_spans(nodes, record), record)))
    return {
        f"recall_at_{k}": max(len(set(gold) & set(met[:k])) / len(gold) for gold in sets)
        for k in RANKS
    }


def _paragraphs(spans: Iterable[Span], record: Record) -> Iterator[Span]:
    """Yield the paragraphs that spans overlap, span by span."""
    ordered = record.ordered
    for span in spans:
        at = max(0, bisect_right(ordered, span.start, key=lambda p: p.start) - 1)
        while at < len(ordered) and ordered[at].start < span.end:
            if ordered[at].overlap(span):
                yield ordered[at]
            at += 1


def evidence_scores(spans: Iterable[Span], question: Question) -> dict[str, float]:
    """Return evidence recall, precision and all-evidence-found of returned spans, each in [0, 1].

    `paragraph_touched`, `paragraph_half`: share of the gold paragraphs with at least `TOUCHED` or
    `HALF` of their characters in the union of `spans`. `all_touched`, `all_half`: 1 if that holds
    for all of them. `sentence_recall`, `all_sentences`: the same for gold sentences at `SENTENCE`.
    `evidence_precision`: share of the returned characters inside gold paragraphs; 0 if nothing was
    returned.

    With `evidence_sets` (Qasper: one per annotator) each metric is the best over the sets,
    independently, like the data set's own evidence F1. A set without spans (an annotator found no
    answer in the text) cannot be retrieved and is left out. A question without gold paragraphs
    lacks `PARAGRAPH_METRICS`, one without gold sentences lacks `SENTENCE_METRICS`: nothing is
    measured, so nothing is averaged. Empty gold spans are ignored.

    O((m + g) log m) for m spans and g gold spans, whatever the length of the document.
    """
    cover = _Cover.of(spans)
    scores = [_paragraph_scores(cover, gold) for gold in _gold_sets(question)]
    best = {name: max(s[name] for s in scores) for name in PARAGRAPH_METRICS} if scores else {}
    return best | _sentence_scores(cover, _gold(question.sentences))


@dataclass(frozen=True, slots=True)
class _Cover:
    """A union of spans that counts how many of its characters a range holds."""

    starts: list[int]
    ends: list[int]
    before: list[int]  # cumulative characters, (spans + 1,)

    @classmethod
    def of(cls, spans: Iterable[Span]) -> _Cover:
        union = union_of_spans(list(spans))
        lengths = accumulate((len(span) for span in union), initial=0)
        return cls([s.start for s in union], [s.end for s in union], list(lengths))

    def inside(self, span: Span) -> int:
        """Return characters of `span` that are covered."""
        return self._below(span.end) - self._below(span.start)

    def _below(self, position: int) -> int:
        """Return covered characters before `position`."""
        last = bisect_right(self.starts, position) - 1
        held = 0 if last < 0 else min(position, self.ends[last]) - self.starts[last]
        return self.before[max(0, last)] + held


def _gold(spans: Iterable[Span]) -> list[Span]:
    return sorted({span for span in spans if len(span)})


def _gold_sets(question: Question) -> list[list[Span]]:
    sets = question.evidence_sets or (question.evidence,)
    return [gold for one in sets if (gold := _gold(one))]


def _paragraph_scores(cover: _Cover, gold: Sequence[Span]) -> dict[str, float]:
    touched, half = _found(cover, gold, TOUCHED), _found(cover, gold, HALF)
    relevant = sum(cover.inside(span) for span in union_of_spans(gold))
    return {
        "paragraph_touched": touched,
        "paragraph_half": half,
        "all_touched": float(touched == 1),
        "all_half": float(half == 1),
        "evidence_precision": relevant / max(1, cover.before[-1]),
    }


def _sentence_scores(cover: _Cover, gold: Sequence[Span]) -> dict[str, float]:
    if not gold:
        return {}
    recall = _found(cover, gold, SENTENCE)
    return {"sentence_recall": recall, "all_sentences": float(recall == 1)}


def _found(cover: _Cover, gold: Sequence[Span], share: float) -> float:
    """Share of the gold spans of which at least `share` is covered."""
    return sum(cover.inside(span) / len(span) >= share for span in gold) / len(gold)
