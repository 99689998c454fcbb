"""The command `heads calibrate`: walks over data with known evidence to progress controllers."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from hwdag.config import BuildConfig
from hwdag.embedding.default import as_embedder
from hwdag.errors import InputError
from hwdag.lm.default import load_reader
from hwdag.lm.heads import HeadFile
from hwdag_lab.eval.data import Record, records_of, sample
from hwdag_lab.eval.models import Models
from hwdag_lab.eval.plots import check_plots
from hwdag_lab.heads import calibration
from hwdag_lab.heads.detection import weights_digest
from hwdag_lab.heads.observations import observe
from hwdag_lab.heads.plotting import write_reliability


def calibrate(options: argparse.Namespace) -> int:
    """Walk, fit, print, and write the head file."""
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
    trails = observe(
        records,
        models,
        _walks(options.output),
        token_budget=options.budget,
        build=BuildConfig(points=options.points),
        settings={"weights": weights},
        show_progress=not options.quiet,
    )
    sets = ", ".join(dict.fromkeys(record.dataset for record in records))
    found = calibration.calibrate(
        trails,
        reader=models.reader.name,
        source=f"{len(trails)} questions of {sets}, {options.budget} tokens",
    )
    fitted = {name: controller.to_json() for name, controller in found.controllers.items()}
    replace(heads, controller=fitted).save(options.output)
    for line in calibration.report_lines(found):
        print(line)
    if options.plot is not None:
        write_reliability(options.plot, found)
    print(f"\n{options.output}: head list with controllers; walks are in {_walks(options.output)}")
    return 0


def _models(options: argparse.Namespace) -> tuple[Models, HeadFile, str]:
    """The models, the head list of the reader, and a digest of its weights."""
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
