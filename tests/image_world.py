"""The image as a folder: its instructions, and a runner of them that needs no Docker daemon."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from environments import outside, run, take_over_bytecode

ROOT = Path(__file__).parents[1]


def instructions():
    """Return (name, argument) of every instruction, with its continued lines."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


STEPS = instructions()


def arguments(name):
    """Return the arguments of all instructions of a name."""
    return [argument for step, argument in STEPS if step == name]


class Image:
    """A runner of instructions in a virtual environment; its folders are those of the image."""

    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / "app" / "venv" / "bin"
        # why first: the steps call this Python, which makes the environment that they fill
        self.variables = outside(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        self.variables.setdefault("UV_FIND_LINKS", find_links())
        self.args = {}

    def put(self, text):
        return re.sub(r"(?<![\w.:/])/(?=(app|data)\b)", f"{self.folder}/", text)

    def arg(self, argument):
        # why empty: the builds for a CPU that its default names are not those that are tested here
        self.args[argument.partition("=")[0]] = ""

    def env(self, argument):
        known = self.put(argument).replace("$PATH", self.variables["PATH"])
        found = dict(pair.split("=", 1) for pair in shlex.split(known))
        found.pop("UV_NO_CACHE", None)  # the image would keep what is here for the next test
        self.variables |= found

    def workdir(self, argument):
        self.at = Path(self.put(argument))
        self.at.mkdir()

    def copy(self, argument):
        *sources, target = argument.split()
        for source in sources:
            if (ROOT / source).is_dir():
                skip = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / source, self.at / target, ignore=skip)
            else:
                shutil.copy(ROOT / source, self.at / target)

    def step(self, name, argument):
        """Run an instruction; those without an effect on files are left out."""
        getattr(self, name.lower(), lambda _: None)(argument)

    def run(self, argument):
        for command in argument.split(" && "):
            if command.startswith("pip install"):
                # why: this pip is that of the tests' environment, which has the same uv
                assert f"uv=={version('uv')}\n" in (ROOT / "constraints.txt").read_text()
                continue
            run("sh", "-ec", self.put(command), cwd=self.at, env=self.variables | self.args)
            # why: the process after the last installation would compile torch
            if "uv pip install -c" in command:
                take_over_bytecode(self.bin / "python")

    def hwdag(self, *command):
        return run(self.bin / "hwdag", *command, cwd=self.folder, env=self.variables)


def find_links():
    """Return further folders of wheels that pip knows; uv does not read the settings of pip."""
    pip = [sys.executable, "-m", "pip", "config", "get", "global.find-links"]
    return subprocess.run(pip, capture_output=True, text=True, check=False).stdout.strip()
