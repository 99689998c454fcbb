"""Cold starts, and work next to another busy process; compared with another checkout if one is named.

    python benchmarks/starting.py                              # this checkout alone
    python benchmarks/starting.py --compare ../hwdag-5a68074    # and a git worktree of another one
    python benchmarks/starting.py --compare ... --reader MODEL  # a build with points of MODEL, too

Each row is a process of its own. The checkouts take turns; figures are medians over the rounds. A cold
start is measured in seconds of the processor, so a busy machine changes little. Work next to a busy
process is measured by the clock, as the same work without that process is.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
QUESTION = "How many nodes are read, and what ends the walk?"
MORE_QUESTIONS = (
    "What becomes the weight of an edge?",
    "When does the reader say that it has enough?",
    "How long is a passage that a point is written about?",
    "Which similarity chooses the next node?",
    "What is appended to the cache?",
)

DOCUMENTS = f"""
import sys
from hwdag import Document, HWDAGIndex
text = open({str(ROOT / "docs" / "method.md")!r}, encoding="utf-8").read()
documents = [Document(f"page {{i}}", text[4000 * i : 4000 * i + 4000]) for i in range(6)]
"""

BUILD = DOCUMENTS + "HWDAGIndex.from_documents(documents, path=sys.argv[1])"

COLD = {
    "refresh with nothing to do": DOCUMENTS + "HWDAGIndex.load(sys.argv[1]).refresh(documents)",
    "first search": f"""
import sys
from hwdag import HWDAGIndex
HWDAGIndex.load(sys.argv[1]).search({QUESTION!r})
""",
    "first answer": f"""
import sys
from hwdag import HWDAGIndex
HWDAGIndex.load(sys.argv[1]).answer({QUESTION!r})
""",
}
"""Work from a cold start, by name; each is a program that gets the path of an index."""

SMALL_TEXTS = 200

SMALL = f"""
import random
from hwdag import Document, HWDAGIndex
draw = random.Random(0)
words = open({str(ROOT / "docs" / "method.md")!r}, encoding="utf-8").read().split()
texts = [" ".join(draw.choices(words, k=60)) + "." for _ in range({SMALL_TEXTS})]
HWDAGIndex.from_documents([Document(f"text {{i}}", text) for i, text in enumerate(texts)])
"""


def points(reader: str) -> str:
    """Return a program that builds three texts of 150 words with points that a model writes."""
    return f"""
from hwdag import Document, HWDAGIndex
words = open({str(ROOT / "docs" / "method.md")!r}, encoding="utf-8").read().split()
texts = [" ".join(words[150 * i : 150 * i + 150]) for i in range(3)]
documents = [Document(f"text {{i}}", text) for i, text in enumerate(texts)]
HWDAGIndex.from_documents(documents, method="hwdag", reader={reader!r})
"""


WARM = (
    DOCUMENTS
    + f"""
import time
def build():
    return HWDAGIndex.from_documents(documents)
index = build()
index.search({QUESTION!r})
began = time.perf_counter()
build()
built = time.perf_counter()
for _ in range(5):
    index.search({QUESTION!r})
searched = time.perf_counter()
index.answer({QUESTION!r})
began_to_answer = time.perf_counter()
answers = [index.answer(question) for question in {MORE_QUESTIONS!r}]
answered = (time.perf_counter() - began_to_answer) / {len(MORE_QUESTIONS)}
print(*(repr(answer.text) for answer in answers), sep="\\n")
print(built - began, (searched - built) / 5, answered)
"""
)

STAGES = f"""
import sys, time
def stage(name, work):
    before, began = set(sys.modules), time.process_time()
    found = work()
    seconds = time.process_time() - began
    new = set(sys.modules) - before
    heavy = {{"numpy", "tokenizers", "torch", "transformers", "sentence_transformers", "scipy"}} & new
    print(f"| {{name}} | {{seconds:.2f}} | {{len(new):,}} | {{', '.join(sorted(heavy))}} |")
    return found
HWDAGIndex = stage("import hwdag.index", lambda: __import__("hwdag.index").index.HWDAGIndex)
index = stage("open an index", lambda: HWDAGIndex.load(sys.argv[1]))
stage("first search", lambda: index.search({QUESTION!r}))
stage("load the reader: libraries, tokenizer", lambda: index.reader)
stage("load the reader: weights, self-test", lambda: index.reader.model)
stage("first answer", lambda: index.answer({QUESTION!r}))
"""


@dataclass(frozen=True)
class Checkout:
    """A folder with the code, and an index that it built."""

    folder: Path
    index: Path

    def run(self, program: str) -> tuple[float, str]:
        """Run a program; return the seconds of the processor that it took, and its output."""
        paths = os.pathsep.join([str(self.folder / "core"), str(self.folder)])
        before = _children()
        done = subprocess.run(
            [sys.executable, "-c", program, str(self.index)],
            env=os.environ | {"PYTHONPATH": paths},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
        )
        return _children() - before, done.stdout


def main() -> None:
    """Measure and print tables in Markdown."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compare", type=Path, help="folder of another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reader", help="a model that also writes points, minutes a round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folders = [ROOT] if options.compare is None else [ROOT, options.compare.resolve()]
        checkouts = [Checkout(one, Path(work) / f"{i}.hwdag") for i, one in enumerate(folders)]
        for one in checkouts:
            one.run(BUILD)
        print("| stage | seconds of the processor | modules | libraries |\n|---|---|---|---|")
        print(checkouts[0].run(STAGES)[1])
        print("| work | this checkout | the other one | ratio |\n|---|---|---|---|", flush=True)
        programs = COLD | {f"build of {SMALL_TEXTS} texts of 60 words": SMALL}
        if options.reader:
            programs["build with written points"] = points(options.reader)
        for name, *found in figures(checkouts, programs, options.rounds):
            cells = [f"{value:.2f} s" for value in found]
            shown = [*cells, f"{found[0] / found[1]:.2f}"] if len(found) > 1 else [*cells, "", ""]
            print(f"| {name} | {' | '.join(shown)} |", flush=True)


def figures(
    checkouts: list[Checkout], programs: Mapping[str, str], rounds: int
) -> Iterator[tuple[str, ...] | tuple]:
    """Yield the name of each row and its median for each checkout."""
    for name, program in programs.items():
        spent = [[one.run(program)[0] for one in checkouts] for _ in range(rounds)]
        yield f"{name}, processor", *map(statistics.median, zip(*spent, strict=True))
    quiet = [[_warm(one) for one in checkouts] for _ in range(rounds)]
    with busy_process():
        busy = [[_warm(one) for one in checkouts] for _ in range(rounds)]
    for place, work in enumerate(("build", "search", "answer")):
        for name, runs in (("", quiet), (", next to a busy process", busy)):
            medians = (
                statistics.median(turn[i][place] for turn in runs) for i in range(len(checkouts))
            )
            yield f"{work}{name}, clock", *medians


def _warm(checkout: Checkout) -> tuple[float, ...]:
    """Return the seconds of a build, a search and an answer of a process with loaded models."""
    *answers, seconds = checkout.run(WARM)[1].splitlines()
    print(*answers, sep="\n", file=sys.stderr, flush=True)
    return tuple(map(float, seconds.split()))


@contextmanager
def busy_process() -> Iterator[None]:
    """Keep a core busy meanwhile."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
