"""The runs behind docs/evaluation.md, and its tables.

Each table is one or two `hwdag eval` commands; they are resumable, and their folders hold the full
reports with intervals, costs and plots. Run:

    python benchmarks/evaluation.py retrieval ablations answers patience -o runs
    python benchmarks/evaluation.py --tables retrieval -o runs      # Markdown of finished runs

The data are expected in $HWDAG_DATA/dev (by default ../shared/data/dev); `hwdag convert` makes such
files from the official ones.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hwdag.cli.main import main as hwdag

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("HWDAG_DATA") or ROOT / ".." / "shared" / "data") / "dev"

RETRIEVAL = (
    "hwdag,hwdag-no-progress,bm25,dense,bm25+title,dense+title,raptor-collapsed,raptor-tree,"
    "gem-rag-graph,gem-rag-questions,youra,youra-paper,truncate-middle"
)
ABLATIONS = (
    "hwdag,hwdag-no-references,hwdag-no-edges,hwdag-no-attention,hwdag-no-sparse,"
    "hwdag-no-embedding,hwdag-chunks,hwdag-all-heads,hwdag-stride-1,hwdag-garlic"
)
ANSWERS = (
    "hwdag,hwdag-no-progress,bm25@sentence+title,bm25@100+title,dense@sentence+title,"
    "dense@100+title,raptor-collapsed,gem-rag-graph,youra,truncate-middle,full-context"
)


@dataclass(frozen=True)
class Run:
    """One `hwdag eval` command: data sets, and what is asked of them."""

    name: str
    data: tuple[str, ...]
    systems: str
    budgets: str
    limit: int
    options: tuple[str, ...] = ()

    def arguments(self, folder: Path, extra: Sequence[str]) -> list[str]:
        """The command line after `hwdag`."""
        files = [str(DATA / f"{name}.jsonl") for name in self.data]
        plan = ["--systems", self.systems, "--budgets", self.budgets, "--limit", str(self.limit)]
        return ["eval", *files, *plan, *self.options, "-o", str(folder / self.name), *extra]


RETRIEVAL_ONLY = ("--no-answers", "--dtype", "bfloat16")
TABLES: dict[str, tuple[Run, ...]] = {
    "retrieval": (
        Run(
            "retrieval-short",
            ("hotpotqa", "musique", "2wikimultihopqa", "squad"),
            RETRIEVAL,
            "256,512",
            12,
            RETRIEVAL_ONLY,
        ),
        Run(
            "retrieval-long",
            ("hotpotqa_long", "musique_long", "2wikimultihopqa_long", "qasper", "fairytaleqa"),
            RETRIEVAL,
            "256,512,1024",
            20,
            RETRIEVAL_ONLY,
        ),
    ),
    "ablations": (
        Run("ablations", ("musique", "hotpotqa"), ABLATIONS, "512", 12, RETRIEVAL_ONLY),
        Run(
            "ablations-long",
            ("hotpotqa_long", "musique_long", "2wikimultihopqa_long", "qasper", "fairytaleqa"),
            "hwdag,hwdag-no-references,hwdag-no-sparse,hwdag-no-edges",
            "512",
            15,
            RETRIEVAL_ONLY,
        ),
    ),
    "answers": (
        Run(
            "answers",
            ("hotpotqa", "2wikimultihopqa", "musique", "squad", "fairytaleqa"),
            ANSWERS,
            "512",
            12,
            ("--dtype", "bfloat16", "--max-new-tokens", "32"),
        ),
        Run(
            "agents",
            ("hotpotqa", "2wikimultihopqa"),
            "graphreader",
            "512",
            4,
            ("--dtype", "bfloat16", "--max-new-tokens", "32"),
        ),
        Run(
            "costly",
            ("hotpotqa", "2wikimultihopqa"),
            "hwdag,memwalker,longllmlingua,full-context",
            "512",
            2,
            ("--dtype", "bfloat16", "--max-new-tokens", "16"),
        ),
    ),
    "patience": (
        Run(
            "patience",
            ("2wikimultihopqa",),
            "hwdag",
            "512",
            4,
            ("--patience", "1,2,4,8", *RETRIEVAL_ONLY),
        ),
    ),
}


def main() -> None:
    """Run the chosen tables one after the other, or print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", choices=list(TABLES))
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of all runs")
    parser.add_argument("--tables", dest="show", action="store_true", help="print, run nothing")
    parser.add_argument("--run", help="only the run of this name")
    options, extra = parser.parse_known_args()
    runs = [run for name in options.tables for run in TABLES[name]]
    for run in (run for run in runs if options.run in (None, run.name)):
        if options.show:
            print("\n".join([*tables(options.output / run.name), ""]))
            print("\n".join([*gains(options.output / run.name), ""]))
        elif status := hwdag(run.arguments(options.output, extra)):
            sys.exit(status)


def gains(folder: Path) -> Iterator[str]:
    """One Markdown table: HWDAG against the best baseline of every data set, metric and budget."""
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    yield "| data set | metric | budget | best baseline | HWDAG minus it | p |"
    yield "| :--- | :--- | ---: | :--- | ---: | ---: |"
    for name, found in summary.items():
        for gain in (g for g in found["gains"] if g["metric"] in SHOWN and g["system"] == "hwdag"):
            by = gain["difference"]
            interval = f"{by['mean']:+.2f} [{_shown(by['low'])}, {_shown(by['high'])}]"
            yield (
                f"| {name} | {SHOWN[gain['metric']]} | {gain['budget']} | `{gain['against']}` "
                f"| {interval} | {by['p_value']:.2f} |"
            )


def _shown(value: float | None) -> str:
    return "n/a" if value is None else f"{value:+.2f}"


def tables(folder: Path) -> Iterator[str]:
    """One Markdown table per data set: systems by metrics and budgets, means alone."""
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    for name, found in summary.items():
        rows = found["rows"]
        budgets = sorted({row["budget"] for row in rows if row["budget"]})
        metrics = [m for m in SHOWN if any(m in row["scores"] for row in rows)]
        columns = [(metric, budget) for metric in metrics for budget in budgets]
        cells = {(row["system"], row["budget"]): row for row in rows}
        yield f"\n**{name}**, {rows[0]['questions']} questions, {rows[0]['documents']} documents\n"
        yield "| system | " + " | ".join(f"{SHOWN[m]} {b}" for m, b in columns) + " |"
        yield "| :--- |" + " ---: |" * len(columns)
        for system in dict.fromkeys(row["system"] for row in rows):
            values = (
                cells.get((system, b), cells.get((system, None), {"scores": {}}))["scores"].get(m)
                for m, b in columns
            )
            shown = (f"{value['mean']:.2f}" if value else "" for value in values)
            yield f"| `{system}` | " + " | ".join(shown) + " |"


SHOWN = {
    "accuracy": "accuracy",
    "f1": "F1",
    "sentence_recall": "sentences",
    "paragraph_touched": "touched",
    "paragraph_half": "half",
}
"""Metrics of the tables, and what they are called there."""


if __name__ == "__main__":
    main()
