"""Which words to ask an untrained reader in: F1 of its answers, how well its p_yes separates, its refusals.

    python benchmarks/answer_prompts.py --model Qwen/Qwen2.5-1.5B-Instruct -o build/answer_prompts

Training questions of HotpotQA, SQuAD and FairytaleQA, an index of each document, the same evidence for
every wording; then the evidence that is found where the gold paragraphs are taken out. The AUC says how
well p_yes separates the two, as it is and less its value before any evidence. A new run continues an old one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.special import logit
from sklearn.metrics import roc_auc_score

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.search.reading import by_section
from hwdag.text.prompts import SUFFICIENCY, SearchPrompts
from hwdag_lab.eval.statistics import bootstrap
from hwdag_lab.eval.text_metrics import f1

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data")) / "train"
SETS = {"hotpotqa": 80, "squad": 60, "fairytaleqa": 60}
ANSWER_TOKENS = 24
NOTHING = "..."  # read if there is no evidence yet

AGAIN = "\nQuestion: {question}\n"
ONE_TURN = SearchPrompts.one_turn()
NOT_FOUND = "not in the documents"


def one_turn(words: str) -> SearchPrompts:
    """Ask in one turn, with these words after the question."""
    return replace(ONE_TURN, answer=AGAIN + words)


VARIANTS = {
    "one turn: the answer alone": ONE_TURN,
    "one turn: concisely": one_turn(
        "Answer this question from the information above, as concisely as you can."
    ),
    "one turn: shortest words": one_turn(
        "The information may also be about other things. Reply with the shortest words of it that "
        "answer this question, without an explanation."
    ),
    "one turn: a short phrase": one_turn(
        "Answer from the information above alone. Reply with a short phrase, not a sentence."
    ),
    "one turn: or not found": one_turn(
        "Reply with the answer alone, in a few words, without an explanation. If the information "
        f"above does not say it, reply: {NOT_FOUND}"
    ),
    "neutral first turn": SearchPrompts(
        SUFFICIENCY.replace(
            "Can this question be answered by the following information? Response “Yes” or “No” in "
            "one word. Do not provide any explanation.",
            "Read the question and the information. First reply “Yes” if the information is enough "
            "to answer the question, else “No”. You will then be asked for the answer.",
        ),
        answer=AGAIN[1:] + "What is the answer? Reply with the answer alone, in a few words.",
    ),
    "papers": SearchPrompts(),
}
"""Group wordings of the same opening: the next is asked over the cache of the one before."""

DEFAULT, REFUSING = "one turn: the answer alone", "one turn: or not found"


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


def asked(lm: HuggingFaceLM, question: str, texts: list[str], names: list[str]) -> dict[str, dict]:
    """Answer and p_yes under each wording, over the same evidence."""
    rows = {}
    for name in names:
        prompts = VARIANTS[name]
        session = lm.session(question, prompts=prompts, heads="all", max_new_tokens=ANSWER_TOKENS)
        p_yes = session.read(texts).p_yes
        text = "".join(session.decode(enough=True, max_new_tokens=ANSWER_TOKENS)).strip()
        rows[name] = {"p_yes": p_yes, "text": text}
    return rows


def evidence(lm: HuggingFaceLM, document: dict, text: str, question: str, budget: int) -> list[str]:
    """Return the results of a search over a text, as shown to a reader."""
    title = document.get("title", "")
    index = HWDAGIndex.from_documents(
        [Document(document["id"], text, title=title)], method="evidence", reader=lm
    )
    steps = index.search(question, config=SearchConfig(token_budget=budget)).steps
    return [shown for _, shown in by_section([step.node for step in steps])]


def without_gold(document: dict, question: dict) -> str:
    """Return the text of a document without the paragraphs that hold the answer."""
    named = {one["id"]: one["text"] for one in document.get("paragraphs", ())}
    text = document["text"]
    for one in question["evidence"]:
        text = text.replace(named.get(one, one), "")
    return text


def main() -> None:
    """Run the study, then print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="hub name or path of the reader")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--wordings", help="some of them, with commas")
    parser.add_argument("--budget", type=int, default=512, help="tokens of evidence")
    options = parser.parse_args()
    names = options.wordings.split(",") if options.wordings else list(VARIANTS)
    if DEFAULT not in names or (unknown := [name for name in names if name not in VARIANTS]):
        given = f"without {DEFAULT!r}" if DEFAULT not in names else f"unknown: {unknown}"
        parser.error(f"--wordings {given}; take {DEFAULT!r} and others of {list(VARIANTS)}")
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"{Path(options.model).name}-{options.budget}.jsonl"
    done = {row["id"] for row in rows_of(path)}
    lm = load_reader(options.model, dtype=options.dtype)
    every = questions(SETS)
    random.Random(1).shuffle(every)  # so that a run that was stopped has some of every set
    for name, document, question in every:
        if question["id"] in done:
            continue
        asks = question["question"]
        texts = evidence(lm, document, document["text"], asks, options.budget)
        row = {"id": question["id"], "set": name, "answers": question["answers"]}
        row |= {"rows": asked(lm, asks, texts, names)}
        before = lm.session(asks, prompts=VARIANTS[DEFAULT], heads="all", max_new_tokens=1)
        row["before"] = before.read([NOTHING]).p_yes
        if (rest := without_gold(document, question)).strip():
            texts = evidence(lm, document, rest, asks, options.budget)
            row["without"] = asked(lm, asks, texts, [n for n in (DEFAULT, REFUSING) if n in names])
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(table(rows_of(path)))


def rows_of(path: Path) -> list[dict]:
    """Return the finished questions."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(rows: list[dict]) -> str:
    """Yield a line per wording: questions, F1 of each set, bare Yes and No, less the default; then the rest."""
    lines = [f"{len(rows)} questions"]
    for name in VARIANTS:
        these = [row for row in rows if name in row["rows"]]
        if not these:
            continue
        scores, default = (
            np.array([f1(row["rows"][one]["text"], row["answers"]) for row in these])
            for one in (name, DEFAULT)
        )
        sets = np.array([row["set"] for row in these])
        bare = [row["rows"][name]["text"].strip(" .").lower() in ("yes", "no") for row in these]
        each = " ".join(
            f"{one} {scores[sets == one].mean():.2f}" for one in SETS if (sets == one).any()
        )
        lines.append(
            f"{name:28} {len(these):3} {bootstrap(scores)}  {each}  bare {np.mean(bare):.2f}  "
            f"minus default {bootstrap(scores - default)}"
        )
    both = [row for row in rows if "without" in row]
    if told := [row for row in both if REFUSING in row["without"]]:
        shares = [
            np.mean([NOT_FOUND in row[where][REFUSING]["text"].lower() for row in told])
            for where in ("rows", "without")
        ]
        lines.append(
            f"refused with and without gold: {shares[0]:.2f} {shares[1]:.2f} of {len(told)}"
        )
    p = np.array([[row[where][DEFAULT]["p_yes"] for row in both] for where in ("rows", "without")])
    before = np.array([row["before"] for row in both])
    gold = np.repeat([1, 0], len(both))
    for form, values in (("p_yes", p), ("its gain", logit(p) - logit(before))):
        lines.append(f"AUC of {form}: {roc_auc_score(gold, values.ravel()):.2f}")
    lines.append(f"pairs in order: {np.mean(p[0] > p[1]):.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
