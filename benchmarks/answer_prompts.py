"""Which words to ask an untrained reader in: F1 of its answers, and how well its p_yes tells.

    python benchmarks/answer_prompts.py --model Qwen/Qwen2.5-1.5B-Instruct -o build/answer_prompts

Training questions of HotpotQA, SQuAD and FairytaleQA, an index of each document, the same evidence for
every wording. p_yes is read after the evidence, and after the evidence of another question of the same
length: its AUC says how well it tells the two apart. Goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from hwdag import Document, HWDAGIndex, Prompts, SearchConfig
from hwdag.lm.base import Reader
from hwdag.lm.default import load_reader
from hwdag.text.prompts import (
    ENOUGH,
    ONE_TURN,
    SUFFICIENCY,
    SearchPrompts,
)
from hwdag_lab.eval.statistics import bootstrap
from hwdag_lab.eval.text_metrics import f1

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data")) / "train"
SETS = {"hotpotqa": 80, "squad": 60, "fairytaleqa": 60}
ANSWER_TOKENS = 24

AGAIN = "Question: {question}\n"
VARIANTS = {
    "papers": SearchPrompts(),
    "neutral first turn": SearchPrompts(
        SUFFICIENCY.replace(
            "Can this question be answered by the following information? Response “Yes” or “No” in "
            "one word. Do not provide any explanation.",
            "Read the question and the information. First reply “Yes” if the information is enough "
            "to answer the question, else “No”. You will then be asked for the answer.",
        ),
        answer=AGAIN + "What is the answer? Reply with the answer alone, in a few words.",
    ),
    "one turn, concisely": SearchPrompts(
        ONE_TURN,
        ENOUGH,
        "\n" + AGAIN + "Answer this question from the information above, as concisely as you can.",
        second_turn=False,
    ),
    "one turn, the answer alone": SearchPrompts.one_turn(),
}
DEFAULT = "one turn, the answer alone"


def questions(limits: dict[str, int], seed: int = 7) -> list[tuple[str, dict, dict]]:
    """(set, document, question): one question of each of the first documents, by chance."""
    chance, found = random.Random(seed), []
    for name, count in limits.items():
        lines = (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()
        documents = [json.loads(line) for line in lines]
        chance.shuffle(documents)
        pool = [(d, q) for d in documents for q in d["questions"] if q["answers"] and q["evidence"]]
        if len(documents) >= count:
            pool = [(d, chance.choice(d["questions"])) for d in documents]
        else:
            chance.shuffle(pool)
        pool = [(d, q) for d, q in pool if q["answers"]]
        found += [(name, d, q) for d, q in pool[:count]]
    return found


def asked(index: HWDAGIndex, question: str, names: list[str], budget: int) -> dict[str, dict]:
    """Answer and p_yes under each wording."""
    rows = {}
    for name in names:
        index.prompts = Prompts(search=VARIANTS[name])
        stream = index.stream(
            question, config=SearchConfig(token_budget=budget), max_new_tokens=ANSWER_TOKENS
        )
        read = [step.p_yes for step in stream.retrieval.steps if step.p_yes is not None]
        rows[name] = {"p_yes": read[-1], "text": stream.answer.text}
    return rows


def main() -> None:
    """Run the study, then print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="hub name or path of the reader")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--budget", type=int, default=512, help="tokens of evidence")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{Path(options.model).name}-{options.budget}.jsonl"
    done = {row["id"] for row in rows_of(path)}
    reader = load_reader(options.model, dtype=options.dtype)
    every = questions(SETS)
    random.Random(1).shuffle(every)  # so that a run that was stopped has some of every set
    for i, (name, document, question) in enumerate(every):
        if question["id"] in done:
            continue
        other = every[i - 1][2]["question"]
        text = Document(document["id"], document["text"], title=document.get("title", ""))
        index = HWDAGIndex.from_documents([text], method="evidence", reader=reader)
        rows = asked(index, question["question"], list(VARIANTS), options.budget)
        # the evidence of another question, this question asked
        nodes = index.search(other, config=SearchConfig(token_budget=options.budget)).steps
        texts = [step.node.text for step in nodes]
        wrong = {DEFAULT: p_yes_of(reader, question["question"], texts, VARIANTS[DEFAULT])}
        row = {"id": question["id"], "set": name, "answers": question["answers"]}
        row |= {"rows": rows, "without": wrong}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(table(rows_of(path)))


def p_yes_of(reader: Reader, question: str, texts: list[str], prompts: SearchPrompts) -> float:
    """p_yes of a question over these texts."""
    session = reader.session(question, prompts=prompts, heads="all", max_new_tokens=64)
    return session.read(texts).p_yes


def rows_of(path: Path) -> list[dict]:
    """The finished questions."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(rows: list[dict]) -> str:
    """A line per wording: F1 with interval, of each set, and the share of bare Yes and No."""
    lines = [f"{len(rows)} questions"]
    for name in VARIANTS:
        scores = np.array([f1(row["rows"][name]["text"], row["answers"]) for row in rows])
        bare = np.mean(
            [row["rows"][name]["text"].strip(" .").lower() in ("yes", "no") for row in rows]
        )
        each = " ".join(
            f"{one} {np.mean([s for s, r in zip(scores, rows, strict=True) if r['set'] == one]):.2f}"
            for one in SETS
        )
        lines.append(f"{name:28} {bootstrap(scores)}  {each}  bare {bare:.2f}")
    for name in rows[0]["without"] if rows else ():
        p = [row["rows"][name]["p_yes"] for row in rows] + [row["without"][name] for row in rows]
        auc = roc_auc_score([1] * len(rows) + [0] * len(rows), p)
        lines.append(f"AUC of p_yes, {name}: {auc:.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
