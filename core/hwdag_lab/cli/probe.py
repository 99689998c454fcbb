"""The command `probe`."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdag.errors import InputError
from hwdag.lm.default import load_reader
from hwdag.trace.bars import as_reporter
from hwdag_lab.probe import known_card, probe


def run(options: argparse.Namespace) -> int:
    """Measure what a model can do as a reader, print it, and write its card."""
    path: Path = options.output
    # why: before minutes are spent
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path}: cannot be written; name a file in a folder that exists")
    lm = load_reader(options.model, dtype=options.dtype, device=options.device)
    card = known_card(lm, probe(lm, reporter=as_reporter(not options.quiet)))
    card.save(path)
    print(f"{lm.name} {card.card}")
    print(
        f"{path}: use it with --card {path}, or HuggingFaceLM.from_pretrained({lm.name!r}, card={str(path)!r})"
    )
    return 0
