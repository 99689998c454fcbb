"""The commands `heads detect`, `heads show` and `heads calibrate`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from hwdag.config import BuildConfig
from hwdag.embedding.default import as_embedder
from hwdag.errors import InputError
from hwdag.lm.default import load_reader
from hwdag.lm.heads import HeadFile, shipped
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.ranking.capture import ranking_tokens
from hwdag.text.characters import visible
from hwdag_lab.eval.data import records_of, sample
from hwdag_lab.eval.models import Models
from hwdag_lab.eval.plots import check_plots
from hwdag_lab.eval.schema import Record
from hwdag_lab.heads import Example, calibration, detect_heads, read_examples
from hwdag_lab.heads.detection import weights_digest
from hwdag_lab.heads.observations import observe
from hwdag_lab.heads.plotting import write_reliability


def detect(options: argparse.Namespace) -> int:
    """Find the retrieval heads of a model, print them, and write their file."""
    if options.top < 1:
        raise InputError(f"--top must be at least 1, got {options.top}")
    if options.output is not None:
        check_output(options.output)
    examples = read_examples(
        options.data,
        limit=options.limit,
        seed=options.seed,
        malformed=options.malformed,
        on_skip=_warn,
    )
    lm = load_reader(options.model, dtype=options.dtype, device=options.device)
    short = _short(lm, examples, options)
    found = detect_heads(
        lm,
        short,
        criterion=options.criterion,
        order=options.query,
        subtract_null=options.subtract_null,
        show_progress=not options.quiet,
    )
    names = ", ".join(sorted({path.name for path in options.data}))
    file = found.head_file(lm, top=options.top, source=f"{found.description}, of {names}")
    _print(file)
    if options.output is not None:
        file.save(options.output)
        print(f"{options.output}: {len(file.pairs)} heads; use it with --heads {options.output}")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print a list, or one line for each that is shipped."""
    if options.list is None:
        for file in shipped():
            print(f"{file.key}: {len(file.pairs)} heads")
        return 0
    _print(HeadFile.load(options.list) if Path(options.list).is_file() else _shipped(options.list))
    return 0


def _short(
    lm: HuggingFaceLM, examples: list[Example], options: argparse.Namespace
) -> list[Example]:
    """The examples that are not too long, the others being told."""
    context = lm.context_tokens
    room = context if options.max_tokens is None else min(options.max_tokens, context)
    kept = [
        example
        for example in examples
        if ranking_tokens(lm, example.question, example.passages, order=options.query) <= room
    ]
    if not kept:
        raise InputError(
            f"each of the {len(examples)} questions takes more than {room} tokens with its passages; "
            "give shorter ones, or fewer passages"
        )
    if left := len(examples) - len(kept):
        _warn(f"{left} of {len(examples)} questions, longer than {room} tokens with their passages")
    return kept


def _shipped(name: str) -> HeadFile:
    if found := next((file for file in shipped() if file.is_of(name)), None):
        return found
    known = ", ".join(file.model for file in shipped())
    raise InputError(
        f"no file {name!r}, and no list is shipped for a model of that name; there are {known}. Make "
        f"one with `hwdag heads detect --model {name} --data DATA.jsonl -o HEADS.json`"
    )


def _print(file: HeadFile) -> None:
    print(file.key)
    print(f"source: {file.source}")
    for i, (layer, head) in enumerate(file.pairs):
        score = f"  {file.scores[i]:.4f}" if file.scores else ""
        print(f"  {layer}-{head}{score}")
    if file.controller is not None:
        print(f"controllers: {', '.join(sorted(file.controller))}")


def _warn(message: str) -> None:
    print(f"hwdag: skipped: {visible(message)}", file=sys.stderr)


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
