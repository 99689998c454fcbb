"""The runs behind docs/evaluation.md, and its tables.

    python benchmarks/evaluation.py retrieval pools -o runs --jobs 2     # 2 cores, resumable
    python benchmarks/evaluation.py retrieval pools -o runs --tables     # Markdown of what is there

`retrieval` measures what is found, without answers: all systems, all development questions of nine
data sets (400 of FairytaleQA), three budgets. `pools` asks the
questions of three multi-hop sets over all their paragraphs in one index of more than 10,000
documents. Every data set is a folder of its own that `hwdag eval` can add to, and that holds its
report with intervals and costs. Further options go to `hwdag eval`.

The data are expected in $HWDAG_DATA/dev and $HWDAG_DATA/train (by default ../shared/data); `hwdag
convert` makes such files from the official ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwdag.cli.main import main as hwdag
from hwdag_lab.eval.data import pool_records, records_of, write_records

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("HWDAG_DATA") or ROOT / ".." / "shared" / "data")

MULTIHOP = ("hotpotqa", "2wikimultihopqa", "musique")
LONG = tuple(f"{name}_long" for name in MULTIHOP)
ALL = {**dict.fromkeys((*MULTIHOP, *LONG, "squad", "qasper"), "all"), "fairytaleqa": "400"}
"""Data sets of `retrieval`, and how many of their questions."""

RETRIEVAL = (
    "bm25,dense,bm25+title,dense+title,bm25@passage+title,dense@passage+title,dos-rag,linear-rag,"
    "raptor-collapsed,raptor-tree,gem-rag-graph,youra,truncate-middle,oracle,evidence,"
    "evidence-no-navigator,evidence-p-yes,hwdag-no-navigator,hwdag-shuffled-edges,hwdag-uniform-edges"
)
POOLS = (
    "bm25@passage+title,bm25@sentence+title,dense@passage+title,dense@sentence+title,dos-rag,"
    "linear-rag,raptor-collapsed,oracle,evidence,evidence-no-navigator"
)
ABLATIONS = (
    "evidence,evidence-no-navigator,evidence-p-yes,evidence-no-references,evidence-no-sparse,"
    "evidence-no-paragraph,evidence-chunks,hwdag,hwdag-no-stop,hwdag-no-navigator,"
    "hwdag-no-attention,hwdag-all-heads"
)
ANSWERS = (
    "evidence,evidence-p-yes,bm25@sentence+title,bm25@100+title,dense@sentence+title,"
    "dense@100+title,raptor-collapsed,gem-rag-graph,youra,truncate-middle,full-context,oracle"
)
FOUND = ("--no-answers", "--dtype", "bfloat16")
"""Options of runs that measure the retrieval alone."""

ANSWERED = ("--dtype", "bfloat16", "--max-new-tokens", "32", "--match", "evidence-p-yes")
"""Options of runs with answers; the others are also asked at what the walk read when it stopped."""


@dataclass(frozen=True)
class Run:
    """One `hwdag eval` command over one data set, and the folder of its results."""

    name: str
    data: str
    systems: str
    budgets: str
    limit: str
    options: tuple[str, ...]

    def arguments(self, folder: Path, extra: Sequence[str]) -> list[str]:
        """The command line after `hwdag`."""
        data = folder / "pools.jsonl" if self.data == "pools" else DATA / f"dev/{self.data}.jsonl"
        plan = ["--systems", self.systems, "--budgets", self.budgets, "--limit", self.limit]
        return ["eval", str(data), *plan, *self.options, "-o", str(folder / self.name), *extra]


TABLES: Mapping[str, Sequence[Run]] = {
    "retrieval": [
        Run(f"retrieval-{name}", name, RETRIEVAL, "256,512,1024", limit, FOUND)
        for name, limit in ALL.items()
    ],
    "pools": [Run("pools", "pools", POOLS, "256,512,1024", "100", FOUND)],
    "ablations": [
        Run(f"ablations-{name}", name, ABLATIONS, "512", "100", FOUND) for name in MULTIHOP
    ],
    "answers": [
        Run(f"answers-{name}", name, ANSWERS, "512", "100", ANSWERED)
        for name in (*MULTIHOP, "squad", "fairytaleqa")
    ],
    "agents": [
        Run(f"agents-{name}", name, "graphreader,memwalker,longllmlingua", "512", "4", ANSWERED[:4])
        for name in MULTIHOP[:2]
    ],
}


def main() -> None:
    """Run the chosen tables, several data sets at a time, or print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", choices=list(TABLES))
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of all runs")
    parser.add_argument("--tables", dest="show", action="store_true", help="print, run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="data sets at a time, one thread each")
    parser.add_argument("--run", help="only the run of this name")
    options, extra = parser.parse_known_args()
    found = [run for name in options.tables for run in TABLES[name]]
    runs = [run for run in found if options.run in (None, run.name)]
    if options.show:
        for name in options.tables:
            print("\n".join(tables(options.output, [run for run in TABLES[name] if run in runs])))
        return
    options.output.mkdir(parents=True, exist_ok=True)
    if any(run.data == "pools" for run in runs):
        make_pools(options.output / "pools.jsonl")
    if len(runs) == 1:
        sys.exit(hwdag(runs[0].arguments(options.output, extra)))
    with ThreadPoolExecutor(options.jobs) as workers:
        commands = [
            [
                sys.executable,
                __file__,
                *options.tables,
                "-o",
                options.output,
                "--run",
                run.name,
                *extra,
            ]
            for run in runs
        ]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        finished = workers.map(lambda c: subprocess.run(c, env=one_thread, check=False), commands)
        sys.exit(max(done.returncode for done in finished))


def make_pools(path: Path) -> None:
    """Write one pool of the paragraphs of train and dev, and who asks about it, unless it is there."""
    if not path.exists():
        asked = records_of([DATA / f"dev/{name}.jsonl" for name in MULTIHOP])
        others = [*(f"dev/{name}" for name in LONG), "train/hotpotqa", "train/musique"]
        beside = [r for name in others for r in records_of([DATA / f"{name}.jsonl"])]
        write_records(path, pool_records(asked, beside))


def tables(folder: Path, runs: Sequence[Run]) -> Iterator[str]:
    """One Markdown table per data set, and what the best rows are worth against each other."""
    summaries: dict[str, Any] = {}
    for run in runs:
        if (path := folder / run.name / "summary.json").exists():
            summaries |= json.loads(path.read_text("utf-8"))
    for name, found in summaries.items():
        yield from table(name, found)
    yield "\n| data set | metric | budget | best baseline | HWDAG minus it | p |"
    yield "| :--- | :--- | ---: | :--- | ---: | ---: |"
    for name, found in summaries.items():
        for gain in (one for one in found["gains"] if one["metric"] in SHOWN):
            by = gain["difference"]
            interval = f"{by['mean']:+.2f} [{_shown(by['low'])}, {_shown(by['high'])}]"
            yield (
                f"| {name} | {SHOWN[gain['metric']]} | {gain['budget']} | `{gain['against']}` "
                f"| {interval} | {by['p_value']:.2f} |"
            )


def table(name: str, found: Mapping[str, Any]) -> Iterator[str]:
    """Systems by metrics and budgets: means, and above them the widest of their intervals."""
    rows = found["rows"]
    budgets = sorted({row["budget"] for row in rows if row["budget"]})
    metrics = [m for m in SHOWN if any(m in row["scores"] for row in rows)]
    columns = [(metric, budget) for metric in metrics for budget in budgets]
    cells = {(row["system"], row["budget"]): row for row in rows}
    widths = [
        (score["high"] - score["low"]) / 2
        for row in rows
        for metric in metrics
        if (score := row["scores"].get(metric)) and score["low"] is not None
    ]
    questions = sorted({row["questions"] for row in rows})
    yield (
        f"\n**{name}**, {questions[-1]} questions"
        + (f" (some rows {questions[0]})" if len(questions) > 1 else "")
        + f", {rows[0]['documents']} documents, intervals up to ±{max(widths, default=0):.2f}\n"
    )
    yield "| system | " + " | ".join(f"{SHOWN[m]} {b}" for m, b in columns) + " |"
    yield "| :--- |" + " ---: |" * len(columns)
    for system in dict.fromkeys(row["system"] for row in rows):
        values = (
            cells.get((system, b), cells.get((system, None), {"scores": {}}))["scores"].get(m)
            for m, b in columns
        )
        shown = (f"{value['mean']:.2f}" if value else "" for value in values)
        yield f"| `{system}` | " + " | ".join(shown) + " |"


def _shown(value: float | None) -> str:
    return "n/a" if value is None else f"{value:+.2f}"


SHOWN = {
    "accuracy": "accuracy",
    "f1": "F1",
    "corpus_bleu": "BLEU",
    "paragraph_touched": "touched",
    "paragraph_half": "half",
    "recall_at_2": "recall@2",
    "recall_at_5": "recall@5",
}
"""Metrics of the tables, and what they are called there."""


if __name__ == "__main__":
    main()
