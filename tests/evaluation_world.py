"""A small world to evaluate in: documents with questions and evidence, and scripted models.

Run as a script, it makes processes that kill themselves, one after the other:

    python tests/evaluation_world.py FOLDER LOG KILL_AT...

Each runs `KILLED_PLAN` in FOLDER, appends every finished prompt to LOG, and dies of SIGKILL at the
beginning of call number KILL_AT (of the writer, or of a session), if it comes to that. How each
ended is printed, a line each.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from hwdag.embedding.hashing import HashingEmbedder
from hwdag.types import Span
from hwdag_lab.eval.models import RunModels
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.run import run
from hwdag_lab.eval.schema import Paragraph, Question, Record
from hwdag_lab.scripted import ScriptedLM, ScriptedSession

CRAFTS = ("miller", "painter", "baker", "sailor", "weaver", "mason", "tailor", "cooper")
TOWNS = ("Arden", "Brill", "Corby", "Delph", "Ewell", "Frome", "Goole", "Hythe")

KILLED_PLAN = Plan(
    systems=("hwdag", "hwdag-no-attention", "bm25@sentence", "memwalker", "full-context"),
    budgets=(16, 40),
    limit=None,
    max_new_tokens=8,
)


def record(number: int, *, dataset: str = "towns", questions: int = 2) -> Record:
    """Return a document of one sentence per craft, of people that only this document knows."""
    names = [f"Person{number}{letter}" for letter in "abcdefgh"]
    sentences = [
        f"{name} the {craft} lived in {town}{number} near the old river."
        for name, craft, town in zip(names, CRAFTS, TOWNS, strict=True)
    ]
    text = " ".join(sentences)
    asked = []
    for i in range(questions):
        start = text.index(sentences[i])
        span = Span(start, start + len(sentences[i]))
        asked.append(
            Question(
                f"q{number}.{i}",
                f"Where did {names[i]} the {CRAFTS[i]} live?",
                (f"{TOWNS[i]}{number}",),
                evidence=(span,),
                sentences=(span,),
            )
        )
    return Record(f"doc{number}", dataset, f"Towns {number}", text, (), tuple(asked))


def long_record(number: int) -> Record:
    """Return the same document repeated many times, so that summaries of parts of it are written."""
    short = record(number)
    text = "\n\n".join(short.text.replace("Person", f"Part{i}Person") for i in range(12))
    span = Span(0, text.index("\n\n"))
    asked = Question("long", "Where were people born?", ("somewhere",), evidence=(span,))
    return Record(short.id, short.dataset, short.title, text, (), (asked,))


def passages(first: int, *, dataset: str) -> list[Record]:
    """Two documents, each of whose sentences is a paragraph of its own."""
    made = []
    for number in (first, first + 1):
        whole = record(number, dataset=dataset)
        starts = [i for i in range(len(whole.text)) if whole.text.startswith("Person", i)]
        ends = [*(start - 1 for start in starts[1:]), len(whole.text)]
        paragraphs = tuple(
            Paragraph(f"p{i}", f"Passage {number}.{i}", Span(start, end))
            for i, (start, end) in enumerate(zip(starts, ends, strict=True))
        )
        made.append(dataclasses.replace(whole, paragraphs=paragraphs))
    return made


def records(count: int = 2, *, dataset: str = "towns", questions: int = 2) -> list[Record]:
    """Several such documents."""
    return [record(i, dataset=dataset, questions=questions) for i in range(count)]


def models(reader: ScriptedLM | None = None, **options: object) -> RunModels:
    """Scripted models; by default the reader writes its Information Points itself."""
    return RunModels(reader or ScriptedLM(writes=True), HashingEmbedder(), **options)


def comparable(path: Path) -> list[str]:
    """Return the lines of a file of records, without times and peaks of memory."""
    return [json.dumps(_timeless(json.loads(line))) for line in path.read_text().splitlines()]


def _timeless(value: object) -> object:
    if not isinstance(value, dict):
        return value
    left_out = ("seconds", "peak_memory_mb")
    return {key: _timeless(one) for key, one in value.items() if key not in left_out}


class Mortal(ScriptedLM):
    """Dies at the beginning of its call number `kill_at`; logs prompts once they are answered."""

    def __init__(self, log: Path, kill_at: int) -> None:
        super().__init__(writes=True)
        self._log = log
        self._left = kill_at

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        self._live()
        replies = super().write(prompts, max_new_tokens=max_new_tokens)
        with self._log.open("a") as log:
            log.writelines(json.dumps([p, max_new_tokens]) + "\n" for p in prompts)
        return replies

    def session(self, question: str, **options: object) -> ScriptedSession:
        self._live()
        return super().session(question, **options)

    def _live(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    # why: a run needs them, and every child would load them again
    for name in ("rouge_score.rouge_scorer", "sacrebleu", "torch"):
        importlib.import_module(name)

    folder, log, *points = sys.argv[1:]
    for kill_at in points:
        if (child := os.fork()) == 0:
            run(records(), models(Mortal(Path(log), int(kill_at))), KILLED_PLAN, Path(folder))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))  # noqa: T201
