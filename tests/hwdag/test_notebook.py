"""A notebook on the way: what the reader noted joins the question in what is looked for next."""

import numpy as np
import pytest
from tiny import model, tokenizer
from worlds import random_graph, random_vectors

from hwdag.config import Scoring, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.scripted import ScriptedLM
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import Frontier
from hwdag.search.notebook import NOTE_TOKENS, Notebook
from hwdag.search.prior import prior
from hwdag.search.references import References
from hwdag.text.prompts import Prompts, SearchPrompts
from hwdag.trace.render import notebook_lines, retrieval_json
from hwdag.types import Document

QUESTION = "Where was the colleague of Ada Byron born?"
FIRST = "The colleague of Ada Byron, as people of her town know by now, was a man named Charles Babbage."
SECOND = "Charles Babbage came to the world near the river in Walworth."
TEXT = f"""
No colleague has more patience than a cook whose soup is not ready yet.
{FIRST}
Steam engines had their origin in a mine whose pumps failed year after year.
{SECOND}
"""
BUDGET = 40
"""Room for two sentences; the first takes more than half of it."""

PROMPTS = SearchPrompts()
OPTIONS = {"prompts": PROMPTS, "heads": "all", "max_new_tokens": 8}


def searched(notebook: int, budget: int, lm: ScriptedLM | None = None, stride=1, **options):
    """A walk by likeness alone."""
    config = SearchConfig(
        token_budget=budget,
        progress="budget",
        stride=stride,
        initial_share=0.0,
        scoring=Scoring(attention=0, mentions=0, echoes=0, sparse=1),
        notebook=notebook,
    )
    with HWDAGIndex(reader=lm or ScriptedLM(), embedder=HashingEmbedder()) as index:
        index.insert([Document("d", TEXT)])
        return index.search(QUESTION, config=config, **options)


def texts(retrieval) -> list[str]:
    return [step.node.text for step in retrieval.steps]


def test_a_note_brings_the_second_hop():
    """In a budget of two sentences the second hop, which shares no word with the question."""
    first, second = texts(searched(0, BUDGET))
    assert (first, second) != (FIRST, SECOND)
    found = searched(1, BUDGET)
    assert texts(found) == [FIRST, SECOND]
    assert found.notebook == (FIRST,)
    assert [step.note for step in found.steps] == [0, 1]


@pytest.mark.parametrize("stride", [1, 4])
def test_notes_are_written_after_equal_parts_of_the_budget(stride):
    """As soon as they are due, however many nodes are read at a time."""
    lm = ScriptedLM()
    found = searched(1, 80, lm, stride)
    [session] = lm.sessions
    used = np.cumsum([session.cost(step.node.text) for step in found.steps])
    assert [step.note for step in found.steps[1:]] == [int(used[i] >= 40) for i in range(3)]
    assert found.steps[0].note == 0


def test_no_more_notes_than_asked_for_and_none_twice():
    found = searched(3, 80)
    notes = [step.note for step in found.steps]
    assert notes == sorted(notes)
    assert len(found.notebook) == notes[-1] == len(set(found.notebook)) <= 3


def test_the_notebook_is_in_the_trace():
    found = searched(1, BUDGET)
    shown = retrieval_json(found)
    assert shown["notebook"] == list(found.notebook)
    assert [step.get("note") for step in shown["steps"]] == [None, 1]
    assert list(notebook_lines(found)) == [f"noted before #3: {found.notebook[0]}"]
    plain = retrieval_json(searched(0, BUDGET))
    assert "notebook" not in plain
    assert all("note" not in step for step in plain["steps"])


def test_nodes_beyond_the_walk_are_ranked_by_the_notes_too():
    found = searched(1, BUDGET, k=4)
    assert [step.note for step in found.beyond] == [1] * len(found.beyond) != []


