"""Progress of long work: how much of it is done, and messages that leave the bars whole."""

import re
import time
from contextlib import contextmanager, suppress

import pytest
from processes import python

from hwdag.building import levels
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.trace.bars import Bars
from hwdag.types import Document
from hwdag_lab.scripted import ScriptedLM

TEXT = " ".join(f"Sentence number {i} tells of the mill and its {i} owners." for i in range(40))


class Recorder:
    def __init__(self):
        self.totals, self.steps = {}, {}

    @contextmanager
    def stage(self, name, total, unit):
        self.totals[name] = total
        yield lambda amount=1: self.steps.setdefault(name, []).append(amount)


class Failing(HashingEmbedder):
    """Fails at a call, and counts the texts of those before it."""

    def __init__(self, fails_at):
        super().__init__()
        self.left, self.texts = fails_at, 0

    def embed(self, texts):
        if self.left == 0:
            raise RuntimeError("killed")
        self.left, self.texts = self.left - 1, self.texts + len(texts)
        return super().embed(texts)


@pytest.mark.parametrize("fails_at", range(5))
def test_embedding_is_shown_in_characters_and_continues_at_its_place(
    monkeypatch, tmp_path, fails_at
):
    monkeypatch.setattr(levels, "EMBED_BATCH", 8)
    path, documents = tmp_path / "a.hwdag", [Document("mill", TEXT)]
    runs = []
    for embedder in (Failing(fails_at), Failing(-1)):
        recorder = Recorder()
        with suppress(RuntimeError):
            HWDAGIndex.from_documents(
                documents,
                path=path,
                reader=ScriptedLM(),
                embedder=embedder,
                method="evidence",
                show_progress=recorder,
            )
        runs.append((recorder, embedder))
    (first, before), (second, after) = runs
    assert before.texts == 8 * fails_at
    assert before.texts + after.texts == 40
    blanks = 39  # between the sentences
    assert first.totals["embeddings"] == second.totals["embeddings"] == len(TEXT) - blanks
    assert sum(second.steps["embeddings"]) == second.totals["embeddings"]
    assert sum(first.steps.get("embeddings", [])) < first.totals["embeddings"]


MESSAGES = """
    import logging, sys, time, warnings
    from hwdag.trace.bars import BYTES, Bars

    logging.basicConfig(format="%(message)s")
    bars = Bars()
    with bars.stage("outer", 2, "document") as outer, bars.stage("inner", 2000, BYTES) as inner:
        for i in range(4):
            time.sleep(0.2)
            inner(500)
            print(f"printed {i}", file=sys.stderr)
            logging.warning("logged %d", i)
            warnings.warn(f"warned {i}", stacklevel=1)
        outer(2)
    print("afterwards", file=sys.stderr)
"""


@pytest.mark.slow
def test_a_message_never_tears_a_bar(tmp_path):
    shown = re.split(r"[\r\n]+", python(MESSAGES, tmp_path).stderr)
    lines = [line.replace("\x1b[A", "").strip() for line in shown]  # the cursor, one line up
    for i in range(4):
        assert f"printed {i}" in lines
        assert f"logged {i}" in lines
        assert any(line.endswith(f"warned {i}") for line in lines)
    assert lines[-2:] == ["afterwards", ""]
    bars = [line for line in lines if "|" in line]
    assert any("2.00k" in line for line in bars)
    assert all(re.fullmatch(r"(?:outer|inner):.*\]", line) for line in bars)


@pytest.mark.parametrize("option", [{"show_progress": "yes"}, {"executor": 5}])
def test_what_cannot_report_or_execute_is_named_before_a_file_is_made(tmp_path, option):
    path = tmp_path / "a.hwdag"
    with pytest.raises(InputError, match=next(iter(option))):
        HWDAGIndex.from_documents(
            [TEXT], path=path, reader=ScriptedLM(), embedder=HashingEmbedder(), **option
        )
    assert not path.exists()


def test_a_bar_writes_few_lines_into_a_log(capsys):
    """Standard error is no terminal here, and half a second is less than the time between two states."""
    with Bars().stage("documents", 50, "document") as advance:
        for _ in range(50):
            time.sleep(0.01)
            advance()
    assert capsys.readouterr().err.count("documents:") == 1
