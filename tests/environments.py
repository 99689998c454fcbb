"""Clean environments: virtual ones, without the paths and variables of this one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

UNWANTED = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONWARNINGS", "PYTHONDONTWRITEBYTECODE")
PURELIB = "import sysconfig; print(sysconfig.get_path('purelib'))"


def outside(**changes: str) -> dict[str, str]:
    """Return the variables of a program that knows nothing of this environment."""
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return kept | {"UV_LINK_MODE": "hardlink"} | changes  # in a second, where copies take ten


def run(*command: object, cwd: Path, env: dict[str, str] | None = None) -> str:
    """What a command prints."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env or outside(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder: Path, *options: str) -> Path:
    """Return the Python of a new virtual environment."""
    run(sys.executable, "-m", "venv", *options, "venv", cwd=folder)
    return folder / "venv" / "bin" / "python"


def take_over_bytecode(python: Path) -> None:
    """Spare the compiling of files that are those of this environment; Python looks whether they are."""
    here = Path(sysconfig.get_path("purelib"))
    there = Path(run(python, "-c", PURELIB, cwd=python.parent).strip())
    for compiled in here.rglob("__pycache__/*.pyc"):
        place = there / compiled.relative_to(here)
        if place.parent.parent.is_dir() and not place.exists():
            place.parent.mkdir(exist_ok=True)
            try:
                place.hardlink_to(compiled)  # Python never writes into such a file, it replaces it
            except OSError:  # on another disk
                shutil.copy2(compiled, place)
