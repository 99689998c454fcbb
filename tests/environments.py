"""Clean environments: virtual ones, without the paths and variables of this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

UNWANTED = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONWARNINGS", "PYTHONDONTWRITEBYTECODE")
PURELIB = "import sysconfig; print(sysconfig.get_path('purelib'))"


def outside(**changes: str) -> dict[str, str]:
    """Return the variables of a program that knows nothing of this environment."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return kept | {"UV_LINK_MODE": "hardlink"} | changes  # in a second; copies take ten


def run(*command: object, cwd: Path, env: dict[str, str] | None = None) -> str:
    """Return the output of a command."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env or outside(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def take_over_bytecode(python: Path) -> None:
    """Spare the compiling of files that are those of this environment; Python checks that they are."""
    here = Path(sysconfig.get_path("purelib"))
    there = Path(run(python, "-c", PURELIB, cwd=python.parent).strip())
    for folder, subfolders, _ in os.walk(there):
        known = here / Path(folder).relative_to(there) / "__pycache__"
        if "__pycache__" in subfolders or not known.is_dir():
            continue
        place = Path(folder, "__pycache__")
        place.mkdir()
        for compiled in known.iterdir():
            try:
                (place / compiled.name).hardlink_to(compiled)  # Python replaces such a file
            except OSError:  # on another disk
                shutil.copy2(compiled, place)
