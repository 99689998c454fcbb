"""The tutorial and the guides run as they are printed, from the top of a page to its end."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from hwdag_app.cli.demo import QUESTIONS
from hwdag_app.main import main

ROOT = Path(__file__).parents[2]
FAMILY = "the Sorensen family"
PAGES = ("filters", "guide", "living-index", "options", "retrievers", "writers")

pytestmark = pytest.mark.model


def blocks(page, language):
    text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_programs_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page}
    for code in blocks(page, "python"):
        if "path/to" not in code:  # a model that only the reader has
            exec(compile(code, f"{page}.md", "exec", dont_inherit=True), names)
    if "index" in names:
        names["index"].close()


def test_the_commands_of_the_tutorial_run(tmp_path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples" / "town", tmp_path / "town")
    monkeypatch.chdir(tmp_path)
    lines = "".join(blocks("tutorial", "sh")).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("hwdag ")]
    assert [command[1] for command in commands] == ["build", "ask", "ask", "refresh"]
    # why: `test_demo.py` checks the margins of these questions
    demo = {question: answer for _, question, answer in QUESTIONS}
    assert {demo[command[3]] for command in commands if command[1] == "ask"} == {FAMILY}
    for command in commands:
        assert main(command[1:]) == 0
    assert capsys.readouterr().out.count(f"answer: {FAMILY}") == 2
    assert (tmp_path / "answer.html").is_file()
    for code in blocks("tutorial", "python"):
        exec(compile(code, "tutorial.md", "exec"), {"__name__": "tutorial"})
    assert "waterworks" in capsys.readouterr().out
