"""Several documents at a time give the index that one after the other gives."""

from contextlib import contextmanager

import pytest
from ray_world import CONFIG, assert_same, built, calls, corpus, models

from hwdag import Document, HWDAGIndex
from hwdag.errors import WriterFailed
from hwdag_lab.scripted import ScriptedLM


class Threads:
    """The models of this process, for a number of documents at a time."""

    def __init__(self, count):
        self.count = count

    @contextmanager
    def builders(self, local):
        yield [local] * self.count


@pytest.mark.parametrize("workers", [1, 3])
def test_documents_at_a_time_are_stored_as_one_by_one(tmp_path, workers):
    """Yield results in order, whichever is finished first; the second of two with one id is known by then."""
    documents = [*corpus(), corpus()[0], Document("empty", " ")]
    one = built(tmp_path / "one", documents)
    two = built(tmp_path / "two", documents, executor=Threads(workers))
    assert_same(one, two)
    assert one.report.built == two.report.built == [f"doc{i}" for i in range(7)]
    assert two.report.unchanged == ["doc0"]
    assert one.report.usage.tokens == two.report.usage.tokens
    assert calls(tmp_path / "one") == calls(tmp_path / "two")


@pytest.mark.slow
def test_a_limit_stops_all_and_the_next_run_repeats_nothing(tmp_path):
    file, folder = tmp_path / "index.hwdag", tmp_path / "log"
    first = built(folder, corpus(), path=file, executor=Threads(3), max_tokens=4000)
    assert first.report.stopped == "max_tokens"
    assert first.report.pending == 7 - len(first.report.built) > 0
    first.close()
    second = built(folder, corpus(), path=file, executor=Threads(3))
    assert_same(second, built(tmp_path / "whole", corpus()))
    assert asked(folder) == asked(tmp_path / "whole")


def asked(folder):
    """Calls of a language model; with a limit leaves are embedded before points."""
    return [{k: n for k, n in one.items() if not k.startswith("embed")} for one in calls(folder)]


def test_an_error_of_one_document_ends_the_run(tmp_path):
    class Failing(ScriptedLM):
        def write(self, prompts, *, max_new_tokens):
            raise ConnectionError("gone")

    with pytest.raises(WriterFailed, match="gone"):
        HWDAGIndex.from_documents(
            corpus(),
            reader=Failing(writes=True),
            embedder=models(tmp_path)[1],
            config=CONFIG,
            executor=Threads(2),
        )
