"""The benchmarks that a release is measured by run to their end, with a tiny model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import model, tokenizer

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("tiny")
    model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def run(name, *options, cwd):
    command = [sys.executable, str(BENCHMARKS / name), *options, "-o", "found.json"]
    nowhere = os.environ | {"HWDAG_DATA": str(cwd)}
    done = subprocess.run(command, cwd=cwd, env=nowhere, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads((cwd / "found.json").read_text("utf-8"))
    assert all(row["value"] >= 0 for row in found["rows"])
    return found


def test_performance_prints_its_ratios(checkpoint, tmp_path):
    found = run(
        "performance.py", "--quick", "--reader", checkpoint, "--device", "cpu", cwd=tmp_path
    )
    claims = " ".join(row["claim"] for row in found["rows"])
    for part in ("prefill", "captured", "walk", "replies", "`write`"):
        assert part in claims
    assert found["machine"]


def test_the_run_for_a_gpu_does_all_its_parts(checkpoint, tmp_path):
    options = ("--quick", "--device", "cpu", "--reader", checkpoint, "--tests")
    found = run("gpu.py", *options, cwd=tmp_path)
    assert found["left_out"] == []
    assert found["tests"] is None
    claims = " ".join(row["claim"] for row in found["rows"])
    for part in ("prefill", "captured", "walk", "batch of 2 ", "batch of 4 ", "`write`"):
        assert part in claims


def test_the_run_for_a_gpu_leaves_out_what_there_is_no_time_for(checkpoint, tmp_path):
    options = ("--quick", "--device", "cpu", "--reader", checkpoint, "--minutes", "0", "--tests")
    found = run("gpu.py", *options, cwd=tmp_path)
    assert found["rows"] == []
    assert len(found["left_out"]) == 5
