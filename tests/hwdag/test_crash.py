"""Builds killed with SIGKILL at random points continue: the same index, no finished call twice."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
MODES = ["extractive", "written", "streamed", "refresh", "short"]
MEMORY = Path("/dev/shm")


@pytest.fixture
def folder():
    """A folder in memory, if there is one: SIGKILL loses no page of a file."""
    fast = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    with tempfile.TemporaryDirectory(dir=MEMORY if fast else None) as made:
        yield made


def run(script, *arguments):
    paths = os.pathsep.join([str(HERE.parent / "core"), str(HERE)])
    done = subprocess.run(
        [sys.executable, HERE / script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_build_goes_on(folder, mode):
    first = 5 * MODES.index(mode)  # every way to die once
    assert run("crash_world.py", folder, mode, first, 5).startswith("5 points")


@pytest.mark.model
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_build_with_the_embedded_models_goes_on(folder):
    assert run("crash_world.py", folder, "model", 100, 1).startswith("1 points")
