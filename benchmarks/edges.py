"""Do edges point to the chunk that a point was picked from? All heads against the head list.

Extractive points know their source, so the share of attention that each pays to its own chunk, and
how often that chunk is its heaviest edge, can be counted. Run:

    python benchmarks/edges.py ../shared/data/train/qasper.jsonl --limit 10
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.config import Heads
from hwdag.graph.dag import HWDAG
from hwdag_lab.eval.statistics import bootstrap


def main() -> None:
    """Print one line per choice of heads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="JSONL with id and text")
    parser.add_argument("--limit", type=int, default=10, help="documents")
    options = parser.parse_args()
    with options.data.open(encoding="utf-8") as lines:
        records = [json.loads(line) for line, _ in zip(lines, range(options.limit), strict=False)]
    for heads in ("all", "auto"):
        shares, hits = measure(records, heads)
        print(
            f"{heads:5} {len(shares)} points of {len(records)} documents: own chunk is the "
            f"heaviest edge {bootstrap(hits)}, share of attention {bootstrap(shares)}"
        )


def measure(records: list[dict[str, str]], heads: Heads) -> tuple[np.ndarray, np.ndarray]:
    """Per point: the weight of the edge to its own chunk, and whether it is the heaviest."""
    documents = [Document(record["id"], record["text"]) for record in records]
    index = HWDAGIndex.from_documents(
        documents, config=BuildConfig(leaves="chunks", edge_heads=heads), show_progress=True
    )
    found = [pair for graph in index.graphs.values() for pair in own_edges(graph)]
    shares, hits = np.array(found).T
    return shares, hits


def own_edges(graph: HWDAG) -> list[tuple[float, bool]]:
    """Weight of each level-2 point's edge to the chunk it was picked from; is it the heaviest?"""
    found = []
    for index in graph.at_level(2):
        children, weights = graph.children(int(index))
        source = graph.nodes[index].sources[0]
        own = [graph.nodes[child].sources[0].overlap(source) > 0 for child in children]
        found.append((float(weights[own].sum()), bool(own[int(weights.argmax())])))
    return found


if __name__ == "__main__":
    main()
