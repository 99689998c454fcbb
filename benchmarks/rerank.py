"""Which passages does attention rank first, compared with BM25 and an embedding model?

All rank the same candidates: the paragraphs that come with a question, gold ones included, as they
are in the data. R-precision is the share of gold among the first g, where g is their number;
recall@k their share among the first k. Run, and run again to continue:

    python benchmarks/rerank.py ../shared/data/dev/{hotpotqa,musique}.jsonl -o build/rerank

Every question is one line of a file in the folder; `--report` reads the finished rows. Sets take turns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

import numpy as np

from hwdag.arrays import Floats
from hwdag.embedding.default import default_embedder
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.text.words import content_words
from hwdag_lab.eval.statistics import bootstrap, paired_bootstrap
from hwdag_lab.heads import AttentionScoring, Example, capture_ranking, read_examples
from hwdag_lab.methods.bm25 import BM25Config, BM25Index

CUTS = (2, 5)
BASE = "minilm"


def main() -> None:
    """Make the missing rankings, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", type=Path, help="JSONL of hwdag_lab.eval")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--limit", type=int, default=100, help="questions per set")
    parser.add_argument("--reader", help="a local model (default: the embedded one)")
    parser.add_argument("--dtype")
    parser.add_argument("--report", action="store_true", help="rank nothing")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "ranked.jsonl"
    if not options.report:
        _measure(options, path)
    report([json.loads(line) for line in path.read_text("utf-8").splitlines()])


def _measure(options: argparse.Namespace, path: Path) -> None:
    lm = load_reader(options.reader, dtype=options.dtype)
    by_set: dict[str, list[Example]] = {}
    for example in read_examples(options.data, limit=options.limit, seed=1):
        by_set.setdefault(example.dataset, []).append(example)
    seen = path.read_text("utf-8").splitlines() if path.exists() else []
    done = {json.loads(line)["key"] for line in seen}
    with path.open("a", encoding="utf-8") as file:
        for example in (e for turn in zip_longest(*by_set.values()) for e in turn if e is not None):
            key = f"{example.group}: {example.question}"
            if key not in done:
                line = {"key": key, "dataset": example.dataset, "group": example.group}
                file.write(json.dumps(line | ranked(lm, example)) + "\n")
                file.flush()


def ranked(lm: HuggingFaceLM, example: Example) -> dict[str, object]:
    """Return the results of every scorer, and the seconds of reading."""
    began = time.perf_counter()
    captured = capture_ranking(lm, example.question, example.passages, heads="auto")
    seconds = time.perf_counter() - began
    vectors = default_embedder().embed([*example.passages, example.question])
    similarity = vectors[:-1] @ vectors[-1]
    attention = AttentionScoring.preset("qrhead").scores(captured)
    scores = {
        "bm25": _bm25(example),
        BASE: similarity,
        "attention, qrhead": attention,
        "attention, core": AttentionScoring.preset("core").scores(captured),
        f"{BASE} + attention": _share(similarity) + _share(attention),
    }
    found = {name: _judged(np.asarray(s), example.gold) for name, s in scores.items()}
    return {"seconds": round(seconds, 2), "passages": len(example.passages), "found": found}


def _bm25(example: Example) -> Floats:
    index = BM25Index.of(list(map(content_words, example.passages)), BM25Config())
    return index.scores(content_words(example.question))


def _share(scores: Floats) -> Floats:
    above: Floats = np.maximum(scores, 0.0)
    return above / max(float(above.sum()), 1e-30)


def _judged(scores: Floats, gold: Sequence[int]) -> Mapping[str, float]:
    order = np.argsort(-scores, kind="stable")
    cuts = {"R-precision": len(gold)} | {f"recall@{k}": k for k in CUTS}
    return {name: float(np.isin(order[:k], gold).sum() / len(gold)) for name, k in cuts.items()}


def report(lines: Sequence[Mapping]) -> None:
    """Print one table of all sets together, and R-precision of every set."""
    sets = sorted({line["dataset"] for line in lines})
    groups = [line["group"] for line in lines]
    counts = ", ".join(f"{name} {sum(x['dataset'] == name for x in lines)}" for name in sets)
    seconds = np.median([line["seconds"] for line in lines])
    print(f"questions: {counts}; {seconds:.1f} s a question (median)\n")
    metrics = list(lines[0]["found"][BASE])
    print("| scorer | " + " | ".join((*metrics, f"R-precision - {BASE}", *sets)) + " |")
    print("|---|" + "---|" * (len(metrics) + 1 + len(sets)))
    for name in lines[0]["found"]:
        cells = []
        for metric in metrics:
            values = [line["found"][name][metric] for line in lines]
            cells.append(str(bootstrap(values, groups=groups)))
        own, base = ([x["found"][n]["R-precision"] for x in lines] for n in (name, BASE))
        cells.append("" if name == BASE else str(paired_bootstrap(own, base, groups=groups)))
        for one in sets:
            values = [v for v, x in zip(own, lines, strict=True) if x["dataset"] == one]
            cells.append(f"{np.mean(values):.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
