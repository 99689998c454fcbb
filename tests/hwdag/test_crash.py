"""Builds killed with SIGKILL at random points continue: the same index, no finished call twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from store_world import folder_in_memory

HERE = Path(__file__).parents[1]
MODES = ["extractive", "written", "streamed", "refresh", "short"]


@pytest.fixture
def folder():
    """SIGKILL loses no page of a file."""
    with folder_in_memory() as made:
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
def test_a_killed_build_continues(folder):
    """Five points of each mode, every way to die once."""
    assert run("crash_world.py", folder, 0, 5, *MODES).count("5 points") == len(MODES)


@pytest.mark.model
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_build_with_the_embedded_models_continues(folder):
    assert run("crash_world.py", folder, 100, 1, "model").startswith("1 points")
