"""The tutorial runs as it is printed, over the documents that it names."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from hwdag.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
SHELL = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.model
def test_its_commands_run(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples" / "town", tmp_path / "town")
    monkeypatch.chdir(tmp_path)
    lines = "".join(SHELL).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("hwdag ")]
    assert [command[1] for command in commands] == ["build", "ask", "refresh"]
    for command in commands:
        assert main(command[1:]) == 0
    assert "Sorensen" in capsys.readouterr().out
    assert (tmp_path / "answer.html").is_file()
    for code in PYTHON:
        exec(compile(code, "tutorial.md", "exec"), {"__name__": "tutorial"})
    assert "waterworks" in capsys.readouterr().out
