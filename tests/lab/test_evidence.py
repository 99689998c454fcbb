"""Evidence scores equal counting characters one by one, and the thresholds are met exactly."""

from __future__ import annotations

from collections.abc import Iterable
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hwdag.types import Node, Origin, Span
from hwdag_lab.eval.evidence import (
    HALF,
    PARAGRAPH_METRICS,
    SENTENCE,
    SENTENCE_METRICS,
    TOUCHED,
    evidence_scores,
    passage_recall,
    retrieval_scores,
)
from hwdag_lab.eval.schema import Paragraph, Question, Record

SPANS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 25)).map(lambda p: Span(p[0], p[0] + p[1])),
    max_size=6,
)


def question(
    evidence: Iterable[Span] = (),
    sentences: Iterable[Span] = (),
    sets: Iterable[Iterable[Span]] = (),
) -> Question:
    """Return the spans as the reader of the data would leave them: ascending and distinct."""
    return Question(
        "q",
        "Who?",
        ("nobody",),
        evidence=tuple(sorted(set(evidence))),
        evidence_sets=tuple(tuple(sorted(set(one))) for one in sets),
        sentences=tuple(sorted(set(sentences))),
    )


def characters(spans: Iterable[Span]) -> set[int]:
    return {c for span in spans for c in range(span.start, span.end)}


def counted(spans: list[Span], gold: Iterable[Span], share: float) -> list[bool]:
    """Return for each gold span with characters: are enough of them among the returned ones?"""
    returned = characters(spans)
    marks = [[c in returned for c in range(g.start, g.end)] for g in sorted(set(gold)) if len(g)]
    return [sum(mark) / len(mark) >= share for mark in marks]


def brute_force(spans: list[Span], one: Question) -> dict[str, float]:
    rows: list[dict[str, float]] = []
    for gold in one.evidence_sets or (one.evidence,):
        if not characters(gold):
            continue
        touched, half = counted(spans, gold, TOUCHED), counted(spans, gold, HALF)
        returned = characters(spans)
        shared = returned & characters(gold)
        row = {
            "paragraph_touched": sum(touched) / len(touched),
            "paragraph_half": sum(half) / len(half),
            "all_touched": float(all(touched)),
            "all_half": float(all(half)),
            "evidence_precision": len(shared) / len(returned) if returned else 0.0,
        }
        rows.append(row)
    scores = {name: max(row[name] for row in rows) for name in rows[0]} if rows else {}
    if characters(one.sentences):
        found = counted(spans, one.sentences, SENTENCE)
        scores["sentence_recall"] = sum(found) / len(found)
        scores["all_sentences"] = float(all(found))
    return scores


@given(SPANS, SPANS, SPANS, st.lists(SPANS, max_size=3))
@example([Span(0, 5)], [Span(3, 3)], [Span(5, 5)], [])
def test_equals_counting_characters(
    spans: list[Span], evidence: list[Span], sentences: list[Span], sets: list[list[Span]]
) -> None:
    one = question(evidence, sentences, sets)
    assert evidence_scores(spans, one) == brute_force(spans, one)


@given(SPANS, SPANS, SPANS)
def test_more_text_never_lowers_recall(
    spans: list[Span], more: list[Span], evidence: list[Span]
) -> None:
    one = question(evidence, evidence)
    fewer, all_of_it = evidence_scores(spans, one), evidence_scores(spans + more, one)
    for name in fewer.keys() - {"evidence_precision"}:
        assert fewer[name] <= all_of_it[name]


@given(SPANS)
def test_the_gold_text_itself_is_perfect(gold: list[Span]) -> None:
    scores = evidence_scores(gold, question(gold, gold))
    names = {*PARAGRAPH_METRICS, *SENTENCE_METRICS} if characters(gold) else set()
    assert scores == dict.fromkeys(names, 1.0)


@pytest.mark.parametrize(
    ("returned", "touched", "half", "sentence"),
    [
        (0, 0, 0, 0),
        (9, 0, 0, 0),
        (10, 1, 0, 0),
        (49, 1, 0, 0),
        (50, 1, 1, 0),
        (79, 1, 1, 0),
        (80, 1, 1, 1),
    ],
)
@pytest.mark.parametrize("scale", [1, 3, 7, 1001])
def test_thresholds_are_met_by_exactly_their_share(
    returned: int, touched: float, half: float, sentence: float, scale: int
) -> None:
    gold = Span(500, 500 + 100 * scale)
    scores = evidence_scores([Span(500, 500 + returned * scale)], question([gold], [gold]))
    assert scores["paragraph_touched"] == scores["all_touched"] == touched
    assert scores["paragraph_half"] == scores["all_half"] == half
    assert scores["sentence_recall"] == scores["all_sentences"] == sentence


