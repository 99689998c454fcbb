"""Questions about the whole of the documents: their detection, the nodes read, and the answer."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from test_corpus import CHOICES, SEEDS, addresses, history

from hwdag import Document, HWDAGIndex, Scope, SearchConfig
from hwdag.answers.quoted import LEAST_QUOTED, MOST_QUOTED
from hwdag.corpus.view import View
from hwdag.embedding.default import default_embedder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError
from hwdag.search import find as finding
from hwdag.search.overview import SHARE
from hwdag.search.overview_questions import asks_for_overview, asks_for_report
from hwdag.text.prompts import OVERVIEW, SearchPrompts
from hwdag.text.tables import separated_lines
from hwdag_lab.scripted import ScriptedLM

TEST = Path(__file__).parents[2] / "benchmarks" / "overviews" / "test.jsonl"
WHOLE = "Summarize everything."
SENTENCES = (
    "The {0} was built by Ada in the year 1871. It has {1} wheels, a yard and a large white door. "
    "Nobody has lived there since the flood of 1902. Its roof is red, and many birds nest under it."
)
FIRST = "The mill{} was built by Ada in the year 1871."


def documents(count, sentences=SENTENCES):
    return [Document(f"d{i}", sentences.format(f"mill{i}", i)) for i in range(count)]


@pytest.fixture
def told(monkeypatch):
    """One question is about the whole, whatever the embedder."""
    whole = HashingEmbedder().embed_query(WHOLE)
    monkeypatch.setattr(
        finding, "asks_for_overview", lambda embedder, vector: np.array_equal(vector, whole)
    )


def index(docs, **options):
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder(), "method": "evidence"}
    return HWDAGIndex.from_documents(docs, **models | options)


@given(SEEDS, CHOICES)
def test_leaves_come_in_turn(seed, choices):
    for _, corpus in history(seed, choices):
        allowed = np.array([i % 3 > 0 for i in range(len(corpus))])
        for visible in (None, allowed):
            view = View.of(corpus, visible)
            by_document: dict[str, list[int]] = {}
            for i in np.flatnonzero(view.mask).tolist():
                [node] = corpus.fetch([i])
                if node.level == 1:
                    by_document.setdefault(node.document_id, []).append(i)
            longest = max(map(len, by_document.values()), default=0)
            expected = [
                leaves[turn]
                for turn in range(longest)
                for leaves in by_document.values()
                if turn < len(leaves)
            ]
            found, count = view.in_turn()
            assert addresses(corpus, found) == addresses(corpus, expected)
            assert count == len(by_document)


@pytest.mark.parametrize("reader", [ScriptedLM(), ScriptedLM(writes=True)])
def test_documents_begin_in_turn_within_their_share(told, reader):
    with index(documents(3), reader=reader) as made:
        found = made.search(WHOLE, config=SearchConfig(token_budget=120))
    texts = [step.node.text for step in found.steps]
    assert texts[:4] == [
        *map(FIRST.format, range(3)),
        "It has 0 wheels, a yard and a large white door.",
    ]
    begun = reader.count_lines(texts[:4])
    assert sum(begun) <= SHARE * 120
    assert len({step.node.id for step in found.steps}) == len(texts)
    assert found.context_tokens <= 120
    assert "half of the budget" in found.notes[0]


def test_of_many_documents_evenly_spaced_ones_are_begun(told):
    with index(documents(40)) as made:
        steps = made.search(WHOLE, config=SearchConfig(token_budget=80)).steps
    # half of the budget is for three sentences of 13 tokens
    assert [step.node.document_id for step in steps[:3]] == ["d0", "d20", "d39"]


@pytest.mark.parametrize(("count", "budget"), [(2, 500), (40, 80)])
def test_documents_that_are_left_out_are_counted(told, count, budget):
    with index(documents(count)) as made:
        found = made.search(WHOLE, config=SearchConfig(token_budget=budget))
    left = count - len({step.node.document_id for step in found.context})
    said = f"{left} of {count} documents are left out"
    assert (said in found.notes[0]) == (left > 0) == (count == 40)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What was discussed this year?", True),
        ("What was decided at all meetings", True),
        ("Was wurde im letzten Jahr beschlossen?", True),
        ("What happened in 1999?", False),
        ("What was decided at the meeting of 4 March 2024?", False),
        ("What was decided this year about the roof?", False),
    ],
)
def test_a_question_asks_for_a_report(question, expected):
    assert asks_for_report(question) is expected


def test_a_report_has_the_best_of_every_document_and_counts_the_others():
    docs = [
        Document(
            f"m{i}", f"# Board {i}\n\nIt was decided this year to paint door {i}. Tea was served."
        )
        for i in range(9)
    ]
    with index(docs) as made:
        whole = made.answer("What was decided this year?", config=SearchConfig(token_budget=500))
        part = made.answer("What was decided this year?", config=SearchConfig(token_budget=60))
    lines = whole.text.splitlines()
    assert len(lines) == 9 and all("paint door" in line for line in lines)
    assert not any("left out" in note for note in whole.notes)
    shown = {step.node.document_id for step in part.retrieval.context}
    assert f"{9 - len(shown)} of 9 documents are left out" in part.notes


def test_no_document_begins_with_its_bare_heading_or_the_names_of_its_columns(told):
    table = "\n".join(separated_lines("Part,Stock\n" + "pad,4\nplug,5\n" * 3))
    heading = (
        "The doors of the old house and of all its sheds\n\nThe first door is red and very wide."
    )
    with index([Document("t", table), Document("h", heading)]) as made:
        texts = [step.node.text for step in made.search(WHOLE).steps]
    assert "| pad, Stock: 4" in texts and "The first door is red and very wide." in texts
    assert not {"| Part, Stock", heading.split("\n")[0]} & set(texts)


def test_a_first_leaf_that_is_too_long_is_left_out(told):
    docs = [Document("log", "word " * 200), *documents(2)]
    with index(docs) as made:
        steps = made.search(WHOLE, config=SearchConfig(token_budget=90)).steps
    assert [step.node.document_id for step in steps[:2]] == ["d0", "d1"]


def test_only_documents_in_scope_are_begun(told):
    with index(documents(3)) as made:
        steps = made.search(WHOLE, scope=Scope(document_ids={"d1"})).steps
    assert {step.node.document_id for step in steps} == {"d1"}
    assert steps[0].node.text == FIRST.format(1)


def test_a_reader_that_writes_is_asked_for_sentences(told, monkeypatch):
    asked, session = [], ScriptedLM.session

    def noting(self, question, *, prompts, heads, max_new_tokens):
        asked.append((question, prompts.answer, max_new_tokens))
        return session(self, question, prompts=prompts, heads=heads, max_new_tokens=max_new_tokens)

    monkeypatch.setattr(ScriptedLM, "session", noting)
    with index(documents(2), reader=ScriptedLM(writes=True)) as made:
        answer = made.answer(WHOLE)
        made.answer("Who built mill1?")
    (_, overview, longest), (_, plain, usual) = asked
    assert (overview, plain) == (SearchPrompts().overview, SearchPrompts().answer)
    assert overview == OVERVIEW
    assert longest > usual
    assert answer.found is answer.confidence is None
    assert answer.text == answer.reply != ""
    assert answer.citations


def test_a_reader_is_not_asked_whether_the_beginnings_are_enough(told):
    """And every row of a table counts, whatever words of the question another one has."""
    table = "# Stock\n\n| Name | Mills |\n| -- | -- |\n| everything | 3 |\n| mill | 4 |\n"
    docs = [Document("table", table), *documents(2)]
    with index(docs, method="hwdag", reader=ScriptedLM(p_yes=[0.0] * 99)) as made:
        stream = made.stream(WHOLE, config=SearchConfig(confidence=0.5))
        found = made.search(WHOLE, config=SearchConfig(confidence=0.5))
    assert stream.evidence.says_yes
    assert {step.node.text for step in stream.retrieval.steps} == {
        step.node.text for step in found.steps
    }
    assert any("everything" in step.node.text for step in found.steps)


@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_a_smaller_reader_quotes_how_the_documents_begin(told, count):
    docs = documents(count)
    with index(docs) as made:
        answer = made.answer(WHOLE)
        pieces = "".join(made.stream(WHOLE))
    lines = answer.text.splitlines()
    assert lines[0] == ("- d0: " if count > 1 else "- ") + FIRST.format(0)
    assert len(lines) == max(LEAST_QUOTED, min(count, MOST_QUOTED))
    assert pieces == answer.text
    sources = {document.id: document.text for document in docs}
    for citation in answer.citations:
        assert sources[citation.document_id][citation.span.start : citation.span.end] in answer.text
    assert len(answer.citations) == len(lines)
    assert sum(citation.weight for citation in answer.attended) == pytest.approx(1)
    assert "too small" in answer.notes[0]
    assert (f"{min(count, MOST_QUOTED)} documents" in answer.notes[0]) == (count > 1)


def test_an_answerer_is_given_the_beginnings(told):
    prompts = []

    def answerer(prompt):
        prompts.append(prompt)
        return "Mills [1]."

    with index(documents(3)) as made:
        answer = made.answer(WHOLE, answerer=answerer)
    assert answer.text == "Mills [1]."
    assert answer.citations[0].text == FIRST.format(0)
    assert FIRST.format(2) in prompts[0]


@pytest.mark.parametrize("method", ["garlic", "pecan"])
def test_the_papers_know_no_such_questions(told, method):
    reader = ScriptedLM(writes=True)
    with index(documents(2), reader=reader, method=method) as made:
        assert "half of the budget" not in made.search(WHOLE).notes[0]


def test_a_graph_is_not_walked_and_no_point_is_read(told):
    with index(documents(3), reader=ScriptedLM(writes=True), method="hwdag") as made:
        assert any(graph.height > 1 for graph in made.graphs.values())
        found = made.search(WHOLE)
        walked = made.search("Who built mill1?")
    assert {step.node.level for step in found.steps} == {1}
    assert "edges" in walked.notes[0]


@pytest.mark.parametrize(
    ("question", "is_whole"), [("Sum it up.", False), ("Sum the report up.", True)]
)
def test_what_follows_other_questions_must_name_the_documents(monkeypatch, question, is_whole):
    monkeypatch.setattr(finding, "asks_for_overview", lambda embedder, vector: True)
    with index(documents(2)) as made:
        plain = made.search(question)
        found = made.search(question, history=[("Who built mill1?", "Ada")])
    assert ("half of the budget" in found.notes[0]) == is_whole
    if is_whole:
        assert [step.node for step in found.steps] == [step.node for step in plain.steps]


def test_an_embedding_of_another_length_is_the_error_that_it_always_was():
    with HWDAGIndex.from_documents(documents(1), method="evidence") as made:
        with pytest.raises(InputError):
            made.search("What is this about?", query_vector=[0.5] * 3)
        assert made.search("What is this about?", query_vector=[0.0] * 384).steps


@cache
def embedded(question):
    return default_embedder().embed_query(question)


@pytest.mark.model
def test_the_test_questions_are_classified():
    """As `benchmarks/overviews.py` reports it."""
    rows = [json.loads(line) for line in TEST.read_text("utf-8").splitlines()]
    told = {kind: [] for kind in ("overview", "specific")}
    for row in rows:
        question = row["question"]
        told[row["kind"]].append(asks_for_overview(default_embedder(), embedded(question)))
    assert np.mean(told["overview"]) > 0.9
    assert np.mean(told["specific"]) < 0.02


def test_overviews_need_the_default_embedder_and_english():
    vector = embedded("What is this document about?")
    assert asks_for_overview(default_embedder(), vector)
    assert not asks_for_overview(HashingEmbedder(384), vector)
    german = embedded("Worum geht es in diesem Dokument?")
    assert not asks_for_overview(default_embedder(), german)


def test_the_last_document_may_be_a_table_without_rows(told):
    found = index([*documents(1), Document("empty", "| Name | Price |\n|---|---|")]).search(WHOLE)
    assert {step.node.document_id for step in found.steps} == {documents(1)[0].id, "empty"}
