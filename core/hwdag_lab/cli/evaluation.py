"""The commands `eval`, `compare` and `convert`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace

from hwdag.text.characters import visible
from hwdag_app.cli.options import config_of
from hwdag_lab.eval.compare import Comparison, compare
from hwdag_lab.eval.convert import convert
from hwdag_lab.eval.data import records_of
from hwdag_lab.eval.models import load_models
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.report import report
from hwdag_lab.eval.run import run
from hwdag_lab.eval.systems import DEFAULT_SYSTEMS, systems


def evaluate(options: argparse.Namespace) -> int:
    """Run systems on questions, and write records, summary and report."""
    # why: None is all
    plan = replace(config_of(Plan(DEFAULT_SYSTEMS), options), limit=options.limit)
    systems(plan.systems)  # why: finds a misspelt name before models are loaded
    records = records_of(options.data, malformed=options.malformed, on_skip=warn)
    models = load_models(
        reader=options.reader,
        writer=options.writer,
        embedder=options.embedder,
        dense=options.dense_model,
        dtype=options.dtype,
        device=options.device,
        heads=options.head_list,
    )
    try:
        counts = run(
            records,
            models,
            plan,
            options.output,
            show_progress=not options.quiet,
            command=shlex.join(["hwdag", *options.arguments]),
        )
    except KeyboardInterrupt:
        print(
            f"\n{options.output} holds every question that was finished; "
            "the same command goes on from there",
            file=sys.stderr,
        )
        raise
    print(f"{counts.added} results added, {counts.kept} were there, {counts.errors} new errors")
    print(report(options.output))
    return 0


def compare_runs(options: argparse.Namespace) -> int:
    """Print the paired differences of two runs, or of two systems of one run."""
    found = compare(options.folders, systems=options.system, metrics=options.metric)
    header = ("data set", "budget", "metric", "systems", "difference", "n", "verdict")
    for line in _columns([header, *map(_line, found)]):
        print(line)
    return 0


def convert_data(options: argparse.Namespace) -> int:
    """Write the records of official files as JSONL."""
    counts = convert(
        options.format,
        options.source,
        options.output,
        malformed=options.malformed,
        on_skip=warn,
    )
    print(
        f"{options.output}: {counts.documents} documents, {counts.questions} questions, "
        f"{counts.skipped} records skipped"
    )
    return 0


def _line(one: Comparison) -> tuple[str, ...]:
    sides = dict.fromkeys([one.a.system, one.b.system])
    return (
        one.dataset,
        "all" if one.budget is None else str(one.budget),
        one.metric,
        " - ".join(sides),
        str(one.difference),
        str(one.difference.n),
        one.verdict,
    )


def _columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def warn(message: str) -> None:
    """Report a record that was left out."""
    print(f"hwdag: skipped: {visible(message)}", file=sys.stderr)
