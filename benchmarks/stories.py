"""Try other walks over stories of FairytaleQA, with a reader that writes.

    python benchmarks/stories.py --model Qwen/Qwen2.5-1.5B-Instruct -o build/stories --split train answers
    python benchmarks/stories.py --model Qwen/Qwen2.5-1.5B-Instruct -o build/stories --split train down

Whole stories of 800 to 2,200 words become one graph each; their windows are written in batches over all
stories. `answers` walks with written points in the context, and without them, and `evidence`. `down`
asks no model: it passes the similarity of points down their edges to the sentences, and compares shuffled and
equal edges. A new run continues an old one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sparse

import hwdag.config as config_module
import hwdag.search.state as state_module
from hwdag import BuildConfig, Document, HWDAGIndex, SearchConfig
from hwdag.arrays import Floats, Mask
from hwdag.config import Method, SearchPlan
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.embedding.checked import embedded_question
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.scope import Scope
from hwdag.search.find import find
from hwdag.search.navigator import navigator_of
from hwdag.search.question import Question as SearchQuestion
from hwdag.search.request import SearchRequest
from hwdag.text.prompts import SearchPrompts
from hwdag_lab.eval.data import records_of
from hwdag_lab.eval.evidence import retrieval_scores
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.statistics import paired_bootstrap
from hwdag_lab.eval.text_metrics import f1

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data"))
WORDS, LEAST_QUESTIONS = (800, 2200), 15
ANSWER_TOKENS = 32
WAYS: dict[str, tuple[Method, bool]] = {
    "evidence": ("evidence", False),
    "text alone": ("hwdag", False),
    "with points": ("hwdag", True),
}


def main() -> None:
    """Build, ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="hub name or path of the reader")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--split", default="dev", choices=("dev", "train"))
    parser.add_argument("--stories", type=int, default=10)
    parser.add_argument("--limit", type=int, default=100, help="questions")
    parser.add_argument("--budget", type=int, default=1024, help="node tokens")
    parser.add_argument("what", choices=("answers", "down"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    records = stories(options.split, options.stories)
    reader = load_reader(options.model)
    graph = built(reader, records, options.output / f"{options.split}.hwdag")
    asked = [(record, q) for record in records for q in record.questions if q.evidence]
    random.Random(2).shuffle(asked)
    if options.what == "down":
        passed_down(graph, asked[: options.limit])
        return
    path = options.output / f"{options.split}-{options.budget}.jsonl"
    answer_all(graph, options.budget, asked[: options.limit], path)
    print(table(rows_of(path)))


def stories(split: str, count: int) -> list[Record]:
    """Stories that are neither short nor long, by chance."""
    found = records_of([DATA / split / "fairytaleqa.jsonl"])
    random.Random(11).shuffle(found)
    fits = [
        record
        for record in found
        if WORDS[0] <= len(record.text.split()) <= WORDS[1]
        and len(record.questions) >= LEAST_QUESTIONS
    ]
    return fits[:count]


def built(reader: HuggingFaceLM, records: list[Record], file: Path) -> HWDAGIndex:
    """Return the index of the stories."""
    options: dict[str, Any] = {"reader": reader, "config": BuildConfig("hwdag")}
    index = HWDAGIndex.load(file, **options) if file.exists() else HWDAGIndex(path=file, **options)
    print(
        index.refresh([Document(one.id, one.text, title=one.title) for one in records]), flush=True
    )
    return index


def answer_all(
    graph: HWDAGIndex, budget: int, asked: list[tuple[Record, Question]], path: Path
) -> None:
    """Search and answer every question that is not there yet, in each way."""
    done = {row["id"] for row in rows_of(path)}
    for record, question in asked:
        if question.id in done:
            continue
        row = {"id": question.id, "question": question.text, "answers": question.answers}
        for name, (method, keeps) in WAYS.items():
            with points_kept(keeps):
                answer = graph.answer(
                    question.text,
                    config=SearchConfig(method=method, token_budget=budget),
                    scope=Scope(document_ids=[record.id]),
                    max_new_tokens=ANSWER_TOKENS,
                )
            text = answer.reply
            row[name] = {"text": text, "f1": f1(text, question.answers), **asdict(answer.usage)}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


@contextmanager
def points_kept(keeps: bool) -> Iterator[None]:
    """Yield whether written points stay in the context of a walk of "hwdag"."""
    rules = config_module.METHOD_DEFAULTS
    changed = {"hwdag": replace(rules["hwdag"], keeps_points=keeps)}
    config_module.METHOD_DEFAULTS = {**rules, **changed}
    try:
        yield
    finally:
        config_module.METHOD_DEFAULTS = rules


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the finished answers."""
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(rows: list[dict[str, Any]]) -> str:
    """Return a line per way: F1, TFLOPs, and the difference of F1 from `evidence`."""
    lines = [f"{len(rows)} questions"]
    for name in WAYS:
        scores = [row[name]["f1"] for row in rows]
        less = paired_bootstrap(scores, [row["evidence"]["f1"] for row in rows])
        tflops = np.mean([row[name]["tflops"] for row in rows])
        lines.append(f"{name:12} f1 {np.mean(scores):.3f}  tflops {tflops:.2f}  {less}")
    return "\n".join(lines)


def passed_down(index: HWDAGIndex, asked: list[tuple[Record, Question]]) -> None:
    """Return evidence of leaves whose similarity is 0.7 of itself and 0.3 of that passed down by their points."""
    corpus = index._snapshots.current()
    nodes = corpus.fetch(range(len(corpus)))
    levels = np.array([node.level for node in nodes])
    documents = np.array([node.document_id for node in nodes])
    chance = np.random.default_rng(0)

    def edges(kind: str) -> Any:
        found = sparse.lil_matrix((len(nodes), len(nodes)))
        for point in np.flatnonzero(levels == 2):
            children, weights = corpus.children(int(point))
            if kind == "shuffled":
                weights = chance.permutation(weights)
            elif kind == "equal":
                weights = np.full(len(weights), 1 / max(1, len(weights)))
            found[point, children] = weights
        return found.tocsr()

    class Down(Similarity):
        """Return the mean similarity of the points over a leaf, weighed by their edges, and its own."""

        edges: Any = None

        @property
        def _of_question(self) -> Floats:
            own = super()._of_question
            if self.edges is None:
                return own
            seen = (levels == 2) & np.isin(documents, np.unique(documents[self._keep]))
            told = np.where(seen, self.cosine, 0.0)
            weight = np.asarray(self.edges.sum(0)).ravel()
            down = np.where(self._keep, (self.edges.T @ told) / np.maximum(weight, 1e-9), 0.0)
            return 0.7 * own + 0.3 * down / (down.max() or 1.0) * (own.max() or 1.0)

    state_module.Similarity = Down  # type: ignore[misc]
    kinds = {"none": None} | {name: edges(name) for name in ("attention", "shuffled", "equal")}
    for navigator, is_one, budget in product(("none", "default"), (True, False), (256, 512)):
        plan = SearchConfig("evidence", budget, navigator=navigator).plan("evidence")
        base = None
        for kind, Down.edges in kinds.items():
            found = []
            for record, question in asked:
                allowed = (levels == 1) & ((documents == record.id) | (not is_one))
                found.append(scores_of(index, plan, record, question, allowed))
            scores = np.array(found)
            base = scores if base is None else base
            less = [paired_bootstrap(scores[:, i], base[:, i]) for i in (0, 1)]
            where = "one story" if is_one else "all stories"
            means = "touched {:.3f} half {:.3f}".format(*scores.mean(0))
            print(f"navigator {navigator}, {where}, {budget}, {kind}: {means}", *less, flush=True)


def scores_of(
    index: HWDAGIndex, plan: SearchPlan, record: Record, question: Question, allowed: Mask
) -> tuple[float, float]:
    """Touched and half of the gold paragraphs of a question, chosen among the allowed nodes."""
    asked = SearchQuestion.of(question.text, embedded_question(index.embedder, question.text))
    request = SearchRequest(
        reader=index.reader,
        embedder=index.embedder,
        plan=plan,
        prompts=SearchPrompts(),
        navigator=navigator_of(plan, index.embedder),
        has_token_counts=True,
        will_decode=False,
    )
    view = View.of(index._snapshots.current(), allowed)
    found = find(view, asked, request)
    read = [step.node for step in found.retrieval.steps]
    own = [node for node in read if node.document_id == record.id]
    made = retrieval_scores(own, record, question)
    return made["paragraph_touched"], made["paragraph_half"]


if __name__ == "__main__":
    main()
