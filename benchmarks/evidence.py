"""How much of the gold evidence a walk puts before the reader, at a token budget.

A gold paragraph is touched if at least 10 % of its characters are inside the source spans of the
visited nodes, and half covered from 50 %. One index per document, embedded default models. Run:

    python benchmarks/evidence.py ../shared/data/smoke.jsonl --sets hotpotqa,musique,2wikimultihopqa
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hwdag import Document, HWDAGIndex, Retrieval, SearchConfig, Span
from hwdag.graph.dag import union_of_spans

TOUCHED, HALF = 0.1, 0.5


def main() -> None:
    """Print one line per data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="JSONL with text, paragraphs and questions")
    parser.add_argument("--sets", help="names of data sets, separated by commas (default: all)")
    parser.add_argument("--budget", type=int, default=1024, help="node tokens")
    parser.add_argument("--limit", type=int, help="documents per data set")
    options = parser.parse_args()
    wanted = options.sets.split(",") if options.sets else None
    config = SearchConfig(token_budget=options.budget)
    for name, records in by_set(options.data).items():
        if wanted is None or name in wanted:
            found = [share for r in records[: options.limit] for share in coverage(r, config)]
            if found:
                shares = np.array(found)
                print(
                    f"{name}: {len(found)} gold paragraphs at {options.budget} tokens, touched "
                    f"{interval(shares >= TOUCHED)}, half covered {interval(shares >= HALF)}"
                )


def by_set(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Records of a file, by the data set that they are from."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            found[record["dataset"]].append(record)
    return found


def coverage(record: dict[str, Any], config: SearchConfig) -> Iterator[float]:
    """For every gold paragraph of every question, the share of it that was retrieved."""
    index = HWDAGIndex.from_documents([Document(record["id"], record["text"])])
    paragraphs = paragraph_spans(record)
    for question in record["questions"]:
        retrieval = index.search(question["question"], config=config)
        yield from shares(retrieval, question, paragraphs)


def shares(
    retrieval: Retrieval, question: dict[str, Any], paragraphs: dict[str, Span]
) -> Iterator[float]:
    """Share of each of a question's gold paragraphs that is inside the visited nodes' sources."""
    spans = union_of_spans([span for step in retrieval.steps for span in step.node.sources])
    for gold in (paragraphs[key] for key in question["evidence"] if key in paragraphs):
        yield sum(span.overlap(gold) for span in spans) / max(1, len(gold))


def paragraph_spans(record: dict[str, Any]) -> dict[str, Span]:
    """Where every paragraph stands in the text; paragraphs are verbatim and in order."""
    spans, at = {}, 0
    for paragraph in record.get("paragraphs", []):
        start = record["text"].find(paragraph["text"], at)
        start = start if start >= 0 else record["text"].index(paragraph["text"])
        spans[paragraph["id"]] = Span(start, start + len(paragraph["text"]))
        at = start
    return spans


def interval(values: np.ndarray, seed: int = 0) -> str:
    """Mean with its 95 % bootstrap interval."""
    rng = np.random.default_rng(seed)
    means = rng.choice(values, (2000, len(values))).mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main()
