"""GARLIC Table 1: NarrativeQA, Qasper, HotpotQA and MuSiQue with Llama-3.1-8B, and where it stands.

With the GPU, the model and the data (files of the `hwdag convert` formats in one folder):

    python benchmarks/garlic_table1.py DATA -o runs/garlic --reader meta-llama/Llama-3.1-8B-Instruct

and on any machine, as a check of the recipe, with the embedded model on a few questions:

    python benchmarks/garlic_table1.py ../shared/data/dev -o runs/garlic-small --limit 2

The papers' settings are `hwdag-garlic` (300-token chunks, windows of 8,192 tokens, all heads, their
score, patience 1) and `hwdag-pecan` (similarity added as it is, and a confidence per data set); the
rows `hwdag-garlic-no-...` are GARLIC Table 2. Budgets are ours: the paper names none, and stops by its
progress control below them. Every row is also asked at the mean number of node tokens that
`hwdag-garlic` read; that of `hwdag-garlic-no-progress` there is "w/o dynamic progress control".
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hwdag.cli.main import main as hwdag

SETS = ("narrativeqa", "qasper", "hotpotqa", "musique")
ABLATIONS = ",".join(
    f"hwdag-garlic-no-{part}" for part in ("graph", "progress", "attention", "embedding")
)
SYSTEMS = (
    f"hwdag-garlic,hwdag-pecan,{ABLATIONS},hwdag,raptor-collapsed,raptor-tree,bm25@300,dense@300,"
    "memwalker,full-context"
)
PAPER = """\
F1 printed in the paper (Llama-3.1-8B): NarrativeQA 61.1, Qasper 49.7, HotpotQA 43.5, MuSiQue 36.9;
full context 53.7, 49.4, 41.3, 35.8; RAPTOR collapsed tree 52.0, 46.9, 40.7, 35.4."""


def main() -> None:
    """Run the recipe; further options go to `hwdag eval`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with narrativeqa.jsonl, qasper.jsonl, ...")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--limit", default="200", help="questions per data set, or all")
    parser.add_argument("--systems", default=SYSTEMS)
    parser.add_argument("--budgets", default="2048,4096,8192")
    options, extra = parser.parse_known_args()
    files = [str(options.data / f"{name}.jsonl") for name in SETS]
    plan = ["--systems", options.systems, "--budgets", options.budgets, "--limit", options.limit]
    plan += ["--match", "hwdag-garlic"] if "hwdag-garlic" in options.systems.split(",") else []
    status = hwdag(["eval", *files, *plan, "-o", str(options.output), *extra])
    print(PAPER)
    sys.exit(status)


if __name__ == "__main__":
    main()
