"""The commands `heads detect` and `heads show`."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdag.checks import whole
from hwdag.errors import InputError
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.model_file import DETECT, ModelFile, shipped
from hwdag_lab.cli.evaluation import warn
from hwdag_lab.heads import Example, detect_heads, read_examples
from hwdag_lab.heads.capture import ranking_tokens


def detect(options: argparse.Namespace) -> int:
    """Find the retrieval heads of a model, print them, and write their file."""
    whole("--top", options.top, 1)
    path: Path | None = options.output
    # why: before hours are spent
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise InputError(f"{path}: cannot be written; name a file in a folder that exists")
    examples = read_examples(
        options.data,
        limit=options.limit,
        seed=options.seed,
        malformed=options.malformed,
        on_skip=warn,
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
    file = found.model_file(lm, top=options.top, source=f"{found.description}, of {names}")
    _print(file)
    if path is not None:
        file.save(path)
        print(f"{path}: {len(file.heads)} heads; use it with --head-list {path}")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print a list, or one line per shipped list."""
    if options.list is None:
        for file in _with_heads():
            print(f"{file.key}: {len(file.heads)} heads")
        return 0
    _print(ModelFile.load(options.list) if Path(options.list).is_file() else _shipped(options.list))
    return 0


def _short(
    lm: HuggingFaceLM, examples: list[Example], options: argparse.Namespace
) -> list[Example]:
    """Return the examples that are not too long; reports the others."""
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
        warn(f"{left} of {len(examples)} questions, longer than {room} tokens with their passages")
    return kept


def _with_heads() -> list[ModelFile]:
    return [file for file in shipped() if file.heads]


def _shipped(name: str) -> ModelFile:
    if found := next((file for file in _with_heads() if file.is_of(name)), None):
        return found
    known = ", ".join(file.model for file in _with_heads())
    raise InputError(
        f"no file {name!r}, and no list is shipped for a model of that name; there are {known}. Make "
        f"one with `{DETECT.format(name=name)}`"
    )


def _print(file: ModelFile) -> None:
    print(file.key)
    print(f"source: {file.source}")
    for i, (layer, head) in enumerate(file.heads):
        score = f"  {file.scores[i]:.4f}" if file.scores else ""
        print(f"  {layer}-{head}{score}")
