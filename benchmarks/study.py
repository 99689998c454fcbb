"""The system of the papers against everything else, with one reader, at equal budgets.

    python benchmarks/study.py --model Qwen/Qwen2.5-7B-Instruct -o runs/study            # one GPU, hours
    python benchmarks/study.py --model FOLDER -o runs/study --part fairytaleqa --limit 20  # a laptop

FairytaleQA (F1, ROUGE-L), QuALITY (the most likely of the options, no decoding) and HotpotQA: our two
methods and the papers', each without one part, with edges that the model did not make, and dense
passages, BM25, RAPTOR with summaries of the same writer, the whole text, and gold evidence alone.
`--part edges` retrieves only, on the multi-hop sets; `--part papers` is GARLIC Tables 1 and 2. Of texts
of which a budget is a small share, `books` are the shortest NarrativeQA books (`--shortest`), `talks`
the conversations of LoCoMo, `meetings` those of QMSum.
A new run continues an old one; `hwdag compare` compares any two rows. Further options go to `hwdag eval`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from hwdag_app.main import main as hwdag

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data")) / "dev"
OURS = (
    "hwdag,evidence,hwdag-garlic,hwdag-pecan,hwdag-no-stop,hwdag-no-attention,hwdag-no-navigator,"
    "hwdag-shuffled-edges"
)
OTHERS = "dense@passage+title,bm25@300,raptor-collapsed,full-context,oracle"
EDGES = (
    "evidence,hwdag,hwdag-no-attention,hwdag-shuffled-edges,hwdag-uniform-edges,"
    "hwdag-garlic,hwdag-garlic-no-attention,hwdag-garlic-shuffled-edges,hwdag-garlic-uniform-edges"
)
TABLES = (
    "hwdag-garlic,hwdag-pecan,hwdag-garlic-no-graph,hwdag-garlic-no-progress,"
    "hwdag-garlic-no-attention,hwdag-garlic-no-embedding,hwdag,raptor-collapsed,raptor-tree,bm25@300,"
    "dense@300,memwalker,full-context"
)


LONG = (
    "evidence,hwdag,hwdag-shuffled-edges,raptor-collapsed,dense@passage+title,dense@sentence+title,"
    "bm25@300,hwdag-garlic,hwdag-pecan,oracle"
)


@dataclass(frozen=True)
class Part:
    """A part of the study: its data sets, rows, budgets and questions of each set.

    `shortest` limits a set to its shortest documents, since a graph is built of each whole document.
    """

    sets: tuple[str, ...]
    systems: str
    budgets: str = "512,1024"
    limit: int = 100
    options: tuple[str, ...] = ()
    shortest: int | None = None


HOPS = ("hotpotqa", "2wikimultihopqa", "musique")
PARTS = {
    "fairytaleqa": Part(("fairytaleqa",), f"{OURS},{OTHERS}", limit=400),
    "quality": Part(("quality",), f"{OURS},{OTHERS}", limit=180),
    "hotpotqa": Part(("hotpotqa",), f"{OURS},{OTHERS}"),
    "edges": Part(
        tuple(name + form for name in HOPS for form in ("", "_long")),
        EDGES,
        "512,1024,2048",
        options=("--no-answers",),
    ),
    "books": Part(("narrativeqa",), LONG, "256,512,1024", 300, shortest=10),
    "talks": Part(("locomo",), LONG, "256,512,1024", 400),
    "meetings": Part(("qmsum",), LONG, "256,512,1024", 128, ("--max-new-tokens", "128")),
    # every row is also asked at the tokens that the walk of GARLIC read; F1 printed in the paper, with
    # Llama-3.1-8B: NarrativeQA 61.1, Qasper 49.7, HotpotQA 43.5, MuSiQue 36.9
    "papers": Part(
        ("narrativeqa", "qasper", "hotpotqa", "musique"),
        TABLES,
        "2048,4096,8192",
        200,
        ("--match", "hwdag-garlic"),
    ),
}


def main() -> None:
    """Run the parts that are asked for, each into a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="hub name or path (default: the embedded model)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the results")
    parser.add_argument("--part", choices=PARTS, action="append", help="default: the first three")
    parser.add_argument("--limit", help="questions of each data set, or all")
    parser.add_argument("--budgets", help="token budgets, with commas")
    parser.add_argument("--systems", help="rows, with commas")
    parser.add_argument("--shortest", type=int, help="of each data set only this many documents")
    options, extra = parser.parse_known_args()
    status = 0
    for name in options.part or ("fairytaleqa", "quality", "hotpotqa"):
        part = PARTS[name]
        plan = ["--systems", options.systems or part.systems]
        plan += ["--budgets", options.budgets or part.budgets]
        plan += ["--limit", options.limit or str(part.limit), "-o", str(options.output / name)]
        plan += ["--reader", options.model] if options.model else []
        shortest = options.shortest or part.shortest
        files = [str(_data(one, shortest, options.output / name)) for one in part.sets]
        status = max(status, hwdag(["eval", *files, *plan, *part.options, *extra]))
    sys.exit(status)


def _data(name: str, shortest: int | None, folder: Path) -> Path:
    """Return a data set, or a file in the folder with its shortest documents."""
    path = DATA / f"{name}.jsonl"
    if shortest is None:
        return path
    lines = path.read_text("utf-8").splitlines()
    lines.sort(key=lambda line: len(json.loads(line)["text"]))
    folder.mkdir(parents=True, exist_ok=True)
    chosen = folder / f"{name}-{shortest}.jsonl"
    chosen.write_text("\n".join(lines[:shortest]) + "\n", "utf-8")
    return chosen


if __name__ == "__main__":
    main()
