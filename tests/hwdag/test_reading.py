"""The text that a reader sees: sections together, headings once, tokens counted as they will be read."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import question_of

from hwdag.config import NEVER, SearchConfig
from hwdag.errors import IndexMismatch
from hwdag.index import HWDAGIndex
from hwdag.search.budget import Sections, with_headings
from hwdag.search.reading import MIN_NODES_TO_FILTER, NEAR_BEST, by_section
from hwdag.search.table_rows import dominating_rows, matching_rows
from hwdag.text.headings import in_context, parted, searched_text
from hwdag.text.sentences import sentences
from hwdag.text.tables import markdown_with_headers
from hwdag.types import Document, Node, Span, Step
from hwdag_lab.scripted import ScriptedLM

NODES = st.lists(
    st.builds(
        lambda document, heading, start, origin, text: Node(
            f"{document}{start}", document, 1, text, origin, 1, (Span(start, start + 1),), heading
        ),
        st.sampled_from("ab"),
        st.sampled_from(["", "Harbour", "Ferry"]),
        st.integers(0, 30),
        st.sampled_from(["chunk", "extractive", "generated"]),
        st.sampled_from(["It is old.", "The Harbour is old.", "Ferry and Harbour."]),
    ),
    max_size=12,
)


@given(NODES)
def test_sections_are_read_whole_in_the_order_of_their_document(nodes):
    order = [i for i, _ in by_section(nodes)]
    assert sorted(order) == list(range(len(nodes)))
    section = [
        (nodes[i].document_id, "" if nodes[i].origin == "generated" else nodes[i].heading)
        for i in order
    ]
    starts = [nodes[i].sources[0].start for i in order]
    runs = [i for i in range(len(order)) if not i or section[i] != section[i - 1]]
    assert len(runs) == len(set(section))
    assert all(a <= b or i + 1 in runs for i, (a, b) in enumerate(pairwise(starts)))
    firsts = [
        min(i for i, node in zip(order, section, strict=True) if node == section[run])
        for run in runs
    ]
    assert firsts == sorted(firsts)


def test_a_heading_appears_once_before_texts_that_lack_it():
    def node(text, heading, origin="chunk"):
        return Node(text, "d", 1, text, origin, 1, (Span(0, 1),), heading)

    nodes = [
        node("It is old.", "Harbour"),
        node("It is deep.", "Harbour"),
        node("The Ferry is old.", "Ferry"),
        node("It is deep.", "Harbour"),
        node("The harbour is deep.", "Ferry", "generated"),
    ]
    assert with_headings(nodes) == [
        "Harbour: It is old.",
        "It is deep.",
        "The Ferry is old.",
        "Harbour: It is deep.",
        "The harbour is deep.",
    ]


class Noted(ScriptedLM):
    """A reader that notes the parts of texts whose attention is asked for."""

    def session(self, *args, **options):
        session = super().session(*args, **options)
        decode, self.asked = session.decode, []

        def noting(*, spans=(), **more):
            self.read = session.texts
            self.asked = [session.texts[node][span.start : span.end] for node, span in spans]
            return decode(spans=spans, **more)

        session.decode = noting
        return session


@pytest.mark.parametrize("confidence", [NEVER, 0.5])
def test_attention_is_asked_for_sentences_without_their_headings(confidence):
    text = "It is old. Clara Holm built it.\n\n# Ferry\n\nIt is new. It is slow."
    reader = Noted(p_yes=[0.0], writes=True)
    harbour = Document("one", text, title="Harbour")
    models = {"reader": reader, "embedder": "hashing-64"}
    index = HWDAGIndex.from_documents([harbour], method="evidence", **models)
    answer = index.answer("Who built it?", config=SearchConfig(confidence=confidence))
    assert any(sentence.startswith("Harbour: ") for sentence in reader.read)
    expected = {text[span.start : span.end] for span in sentences(text)} - {"# Ferry"}
    assert {*reader.asked} == {one.text for one in answer.attended} == expected


def test_a_small_reader_reads_what_is_near_the_best_and_the_rest_stays_a_step():
    first = "Clara Holm built the harbour of the town. The harbour has two walls of stone."
    others = ("ferries", "gulls", "nets", "crates", "ropes")
    text = f"{first} " + " ".join(f"Many {other} sleep here in winter." for other in others)
    models = {"reader": Noted(), "embedder": "hashing-64"}
    index = HWDAGIndex.from_documents([Document("one", text)], method="evidence", **models)
    question = "Who built the harbour?"
    found, answer = index.search(question), index.answer(question)
    steps = answer.retrieval.steps
    assert [step.node for step in steps] == [step.node for step in found.steps]
    least = NEAR_BEST * max(step.score for step in found.steps)
    is_read = [step.score >= least for step in steps]
    near = [step.node.text for step, read in zip(steps, is_read, strict=True) if read]
    assert 0 < len(near) < len(steps) > MIN_NODES_TO_FILTER
    assert {*index.reader.read} == {*near} == {one.text for one in answer.attended}
    assert [step.relevance is not None for step in steps] == is_read
    session = index.reader.sessions[-1]
    assert answer.retrieval.context_tokens == sum(map(session.cost, index.reader.read))
    sent = []
    index.answer(question, answerer=lambda prompt: sent.append(prompt) or "Nobody")
    assert all(step.node.text in sent[0] for step in steps)


def test_a_small_reader_reads_all_of_a_short_text():
    text = "The harbour has stone. The ferry sleeps in winter. Nobody swims at noon when it rains."
    models = {"reader": Noted(), "embedder": "hashing-64"}
    index = HWDAGIndex.from_documents([Document("one", text)], method="evidence", **models)
    steps = index.answer("Which stone has the harbour?").retrieval.steps
    assert min(step.score for step in steps) < NEAR_BEST * max(step.score for step in steps)
    assert {*index.reader.read} == {step.node.text for step in steps}


PRICES = """# Garden

