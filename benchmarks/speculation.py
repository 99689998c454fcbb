"""Measure the savings of reading ahead: forwards, tokens and processor time of walks with it and without.

    python benchmarks/speculation.py                       # the default reader
    python benchmarks/speculation.py --model Qwen/Qwen2.5-0.5B-Instruct --questions 10

Training questions of HotpotQA, an index of each document with picked points. `along edges` is the method
hwdag; `evidence, p_yes` asks the reader after each node of the method evidence. All visit the same
nodes either way, which is checked (in float32; elsewhere near ties may fall otherwise). The last row
reads all nodes of the one before in one forward.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hwdag import BuildConfig, HWDAGIndex, SearchConfig
from hwdag.lm import session
from hwdag.lm.base import Reader
from hwdag.lm.default import load_reader
from hwdag.search.budget import with_headings
from hwdag.types import Retrieval
from hwdag_lab.eval.data import records_of

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data")) / "train" / "hotpotqa.jsonl"
WALKS = {
    "along edges": SearchConfig(method="hwdag", confidence=0.99),
    "along edges, no navigator": SearchConfig(
        method="hwdag", confidence=0.99, navigator="none", token_budget=1024
    ),
    "evidence, p_yes": SearchConfig(method="evidence", confidence=0.999),
}
TOGETHER = session.MOST_TOGETHER


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="hub name or path; the default reader otherwise")
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    reader = load_reader(*([options.model] if options.model else []), dtype="float32")
    rows: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    config = BuildConfig(method="hwdag", points="extractive")
    for record in records_of([DATA])[: options.questions]:
        index = HWDAGIndex.from_documents(record.documents, reader=reader, config=config)
        question = record.questions[0].text
        for name, search in WALKS.items():
            found = {}
            for way, together in (("one by one", 1), ("ahead", TOGETHER)):
                with reading(together), counted(reader) as count:
                    began = time.process_time()
                    found[way] = index.search(question, config=search)
                    spent = time.process_time() - began
                row = (count[0], found[way].usage.tokens, spent)
                rows.setdefault((name, way), []).append(row)
            ids = [[step.node.id for step in walk.steps] for walk in found.values()]
            assert ids[0] == ids[1], "reading ahead changed the walk"
        rows.setdefault(("evidence, p_yes", "in one forward"), []).append(
            together_at_once(reader, question, found["ahead"])
        )
    print("| walk | read | forwards | tokens | seconds |\n|---|---|---|---|---|")
    for (name, way), values in rows.items():
        forwards, tokens, seconds = np.median(values, axis=0)
        print(f"| {name} | {way} | {forwards:.0f} | {tokens:.0f} | {seconds:.2f} |")


@contextmanager
def reading(together: int) -> Iterator[None]:
    """Read at most this many nodes in a forward."""
    session.MOST_TOGETHER = together
    try:
        yield
    finally:
        session.MOST_TOGETHER = TOGETHER


@contextmanager
def counted(reader: Reader) -> Iterator[list[int]]:
    """Yield the number of forwards, in a list of one."""
    count = [0]

    def add(*_: object) -> None:
        count[0] += 1

    hook = reader.model.register_forward_pre_hook(add)  # type: ignore[attr-defined]
    try:
        yield count
    finally:
        hook.remove()


def together_at_once(reader: Reader, question: str, walk: Retrieval) -> tuple[float, float, float]:
    """Return one forward over everything that a walk read."""
    began = time.process_time()
    alone = reader.session(question, prompts=reader.card.prompts, heads="auto", max_new_tokens=64)
    alone.read(with_headings([step.node for step in walk.context]))
    return 1, alone.usage.tokens, time.process_time() - began


if __name__ == "__main__":
    main()