def test_a_small_world() -> None:
    """Two gold paragraphs [0, 100) and [200, 300); 60 of the first and 10 of the second come back.

    90 characters are returned once overlaps are merged, 70 of them inside gold paragraphs.
    """
    spans = [Span(40, 100), Span(60, 90), Span(190, 210), Span(150, 160)]
    one = question([Span(0, 100), Span(200, 300)], [Span(50, 70), Span(195, 215), Span(260, 280)])
    assert evidence_scores(spans, one) == {
        "paragraph_touched": 1.0,
        "paragraph_half": 0.5,
        "all_touched": 1.0,
        "all_half": 0.0,
        "evidence_precision": 70 / 90,
        "sentence_recall": 1 / 3,
        "all_sentences": 0.0,
    }


def test_equal_words_elsewhere_do_not_count() -> None:
    text = "Paris is in France. Paris is in France."
    copy = Span(20, len(text))
    assert text[:19] == text[copy.start : copy.end]
    assert evidence_scores([copy], question([Span(0, 19)]))["paragraph_touched"] == 0


def test_each_metric_is_the_best_over_the_annotators() -> None:
    """The short set is found whole, the long one fills more of the returned text."""
    short, long = (Span(0, 10),), (Span(10, 100), Span(500, 600))
    scores = evidence_scores([Span(0, 100)], question(short + long, sets=[long, (), short]))
    assert scores["all_half"] == 1
    assert scores["evidence_precision"] == 0.9


def test_what_is_not_there_is_not_measured() -> None:
    gold = [Span(0, 4)]
    assert evidence_scores(gold, question()) == {}
    assert evidence_scores(gold, question(sets=[(), ()])) == {}
    assert tuple(evidence_scores([], question(gold))) == PARAGRAPH_METRICS
    assert tuple(evidence_scores([], question(sentences=gold))) == SENTENCE_METRICS
    assert set(evidence_scores([], question(gold, gold)).values()) == {0.0}


def test_any_iterable_of_spans_is_taken_once() -> None:
    gold = [Span(0, 4), Span(9, 12)]
    assert set(evidence_scores(iter(gold), question(gold, gold)).values()) == {1.0}


def test_long_documents_cost_no_more_than_their_spans() -> None:
    """A billion characters, two hundred returned spans, two hundred gold ones."""
    size = 5_000_000
    spans = [Span(size * i, size * i + size // 2) for i in range(200)]
    gold = [Span(size * i, size * (i + 1)) for i in range(200)]
    start = process_time()
    scores = evidence_scores(spans, question(gold))
    assert process_time() - start < 1
    assert set(scores.values()) == {1.0}


def node(origin: Origin, *sources: Span) -> Node:
    return Node(f"{origin}{sources}", "d", 1, "text", origin, 1, sources)


TEXT = Record("d", "set", "", "x" * 100, (), ())


@pytest.mark.parametrize("origin", ["chunk", "extractive", "compressed"])
def test_text_that_was_cut_from_the_document_is_evidence(origin: Origin) -> None:
    scores = retrieval_scores([node(origin, Span(0, 60))], TEXT, question([Span(0, 100)]))
    assert (scores["paragraph_half"], scores["written_half"]) == (1, 0)


def test_the_sources_of_written_text_were_not_read() -> None:
    """A quarter was read, and the written node rests on the other three."""
    nodes = [node("chunk", Span(0, 25)), node("generated", Span(25, 100))]
    scores = retrieval_scores(nodes, TEXT, question([Span(0, 100)]))
    assert (scores["paragraph_touched"], scores["paragraph_half"]) == (1, 0)
    assert scores["written_half"] == 1
    assert "written_half" not in retrieval_scores(nodes, TEXT, question())


def test_recall_counts_the_first_passages_that_a_ranking_meets() -> None:
    """Passages of ten characters; a node that holds three of them counts for each in turn."""
    paragraphs = tuple(Paragraph(f"p{i}", "", Span(10 * i, 10 * i + 10)) for i in range(10))
    record = Record("d", "set", "", "x" * 100, paragraphs, ())
    gold = question([Span(20, 30), Span(70, 80), Span(90, 100)])
    ranked = [
        node("generated", Span(70, 80)),  # was not read
        node("chunk", Span(22, 25)),
        node("chunk", Span(26, 30)),  # the same passage
        node("chunk", Span(35, 61)),
        node("extractive", Span(90, 100)),
        node("chunk", Span(70, 80)),
    ]
    recall = passage_recall(ranked, record, gold)
    assert recall == {"recall_at_2": 1 / 3, "recall_at_5": 1 / 3}
    assert passage_recall(ranked[1:3] + ranked[4:], record, gold)["recall_at_5"] == 1
    assert passage_recall([], record, gold) == {"recall_at_2": 0, "recall_at_5": 0}
    assert passage_recall(ranked, TEXT, gold) == {}
    assert passage_recall(ranked, record, question()) == {}
    sets = question([Span(20, 30)], sets=[[Span(90, 100)], [Span(20, 30)]])
    assert passage_recall(ranked, record, sets)["recall_at_2"] == 1
