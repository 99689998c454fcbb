"""`hwdag demo` shows its answers: two hops, a row of a table, and a refusal."""

from __future__ import annotations

import pytest

from hwdag_app.cli.demo import QUESTIONS
from hwdag_app.main import main


@pytest.mark.model
def test_the_demo_shows_answers_with_sources(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("hwdag_app.cli.demo.cache_folder", lambda: tmp_path)
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    for _, question, answer in QUESTIONS:
        part = shown.split(f"question: {question}")[1].split("---")[0]
        assert ("sources:" in part) == ("probability" in part) == bool(answer)
        assert f"answer: {answer}" in part if answer else "do not seem to answer" in part
    assert "quarry.md" in shown and "ferry.md" in shown
    assert len(list(tmp_path.glob("demo-*.html"))) == 1
