"""The command `probe`."""

from __future__ import annotations

import argparse
from pathlib import Path

from hwdag.errors import InputError
from hwdag.lm.default import load_reader
from hwdag.trace.bars import as_reporter
from hwdag_lab.probe import known_file, probe


def run(options: argparse.Namespace) -> int:
    """Measure the abilities of a model as a reader, print them, and write its file."""
    path: Path = options.output
    # why: before minutes are spent
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path}: cannot be written; name a file in a folder that exists")
    lm = load_reader(options.model, dtype=options.dtype, device=options.device)
    file = known_file(lm, probe(lm, reporter=as_reporter(not options.quiet)))
    file.save(path)
    print(f"{lm.name} {file.card}")
    print(
        f"{path}: use it with --card {path}, or HuggingFaceLM.from_pretrained({lm.name!r}, card={str(path)!r})"
    )
    return 0