| Plant | Height | Price |
| ----- | ------ | ----- |
| Red beech hedge | 80 cm | 2.10 |
| Green beech hedge | 90 cm | 1.90 |
| Beech tree | 3 m | 61.00 |
| Hawthorn | 60 cm | 1.44 |

The beech is planted in March.

# Kitchen

| Tool | Price |
| ---- | ----- |
| Beech spoon | 4.00 |
| Steel spoon | 6.00 |
"""


@pytest.mark.parametrize(
    ("question", "left_out"),
    [
        (
            "What is the price of a red beech hedge?",
            {"Green beech", "Beech tree", "Hawthorn", "Steel"},
        ),
        (
            "Which is cheaper, the hawthorn or the red beech?",
            {"Green beech", "Beech tree", "Steel"},
        ),
        ("How high is a beech hedge?", {"Beech tree", "Hawthorn", "Steel"}),
        ("What is the price of a steel spoon?", {"Beech spoon"}),
        ("Which plant of the garden is the cheapest?", set()),
        ("¿Cuánto es el precio de la hawthorn?", {"Red beech", "Green beech", "Beech tree"}),
    ],
)
def test_rows_are_left_out_if_another_of_their_table_matches_more(question, left_out):
    for text in (PRICES, markdown_with_headers(PRICES)):
        documents, reader = [Document("one", text)], Noted()
        index = HWDAGIndex.from_documents(documents, reader=reader, embedder="hashing-64")
        steps = index.search(question).steps
        texts = [step.node.text for step in steps]
        assert sum("| " in text for text in texts) == 6  # without the lines of names
        read = [step.node.text for step in matching_rows(question_of(question).asked_words, steps)]
        assert read == [text for text in texts if not any(name in text for name in left_out)]


TEAMS = ("red", "green", "blue", "black", "white")


@pytest.mark.parametrize("method", ["evidence", "hwdag"])
def test_of_the_rows_of_a_table_those_that_match_more_come_first(method):
    rows = [
        f"| {team} team | {year} | {5 * year} |" for year in range(2018, 2022) for team in TEAMS
    ]
    text = "\n".join(["# Points", "", "| Team | Year | Points |", "| -- | -- | -- |", *rows])
    models = {"reader": ScriptedLM(writes=True), "embedder": "hashing-16"}
    index = HWDAGIndex.from_documents([Document("one", text)], method=method, **models)
    for question, first in (
        ("How did the blue team do in 2021?", 1),
        ("Who won in 2019, the red or the white team?", 2),
        ("How did the green team do?", 4),
    ):
        config = SearchConfig(confidence=NEVER)  # else every node is read before the next one
        steps = index.search(question, config=config).steps
        nodes = [step.node for step in steps if step.node.level == 1]
        better = dominating_rows(question_of(question).asked_words, nodes)
        assert len(better) == len(rows) - first
        assert all(other < row for row, others in better.items() for other in others)
        assert all(nodes[i].text.startswith("| ") for i in better)


@pytest.mark.parametrize("tokens", [60, 200])
def test_rows_that_match_more_come_first_only_if_they_fit(tokens):
    long = "| blue team | " + "2021 " * 80 + "|"
    text = "\n".join(["| Team | Year |", "| -- | -- |", "| red team | 2020 |", long])
    models = {"reader": ScriptedLM(), "embedder": "hashing-16"}
    index = HWDAGIndex.from_documents([Document("one", text)], method="evidence", **models)
    config = SearchConfig(token_budget=tokens)
    texts = [
        step.node.text for step in index.search("Where was the blue team?", config=config).steps
    ]
    assert any("red" in text for text in texts)
    assert any("blue" in text for text in texts) == (tokens > 100)


@given(NODES)
def test_only_rows_are_left_out_for_what_they_match(nodes):
    steps = [Step(i, node, False, 0, 0) for i, node in enumerate(nodes)]
    assert matching_rows({"old", "ferry", "harbour"}, steps) == steps


@given(NODES)
def test_tokens_are_counted_as_they_will_be_read(nodes):
    sections, total = Sections(len), 0
    for node in nodes:
        bound = sections.cost(node)
        added = sections.add(node)
        assert added <= bound
        total += added
    read = [text for _, text in by_section(nodes)]
    assert total == sum(map(len, read))


class Counting(ScriptedLM):
    """A reader that notes the texts whose tokens a search counts."""

    def __init__(self, tokenizer):
        super().__init__(p_yes=[0.0])
        self.tokenizer_fingerprint, self.counted = tokenizer, []

    def count_lines(self, texts):
        self.counted += texts
        return super().count_lines(texts)


def test_what_was_counted_when_it_was_built_is_not_counted_again(tmp_path):
    text = "It is old. Clara Holm built the harbour.\n\n# Ferry\n\nThe ferry is new. It is slow."
    documents = [Document(name, text, title=f"Harbour {name}") for name in "ab"]
    path, builder = tmp_path / "notes.hwdag", Counting("one")
    models = {"embedder": "hashing-64", "path": path}
    HWDAGIndex.from_documents(documents, reader=builder, **models).close()
    found = []
    for tokenizer in ("one", "another"):
        reader = Counting(tokenizer)
        with HWDAGIndex.load(path, reader=reader) as index:
            nodes = [node for graph in index.graphs.values() for node in graph.nodes]
            found.append(
                index.search("Who built the harbour?", config=SearchConfig(token_budget=30))
            )
        assert bool(reader.counted) == (tokenizer == "another")
    assert found[0].steps and found[0] == found[1]
    for node in nodes:
        lines = [node.text, in_context(parted(node.heading)[1], node.text), searched_text(node)]
        assert list(node.line_tokens) == ScriptedLM().count_lines(lines)
        assert {*lines} <= {*builder.counted}


def test_a_reader_with_another_tokenizer_does_not_extend_an_index(tmp_path):
    path = tmp_path / "notes.hwdag"
    models = {"embedder": "hashing-64", "path": path}
    HWDAGIndex.from_documents(["The ferry."], reader=Counting("one"), **models).close()
    index = HWDAGIndex.load(path, reader=Counting("another"))
    with index, pytest.raises(IndexMismatch, match="tokenizer"):
        index.insert(["The harbour."])
