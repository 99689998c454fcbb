"""Programs that run in another Python with the imports of this one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

SECONDS = 300  # no program of a test takes longer


def program(code: str, *arguments: object) -> dict[str, Any]:
    """Return the options of `subprocess` that run some lines of Python with these arguments."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return {"args": command, "env": os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}}


def python(code: str, *arguments: object, ends: int = 0) -> subprocess.CompletedProcess[str]:
    """Run some lines of Python to their end, which must be that exit status; minus a signal if killed."""
    done = subprocess.run(
        **program(code, *arguments), capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done


def started(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Begin to run some lines of Python; their output is in `stdout`."""
    return subprocess.Popen(**program(code, *arguments), stdout=subprocess.PIPE, text=True)
