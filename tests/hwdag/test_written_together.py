"""The points of several short documents are written in one batch, and are those of each alone."""

import pytest
from logged_models import Streaming, Writing
from store_world import load_all
from test_calls import Batched, Killed, Tape, alike, asked, builder_of, inserted, store_of, text_of

from hwdag.errors import InputError, WriterFailed
from hwdag.store.sqlite import Store
from hwdag.text.draft import Draft
from hwdag.types import Document

SENTENCES = (9, 12, 3, 2, 30, 10, 9)


def corpus(sentences=SENTENCES):
    return [
        Document(f"doc{i}", " ".join(text_of(count, seed=i))) for i, count in enumerate(sentences)
    ]


def batches(tape):
    return [prompts for kind, *prompts in tape.made if kind == "write"]


def alone(documents, writer):
    tape = Tape()
    builder = builder_of(tape, writer)
    store = store_of(builder)
    for document in documents:
        inserted(store, [document], builder)
    return store, tape


@pytest.mark.parametrize("writer", [Writing, Batched, Streaming])
def test_documents_built_together_are_those_built_alone(writer):
    tape = Tape()
    builder = builder_of(tape, writer)
    store = store_of(builder)
    report = inserted(store, corpus(), builder)
    one_by_one, others = alone(corpus(), writer)
    alike(store, one_by_one)
    assert report.built == [document.id for document in corpus()]
    assert report.reused == 0  # of an earlier run
    prompts = [prompt for batch in batches(tape) for prompt in batch]
    assert sorted(prompts) == sorted(prompt for batch in batches(others) for prompt in batch)
    if writer is not Streaming:  # whose log has each reply apart
        assert len(batches(tape)) < len(batches(others))


def test_windows_of_short_documents_fill_a_batch():
    tape = Tape()
    builder = builder_of(tape, Batched)
    documents = list(corpus([9] * 7))
    assert all(len(builder.first_windows(Draft(document))) == 1 for document in documents)
    inserted(store_of(builder), documents, builder)
    first = [batch for batch in batches(tape) if not any("asterisk and" in one for one in batch)]
    assert list(map(len, first)) == [3, 3, 1]


TOGETHER = [Writing, Batched, Streaming]


@pytest.mark.slow
@pytest.mark.parametrize("writer", TOGETHER)
def test_a_run_cut_off_at_any_call_continues_with_the_same_batches(writer):
    """Each writer at every third call, and all of them together at every call."""
    whole, documents = Tape(), corpus()
    expected = store_of(builder_of(whole, writer))
    inserted(expected, documents, builder_of(whole, writer))
    for at in range(TOGETHER.index(writer), len(whole.made), len(TOGETHER)):
        first, second = Tape(at), Tape()
        store = store_of(builder_of(first, writer))
        with pytest.raises(Killed):
            inserted(store, documents, builder_of(first, writer))
        inserted(store, documents, builder_of(second, writer))
        alike(store, expected)
        made = asked(first) + asked(second)
        assert set(made) == set(asked(whole))
        assert len(made) - len(asked(whole)) <= 1  # writes of one batch, with a limit each


def test_what_came_before_a_wrong_document_is_built():
    builder = builder_of(Tape(), Batched)
    store = store_of(builder)
    wrong = Document("doc0", "Another text under an id that is taken.")
    with pytest.raises(InputError, match="doc0"):
        inserted(store, [*corpus([9, 9]), wrong], builder)
    assert [entry.document.id for entry in load_all(store)] == ["doc0", "doc1"]


def test_replies_that_came_before_a_writer_failed_are_kept():
    tape = Tape()
    builder = builder_of(tape, lambda tape: Streaming(tape, fail_after=2))
    store = store_of(builder)
    with pytest.raises(WriterFailed, match="gone"):
        inserted(store, corpus([9] * 4), builder)
    assert len(store.ids()) == 0
    again = Tape()
    report = inserted(store, corpus([9] * 4), builder_of(again, Streaming))
    assert report.reused == 2
    assert not {str(call) for call in tape.made} & {str(call) for call in again.made}


def test_a_document_that_is_deleted_meanwhile_keeps_no_reply(tmp_path):
    """Another process deletes it between the batch and its build."""
    path = tmp_path / "a.hwdag"
    documents = corpus([9, 9, 9])

    class Deleting(Batched):
        def write(self, prompts, *, max_new_tokens):
            found = super().write(prompts, max_new_tokens=max_new_tokens)
            with Store.open(path) as other:
                other.delete("doc1")
            return found

    with store_of(builder_of(Tape(), Batched), path) as store:
        inserted(store, documents, builder_of(Tape(), Batched))
        edited = [Document(one.id, f"{one.text} The {one.id} is mute.") for one in documents]
        report = inserted(store, edited, builder_of(Tape(), Deleting))
        assert report.built == ["doc0", "doc2"]
        assert any("doc1: deleted while" in note for note in report.notes)
        assert store.ids() == ["doc0", "doc2"]
    assert b"The doc0 is mute" in path.read_bytes()
    assert b"The doc1 is mute" not in path.read_bytes()


def test_equal_documents_are_written_about_once():
    tape = Tape()
    builder = builder_of(tape, Batched)
    text = corpus([9])[0].text
    inserted(store_of(builder), [Document("a", text), Document("b", text)], builder)
    prompts = [prompt for batch in batches(tape) for prompt in batch]
    assert len(prompts) == len(set(prompts))
