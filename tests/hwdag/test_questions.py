"""Questions that nodes answer, embedded beside them."""

import numpy as np
import pytest

from hwdag.building.questions import QUESTIONS
from hwdag.config import BuildConfig, Scoring, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexMismatch, InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.scripted import ScriptedLM, first_sentences
from hwdag.search.corpus import Corpus
from hwdag.store.integrity import verify
from hwdag.types import Document

TEXT = """
Soup is made of water, of carrots, and of a great deal of patience.
The tower of the harbor was lit for the first time in the year 1871.
Amber bridges rot when nobody paints them in the spring of every year.
"""
QUESTION = "How old is our lighthouse?"
BARE = SearchConfig(
    token_budget=18,
    progress="budget",
    stride=1,
    initial_share=0.0,
    scoring=Scoring(attention=0, mentions=0, echoes=0, sparse=0),
)
"""By embeddings alone, room for one sentence."""


def asked(prompt: str) -> str:
    """One question about the tower, two about anything else."""
    text = prompt.partition("Text:\n")[2]
    if "tower" in text:
        return "* How old is our lighthouse?"
    return f"* What about {text.split()[0]}?\n* Who knows {text.split()[-1]}?"


def index_of(
    questions: int, path=None, writer: ScriptedLM | None = None, text=TEXT, **options
) -> HWDAGIndex:
    """Extractive points, and a writer that is asked for questions alone."""
    writer = writer or ScriptedLM(name="writer", reply=asked)
    return HWDAGIndex.from_documents(
        [Document("d", text)],
        reader=ScriptedLM(),
        writer=writer if questions else None,
        embedder=HashingEmbedder(64),
        config=BuildConfig(points="extractive", questions=questions, **options),
        path=path,
    )


def first(index: HWDAGIndex) -> str:
    return index.search(QUESTION, config=BARE).steps[0].node.text


def test_a_question_finds_a_node_that_shares_no_word_with_it():
    with index_of(0) as without, index_of(2) as with_questions:
        assert "tower" not in first(without)
        assert "tower" in first(with_questions)


def test_rows_hold_the_text_and_its_questions_filled_up_with_the_text():
    embedder = HashingEmbedder(64)
    with index_of(2) as index:
        entry = index.entries["d"]
        for node, row in zip(entry.graph.nodes, entry.vectors.reshape(-1, 3, 64), strict=True):
            text = node.text
            expected = [text, *asked(f"Text:\n{text}").replace("* ", "").split("\n"), text][:3]
            np.testing.assert_array_equal(row, embedder.embed(expected))


def test_similarity_is_that_of_the_best_vector():
    embedder = HashingEmbedder(64)
    with index_of(2) as index:
        entry = index.entries["d"]
        query = embedder.embed_query(QUESTION)
        found = Corpus.of([entry.graph], [entry.vectors]).similarity(query)
        rows = entry.vectors.reshape(len(entry.graph), 3, 64)
        expected = np.maximum(np.max(rows @ query, axis=1), 0)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        own = np.ascontiguousarray(rows[:, 0])
        alone = Corpus.of([entry.graph], [own]).similarity(query)
        assert (found >= alone - 1e-6).all()
        assert (found > alone + 0.1).any()


def test_without_questions_nothing_is_written_and_rows_are_embeddings():
    with index_of(0) as index:
        assert index.report.writing.tokens == index.reader.writes == 0
        assert index.entries["d"].vectors.shape[1] == 64


def test_every_text_is_asked_about_once_and_counted():
    writer = ScriptedLM(reply=asked)
    with index_of(2, writer=writer) as index:
        texts = {node.text for node in index.entries["d"].graph.nodes}
        assert writer.writes == len(texts) < len(index.entries["d"].graph)
        prompts = [QUESTIONS.replace("{number}", "2").replace("{text}", text) for text in texts]
        replies = [asked(f"Text:\n{text}") for text in texts]
        counted = sum(writer.count_tokens([*prompts, *replies]))
        assert index.report.writing.tokens == writer.usage.tokens == counted


def test_a_writer_that_asks_nothing_is_told_of_and_changes_nothing():
    writer = ScriptedLM(reply=lambda prompt: "No idea.")
    with index_of(2, writer=writer) as index, index_of(0) as plain:
        [note] = index.report.notes
        assert "were asked about twice" in note
        rows = index.entries["d"].vectors.reshape(-1, 3, 64)
        own = plain.entries["d"].vectors
        np.testing.assert_array_equal(rows, np.stack([own] * 3, axis=1))
        assert first(index) == first(plain)


def test_a_file_keeps_them_through_every_change(tmp_path):
    path = tmp_path / "notes.hwdag"
    with index_of(2, path) as index:
        before = index.entries["d"].vectors
        found = first(index)
    assert verify(path).problems == ()
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder(64)}
    models["writer"] = ScriptedLM(name="writer", reply=asked)
    with HWDAGIndex.load(path, **models) as index:
        assert index.config.questions == 2
        np.testing.assert_array_equal(index.entries["d"].vectors, before)
        assert first(index) == found
        index.insert([Document("e", "Umbrellas keep the rain away from people in the street.")])
        assert first(index) == found
        index.export(tmp_path / "folder")
        index.delete("d")
        assert "tower" not in first(index)
    with HWDAGIndex.from_export(tmp_path / "folder", **models) as copy:
        np.testing.assert_array_equal(copy.entries["d"].vectors, before)
        assert first(copy) == found


