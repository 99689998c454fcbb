"""How much of the gold evidence a walk puts before the reader, at a token budget.

A gold paragraph is touched if at least 10 % of its characters are inside the source spans of the
visited nodes, and half covered from 50 %. One index per document, embedded default models. Beside
the walk stand dense retrieval over the same chunks and over their sentences, with the same
embedding model and the same number of tokens. Run:

    python benchmarks/evidence.py ../shared/data/smoke.jsonl --sets hotpotqa,musique,2wikimultihopqa
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hwdag import Document, HWDAGIndex, Retrieval, SearchConfig, Span
from hwdag.graph.dag import union_of_spans
from hwdag.text.sentences import sentences

TOUCHED, HALF = 0.1, 0.5
SYSTEMS = ("hwdag", "dense chunks", "dense sentences")


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
            found = [row for r in records[: options.limit] for row in coverage(r, config)]
            for system, column in zip(SYSTEMS, np.array(found).T, strict=False):
                print(
                    f"{name:16} {system:16} {len(column)} gold paragraphs at {options.budget} "
                    f"tokens, touched {interval(column >= TOUCHED)}, half covered "
                    f"{interval(column >= HALF)}",
                    flush=True,
                )


def by_set(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Records of a file, by the data set that they are from."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            found[record["dataset"]].append(record)
    return found


def coverage(record: dict[str, Any], config: SearchConfig) -> Iterator[list[float]]:
    """For every gold paragraph of every question, the share of it that each system retrieved."""
    index = HWDAGIndex.from_documents([Document(record["id"], record["text"])])
    paragraphs = paragraph_spans(record)
    chunks = Passages.chunks(index, record["id"])
    pieces = Passages.sentences(index, record["id"])
    for question in record["questions"]:
        query = index.embedder.embed_query(question["question"])
        retrieved = (
            sources(index.search(question["question"], config=config)),
            chunks.nearest(query, config.token_budget),
            pieces.nearest(query, config.token_budget),
        )
        gold = [paragraphs[key] for key in question["evidence"] if key in paragraphs]
        yield from zip(*(shares(spans, gold) for spans in retrieved), strict=True)


def sources(retrieval: Retrieval) -> list[Span]:
    """Source spans of all visited nodes."""
    return [span for step in retrieval.steps for span in step.node.sources]


def shares(spans: Iterable[Span], gold: Sequence[Span]) -> list[float]:
    """Share of each gold paragraph that is inside the spans."""
    merged = union_of_spans(list(spans))
    return [sum(span.overlap(g) for span in merged) / max(1, len(g)) for g in gold]


@dataclass(frozen=True)
class Passages:
    """Passages of one document, what each costs as a bullet line, and their embeddings."""

    spans: list[Span]
    costs: list[int]
    vectors: np.ndarray  # (passages, dimension)

    @classmethod
    def chunks(cls, index: HWDAGIndex, document_id: str) -> Passages:
        """The level-1 nodes."""
        graph = index.graphs[document_id]
        spans = [graph.nodes[i].sources[0] for i in graph.at_level(1)]
        return cls.of(index, document_id, spans)

    @classmethod
    def sentences(cls, index: HWDAGIndex, document_id: str) -> Passages:
        """All sentences."""
        return cls.of(index, document_id, sentences(index.documents[document_id].text))

    @classmethod
    def of(cls, index: HWDAGIndex, document_id: str, spans: list[Span]) -> Passages:
        """Passages with costs and embeddings."""
        text = index.documents[document_id].text
        texts = [text[span.start : span.end] for span in spans]
        costs = index.reader.count_tokens([f"* {passage}\n" for passage in texts])
        return cls(spans, costs, index.embedder.embed(texts))

    def nearest(self, query: np.ndarray, budget: int) -> list[Span]:
        """The most similar passages that fit, skipping those that do not."""
        found = []
        for i in np.argsort(-(self.vectors @ query), kind="stable"):
            if self.costs[i] <= budget:
                found.append(self.spans[i])
                budget -= self.costs[i]
        return found


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
