"""Measure the cost of a large index: opening, searches, one step of a walk, adding a document, memory.

Synthetic documents of 100 nodes and about 1,000 edges are put into one file until it holds the asked
number of nodes. Then a fresh process searches it without the arrays of a file, and
another one with them, adds documents, and walks, with the scripted model as reader, so that what is
measured is the index and not a language model. Run:

    python benchmarks/scale.py 1000 10000 100000 1000000 --folder /tmp/scale
    python benchmarks/scale.py --plot docs/images/growth.svg --folder /tmp/scale

The last one draws the measurements of the others.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hwdag import BuildConfig, Document, HWDAGIndex, Node, SearchConfig, Span
from hwdag.arrays import Vectors
from hwdag.config import NEVER
from hwdag.corpus.corpus import Corpus
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.embedding.default import default_embedder
from hwdag.graph.dag import HWDAG, EdgeRow
from hwdag.scope import Scope
from hwdag.search.frontier import Frontier
from hwdag.search.navigator import navigator_of
from hwdag.search.question import Question
from hwdag.search.references import References
from hwdag.search.request import SearchRequest
from hwdag.search.snapshots import Snapshots
from hwdag.store.erasure import arrays_of, drop_arrays
from hwdag.store.sqlite import Header, Store
from hwdag.text.prompts import SearchPrompts
from hwdag.types import OnStep
from hwdag_lab.scripted import ScriptedLM

DIMENSION = 384
LEAVES, POINTS, TOPS = 83, 14, 3
"""Nodes of a document by level."""

VOCABULARY = 50_000
QUESTIONS = 5
STEPS = 20
ADDED = 5


def main() -> None:
    """Measure every size in a process of its own; one JSON line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", type=int, nargs="*", help="nodes")
    parser.add_argument(
        "--folder", type=Path, required=True, help="for the index files, and growth.jsonl"
    )
    parser.add_argument("--plot", type=Path, help="draw growth.jsonl there")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    log = options.folder / "growth.jsonl"
    for size in options.sizes:
        file = options.folder / f"{size}.hwdag"
        if not file.exists():
            fill(file, size)
        command = [sys.executable, __file__, "0", "--folder", ".", "--measure", str(file)]
        report: dict[str, object] = {"nodes": size, "machine": platform.machine()}
        drop_arrays(file)
        fresh = child(command)
        for name in ("first_search_s", "first_search_cpu_s", "peak_gb"):
            report[f"without_arrays_{name}"] = fresh[name]
        report |= child(command)
        sizes = [f.stat().st_size for *_, folder in arrays_of(file) for f in folder.iterdir()]
        report["arrays_mb"] = round(sum(sizes) / 1e6, 1)
        print(json.dumps(report), flush=True)
        with log.open("a", encoding="utf-8") as lines:
            print(json.dumps(report), file=lines)
    if options.plot:
        plot([json.loads(line) for line in log.read_text("utf-8").splitlines()], options.plot)


def plot(reports: list[dict[str, Any]], image: Path) -> None:
    """Seconds of the processor and memory over the number of nodes, the last report of each."""
    # why here: the memory of the other processes is measured
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    by_size = {report["nodes"]: report for report in reports}
    sizes = sorted(by_size)
    figure, (time_axis, memory_axis) = pyplot.subplots(1, 2, figsize=(9, 3.2))
    for name, label, unit in (
        ("first_search_cpu_s", "first search of a process", 1),
        ("search_cpu_s", "later searches", 1),
        ("step_cpu_ms", "one step", 1000),
    ):
        values = [by_size[size][name] / unit for size in sizes]
        time_axis.plot(sizes, values, marker="o", markersize=3, label=label)
    memory_axis.plot(
        sizes, [by_size[size]["peak_gb"] for size in sizes], marker="o", markersize=3, label="peak"
    )
    time_axis.set(title="seconds of a core", xlabel="nodes", xscale="log", yscale="log")
    memory_axis.set(title="memory, GB", xlabel="nodes", xscale="log", yscale="log")
    time_axis.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(image)


