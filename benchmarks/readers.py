"""F1 of the answers of several readers over the same evidence.

    python benchmarks/readers.py -o build/readers \
        --reader default \
        --reader small=Qwen/Qwen2.5-0.5B-Instruct \
        --reader adapted=Qwen/Qwen2.5-0.5B-Instruct+run/adapter

Development questions of HotpotQA, 2WikiMultihopQA and MuSiQue, an index of each record, 512 tokens of
evidence found by the method `evidence`, shown to every reader in the same order. The rows of a folder
are kept: a new run continues them, and further readers can be added.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hwdag import HWDAGIndex, SearchConfig
from hwdag.lm.base import Reader
from hwdag.lm.default import as_reader, load_reader
from hwdag.search.reading import by_section
from hwdag_lab.eval.data import records_of
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.statistics import bootstrap, paired_bootstrap
from hwdag_lab.eval.text_metrics import exact_match, f1

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data")) / "dev"
SETS = ("hotpotqa", "2wikimultihopqa", "musique")
BUDGET = 512
ANSWER_TOKENS = 32
DEFAULT = "default"


def main() -> None:
    """Ask every reader every question, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reader", action="append", default=[], metavar="NAME=MODEL[+ADAPTER]")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the rows")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--limit", type=int, default=100, help="questions of each set")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "evidence.jsonl"
    done = {row["id"] for row in rows_of(path)}
    for record, question in asked(options.limit):
        if question.id not in done:
            append(path, found(record, question))
    evidence = rows_of(path)
    for name, _, model in (text.partition("=") for text in options.reader):
        answer_all(name, model, options.dtype, evidence, options.output / f"{name}.jsonl")
    print(table(options.output))


def asked(limit: int) -> Iterator[tuple[Record, Question]]:
    """Yield the first questions of each set, the sets mixed by chance."""
    chosen = []
    for name in SETS:
        pairs = [(r, q) for r in records_of([DATA / f"{name}.jsonl"]) for q in r.questions]
        chosen += pairs[:limit]
    random.Random(3).shuffle(chosen)
    yield from chosen


def found(record: Record, question: Question) -> dict:
    """Return the evidence of a question, as texts in the order in which they are read."""
    index = HWDAGIndex.from_documents(record.documents, method="evidence")
    retrieval = index.search(question.text, config=SearchConfig(token_budget=BUDGET))
    texts = [text for _, text in by_section([step.node for step in retrieval.steps])]
    row = {"id": question.id, "set": record.dataset, "question": question.text}
    return row | {"answers": list(question.answers), "texts": texts}


def answer_all(name: str, model: str, dtype: str, evidence: list[dict], path: Path) -> None:
    """Ask one reader the questions without an answer yet."""
    done = {row["id"] for row in rows_of(path)}
    if len(done) == len(evidence):
        return
    folder, _, adapter = model.partition("+")
    reader = (
        as_reader(None)
        if name == DEFAULT
        else load_reader(folder, dtype=dtype, adapter=adapter or None)
    )
    for row in evidence:
        if row["id"] not in done:
            append(path, answered(reader, row))


def answered(reader: Reader, row: dict) -> dict:
    """Return the answer to a question, with p_yes before it and the processor time of both."""
    began = time.process_time()
    session = reader.session(
        row["question"], prompts=reader.card.prompts, heads="auto", max_new_tokens=ANSWER_TOKENS
    )
    reading = session.read(row["texts"])
    decoding = session.decode(enough=True, max_new_tokens=ANSWER_TOKENS)
    for _ in decoding:
        pass
    text, answers = str(decoding.text), row["answers"]
    return {
        "id": row["id"],
        "set": row["set"],
        "text": text,
        "f1": f1(text, answers),
        "em": exact_match(text, answers),
        "p_yes": reading.p_yes,
        "seconds": round(time.process_time() - began, 2),
    }


def append(path: Path, row: dict) -> None:
    """Write a finished row."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def rows_of(path: Path) -> list[dict]:
    """Return the finished rows of a file."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(folder: Path) -> str:
    """Return a line per reader and set: F1 with its interval, and paired with the default reader."""
    readers = {p.stem: {r["id"]: r for r in rows_of(p)} for p in sorted(folder.glob("*.jsonl"))}
    readers.pop("evidence")
    base = readers.get(DEFAULT, {})
    lines = ["| reader | set | n | F1 | exact | minus default | seconds |", "|---" * 7 + "|"]
    for name, rows in readers.items():
        for one in (*SETS, "all"):
            ids = [i for i, row in rows.items() if one in (row["set"], "all")]
            if not ids:
                continue
            scores = np.array([rows[i]["f1"] for i in ids])
            both = [i for i in ids if i in base] if name != DEFAULT else []
            pairs = ([rows[i]["f1"] for i in both], [base[i]["f1"] for i in both])
            difference = str(paired_bootstrap(*pairs)) if both else ""
            exact = np.mean([rows[i]["em"] for i in ids])
            seconds = np.median([rows[i]["seconds"] for i in ids])
            lines.append(
                f"| {name} | {one} | {len(ids)} | {bootstrap(scores)} | {exact:.2f} "
                f"| {difference} | {seconds:.1f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
