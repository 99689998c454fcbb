"""Measure the gain from the headings above a section: questions about one of several papers.

    python benchmarks/titles.py --together 8     # the title is in the question
    python benchmarks/titles.py --together 1     # as it is, one paper at a time

Papers of Qasper, whose sections have the same names in all of them, in indexes of `--together` papers.
For each weight (`hwdag.embedding.titles.TITLE_WEIGHT`), how much of the gold paragraphs `evidence` touches
and covers by half, less the same with the first weight. `--split train` is for choosing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.embedding import titles
from hwdag_lab.eval.statistics import bootstrap

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data"))
QUESTIONS = 3  # of a paper


def main() -> None:
    """Print a line per weight."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--split", default="dev", choices=("train", "dev"))
    parser.add_argument("--papers", type=int, default=40)
    parser.add_argument("--together", type=int, default=8, help="papers of an index")
    parser.add_argument("--weights", default="0,0.3,0.6,1")
    parser.add_argument("--budget", type=int, default=512, help="tokens of evidence")
    options = parser.parse_args()
    lines = (DATA / options.split / "qasper.jsonl").read_text("utf-8").splitlines()
    papers = [paper for paper in map(json.loads, lines) if paper["title"] and paper["questions"]]
    random.Random(21).shuffle(papers)
    papers, first = papers[: options.papers], None
    config = SearchConfig(token_budget=options.budget)
    for weight in map(float, options.weights.split(",")):
        titles.TITLE_WEIGHT = weight
        found = np.array(
            [
                row
                for start in range(0, options.papers, options.together)
                for row in asked(papers[start : start + options.together], config)
            ]
        )
        first = found if first is None else first
        less = [str(bootstrap(found[:, i] - first[:, i])) for i in range(2)]
        touched, half = found.mean(0)
        print(f"{weight:4} {len(found)} questions: touched {touched:.2f} half {half:.2f}; {less}")


def asked(papers: list[dict], config: SearchConfig) -> Iterator[tuple[float, float]]:
    """Yield the shares of the gold paragraphs of each question that are touched, and covered by half."""
    documents = [Document(one["id"], one["text"], one["title"]) for one in papers]
    index = HWDAGIndex.from_documents(documents, method="evidence")
    for paper in papers:
        texts = {one["id"]: one["text"] for one in paper["paragraphs"]}
        for question in paper["questions"][:QUESTIONS]:
            gold = [texts.get(one, one) for one in question["evidence"]]
            starts = [(paper["text"].find(text), len(text)) for text in gold]
            spans = [(start, start + length) for start, length in starts if start >= 0]
            if not spans:
                continue
            asks = question["question"]
            if len(papers) > 1:
                asks = f'In "{paper["title"]}": {asks}'
            steps = index.search(asks, config=config).steps
            read = [step.node.sources[0] for step in steps if step.node.document_id == paper["id"]]
            shares = np.array(
                [
                    sum(max(0, min(end, one.end) - max(start, one.start)) for one in read)
                    / (end - start)
                    for start, end in spans
                ]
            )
            yield float(np.mean(shares >= 0.1)), float(np.mean(shares >= 0.5))


if __name__ == "__main__":
    main()
