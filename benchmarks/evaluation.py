"""The runs of docs/results.md, and its tables.

    python benchmarks/evaluation.py answers -o runs --jobs 2     # 2 cores, resumable
    python benchmarks/evaluation.py answers -o runs --tables     # Markdown of finished runs

`answers` asks all development questions of three multi-hop sets, 512 tokens; `retrieval` measures the
search alone on nine sets, without answers; `parts` leaves out one part of `evidence` after another; `pools`
asks the questions of the multi-hop sets over all their paragraphs in one index of more than 10,000
documents. Every data set is a folder of its own that `hwdag eval` can add to, and that holds its report.
A table joins the questions of all sets, and compares each row with `evidence`. Further options go to
`hwdag eval`.

The data are expected in $HWDAG_DATA/dev and $HWDAG_DATA/train (by default ../shared/data); `hwdag
convert` makes such files from the official ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hwdag_app.main import main as hwdag
from hwdag_lab.eval.data import pool_records, records_of, write_records
from hwdag_lab.eval.records import read_results
from hwdag_lab.eval.statistics import bootstrap, paired_bootstrap

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("HWDAG_DATA") or ROOT / ".." / "shared" / "data")

MULTIHOP = ("hotpotqa", "2wikimultihopqa", "musique")
LONG = tuple(f"{name}_long" for name in MULTIHOP)
ALL = {**dict.fromkeys((*MULTIHOP, *LONG, "squad", "qasper"), "all"), "fairytaleqa": "400"}
"""Data sets of `retrieval`, and how many of their questions."""

RETRIEVAL = (
    "evidence,evidence-no-navigator,bm25@sentence+title,dense@sentence+title,dense@passage+title,"
    "linear-rag,raptor-collapsed"
)
ANSWERS = f"{RETRIEVAL},full-context,oracle"
POOLS = (
    "evidence,evidence-no-navigator,bm25@passage+title,bm25@sentence+title,dense@passage+title,"
    "dense@sentence+title,dos-rag,linear-rag"
)
PARTS = (
    "evidence,evidence-no-navigator,evidence-no-references,evidence-no-sparse,evidence-no-paragraph,"
    "evidence-chunks"
)
FOUND = ("--no-answers", "--dtype", "bfloat16")
"""Options of runs that measure the retrieval alone."""

ANSWERED = ("--dtype", "bfloat16", "--max-new-tokens", "32")
"""Options of runs with answers."""


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
        """Return the command line after `hwdag`."""
        data = folder / "pools.jsonl" if self.data == "pools" else DATA / f"dev/{self.data}.jsonl"
        plan = ["--systems", self.systems, "--budgets", self.budgets, "--limit", self.limit]
        return ["eval", str(data), *plan, *self.options, "-o", str(folder / self.name), *extra]


TABLES: Mapping[str, Sequence[Run]] = {
    "answers": [Run(f"answers-{name}", name, ANSWERS, "512", "all", ANSWERED) for name in MULTIHOP],
    "retrieval": [
        Run(f"retrieval-{name}", name, RETRIEVAL, "512", limit, FOUND)
        for name, limit in ALL.items()
    ],
    "parts": [Run(f"parts-{name}", name, PARTS, "512", "all", FOUND) for name in MULTIHOP],
    "pools": [Run("pools", "pools", POOLS, "512", "100", FOUND)],
    "agents": [
        Run(f"agents-{name}", name, "graphreader,memwalker,longllmlingua", "512", "4", ANSWERED)
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
            print("\n".join(table(options.output, [run for run in TABLES[name] if run in runs])))
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


def table(folder: Path, runs: Sequence[Run]) -> Iterator[str]:
    """Yield a row per system over the questions of all sets, and the first row minus each, paired."""
    scores: dict[str, dict[tuple[str, str], Mapping[str, float]]] = {}
    groups: dict[tuple[str, str], str] = {}
    for run in runs:
        for one in read_results(folder / run.name).values():
            question = one.dataset, one.question
            scores.setdefault(one.system, {})[question] = one.metrics
            groups[question] = f"{one.dataset} {one.document}"
    if not scores:
        yield f"nothing in {folder} yet"
        return
    first = next(iter(scores))
    metrics = [name for name in SHOWN if all(name in row for row in scores[first].values())]
    yield f"{len(scores[first])} questions"
    header = [*map(SHOWN.__getitem__, metrics), *(f"`{first}` minus, {SHOWN[m]}" for m in metrics)]
    yield f"| system | {' | '.join(header)} |"
    yield "| :--- |" + " ---: |" * len(header)
    for system, found in scores.items():
        common = [question for question in scores[first] if question in found]
        labels = [groups[question] for question in common]
        values = {m: [found[question][m] for question in common] for m in metrics}
        cells = [str(bootstrap(values[m], groups=labels)) for m in metrics]
        for m in metrics if system != first else ():
            others = [scores[first][question][m] for question in common]
            cells.append(str(paired_bootstrap(others, values[m], groups=labels)))
        yield f"| `{system}` ({len(common)}) | {' | '.join(cells)} |"


SHOWN = {
    "f1": "F1",
    "em": "exact",
    "paragraph_touched": "touched",
    "paragraph_half": "half",
    "recall_at_2": "recall@2",
    "recall_at_5": "recall@5",
}
"""Metrics of the tables, and their headings there."""


if __name__ == "__main__":
    main()
