"""Measure a model's Information Points: copies, condensation, and the coverage of their edges.

    python benchmarks/points.py --model Qwen/Qwen2.5-1.5B-Instruct -o build/points

The beginnings of development stories (FairytaleQA, QuALITY), cut at paragraphs, become graphs by the method
"hwdag". A paragraph counts as covered if the edges of some point to its sentences weigh `COVERS`
together. A new run continues an old one; `--split train` is for choosing a prompt. `--graphs runs/study/fairytaleqa/indexes`
measures the graphs that `hwdag eval` has built, except refusals, which a graph does not record.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path

import numpy as np

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.graph.dag import HWDAG
from hwdag.lm.default import load_reader
from hwdag.text.headings import Outline

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data"))
COVERS = 0.1


def stories(split: str, name: str, count: int, words: int) -> list[Document]:
    """Return the first `words` words of `count` documents, whole paragraphs."""
    lines = (DATA / split / f"{name}.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    random.Random(3).shuffle(found)
    return [Document(one["id"], beginning(one["text"], words)) for one in found[:count]]


def beginning(text: str, words: int) -> str:
    """Whole paragraphs, at least one, of at most `words` words."""
    kept: list[str] = []
    for paragraph in text.split("\n"):
        if kept and len(" ".join([*kept, paragraph]).split()) > words:
            break
        kept.append(paragraph)
    return "\n".join(kept)


def covered(graph: HWDAG, text: str) -> float:
    """Share of the paragraphs that edges of points cover."""
    leaves = graph.at_level(1)
    numbers = Outline(text).paragraphs_of([graph.nodes[i].sources[0] for i in leaves])
    paragraph = dict(zip(leaves.tolist(), numbers, strict=True))
    found: set[int] = set()
    for point in graph.at_level(2):
        weights: dict[int, float] = {}
        for child, weight in zip(*graph.children(int(point)), strict=True):
            at = paragraph[int(child)]
            weights[at] = weights.get(at, 0.0) + float(weight)
        found |= {at for at, weight in weights.items() if weight >= COVERS}
    return len(found) / len(set(numbers))


def measured(document: Document, index: HWDAGIndex) -> dict[str, object]:
    """Return the measures of one build."""
    report = index.refresh([document])
    graph = index.graphs[document.id]
    tokens = [sum(graph.nodes[i].tokens for i in graph.at_level(h)) for h in (1, 2)]
    written = [graph.nodes[i] for i in graph.at_level(2) if graph.nodes[i].origin == "generated"]
    return {
        "id": document.id,
        "tokens": tokens,
        "points": len(written),
        "levels": graph.height,
        "refused": report.refused,
        "too_long": report.too_long,
        "retries": report.retries,
        "fallbacks": report.fallbacks,
        "covered": covered(graph, document.text),
        "seconds": round(report.usage.seconds),
        "tflops": report.usage.tflops,
        "texts": [node.text for node in written],
    }


def main() -> None:
    """Run the study, then print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="hub name or path of the reader")
    parser.add_argument("-o", "--output", type=Path, help="folder of the results")
    parser.add_argument("--graphs", type=Path, help="folder of index files; nothing is built")
    parser.add_argument("--sets", default="fairytaleqa,quality")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--documents", type=int, default=5, help="of each set")
    parser.add_argument("--words", type=int, default=1000, help="of each document")
    options = parser.parse_args()
    if options.graphs:
        print(of_graphs(options.graphs))
        return
    if not (options.model and options.output):
        parser.error("--model and --output, or --graphs")
    options.output.mkdir(parents=True, exist_ok=True)
    name = f"{Path(options.model).name}-{options.split}"
    path = options.output / f"{name}.jsonl"
    rows = rows_of(path)
    reader = load_reader(options.model)  # also the writer, whatever its card says
    config = BuildConfig("hwdag")
    file = options.output / f"{name}.hwdag"
    if file.exists():
        index = HWDAGIndex.load(file, reader=reader, writer=reader, config=config)
    else:
        index = HWDAGIndex(reader=reader, writer=reader, config=config, path=file)
    for which in options.sets.split(","):
        for document in stories(options.split, which, options.documents, options.words):
            if document.id in {row["id"] for row in rows}:
                continue
            row = {"set": which} | measured(document, index)
            rows.append(row)
            with path.open("a", encoding="utf-8") as out:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(table(rows))


def of_graphs(folder: Path) -> str:
    """Points, tokens of text per token of points, and covered paragraphs of the graphs with points."""
    points, picked, tokens, shares, levels = 0, 0, np.zeros(2), [], 0
    for file in sorted(folder.glob("*.hwdag")):
        index = HWDAGIndex.load(file)
        for name, graph in index.graphs.items():
            if graph.height > 1:
                points += len(graph.at_level(2))
                picked += sum(graph.nodes[i].origin == "extractive" for i in graph.at_level(2))
                tokens += [sum(graph.nodes[i].tokens for i in graph.at_level(h)) for h in (1, 2)]
                shares.append(covered(graph, index.documents[name].text))
                levels += graph.height > 2
    return (
        f"{len(shares)} graphs, {levels} with a third level: {points} points, {picked} picked, {tokens[0]:.0f} tokens "
        f"over {tokens[1]:.0f} ({tokens[0] / tokens[1]:.1f}:1), {np.mean(shares):.0%} of paragraphs covered"
    )


def rows_of(path: Path) -> list[dict]:
    """Return the finished documents."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(rows: list[dict]) -> str:
    """Return a line per set."""
    lines = [
        "| set | texts | written points refused | points kept | tokens below per token | paragraphs covered |"
    ]
    for name in dict.fromkeys(row["set"] for row in rows):
        of = [row for row in rows if row["set"] == name]
        kept, refused = (sum(row[key] for row in of) for key in ("points", "refused"))
        below, above = (sum(row["tokens"][i] for row in of) for i in (0, 1))
        share = np.mean([row["covered"] for row in of])
        lines.append(
            f"| {name} | {len(of)} | {refused / max(1, kept + refused):.0%} | {kept} | "
            f"{below / max(1, above):.1f} | {share:.0%} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