def child(command: list[str]) -> dict[str, object]:
    """Return the output of another process."""
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(found))


def fill(file: Path, size: int) -> None:
    """Make a file of `size` nodes; an interrupted one has another name."""
    unfinished = file.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    config = asdict(BuildConfig().resolved("evidence"))
    header = Header(
        "scripted", "random", DIMENSION, config, tokenizer=ScriptedLM().tokenizer_fingerprint
    )
    with Store.create(unfinished, header) as store:
        for document, graph, vectors in synthetic(size // (LEAVES + POINTS + TOPS)):
            store.put(document, graph, vectors)
    unfinished.rename(file)


def measure(file: Path) -> dict[str, object]:
    """Seconds of every operation, and the memory of this process."""
    rng = np.random.default_rng(1)
    found: dict[str, object] = {"file_mb": round(file.stat().st_size / 1e6, 1)}
    began = time.perf_counter()
    store = Store.open(file)
    snapshots = Snapshots(store)
    found["open_s"] = lap(began)
    found["first_search_s"], found["first_search_cpu_s"] = timed(snapshots, rng)
    taken = [timed(snapshots, rng) for _ in range(QUESTIONS)]
    found["search_s"], found["search_cpu_s"] = np.median(taken, axis=0).round(3).tolist()
    timed(snapshots, rng, navigator="default")  # loads it
    steps = [timed_steps(snapshots, rng) for _ in range(QUESTIONS)]
    found["navigated_search_cpu_s"] = round(float(np.median([sum(one) for one in steps])), 3)
    found["navigated_slowest_step_cpu_ms"] = round(1000 * max(max(one[1:]) for one in steps), 1)
    # why before peak: only Linux separates the memory of the process from mapped files
    found["memory_gb"] = memory()
    found["peak_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 3)
    corpus = Snapshots(store).current()
    found["edges"] = sum(len(part.children) for part in corpus.segments)
    found["step_cpu_ms"] = steps_of_the_frontier(corpus, rng)
    found["add_s"], found["search_after_add_s"] = additions(file, rng)
    return found


def timed(
    snapshots: Snapshots,
    rng: np.random.Generator,
    navigator: str = "none",
    on_step: OnStep = lambda step: None,
) -> tuple[float, float]:
    """Seconds of one search, and of the processor."""
    plan = SearchConfig(token_budget=400, navigator=navigator).plan("evidence", NEVER)
    embedder = Random() if navigator == "none" else default_embedder()
    question, vector = sentence(rng), random_vectors(rng, 1)[0]
    began, used = time.perf_counter(), time.process_time()
    request = SearchRequest(
        reader=ScriptedLM(),
        embedder=embedder,
        plan=plan,
        prompts=SearchPrompts(),
        navigator=navigator_of(plan, embedder),
        will_decode=False,
        on_step=on_step,
    )
    snapshots.find(Question.of(question, vector), request, Scope())
    return lap(began), round(time.process_time() - used, 3)


def timed_steps(snapshots: Snapshots, rng: np.random.Generator) -> list[float]:
    """Seconds of the processor up to each choice of a search with the navigator of the default embedder."""
    marks = [time.process_time()]
    timed(snapshots, rng, "default", lambda step: marks.append(time.process_time()))
    return np.diff([*marks, time.process_time()]).tolist()


def memory() -> dict[str, float]:
    """GB of this process: its own, and of files that are mapped."""
    status = Path("/proc/self/status").read_text().splitlines()
    sizes = dict(line.split(":", 1) for line in status)
    return {
        name: round(int(sizes[key].split()[0]) / 1e6, 3)
        for name, key in (("own", "RssAnon"), ("mapped", "RssFile"))
    }


def additions(file: Path, rng: np.random.Generator) -> tuple[float, float]:
    """Median seconds of adding a document, and of the search after it."""
    added, seen = [], []
    with HWDAGIndex.load(file, reader=ScriptedLM(), embedder=Random()) as index:
        config = SearchConfig(token_budget=400, confidence=NEVER)
        index.search(sentence(rng), config=config)
        for i in range(ADDED):
            text = " ".join(sentence(rng) for _ in range(20))
            began = time.perf_counter()
            index.insert([Document(f"added {time.time()} {i}", text)])
            added.append(lap(began))
            began = time.perf_counter()
            index.search(sentence(rng), config=config)
            seen.append(lap(began))
    return float(np.median(added)), float(np.median(seen))


def steps_of_the_frontier(corpus: Corpus, rng: np.random.Generator) -> float:
    """Milliseconds of the processor for one step: choose the best node, and pass its relevance on."""
    scoring = SearchConfig().plan("hwdag").scoring
    taken = []
    for _ in range(QUESTIONS):
        vector = random_vectors(rng, 1)[0]
        view, question = View.of(corpus), Question.of(sentence(rng), vector)
        similarity = Similarity(view, question.asked_words, vector, scoring).values
        references = References(view, question)
        frontier = Frontier(view, similarity, scoring=scoring, references=references)
        for _ in range(STEPS):
            began = time.process_time()
            best = frontier.best(lambda indices: [1] * len(indices), 100)
            chosen = time.process_time()
            [node] = corpus.fetch([best])
            fetched = time.process_time()
            frontier.visit(best, node)
            frontier.pass_on(best, float(rng.uniform(0.1, 1)))
            taken.append(chosen - began + time.process_time() - fetched)
    return round(1000 * float(np.median(taken)), 3)


def lap(began: float) -> float:
    """Seconds since then."""
    return round(time.perf_counter() - began, 5)


class Random:
    """An embedder that knows nothing; equal texts get equal vectors."""

    name = "random"
    dimension = DIMENSION

    def embed(self, texts: list[str]) -> Vectors:
        """Unit vectors, (texts, dimension)."""
        return np.concatenate([self.embed_query(text)[None] for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """Return a unit vector, (dimension,)."""
        seed = int.from_bytes(text.encode()[-8:], "little")
        return random_vectors(np.random.default_rng(seed), 1)[0]


def synthetic(count: int) -> Iterator[tuple[Document, HWDAG, Vectors]]:
    """Documents of random words, frequent ones and rare ones."""
    rng = np.random.default_rng(0)
    for number in range(count):
        yield made(f"doc{number}", rng)


def made(name: str, rng: np.random.Generator) -> tuple[Document, HWDAG, Vectors]:
    """Return one document: leaves, points over windows of 70 leaves, tops over all points."""
    nodes: list[Node] = []
    parts, at = [], 0
    for i in range(LEAVES):
        text = sentence(rng)
        parts.append(text)
        nodes.append(Node(f"{name}#1.{i}", name, 1, text, "chunk", 12, (Span(at, at + len(text)),)))
        at += len(text) + 1
    rows = []
    for level, count, below in (
        (2, POINTS, range(LEAVES)),
        (3, TOPS, range(LEAVES, LEAVES + POINTS)),
    ):
        for i in range(count):
            first = int(rng.integers(0, max(1, len(below) - 70 + 1)))
            children = np.arange(below.start + first, min(below.stop, below.start + first + 70))
            source = nodes[int(rng.choice(LEAVES))].sources
            rows.append(EdgeRow(len(nodes), children, rng.uniform(0.1, 1, len(children))))
            text = sentence(rng)
            nodes.append(Node(f"{name}#{level}.{i}", name, level, text, "generated", 12, source))
    document = Document(name, " ".join(parts), f"Title {name}")
    return document, HWDAG.from_rows(nodes, rows), random_vectors(rng, len(nodes))


def sentence(rng: np.random.Generator, words: int = 12) -> str:
    """Words with the frequencies of a language (Zipf)."""
    ranks = np.minimum(rng.zipf(1.3, words), VOCABULARY)
    return " ".join(f"w{rank}" for rank in ranks) + "."


def random_vectors(rng: np.random.Generator, count: int) -> Vectors:
    """Unit vectors in all directions, (count, DIMENSION)."""
    vectors = rng.standard_normal((count, DIMENSION), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


if __name__ == "__main__":
    main()
