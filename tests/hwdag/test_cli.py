"""The command line on the embedded models: build, ask, show; errors as messages, not tracebacks."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import fields, is_dataclass
from io import StringIO
from typing import get_args, get_type_hints

import pytest
from chat_world import serving
from pypdf import PdfWriter

from hwdag.config import BuildConfig, SearchConfig
from hwdag.index import HWDAGIndex
from hwdag.options import members
from hwdag.store.sqlite import holds_something
from hwdag.types import StopReason
from hwdag_app.cli.options import add_config, config_of
from hwdag_app.main import main

HASHING = ("--embedder", "hashing-64")
MANY = 400
"""Documents of a build that does not end before it is looked at."""

HARBOUR = """# The harbour

The harbour of Brightwater was built in 1871 by the engineer Clara Holm. It replaced a wooden pier
that a storm had destroyed two years earlier. The stone for its walls came from the quarry at Elm
Hill, ten kilometres inland.

The lighthouse at the end of the pier is forty metres high. Its lamp was made in Lyon. Today the
harbour shelters sixty fishing boats and a rescue station.
"""

QUARRY = """<html><head><title>The quarry</title><style>p {color: red}</style></head><body>
<p>The quarry at Elm Hill belonged to the Sorensen family from 1802 until 1940.</p>
<p>Its grey granite was used for the town hall, for two bridges and for the harbour walls.</p>
</body></html>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("docs")
    (root / "harbour.md").write_text(HARBOUR)
    (root / "quarry.html").write_text(QUARRY)
    (root / "latin1.txt").write_bytes("Das Café am Hafen öffnet um acht.".encode("latin-1"))
    (root / "empty.txt").write_text("  \n")
    (root / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    return root


@pytest.fixture(scope="module")
def index_file(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("index") / "town.hwdag"
    assert main(["build", str(folder), "-o", str(path), "--quiet"]) == 0
    return path


@pytest.mark.model
def test_build_reports_what_it_read_and_what_it_skipped(folder, tmp_path, capsys):
    path = tmp_path / "town.hwdag"
    assert main(["build", str(folder), "-o", str(path), "--quiet"]) == 0
    shown = capsys.readouterr().out
    first, *_, last = shown.splitlines()
    assert first == f"{path} has 3 documents: 3 new or changed, 2 skipped."
    assert last == f'Ask it: hwdag ask {path} "..."'
    assert "method" not in shown
    assert "broken.pdf" in shown
    assert "empty.txt: empty or only white space" in shown
    assert "latin1.txt: not UTF-8: read as Windows-1252" in shown
    named = ["build", str(folder), "-o", str(tmp_path / "named.hwdag"), "--metadata", "notes=own"]
    assert main([*named, "--quiet"]) == 0
    assert "latin1.txt: o" not in capsys.readouterr().out
    texts = " ".join(document.text for document in HWDAGIndex.load(path).documents.values())
    assert "grey granite" in texts
    assert "color: red" not in texts
    assert main(["build", str(folder), "-o", str(path), "--quiet"]) == 0
    assert "3 unchanged" in capsys.readouterr().out


@pytest.mark.model
def test_an_index_is_named_after_the_one_path_that_it_is_built_from(tmp_path, monkeypatch, capsys):
    (tmp_path / "my town").mkdir()
    (tmp_path / "my town" / "harbour.md").write_text(HARBOUR)
    monkeypatch.chdir(tmp_path)
    assert main(["build", "my town", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "my town.hwdag has 1 document: 1 new or changed.",
        "Ask it: hwdag ask 'my town.hwdag' \"...\"",
    ]
    assert main(["ask", "my town.hwdag", "Who built the harbour?"]) == 0
    assert main(["build", "my town", "my town/harbour.md", "--quiet"]) == 2
    assert "name the index file: -o notes.hwdag" in capsys.readouterr().err


def test_the_short_help_of_ask_has_the_budget(capsys):
    with pytest.raises(SystemExit):
        main(["ask", "--help"])
    shown = capsys.readouterr().out
    assert "--budget" in shown
    assert "--confidence" not in shown


@pytest.mark.model
def test_ask_shows_the_walk_the_answer_and_the_sources(index_file, capsys):
    asked = ["ask", str(index_file), "Who built the harbour?", "--budget", "400"]
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "Clara Holm" in shown and "sources:" in shown
    assert "--verbose" in shown.splitlines()[-1]
    assert not any(word in shown for word in ("p_yes", "TFLOPs", "likelihood", "stopped", "note:"))
    assert main([*asked, "--verbose"]) == 0
    shown = capsys.readouterr().out
    for expected in ("attention", "p_yes", "answer: ", "probability", "TFLOPs", "stopped: "):
        assert expected in shown
    assert "Clara Holm" in shown and "sources:" in shown


@pytest.mark.model
def test_ask_as_json_and_as_a_page(index_file, capsys, tmp_path):
    page, graph = tmp_path / "answer.html", tmp_path / "graph.html"
    arguments = ["ask", str(index_file), "Who built the harbour?", "--budget", "200", "--json"]
    assert main([*arguments, "--html", str(page), "--graph", str(graph)]) == 0
    assert "Who built the harbour?" in page.read_text("utf-8")
    assert '"graphs":' not in page.read_text("utf-8")
    assert '"graphs":' in graph.read_text("utf-8")
    found = json.loads(capsys.readouterr().out)
    assert found["walk"]["context_tokens"] <= 200
    assert found["walk"]["stop"] in get_args(StopReason)
    assert {"level", "attention", "similarity", "p_yes", "spans"} <= found["walk"]["steps"][
        0
    ].keys()
    assert found["likelihood"] < 0
    assert found["citations"][0]["text"]
    assert found["tokens"] > 0


@pytest.mark.model
def test_a_server_answers_what_was_found(index_file, capsys):
    def named(request):
        number = re.search(r"^\[(\d+)\] .*Clara Holm\.$", request.prompt, re.MULTILINE)[1]
        request.streamed("Clara ", f"Holm [{number}]")

    asked = ["ask", str(index_file), "Who built the harbour?", "--answerer-model", "m"]
    with serving(named, lambda request: request.reply(b"{}", 404)) as server:
        assert main([*asked, "--answerer", server.url, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert main([*asked, "--answerer", server.url]) == 2
        failed = capsys.readouterr()
    assert found["answer"] == "Clara Holm [1]"
    assert [cited["by"] for cited in found["citations"]] == ["number"]
    assert "by the engineer" in failed.out  # the evidence
    assert "no chat API there" in failed.err
    assert main([*asked[:3], "--answerer", server.url]) == 2
    assert "--answerer-model" in capsys.readouterr().err
    assert main([*asked[:3], "--reader", "gpt-4o"]) == 2
    assert "answerer" in capsys.readouterr().err


@pytest.mark.model
def test_a_chat_answers_line_after_line(index_file, capsys, monkeypatch):
    monkeypatch.setattr(
        sys,
        "stdin",
        StringIO("Who built the harbour?\n\n" + "why? " * 9000 + "\nHow high is the lighthouse?\n"),
    )
    options = ["--budget", "200", "--max-new-tokens", "2"]
    assert main(["chat", str(index_file), *options]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("HWDAGIndex(3 documents, ")
    assert shown.out.count("answer: ") == shown.out.count("sources:") == 2
    assert shown.out.count("note: the reply was cut off") == 2
    assert "question" in shown.err  # and the chat continues


@pytest.mark.model
def test_show_describes_the_graphs(index_file, capsys):
    assert main(["show", str(index_file)]) == 0
    shown = capsys.readouterr().out
    assert "3 documents, built by HuggingFaceTB/SmolLM2-135M-Instruct" in shown
    assert "level 1" in shown
    assert main(["show", str(index_file), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert {d["title"] for d in described["documents"]} >= {"The harbour", "The quarry"}
    one = described["documents"][0]["id"]
    assert main(["show", str(index_file), "--document", one, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["documents"][0]["nodes"]


def test_a_folder_without_documents_is_an_error_that_lists_skipped_files(tmp_path, capsys):
    docs, path = tmp_path / "docs", tmp_path / "town.hwdag"
    docs.mkdir()
    (docs / "photo.png").write_bytes(b"\x89PNG")
    assert main(["build", str(docs), "-o", str(path)]) == 2
    shown = capsys.readouterr().err
    assert "no document" in shown
    assert "photo.png: .png is no known kind; name the file to have it read" in shown
    assert not list(tmp_path.glob("town*"))


@pytest.mark.model
def test_a_build_that_makes_nothing_is_an_error_and_leaves_no_file(tmp_path, capsys):
    (tmp_path / "blank.txt").write_text(" \n")
    path = tmp_path / "town.hwdag"
    assert main(["build", str(tmp_path / "blank.txt"), "-o", str(path), "--quiet"]) == 2
    assert "blank.txt" in capsys.readouterr().err
    assert not path.exists()
    scan = PdfWriter()
    scan.add_blank_page(200, 200)
    scan.write(tmp_path / "scan.pdf")
    assert main(["build", str(tmp_path / "scan.pdf"), "-o", str(path), "--quiet"]) == 2
    assert "needs OCR" in capsys.readouterr().err


def test_errors_are_messages(tmp_path, capsys):
    assert main(["show", str(tmp_path / "nothing.hwdag")]) == 2
    assert main(["build", str(tmp_path / "nothing"), "-o", str(tmp_path / "a.hwdag")]) == 2
    (tmp_path / "text.txt").write_text("Hello. " * 100)
    assert main(["ask", str(tmp_path / "text.txt"), "why?"]) == 2
    build = ["build", str(tmp_path / "text.txt"), "-o", str(tmp_path / "a.hwdag")]
    assert main([*build, "--chunk-tokens", "0"]) == 2
    assert main([*build, "--dtype", "float12"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 5
    assert all(line.startswith("hwdag: ") for line in said)


@pytest.mark.model
def test_a_page_that_cannot_be_written_is_a_message(index_file, tmp_path, capsys):
    assert main(["show", str(index_file), "--html", str(tmp_path)]) == 2
    assert main(["show", str(index_file), "--html", str(tmp_path / "no" / "page.html")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line.startswith("hwdag: ") and str(tmp_path) in line for line in said] == [True, True]


@pytest.mark.model
def test_a_page_replaces_a_page_and_nothing_else(index_file, tmp_path, capsys):
    before, text, page = index_file.read_bytes(), tmp_path / "a.md", tmp_path / "page.html"
    text.write_text("<!doctype html> is how a page begins.")
    for place in (index_file, text):
        assert main(["show", str(index_file), "--html", str(place)]) == 2
        assert main(["ask", str(index_file), "Who?", "--html", str(place)]) == 2
        assert main(["ask", str(index_file), "Who?", "--graph", str(place)]) == 2
    assert capsys.readouterr().err.count("exists and is no page") == 6
    assert index_file.read_bytes() == before
    for _ in range(2):
        assert main(["show", str(index_file), "--html", str(page)]) == 0


def test_what_a_terminal_cannot_show_is_spelled_out():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    code = "from hwdag_app.cli.terminal import visible_output\nwith visible_output(): print('Käse')"
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (shown.returncode, shown.stdout.strip()) == (0, b"K\\xe4se")


@pytest.mark.model
def test_ctrl_c_leaves_a_file_with_the_finished_documents(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for i in range(MANY):
        (docs / f"{i:04}.md").write_text(HARBOUR.replace("Brightwater", f"Town {i}") * 20)
    path = tmp_path / "town.hwdag"
    with subprocess.Popen(
        [sys.executable, "-m", "hwdag_app.main", "build", docs, "-o", path, *HASHING],
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as child:
        while not holds_something(path) or len(HWDAGIndex.load(path)) < 2:
            assert child.poll() is None
            time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        _, rest = child.communicate()
    assert child.returncode == 130
    assert b"the same command continues" in rest
    assert 2 <= len(HWDAGIndex.load(path)) < MANY


@pytest.mark.parametrize("config", [BuildConfig, SearchConfig])
def test_every_field_of_a_config_is_an_option(config):
    """Each option sets its field, and the others stay as they were."""
    before = config()
    command = argparse.ArgumentParser()
    add_config(command, config())
    assert config_of(before, command.parse_args([])) == before
    for path, hint, usual in flattened(before):
        arguments, value = another(path, hint, usual)
        after = dict(flat(config_of(before, command.parse_args(arguments))))
        assert after == dict(flat(before)) | {path: value}


def flattened(config):
    """Yield name, type and value of every field, also of configs within."""
    hints = get_type_hints(type(config))
    for name in (field.name for field in fields(config)):
        value, hint = getattr(config, name), hints[name]
        if within := [kind for kind in get_args(hint) if is_dataclass(kind)]:
            value = value or within[0]()
            yield from ((f"{name}-{inner}", *rest) for inner, *rest in flattened(value))
        else:
            yield name, hint, value


def flat(config):
    return ((path, value) for path, _, value in flattened(config))


def another(path, hint, usual):
    """Arguments with values other than the defaults, and these values."""
    option, kinds = path.replace("_", "-"), str(hint)
    if hint is bool:
        return [f"--no-{option}" if usual else f"--{option}"], not usual
    if "tuple[str" in kinds:
        return [f"--{option}", "name,label"], ("name", "label")
    if "tuple" in kinds:
        return [f"--{option}", "1-2,3-4"], ((1, 2), (3, 4))
    for kind, value in ((int, 97), (float, 0.25), (str, "German")):
        if kind in (hint, *get_args(hint)):
            return [f"--{option}", str(value)], value
    words = (word for word in members(hint) if isinstance(word, str))
    word = next(word for word in words if word != usual)
    return [f"--{option}", word], word


def test_a_missing_argument_is_named_with_the_form_of_the_command(capsys):
    with pytest.raises(SystemExit):
        main(["ask", "Who built the harbour?"])
    [said, _] = capsys.readouterr().err.splitlines()
    assert said == "hwdag ask: question is missing; write: hwdag ask FILE question"


def test_the_help_of_a_command_has_the_fields_of_its_config_and_not_those_of_configs_within(capsys):
    with pytest.raises(SystemExit):
        main(["ask", "--help"])
    shown = capsys.readouterr().out
    assert "--answerer" in shown and "--help-all" in shown
    assert "--patience" not in shown and "--scoring" not in shown
    with pytest.raises(SystemExit):
        main(["ask", "--help-all"])
    shown = capsys.readouterr().out
    assert "--token-budget" in shown
    assert "--scoring-NAME" in shown and "--scoring-bm25-weight" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [(["aks", "a.hwdag"], "ask?"), (["serve", "a.hwdag", "--port", "80000"], "65535")],
)
def test_a_slip_gets_one_line_and_the_way_out(words, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    shown = capsys.readouterr().err.splitlines()
    assert message in shown[0]
    assert len(shown) == 2
    assert "--help" in shown[1]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--patience", "x"], "'x'"),
        (["--heads", "8-x"], "'8-x'"),
        (["--confidence", "half"], "'half'"),
        (["--scoring-bm25-weight", "half"], "'half'"),
    ],
)
def test_a_value_of_another_kind_is_a_message(option, message, capsys):
    with pytest.raises(SystemExit):
        main(["ask", "a.hwdag", "why?", *option])
    assert message in capsys.readouterr().err