@pytest.mark.parametrize("scoring", [Scoring(), Scoring.garlic()], ids=["ours", "garlic"])
def test_turning_changes_the_similarity_and_nothing_else(scoring):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        graph = random_graph(rng, chunks=10, levels=3)
        corpus = Corpus.of([graph], [random_vectors(rng, len(graph))])
        before, after = rng.uniform(0, 1, (2, len(graph)))
        turned, plain = (
            Frontier(
                corpus, before, scoring=scoring, references=References(corpus, QUESTION, scoring)
            )
            for _ in range(2)
        )
        for index in rng.permutation(len(graph))[:4]:
            relevance = float(rng.uniform(0, 1))
            turned.best(lambda indices: [1] * len(indices), 100)
            for one in (turned, plain):
                one.visit(int(index), relevance, graph.nodes[index].text)
        turned.turn(after)
        unread = np.flatnonzero(plain.unread)
        unit = after[unread].sum() if scoring.scale == "share" else after[unread].max()
        expected = {}
        for i in unread.tolist():
            parts, old = turned.parts(i), plain.parts(i)
            assert (parts.attention, parts.reference) == (old.attention, old.reference)
            np.testing.assert_allclose(parts.similarity, scoring.similarity * after[i] / unit)
            expected[i] = parts.attention + parts.similarity + parts.reference
        order = sorted(expected, key=lambda i: -expected[i])
        assert turned.ranking(len(order)).tolist() == order
        assert turned.best(lambda indices: [1] * len(indices), 100, 1) == order[:1]


def test_what_was_read_does_not_set_the_scale_of_what_is_looked_for_next():
    graph = random_graph(np.random.default_rng(1), chunks=4, levels=1)
    corpus = Corpus.of([graph], [random_vectors(np.random.default_rng(1), 4)])
    words = "\n".join([graph.nodes[0].text, graph.nodes[2].text.split()[0]])
    unread = np.array([False, True, True, True])
    found = prior(corpus, words, np.zeros(8, np.float32), Scoring(sparse=1), among=unread)
    assert found[0] == found.min() == 0
    assert found.max() == 1


def test_a_note_leaves_the_cache_as_it_was():
    lm = HuggingFaceLM(model(), tokenizer())
    noted, plain = lm.session("Who?", **OPTIONS), lm.session("Who?", **OPTIONS)
    for node in ("The fox jumps.", "A dog sleeps by the river."):
        found, expected = noted.read([node]), plain.read([node])
        np.testing.assert_array_equal(found.attention, expected.attention)
        assert found.p_yes == expected.p_yes
        before = noted.usage.tokens
        noted.note(PROMPTS.note, max_new_tokens=6)
        assert noted.usage.tokens > before
        assert noted.cached_tokens == plain.cached_tokens
    answers = [s.decode(enough=True, max_new_tokens=6) for s in (noted, plain)]
    assert len({"".join(answer) for answer in answers}) == 1


def test_a_note_is_what_would_be_answered_to_its_prompt():
    lm = HuggingFaceLM(model(seed=3), tokenizer())
    session = lm.session("Who?", **OPTIONS)
    session.read(["The fox jumps."])
    note = session.note(PROMPTS.answer, max_new_tokens=6)
    decoding = session.decode(enough=False, max_new_tokens=6)
    assert "".join(decoding).strip() == note


def test_a_note_before_anything_is_read_and_one_without_room():
    lm = HuggingFaceLM(model(), tokenizer())
    fresh, noted = lm.session("Who?", **OPTIONS), lm.session("Who?", **OPTIONS)
    noted.note(PROMPTS.note, max_new_tokens=3)
    assert noted.read(["The fox."]).p_yes == fresh.read(["The fox."]).p_yes
    before = noted.usage
    assert noted.note("again " * lm.context_tokens, max_new_tokens=3) == ""
    assert noted.usage == before


