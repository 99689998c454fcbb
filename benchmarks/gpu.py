"""Measure a GPU in one run of at most 9 minutes: tests, limits in bfloat16, batches.

    python benchmarks/gpu.py -o gpu.json
    python benchmarks/gpu.py --reader Qwen/Qwen3-8B -o gpu.json
    python benchmarks/gpu.py --quick --device cpu -o gpu.json      # that it runs, anywhere

The tests marked `model` run first, in a process of their own, then capture and walk against a plain
forward, then batches of replies from 1 to 64. Parts that do not fit into the time are left out and named
in the JSON, which is written anew after every part.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from performance import (
    ROOT,
    Plan,
    Row,
    capturing,
    circumstances,
    precision_of_forwards,
    walking,
    writing,
)

from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM

FULL = Plan(rounds=5, tokens=4096, new_tokens=64, batches=(1, 2, 4, 8, 16, 32, 64))
QUICK = Plan(rounds=1, tokens=256, new_tokens=4, batches=(1, 2, 4))
TESTS_SHARE = 0.5
"""Of the time, at most, that the tests may take."""


def main() -> int:
    """Run all parts; the exit status is that of the tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--reader", help="hub name or path (default: the embedded model)")
    parser.add_argument("--device", help="cuda, cpu, ... (default: the best)")
    parser.add_argument("--minutes", type=float, default=9.0, help="of the whole run, at most")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="files or folders, or none")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON file to write")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    plan = QUICK if options.quick else FULL
    found: dict[str, Any] = {"tests": None, "rows": [], "left_out": []}
    if options.tests:
        found["tests"] = tested(options.tests, TESTS_SHARE * 60 * options.minutes)
        print(found["tests"]["end"], flush=True)
    load = {"dtype": "bfloat16", "device": options.device}
    lm = load_reader(options.reader, **load)
    plan = replace(plan, tokens=min(plan.tokens, lm.context_tokens // 2))
    found |= circumstances(lm)
    for name, part in parts(
        lm, plan, lambda: load_reader(options.reader, **load | {"dtype": "float32"})
    ):
        if time.monotonic() > until - 30:
            found["left_out"].append(f"{name}: no time")
            continue
        try:
            for row in part():
                found["rows"].append(asdict(row))
                print(f"{row.claim}: {row.value:.3g} {row.aim and f'({row.aim})'}", flush=True)
        except torch.OutOfMemoryError as error:
            found["left_out"].append(f"{name}: {str(error).splitlines()[0]}")
            torch.cuda.empty_cache()
        options.output.write_text(json.dumps(found, indent=2), "utf-8")
    options.output.write_text(json.dumps(found, indent=2), "utf-8")
    return found["tests"]["status"] if found["tests"] else 0


def parts(
    lm: HuggingFaceLM, plan: Plan, in_float32: Callable[[], HuggingFaceLM]
) -> Iterator[tuple[str, Callable[[], Iterator[Row]]]]:
    """Name and measurement of each part; a batch is a part of its own, since it may not fit."""
    yield "capture", lambda: capturing(lm, plan)
    yield "walk", lambda: walking(lm, plan)
    for size in plan.batches[1:]:
        one = replace(plan, batches=(1, size), rounds=min(2, plan.rounds))
        yield f"batch of {size}", lambda one=one: writing(lm, one)
    yield "precision", lambda: precision_of_forwards(in_float32(), lm, plan)


def tested(paths: list[str], seconds: float) -> dict[str, Any]:
    """Run the tests marked `model`; a status of -1 says that the time was over."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "model",
        "-p",
        "no:cacheprovider",
        *paths,
    ]
    began = time.monotonic()
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
        status, shown = run.returncode, run.stdout
    except subprocess.TimeoutExpired as expired:
        status, shown = -1, str(expired.stdout or "")
    end = shown.strip().splitlines()[-1:]
    return {"status": status, "end": "".join(end), "seconds": time.monotonic() - began}


if __name__ == "__main__":
    sys.exit(main())
