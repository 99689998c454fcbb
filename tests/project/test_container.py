"""The image keeps good practice. `test_package.py` runs its steps."""

import json
import re
from pathlib import Path

from image_world import STEPS, arguments

ROOT = Path(__file__).parents[2]


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
