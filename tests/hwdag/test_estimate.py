"""The cost of a build before it is made, and builds that end at a limit with leaves for all."""

import pytest
from tiny import model, tokenizer
from worlds import random_documents

from hwdag import BuildConfig, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.lm.base import Speed
from hwdag.lm.cards import Card
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag_lab.scripted import ScriptedLM

CONFIG = BuildConfig("hwdag", chunk_tokens=40, window_tokens=330)
DOCUMENTS = random_documents(3, documents=4, sentences=40)


def empty(reader, path=None, **options):
    return HWDAGIndex(
        reader=reader, embedder=HashingEmbedder(), config=CONFIG, path=path, **options
    )


def test_an_estimate_is_near_what_the_build_costs():
    lm = ScriptedLM(writes=True)
    index = empty(lm)
    found = index.estimate(DOCUMENTS)
    assert (lm.writes, lm.replays, len(index)) == (0, 0, 0)
    report = index.refresh(DOCUMENTS)
    assert found.documents == len(report.built)
    assert found.calls == pytest.approx(lm.writes + lm.replays, rel=0.4)
    assert found.tokens == pytest.approx(report.usage.tokens, rel=0.4)
    assert (found.tflops, found.seconds) == (0.0, None)
    assert index.estimate(DOCUMENTS).calls == 0


def test_leaves_alone_cost_no_call():
    index = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder())
    found = index.estimate(DOCUMENTS)
    assert (found.documents, found.calls, found.tokens, found.seconds) == (4, 0, 0, 0.0)


@pytest.mark.model
def test_a_local_model_is_timed_and_that_costs_it_nothing():
    lm = HuggingFaceLM(model(), tokenizer(), card=Card(True, True, True))
    config = BuildConfig("hwdag", chunk_tokens=40)
    index = HWDAGIndex(reader=lm, embedder=HashingEmbedder(), config=config)
    found = index.estimate(DOCUMENTS[:1])
    assert found.seconds > 0
    assert found.tflops > 0
    assert lm.usage.tokens == 0


class Clocked(ScriptedLM):
    """Reads in no time, and decodes a step in a second."""

    def __init__(self, concurrency):
        super().__init__(writes=True)
        self.concurrency = concurrency

    def speed(self):
        return Speed(read=0.0, step=1.0)

    def tflops(self, new_tokens, cached_tokens, *, logit_rows=1):
        return 0.0


def test_replies_take_as_long_as_the_batches_that_they_are_written_in():
    """A level of one window cannot share its steps; one of many windows shares them."""
    alone, together = (
        empty(Clocked(concurrency)).estimate(DOCUMENTS[:1]) for concurrency in (1, 64)
    )
    assert alone.calls == together.calls > 6
    assert alone.seconds > 1.9 * together.seconds  # a repeated question is one call
    short = random_documents(5, documents=1, sentences=8)
    one, same = (empty(Clocked(concurrency)).estimate(short) for concurrency in (1, 64))
    assert one.calls == 3  # written, asked about again, and replayed
    assert one.seconds == same.seconds > 0


def test_a_reader_is_not_timed_if_the_time_of_its_writer_is_unknown(monkeypatch):
    timed = []
    monkeypatch.setattr(Clocked, "speed", lambda lm: timed.append(lm) or Speed(0.0, 1.0))
    models = {"reader": Clocked(1), "embedder": HashingEmbedder(), "config": CONFIG}
    found = HWDAGIndex(writer=lambda prompt: "* Some point.", **models).estimate(DOCUMENTS[:1])
    assert (found.seconds, timed) == (None, [])
    assert found.calls > 0


def test_short_documents_share_their_batches():
    short = random_documents(5, documents=6, sentences=9)
    index = HWDAGIndex(reader=Clocked(16), embedder=HashingEmbedder(), config=CONFIG)
    seconds = [index.estimate([one]).seconds for one in short]
    assert index.estimate(short).seconds == max(seconds) > 0


def test_with_a_limit_leaves_come_first_and_points_later(tmp_path):
    """The run ends after the first call: every document is found, and the next run finishes them."""
    path = tmp_path / "a.hwdag"
    first = HWDAGIndex.from_documents(
        DOCUMENTS,
        reader=ScriptedLM(writes=True),
        embedder=HashingEmbedder(),
        config=CONFIG,
        path=path,
        max_tokens=1,
    )
    assert first.report.stopped == "max_tokens"
    assert list(first.documents) == [document.id for document in DOCUMENTS]
    assert {graph.height for graph in first.graphs.values()} == {1}
    question = DOCUMENTS[2].text.split(".")[0]
    assert first.search(question).steps[0].node.document_id == DOCUMENTS[2].id
    first.close()
    with empty_again(path) as later:
        assert later.estimate(DOCUMENTS).documents == len(DOCUMENTS)
        report = later.refresh(DOCUMENTS)
        assert (len(report.built), report.stopped) == (len(DOCUMENTS), None)
        assert report.reused > 0  # the call of the first run
        whole = empty(ScriptedLM(writes=True))
        whole.refresh(DOCUMENTS)
        for document in DOCUMENTS:
            assert later.graphs[document.id].nodes == whole.graphs[document.id].nodes
        assert later.refresh(DOCUMENTS).unchanged == [document.id for document in DOCUMENTS]


def empty_again(path):
    return HWDAGIndex.load(path, reader=ScriptedLM(writes=True), embedder=HashingEmbedder())


def test_a_merged_document_still_waits_for_its_points(tmp_path):
    path = tmp_path / "a.hwdag"
    index = empty(ScriptedLM(writes=True), path)
    index.refresh(DOCUMENTS, max_tokens=1)
    index.close()
    HWDAGIndex.merge([path], path=tmp_path / "b.hwdag").close()
    with empty_again(tmp_path / "b.hwdag") as merged:
        assert len(merged.refresh(DOCUMENTS).built) == len(DOCUMENTS)


def test_an_insertion_stores_no_leaves_over_a_document_of_the_same_id():
    index = empty(ScriptedLM(writes=True))
    index.refresh(DOCUMENTS[:1])
    before = index.graphs[DOCUMENTS[0].id].nodes
    with pytest.raises(Exception, match=DOCUMENTS[0].id):
        index.insert([type(DOCUMENTS[0])(DOCUMENTS[0].id, "Another text.")], max_tokens=1)
    assert index.graphs[DOCUMENTS[0].id].nodes == before
