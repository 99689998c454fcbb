"""Measure the four skills, with and without an adapter, through the library's own sessions.

    python -m examples.train_adapter.evaluate --examples data/held_out.jsonl --out before.json
    python -m examples.train_adapter.evaluate --examples data/held_out.jsonl --adapter run/adapter \
        --out after.json

Answers: F1 over the nodes that the walk reads within a budget, and over the gold nodes alone. Sufficiency: the walk
up to the node that completes the evidence against the same with the next other node in its place (AUC of
p_yes with a 95 % interval from bootstrapping questions, and the share of questions where the complete
one has the higher p_yes). Ranking: attention of gold nodes among all that were read. Points: share of
replies with points, of their content words in the window, and of lines that a point speaks of.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.train_adapter.lines import Json, lines_of
from examples.train_adapter.trees import placed, window
from hwdag.lm.default import BASE_MODEL, load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.search.reading import by_section
from hwdag.text.headings import searched_text
from hwdag.text.points import parse_points
from hwdag.text.prompts import SummaryPrompt
from hwdag.text.words import content_words
from hwdag.types import Node
from hwdag_lab.eval.text_metrics import f1

ANSWER_TOKENS = 24
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
    parser.add_argument("--budget", type=int, default=512, help="tokens of a walk")
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
            if example["skill"] == "walk":
                found = walk(lm, example, options.budget, with_answer=number < options.answers)
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
    """Yield the first examples of each set and skill, with their number in it."""
    seen: Counter[tuple[str, str]] = Counter()
    limits = {"walk": options.limit, "points": options.windows}
    sets = options.sets.split(",") if options.sets else None
    for example in lines_of(options.examples):
        key = example["skill"], example["dataset"]
        if seen[key] < limits[example["skill"]] and (not sets or example["dataset"] in sets):
            yield seen[key], example
            seen[key] += 1


def walk(lm: HuggingFaceLM, example: Json, budget: int, *, with_answer: bool) -> Json:
    """Answers, p_yes with and without the last gold node, and the rank of each gold node."""
    session, gold = opened(lm, example), set(example["gold"])
    nodes = [placed(text, example["where"]) for text in example["nodes"]]
    read = within(session, nodes, budget)
    shown = by_section([nodes[i] for i in read])
    read = [read[at] for at, _ in shown]
    reading = session.read([text for _, text in shown])
    masses = reading.attention * np.arange(2, len(read) + 2)
    order = [read[i] for i in np.argsort(-masses, kind="stable")]
    found: Json = {
        "question": example["question"],
        "answers": example["answers"],
        "ranks": sorted(order.index(i) + 1 for i in gold & {*read}),
    }
    if with_answer:
        text = answered(session)
        found |= {"answer": text, "f1": f1(text, example["answers"])}
        alone = opened(lm, example)
        needed = [*(nodes[i].text for i in example["gold"]), *example["missing"]]
        places = [placed(text, example["where"]) for text in needed]
        alone.read([text for _, text in by_section(places)])
        text = answered(alone)
        found |= {"answer_from_gold": text, "f1_from_gold": f1(text, example["answers"])}
    if not example["missing"] and gold <= {*read}:
        before = [i for i in read if i < max(gold)]
        others = [i for i in range(max(gold) + 1, len(nodes)) if i not in gold]
        for name, last in (("complete", max(gold)), *(("incomplete", i) for i in others[:1])):
            texts = [searched_text(nodes[i]) for i in (*sorted(before), last)]
            found[name] = opened(lm, example).read(texts).p_yes
    return found


def within(session: Any, nodes: Sequence[Node], budget: int) -> list[int]:
    """Numbers of the nodes that a walk reads; those that do not fit are passed over."""
    read = []
    for i, node in enumerate(nodes):
        if (cost := session.cost(node.text)) <= budget:
            read.append(i)
            budget -= cost
    return read


def answered(session: Any) -> str:
    """Return the answer that follows the nodes read so far."""
    decoding = session.decode(enough=True, max_new_tokens=ANSWER_TOKENS)
    for _ in decoding:
        pass
    return str(decoding.text)


def opened(lm: HuggingFaceLM, example: Json) -> Any:
    """Return a fresh session for the question."""
    question = example["question"]
    return lm.session(question, prompts=lm.card.prompts, heads="auto", max_new_tokens=ANSWER_TOKENS)


def points(lm: HuggingFaceLM, example: Json, limit: int) -> Json:
    """Return the points that the writer makes of a window."""
    before, after = SummaryPrompt().cut("same")
    reply = lm.write([before + window(example) + after], max_new_tokens=limit)[0]
    found = parse_points(reply)
    seen = set(content_words(" ".join(example["lines"])))
    words = content_words(" ".join(found))
    return {
        "reply": reply,
        "points": found,
        "wanted": example["points"],
        "from_window": sum(w in seen for w in words) / len(words) if words else 0.0,
        "covered": covered(example["lines"], found),
        "ratio": len(" ".join(found).split()) / len(" ".join(example["lines"]).split()),
    }


def covered(lines: Sequence[str], found: Sequence[str]) -> float:
    """Share of the lines that some point is closest to."""
    words = [set(content_words(line)) for line in lines]
    nearest = set()
    for point in found:
        shared = [len(own & set(content_words(point))) / max(1, len(own)) for own in words]
        nearest.add(shared.index(max(shared)))
    return len(nearest) / len(lines)


def summarised(records: Sequence[Json], seed: int) -> Json:
    """Metrics of every set, and over all windows."""
    walks = [r for r in records if "ranks" in r]
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
            "covered": mean(r["covered"] for r in parsed),
            "from_window": mean(r["from_window"] for r in parsed),
            "ratio": mean(r["ratio"] for r in parsed),
        }
    return summary


def of_walks(records: Sequence[Json], seed: int) -> Json:
    """AUC with its interval, pairs in order, both F1, Recall@2 and MRR."""
    pairs = [r for r in records if "incomplete" in r]
    yes = np.array([r["complete"] for r in pairs])
    no = np.array([r["incomplete"] for r in pairs])
    draws = np.random.default_rng(seed).integers(len(pairs), size=(SAMPLES, len(pairs)))
    low, high = np.quantile([auc(yes[rows], no[rows]) for rows in draws], [0.025, 0.975])
    ranks = [r["ranks"] for r in records if r["ranks"]]
    return {
        "questions": len(records),
        "pairs": len(pairs),
        "auc": round(auc(yes, no), 3),
        "auc_95": [round(float(low), 3), round(float(high), 3)],
        "paired": round(float(np.mean((yes > no) + 0.5 * (yes == no))), 3),
        "f1": mean(r["f1"] for r in records if "f1" in r),
        "f1_from_gold": mean(r["f1_from_gold"] for r in records if "f1" in r),
        "recall_at_2": mean(sum(k <= 2 for k in found) / min(2, len(found)) for found in ranks),
        "mrr": mean(1 / found[0] for found in ranks),
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
    """Return the metrics as Markdown."""
    names = "set | n | F1 | F1, gold | pairs | AUC (95 %) | paired | R@2 | MRR"
    lines = [f"| {names} |", "|" + "---|" * 9]
    for name, m in summary["walks"].items():
        interval = "{:.2f}-{:.2f}".format(*m["auc_95"])
        lines.append(
            f"| {name} | {m['questions']} | {m['f1']:.2f} | {m['f1_from_gold']:.2f} | {m['pairs']} "
            f"| {m['auc']:.2f} ({interval}) | {m['paired']:.2f} "
            f"| {m['recall_at_2']:.2f} | {m['mrr']:.2f} |"
        )
    return "\n".join([*lines, "", f"points: {summary.get('points')}"])


if __name__ == "__main__":
    main()
