"""The image: its file keeps good practice, and its steps give a server that answers.

No Docker daemon is needed. The steps run as a script in a virtual environment, in which folders of the
image are folders of the test.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from environments import outside, run, take_over_bytecode

ROOT = Path(__file__).parents[2]
TOKEN = "0123456789abcdef"


def instructions():
    """(name, argument) of every instruction, with its continued lines."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


STEPS = instructions()


def arguments(name):
    return [argument for step, argument in STEPS if step == name]


def test_the_base_is_one_release_and_the_server_runs_without_rights():
    (base,) = arguments("FROM")
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base), "a tag that never moves"
    user = arguments("USER")[-1]
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user), "by number, so that it is no root"
    last = [name for name, _ in STEPS].index("USER")
    assert not {"RUN", "COPY"} & {name for name, _ in STEPS[last:]}


def test_it_is_written_as_linters_ask_for():
    names = {name for name, _ in STEPS}
    assert names <= {
        *("FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN"),
        *("USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
    }
    for name in ("HEALTHCHECK", "ENTRYPOINT", "CMD"):
        assert len(arguments(name)) == 1
    for argument in (*arguments("ENTRYPOINT"), *arguments("CMD"), *arguments("VOLUME")):
        assert all(isinstance(part, str) for part in json.loads(argument))
    assert all(folder.startswith("/") for folder in arguments("WORKDIR"))
    for command in arguments("RUN"):
        assert not re.search(r"\b(sudo|curl|wget|apt(-get)?|cd)\b", command)
        for install in re.findall(r"\bpip install [^&]*", command):
            assert "constraints.txt" in install, "versions are pinned"
        assert "pip install" not in command.replace("uv pip", "") or "--no-cache-dir" in command
    assert not re.search(r"(?i)token|secret|password", str(arguments("ENV") + arguments("ARG")))


def test_what_is_copied_is_there_and_nothing_else_is_sent():
    sources = {part for argument in arguments("COPY") for part in argument.split()[:-1]}
    assert all((ROOT / source).exists() for source in sources)
    rules = (ROOT / ".dockerignore").read_text().split()
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == sources


@pytest.mark.package
@pytest.mark.model
@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_its_steps_give_a_server_that_answers(tmp_path):
    image = Image(tmp_path)
    for name, argument in STEPS:
        getattr(image, name.lower(), lambda _: None)(argument)
    for one in (image.at / "models").rglob("*"):
        needed = 0o555 if one.is_dir() else 0o444
        assert one.stat().st_mode & needed == needed, f"{one} is for root alone"
    image.hwdag("build", ROOT / "SECURITY.md", "-o", image.put("/data/index.hwdag"), "--quiet")
    port = free_port()
    command = [*json.loads(arguments("CMD")[0]), "--port", str(port)]
    with subprocess.Popen(
        [image.bin / "hwdag", *map(image.put, command)],
        cwd=tmp_path,
        env=image.variables | {"HWDAG_TOKEN": TOKEN},
    ) as server:
        try:
            check = json.loads(arguments("HEALTHCHECK")[0].partition("CMD ")[2])
            assert_healthy([part.replace("8000", str(port)) for part in check], image)
            asked = Request(
                f"http://127.0.0.1:{port}/api/state", headers={"Authorization": f"Bearer {TOKEN}"}
            )
            (document,) = json.load(urlopen(asked, timeout=30))["documents"]
            assert "SECURITY" in document["id"]
        finally:
            server.terminate()


class Image:
    """Runs instructions in a virtual environment whose folders stand for those of the image."""

    def __init__(self, folder):
        self.folder = folder
        self.bin = folder / "app" / "venv" / "bin"
        # why first: what the steps call python is this one, which makes the environment that they fill
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

    def run(self, argument):
        for command in argument.split(" && "):
            run("sh", "-ec", self.put(command), cwd=self.at, env=self.variables | self.args)
            # why after each: what the next one runs takes a minute to compile
            if "uv pip install" in command:
                take_over_bytecode(self.bin / "python")

    def hwdag(self, *command):
        run(self.bin / "hwdag", *command, cwd=self.folder, env=self.variables)


def find_links():
    """Where pip finds wheels besides; uv reads none of pip's settings."""
    pip = [sys.executable, "-m", "pip", "config", "get", "global.find-links"]
    return subprocess.run(pip, capture_output=True, text=True, check=False).stdout.strip()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def assert_healthy(check, image):
    """Return the health check succeeds before long."""
    for _ in range(60):
        with suppress(AssertionError):
            return run(*check, cwd=image.folder, env=image.variables)
        time.sleep(1)
    raise AssertionError("the server is not healthy")
