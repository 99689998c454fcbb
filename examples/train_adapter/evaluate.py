"""Measure the four skills, with and without an adapter, through the library's own sessions.

    python -m examples.train_adapter.evaluate --examples data/held_out.jsonl --out before.json
    python -m examples.train_adapter.evaluate --examples data/held_out.jsonl --adapter run/adapter \
        --out after.json

Sufficiency: all gold nodes and two distractors against the same with one gold node replaced (AUC of
p_yes with a 95 % interval from bootstrapping questions, and the share of questions where the complete
one has the higher p_yes). Answers: F1 over the complete nodes. Ranking: attention of gold nodes among
up to eight nodes. Points: share of replies with points, and of their content words in the window.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.train_adapter.lines import Json, lines_of
from hwdag.lm.default import BASE_MODEL, load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.text.characters import one_line
from hwdag.text.points import parse_points
from hwdag.text.prompts import SearchPrompts, SummaryPrompt
from hwdag.text.words import content_words
from hwdag_lab.eval.text_metrics import f1

PROMPTS = SearchPrompts()
RANKED, ANSWER_TOKENS = 8, 24
SAMPLES = 2000


def main(arguments: Sequence[str] | None = None) -> None:
    """Evaluate and write a JSON file of metrics and one of single results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=Path, required=True)
    parser.add_argument("--adapter", type=Path)
    parser.add_argument("--model", default=BASE_MODEL)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--sets", help="comma-separated; all by default")
    parser.add_argument("--limit", type=int, default=50, help="walks per set")
    parser.add_argument("--answers", type=int, default=50, help="of them with an answer")
    parser.add_argument("--windows", type=int, default=4, help="windows for points per set")
    parser.add_argument("--points-tokens", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    device = None if options.device == "auto" else options.device
    lm = load_reader(options.model, dtype=options.dtype, device=device, adapter=options.adapter)
    results = options.out.with_suffix(".jsonl")
    began = time.perf_counter()
    with results.open("w", encoding="utf-8") as file:
        for number, example in chosen(options):
            rng = random.Random(f"{options.seed} {json.dumps(example)}")
            if example["skill"] == "walk":
                found = walk(lm, example, rng, with_answer=number < options.answers)
            else:
                found = points(lm, example, options.points_tokens)
            file.write(json.dumps({"dataset": example["dataset"], **found}) + "\n")
            file.flush()
    records = list(lines_of(results))
    summary = {
        "reader": lm.name,
        "seconds": round(time.perf_counter() - began),
        **summarised(records, options.seed),
    }
    options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(table(summary))


def chosen(options: argparse.Namespace) -> Iterator[tuple[int, Json]]:
    """The first examples of each set and skill, with their number in it."""
    seen: Counter[tuple[str, str]] = Counter()
    limits = {"walk": options.limit, "points": options.windows}
    sets = options.sets.split(",") if options.sets else None
    for example in lines_of(options.examples):
        key = example["skill"], example["dataset"]
        if seen[key] < limits[example["skill"]] and (not sets or example["dataset"] in sets):
            yield seen[key], example
            seen[key] += 1


def walk(lm: HuggingFaceLM, example: Json, rng: random.Random, *, with_answer: bool) -> Json:
    """p_yes with and without one gold node, the answer, and the rank of each gold node."""
    gold, others = example["gold"], example["distractors"]
    missing = rng.choice(gold)
    complete = rng.sample([*gold, *others[1:3]], len(gold) + len(others[1:3]))
    incomplete = [others[0] if text == missing else text for text in complete]
    session = opened(lm, example)
    p_complete = session.read(complete).p_yes
    answer = {}
    if with_answer:
        text = answered(session)
        answer = {"answer": text, "f1": f1(text, example["answers"])}
    listed = rng.sample([*gold, *others][:RANKED], min(RANKED, len(gold) + len(others)))
    masses = opened(lm, example).read(listed).attention * np.arange(2, len(listed) + 2)
    order = [listed[i] for i in np.argsort(-masses, kind="stable")]
    return {
        "complete": p_complete,
        "incomplete": opened(lm, example).read(incomplete).p_yes,
        "answers": example["answers"],
        **answer,
        "ranks": sorted(order.index(text) + 1 for text in gold),
    }


def answered(session: Any) -> str:
    """The answer that follows the nodes read so far."""
    decoding = session.decode(enough=True, max_new_tokens=ANSWER_TOKENS)
    for _ in decoding:
        pass
    return str(decoding.text)


def opened(lm: HuggingFaceLM, example: Json) -> Any:
    """A fresh session for the question."""
    question = example["question"]
    return lm.session(question, prompts=PROMPTS, heads="auto", max_new_tokens=ANSWER_TOKENS)


def points(lm: HuggingFaceLM, example: Json, limit: int) -> Json:
    """What the writer makes of a window."""
    before, after = SummaryPrompt().cut("same")
    lines = "\n".join(f"* {one_line(line)}" for line in example["lines"])
    reply = lm.write([before + lines + after], max_new_tokens=limit)[0]
    found = parse_points(reply)
    seen = set(content_words(" ".join(example["lines"])))
    words = content_words(" ".join(found))
    return {
        "reply": reply,
        "points": found,
        "wanted": example["points"],
        "from_window": sum(w in seen for w in words) / len(words) if words else 0.0,
        "ratio": len(" ".join(found).split()) / len(" ".join(example["lines"]).split()),
    }


def summarised(records: Sequence[Json], seed: int) -> Json:
    """Metrics of every set, and over all windows."""
    walks = [r for r in records if "complete" in r]
    by_set = {
        name: [r for r in walks if r["dataset"] == name]
        for name in sorted({r["dataset"] for r in walks})
    }
    written = [r for r in records if "points" in r]
    parsed = [r for r in written if r["points"]]
    summary: Json = {"walks": {name: of_walks(rs, seed) for name, rs in by_set.items()}}
    if written:
        summary["points"] = {
            "windows": len(written),
            "parsed": len(parsed) / len(written),
            "points": mean(len(r["points"]) for r in written),
            "from_window": mean(r["from_window"] for r in parsed),
            "ratio": mean(r["ratio"] for r in parsed),
        }
    return summary


def of_walks(records: Sequence[Json], seed: int) -> Json:
    """AUC with its interval, pairs in order, F1, Recall@2 and MRR."""
    yes = np.array([r["complete"] for r in records])
    no = np.array([r["incomplete"] for r in records])
    draws = np.random.default_rng(seed).integers(len(records), size=(SAMPLES, len(records)))
    low, high = np.quantile([auc(yes[rows], no[rows]) for rows in draws], [0.025, 0.975])
    return {
        "questions": len(records),
        "auc": round(auc(yes, no), 3),
        "auc_95": [round(float(low), 3), round(float(high), 3)],
        "paired": round(float(np.mean((yes > no) + 0.5 * (yes == no))), 3),
        "f1": mean(r["f1"] for r in records if "f1" in r),
        "recall_at_2": mean(
            sum(k <= 2 for k in r["ranks"]) / min(2, len(r["ranks"])) for r in records
        ),
        "mrr": mean(1 / r["ranks"][0] for r in records),
    }


def auc(yes: np.ndarray, no: np.ndarray) -> float:
    """Share of (complete, incomplete) pairs in order, ties half."""
    difference = yes[:, None] - no[None, :]
    return float(np.mean((difference > 0) + 0.5 * (difference == 0)))


def mean(values: Iterator[float]) -> float:
    """Rounded mean; 0 for nothing."""
    listed = list(values)
    return round(sum(listed) / len(listed), 3) if listed else 0.0


def table(summary: Json) -> str:
    """The metrics as Markdown."""
    lines = ["| set | n | AUC (95 %) | paired | F1 | R@2 | MRR |", "|---|---|---|---|---|---|---|"]
    for name, m in summary["walks"].items():
        interval = "{:.2f}-{:.2f}".format(*m["auc_95"])
        lines.append(
            f"| {name} | {m['questions']} | {m['auc']:.2f} ({interval}) | {m['paired']:.2f} "
            f"| {m['f1']:.2f} | {m['recall_at_2']:.2f} | {m['mrr']:.2f} |"
        )
    return "\n".join([*lines, "", f"points: {summary.get('points')}"])


if __name__ == "__main__":
    main()
