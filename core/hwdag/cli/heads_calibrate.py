"""The command `heads calibrate`: walks over data with known evidence to progress controllers."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwdag.cli.evaluation_options import limit
from hwdag.errors import InputError

if TYPE_CHECKING:
    from hwdag.eval.data import Record
    from hwdag.eval.models import Models
    from hwdag.lm.heads import HeadFile

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

LIMIT = 100
"""Questions per data set, unless the command says otherwise."""

BUDGET = 1024
"""Node tokens of a walk, unless the command says otherwise."""


def add_calibrate(commands: Commands) -> None:
    """`hwdag heads calibrate`."""
    command = commands.add_parser(
        "calibrate",
        help="fit what says that a walk has read enough, and write it into a head file",
        description="Walks questions whose evidence is known up to the token budget, and fits the "
        "controllers of --progress calibrated and head_mass: how likely is it, after each node, that "
        "all evidence was read? Prints how good they are on documents that they were not fitted to. "
        "Started again with the same FILE, it goes on where it was.",
    )
    command.add_argument(
        "--model", metavar="NAME", help="hub name or path of the reader (default: the embedded one)"
    )
    command.add_argument(
        "--data",
        nargs="+",
        type=Path,
        required=True,
        metavar="DATA",
        help="JSONL files as `hwdag eval` reads them, or folders of them",
    )
    command.add_argument(
        "--heads", type=Path, metavar="FILE", help="head list (default: the one shipped for it)"
    )
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="head file to write"
    )
    command.add_argument(
        "--limit",
        type=limit,
        default=LIMIT,
        metavar="N",
        help="questions per data set, or all (default: %(default)s)",
    )
    command.add_argument(
        "--budget",
        type=int,
        default=BUDGET,
        metavar="TOKENS",
        help="node tokens of a walk (default: %(default)s)",
    )
    command.add_argument(
        "--points",
        choices=("auto", "generated", "extractive"),
        default="auto",
        help="Information Points of the graphs that are walked (default: %(default)s)",
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the choice of questions"
    )
    command.add_argument("--dtype", help="of the reader: float32, bfloat16, ... (default: its own)")
    command.add_argument("--device", help="of the reader: cpu, cuda, mps, ... (default: the best)")
    command.add_argument("--embedder", metavar="NAME", help="sentence-transformers name or path")
    command.add_argument(
        "--plot", type=Path, metavar="FILE", help="also draw the reliability curves (.png, .svg)"
    )
    command.add_argument("-q", "--quiet", action="store_true", help="no progress bars")


def calibrate(options: argparse.Namespace) -> int:
    """Walk, fit, print, and write the head file."""
    from hwdag.eval.data import records_of, sample
    from hwdag.eval.plots import check_plots

    check_output(options.output)
    if options.plot is not None:
        check_plots()
        check_output(options.plot)
    records = sample(records_of(options.data), limit=options.limit, seed=options.seed)
    try:
        return _calibrated(options, records, *_models(options))
    except KeyboardInterrupt:
        if (walks := _walks(options.output)).exists():
            print(
                f"\n{walks} holds every walk that was finished; the same command goes on from there",
                file=sys.stderr,
            )
        raise


def _calibrated(
    options: argparse.Namespace,
    records: list[Record],
    models: Models,
    heads: HeadFile,
    weights: str,
) -> int:
    from hwdag.config import BuildConfig
    from hwdag.heads.calibration import calibrate, report_lines
    from hwdag.heads.observations import observe
    from hwdag.heads.plotting import write_reliability

    trails = observe(
        records,
        models,
        _walks(options.output),
        token_budget=options.budget,
        build=BuildConfig(points=options.points),
        settings={"weights": weights},
        progress=not options.quiet,
    )
    sets = ", ".join(dict.fromkeys(record.dataset for record in records))
    found = calibrate(
        trails,
        reader=models.reader.name,
        source=f"{len(trails)} questions of {sets}, {options.budget} tokens",
    )
    fitted = {name: controller.to_json() for name, controller in found.controllers.items()}
    replace(heads, controller=fitted).save(options.output)
    for line in report_lines(found):
        print(line)
    if options.plot is not None:
        write_reliability(options.plot, found)
    print(f"\n{options.output}: head list with controllers; walks are in {_walks(options.output)}")
    return 0


def _models(options: argparse.Namespace) -> tuple[Models, HeadFile, str]:
    """The models, the head list of the reader, and a digest of its weights."""
    from hwdag.embedding.default import as_embedder
    from hwdag.eval.models import Models
    from hwdag.lm.default import load_reader
    from hwdag.lm.heads import weights_digest

    reader = load_reader(options.model, dtype=options.dtype, device=options.device)
    if options.heads is not None:
        reader = reader.with_heads(options.heads)
    if reader.head_file is None:
        raise InputError(
            f"no retrieval heads are known for {reader.name}; find them with `hwdag heads detect "
            f"--model {reader.name} --data DATA.jsonl -o HEADS.json` and give --heads HEADS.json"
        )
    precision = str(reader.model.dtype).removeprefix("torch.")
    models = Models(reader, as_embedder(options.embedder), precision=precision)
    return models, reader.head_file, weights_digest(reader.model)


def _walks(output: Path) -> Path:
    """Where finished walks are kept."""
    return output.with_name(output.name + ".walks.jsonl")


def check_output(path: Path) -> None:
    """Raise `InputError` for a file that cannot be written, before hours are spent on it."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path}: cannot be written; name a file in a folder that exists")