class _Replies:
    """A session that can do nothing but write the notes of a script."""

    def __init__(self, *replies):
        self.replies = list(replies)

    def note(self, prompt, *, max_new_tokens):
        assert (prompt, max_new_tokens) == (PROMPTS.note, NOTE_TOKENS)
        return self.replies.pop(0)


def notebook_of(session, count, vector=None):
    embedder = HashingEmbedder()
    return Notebook(
        QUESTION,
        embedder.embed_query(QUESTION) if vector is None else vector,
        session=session,
        embedder=embedder,
        config=SearchConfig(notebook=count),
        prompts=PROMPTS,
    )


def test_empty_and_repeated_notes_change_nothing_but_count():
    book = notebook_of(_Replies("", " A\nnote. ", "A note."), 3)
    vector = book.vector
    due, wrote = [], []
    for used in (24, 25, 50, 75, 100):
        due.append(book.is_due(used, 100))
        if due[-1]:
            wrote.append(book.write())
        if book.notes == []:
            np.testing.assert_array_equal(book.vector, vector)
            assert book.query == QUESTION
    assert due == [False, True, True, True, False]
    assert wrote == [False, True, False]
    assert book.notes == ["A note."]
    assert book.query == f"{QUESTION}\nA note."
    mean = vector + HashingEmbedder().embed_query("A note.")
    np.testing.assert_allclose(book.vector, mean / np.linalg.norm(mean), atol=1e-6)


def test_the_length_of_a_given_vector_is_no_weight():
    embedder, found = HashingEmbedder(), []
    for length in (1, 40):
        session, vector = _Replies("A note.", "Another one."), embedder.embed_query(QUESTION)
        book = notebook_of(session, 2, length * vector)
        assert book.write() and book.write()
        found.append(book.vector)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


@pytest.mark.parametrize("length", [0, 1])
def test_notes_without_a_direction_leave_that_of_the_question(length):
    """A note without words has the zero vector; so has a question, in a script that is unknown."""
    vector = length * HashingEmbedder().embed_query(QUESTION)
    book = notebook_of(_Replies("..."), 1, vector)
    assert book.write()
    np.testing.assert_allclose(book.vector, vector, atol=1e-7)


def test_no_notes_are_no_cost_and_need_nothing_of_the_session():
    book = notebook_of(object(), 0)
    assert not any(book.is_due(used, 100) for used in range(101))
    assert not book.write()


def test_sessions_that_cannot_write_are_told_so_before_anything_is_read():
    with pytest.raises(InputError, match=r"cannot write notes; .* set notebook=0"):
        notebook_of(object(), 1)


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_a_number_of_notes_is_a_whole_number(value):
    with pytest.raises(InputError, match="notebook must be a whole number of at least 0"):
        SearchConfig(notebook=value)


def test_the_prompt_of_notes_is_replaceable_and_not_empty():
    prompts = Prompts(search=SearchPrompts(note="What is missing?"))
    lm, asked = ScriptedLM(), []
    with HWDAGIndex(reader=lm, embedder=HashingEmbedder(), prompts=prompts) as index:
        index.insert([Document("d", TEXT)])
        config = SearchConfig(token_budget=BUDGET, progress="budget", notebook=1, stride=1)
        found = index.search(QUESTION, config=config)
        asked.append(found.usage.tokens)
    with HWDAGIndex(reader=lm, embedder=HashingEmbedder()) as index:
        index.insert([Document("d", TEXT)])
        asked.append(index.search(QUESTION, config=config).usage.tokens)
    counts = lm.count_tokens(["What is missing?", SearchPrompts().note])
    assert asked[1] - asked[0] == counts[1] - counts[0]
    with pytest.raises(InputError, match="the note prompt"):
        SearchPrompts(note=" ")


@pytest.mark.parametrize("progress", ["head_mass", "calibrated"])
def test_a_controller_was_not_fitted_to_walks_with_notes(progress):
    with pytest.raises(InputError, match="and notebook 0; got 'auto', 'none' and 1"):
        SearchConfig(progress=progress, notebook=1)