def test_an_edited_document_asks_about_what_is_new_alone():
    writer = ScriptedLM(reply=asked)
    with index_of(2, writer=writer) as index:
        before = writer.writes
        new = "A ladder leans on the wall of the palace since nobody took it away."
        index.refresh([Document("d", TEXT + new)])
        texts = {node.text for node in index.entries["d"].graph.nodes}
        assert 0 < writer.writes - before <= 2 < len(texts)
        with index_of(2, text=TEXT + new) as fresh:
            np.testing.assert_array_equal(fresh.entries["d"].vectors, index.entries["d"].vectors)


def test_corpus_layers_have_them_too():
    with index_of(1, corpus_layers=True) as index:
        index.insert([Document(name, TEXT.replace("of", name)) for name in ("e", "f", "g")])
        found = index.search(QUESTION, config=BARE)
        assert "tower" in found.steps[0].node.text


def test_a_corpus_layer_that_got_no_questions_says_so():
    writer = ScriptedLM(reply=lambda prompt: "No idea.")
    with index_of(1, corpus_layers=True, writer=writer) as index:
        report = index.insert([Document(name, TEXT.replace("of", name)) for name in ("e", "f")])
    assert [note.split(":")[0] for note in report.notes] == ["e", "f", "corpus layers"]


def test_a_given_vector_of_a_question_has_the_length_of_one_embedding():
    vector = HashingEmbedder(64).embed_query(QUESTION)
    with index_of(2) as index:
        found = index.search(QUESTION, config=BARE, query_vector=vector.tolist())
        assert found.steps == index.search(QUESTION, config=BARE).steps
        with pytest.raises(InputError, match="must be 64 finite numbers"):
            index.search(QUESTION, config=BARE, query_vector=[0.0] * 192)


@pytest.mark.parametrize("questions", [0, 1])
def test_shorter_embeddings_under_the_same_name_are_not_taken_for_questions(questions):
    """Half as long, or a third: a row could be cut into whole numbers of them."""

    class Shorter(HashingEmbedder):
        @property
        def name(self) -> str:
            return "hashing-64"

    with index_of(questions) as index:
        for dimension in (16, 32, 128):
            other = HWDAGIndex.from_entries(
                index.entries.values(),
                built_by="scripted",
                reader=ScriptedLM(),
                embedder=Shorter(dimension),
                config=index.config,
            )
            with other, pytest.raises(IndexMismatch, match="those of the nodes have 64 numbers"):
                other.search(QUESTION, config=BARE)


def test_the_estimate_counts_them():
    writer = ScriptedLM(reply=asked)
    new = Document("e", TEXT + "One more sentence stands here, and it stands alone.")
    with index_of(2, writer=writer) as index:
        before = writer.writes
        counted = index.estimate([new])
        assert writer.writes == before
        index.insert([new])
    assert counted.writer_calls == writer.writes - before > 0
    assert counted.writer_tokens[0] > 0
    assert "questions are taken to be of a usual length" in counted.notes


@pytest.mark.parametrize(
    ("points", "prefers_extraction", "writes"),
    [("auto", True, False), ("auto", False, True), ("generated", True, True)],
)
def test_a_model_that_is_too_small_to_write_is_not_asked(points, prefers_extraction, writes):
    """Then the sentences of a text stand for its questions, and the report says so."""
    asked_for = []

    def reply(prompt: str) -> str:
        asked_for.append("Text:\n" in prompt)
        return asked(prompt) if asked_for[-1] else first_sentences(prompt)

    lm = ScriptedLM(prefers_extraction=prefers_extraction, reply=reply)
    config = BuildConfig(points=points, questions=1)
    embedder = HashingEmbedder(64)
    with HWDAGIndex(reader=lm, embedder=embedder, config=config) as index:
        report = index.insert([Document("d", TEXT), Document("e", TEXT + "And a last one.")])
        assert any(asked_for) == writes
        told = [note for note in report.notes if note.startswith("no writer, so the sentences")]
        assert len(told) == (0 if writes else 1)  # however many documents there are
        assert index.insert([Document("d", TEXT)]).notes == []
        leaf = index.entries["d"].graph.nodes[0].text
        row = index.entries["d"].vectors[0].reshape(2, 64)
    expected = asked(f"Text:\n{leaf}").split("\n")[0].removeprefix("* ") if writes else leaf
    np.testing.assert_array_equal(row, embedder.embed([leaf, expected]))


def test_a_writer_that_is_never_asked_is_refused():
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder(64), "writer": ScriptedLM()}
    with pytest.raises(InputError, match="never asks one"):
        HWDAGIndex(**models, config=BuildConfig(points="extractive"))


def test_a_vector_store_cannot_keep_them():
    llama_index_hwdag = pytest.importorskip("llama_index_hwdag")
    options = {"reader": ScriptedLM(), "embedder": HashingEmbedder(64)}
    with pytest.raises(InputError, match="one embedding per node; keep the index in a file"):
        llama_index_hwdag.HWDAGIndex([], config=BuildConfig(questions=1), **options)


@pytest.mark.parametrize("value", [-1, 1.5, True])
def test_a_number_of_questions_is_a_whole_number(value):
    with pytest.raises(InputError, match="questions must be a whole number of at least 0"):
        BuildConfig(questions=value)
