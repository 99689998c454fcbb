"""Output of commands, and its time: tables that fit, colours on a terminal, errors before models are loaded."""

import re
import sys
from io import StringIO

import pytest
from huggingface_hub.utils import are_progress_bars_disabled
from index_world import documents, index_of
from transformers.utils import logging

import hwdag
from hwdag import Document, HWDAGIndex
from hwdag.config import SearchConfig
from hwdag.loading_bars import without_bars
from hwdag.trace import render
from hwdag_app.cli.asking import show_answer
from hwdag_app.cli.terminal import Visible, print_styled
from hwdag_app.main import main

NOWHERE = ["--reader", "/nowhere/nothing", "--dtype", "float32"]
"""A reader that cannot be loaded, and is loaded as soon as it is asked for."""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "town.hwdag"
    index_of(documents(3), path=path).close()
    return path


class Terminal(StringIO):
    def isatty(self):
        return True


def styled(stream, monkeypatch, **environment):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Visible(stream))
    print_styled("an \x1b[31manswer", "bold")
    return stream.getvalue()


def test_only_a_terminal_gets_colours(monkeypatch):
    plain = "an \\u001b[31manswer\n"
    assert styled(StringIO(), monkeypatch, TERM="xterm") == plain
    assert styled(Terminal(), monkeypatch, TERM="xterm", NO_COLOR="1") == plain
    assert styled(Terminal(), monkeypatch, TERM="dumb") == plain
    assert styled(Terminal(), monkeypatch, TERM="xterm") == f"\x1b[1m{plain[:-1]}\x1b[0m\n"


def test_every_line_of_a_walk_and_of_a_graph_fits_its_width():
    index = index_of(documents(2))
    answer = index.answer("Who built it?", config=SearchConfig(token_budget=200))
    entry = index.entries["doc0"]
    for width in (80, 100):
        lines = [render.HEADER, *(render.step_line(step, width) for step in answer.retrieval.steps)]
        lines += render.graph_lines(entry.graph, points=None, width=width)
        lines += [
            line for c in answer.citations for line in render.citation_line(c, width).split("\n")
        ]
        assert len(lines) > 10
        assert max(map(len, lines)) <= width
    heads = [render.HEADER.index(word) + len(word) for word in ("attention", "similarity", "p_yes")]
    step = render.step_line(answer.retrieval.steps[-1])
    assert all(step[end - 1].isdigit() and step[end] == " " for end in heads)


def test_a_walk_is_coloured_and_fits_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", Visible(screen))
    answer = show_answer(
        index_of(documents(2)), "Who built it?", config=SearchConfig(token_budget=200), verbose=True
    )
    shown = screen.getvalue()
    plain = re.sub(r"\x1b\[\d+m", "", shown).splitlines()
    assert max(map(len, plain)) <= 80
    for step in answer.retrieval.steps:
        line = render.step_line(step)
        assert line in plain
        parts = line[7:37]
        coloured = (
            f"\x1b[33m{parts[:9]}\x1b[0m\x1b[34m{parts[9:20]}\x1b[0m\x1b[32m{parts[20:]}\x1b[0m"
        )
        assert coloured in shown


def test_show_has_all_nodes_of_a_document(file, capsys):
    with HWDAGIndex.load(file) as index:
        graph = index.graphs["doc1"]
    assert main(["show", str(file), "--document", "doc1"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("  * ") == len(graph)
    assert [line for line in shown.splitlines() if line.startswith("  level ")] == list(
        render.graph_lines(graph, points=0)
    )
    assert main(["show", str(file), "--document", "nope"]) == 2
    assert "'nope'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["ask", "FILE", "why?"], ["chat", "FILE"]], ids=["ask", "chat"]
)
@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--document", "nope"], "'nope'"),
        (["--budget", "0"], "token_budget"),
        (["--filter", "{"], "--filter"),
        ([], "/nowhere/nothing"),
    ],
)
def test_invalid_questions_are_reported_before_models_are_loaded(
    command, option, message, file, capsys
):
    arguments = [str(file) if word == "FILE" else word for word in command]
    assert main([*arguments, *NOWHERE, *option]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["-o", "nowhere/a.hwdag"], "nowhere/a.hwdag"),
        (["--chunk-tokens", "0"], "chunk_tokens"),
        (["--metadata", "town"], "--metadata"),
        (["--writer-url", "http://localhost:1/v1"], "--writer-url"),
        (["--head-list", "nothing.json"], "nothing.json"),
        ([], "/nowhere/nothing"),
    ],
)
def test_invalid_builds_are_reported_before_models_are_loaded(
    option, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("The harbour is old.")
    assert main(["build", "a.txt", "-o", "a.hwdag", *NOWHERE, *option]) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert not shown.out
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_blank_question_and_a_missing_file_are_reported_before_models_are_loaded(
    file, tmp_path, capsys
):
    assert main(["ask", str(file), " ", *NOWHERE]) == 2
    assert "question" in capsys.readouterr().err
    assert main(["ask", str(tmp_path / "nothing.hwdag"), "why?", *NOWHERE]) == 2
    assert "nothing.hwdag" in capsys.readouterr().err


def test_the_repr_of_an_index_describes_it(file):
    with HWDAGIndex.load(file) as index:
        nodes = sum(len(graph) for graph in index.graphs.values())
        assert repr(index) == f"HWDAGIndex(3 documents, {nodes} nodes, {file})"
        graph = index.graphs["doc0"]
        assert (
            repr(graph)
            == f"HWDAG({len(graph)} nodes, {graph.height} levels, {graph.edges.nnz} edges)"
        )
    assert repr(index) == f"HWDAGIndex(closed, {file})"
    assert repr(HWDAGIndex()) == "HWDAGIndex(0 documents, 0 nodes, in memory)"
    one = index_of([Document("a", "One sentence.")])
    assert repr(one) == f"HWDAGIndex(1 documents, {len(*one.graphs.values())} nodes, in memory)"


def test_no_bar_of_transformers_while_a_model_is_loaded_and_the_same_as_before_after():
    assert logging.is_progress_bar_enabled()
    hub = are_progress_bars_disabled()
    with without_bars():
        assert not logging.is_progress_bar_enabled()
        assert are_progress_bars_disabled() == hub  # a download shows what it showed before
        with without_bars():
            assert not logging.is_progress_bar_enabled()
        assert not logging.is_progress_bar_enabled()
    assert logging.is_progress_bar_enabled()
    assert are_progress_bars_disabled() == hub


def test_the_package_lists_its_public_names_and_no_others():
    assert dir(hwdag) == sorted(hwdag.__all__)
    assert {"Document", "HWDAGIndex", "SearchConfig", "Scope"} <= set(dir(hwdag))
    assert all(getattr(hwdag, name) is not None for name in hwdag.__all__)
    with pytest.raises(AttributeError, match="Nope"):
        _ = hwdag.Nope
