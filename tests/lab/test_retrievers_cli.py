"""The command line on files of the retrievers beside HWDAG."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from hwdag.cli.main import main
from hwdag.errors import InputError, UnknownOption
from hwdag.lm.scripted import ScriptedLM
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.methods.methods import METHODS
from hwdag_lab.methods.opening import (
    is_saved_retriever,
    named_options,
    open_retriever,
    retriever_class,
)
from hwdag_lab.methods.youra import YouraConfig, YouraRetriever

TOWN = "The harbour was built in 1871 by Clara Holm. Its lamp was made in Lyon."
QUARRY = "The quarry at Elm Hill belonged to the Sorensen family. Its granite is grey."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("docs")
    (root / "town.txt").write_text(TOWN)
    (root / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    return root


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_class_that_marks_files_with_it(method):
    assert retriever_class(method).method == method


def test_names_of_methods_are_checked():
    with pytest.raises(UnknownOption, match=r"no method 'bm26'; there are bm25, dense, raptor"):
        retriever_class("bm26")


def test_a_file_is_opened_as_what_it_was_saved_as(tmp_path):
    lm, path = ScriptedLM(), tmp_path / "town.any"
    made = BM25Retriever.from_documents([TOWN], reader=lm, path=path, granularity="sentence")
    again = open_retriever(path, reader=lm)
    assert type(again) is BM25Retriever
    assert again.settings() == made.settings()
    assert again.documents == made.documents
    assert is_saved_retriever(path)


def test_other_files_are_told_apart(tmp_path):
    path = tmp_path / "notes"
    assert not is_saved_retriever(path)
    path.write_text("short")
    assert not is_saved_retriever(path)
    with pytest.raises(InputError, match="there is no file"):
        open_retriever(tmp_path / "absent")


def test_options_are_those_of_the_constructor_and_of_its_config():
    assert named_options(BM25Retriever, {"k1": 1.2}) == {"k1": 1.2}
    made = named_options(
        YouraRetriever, {"mean": "geometric"}, {"window_tokens": 200, "heads": "all"}
    )
    assert made == {"config": YouraConfig(window_tokens=200, heads="all", mean="geometric")}
    with pytest.raises(UnknownOption, match="method bm25 has no option 'k2'; it has granularity"):
        named_options(BM25Retriever, {"k2": 1})
    with pytest.raises(UnknownOption, match="no option 'reader'"):
        named_options(YouraRetriever, {"reader": "gpt2"})


@pytest.mark.model
@pytest.mark.parametrize("method", ["bm25", "youra"])
def test_build_insert_ask_show_delete(method, folder, tmp_path, capsys):
    file = tmp_path / "town"
    assert main(["build", str(folder), "-o", str(file), "--method", method, "-q"]) == 0
    assert "broken.pdf" in capsys.readouterr().out  # what was skipped is told
    more = tmp_path / "quarry.txt"
    more.write_text(QUARRY)
    assert main(["insert", str(file), str(more), "-q"]) == 0
    assert f"{file}: 2 documents" in capsys.readouterr().out
    question = "Who built the harbour?"
    assert main(["ask", str(file), question, "--json", "--max-new-tokens", "4"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = open_retriever(file).search(question)
    assert [s["text"] for s in found["walk"]["steps"]] == [s.node.text for s in expected.steps]
    assert main(["ask", str(file), question, "--max-new-tokens", "4"]) == 0
    assert "sources:" in capsys.readouterr().out
    assert main(["show", str(file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [d["id"] for d in shown["documents"]] == list(open_retriever(file).documents)
    assert main(["delete", str(file), str(folder / "town.txt")]) == 0
    assert "deleted" in capsys.readouterr().out
    assert main(["show", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "quarry" in shown and "town.txt" not in shown


@pytest.mark.model
def test_options_of_a_method(folder, tmp_path, capsys):
    path = tmp_path / "town.bm25"
    build = ["build", str(folder), "-o", str(path), "--method", "bm25", "-q"]
    assert main([*build, "--option", "granularity=sentence"]) == 0
    assert main(["show", str(path), "--document", str(folder / "town.txt")]) == 0
    assert capsys.readouterr().out.count("level 1,") == 2  # its two sentences
    assert main(["ask", str(path), "Who?", "--option", "k1=-1"]) == 2
    assert "BM25 needs a finite k1" in capsys.readouterr().err
    assert main([*build, "--option", "granularity=100"]) == 2
    assert "was built with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "bm25", "--leaves", "chunks"], "--leaves is an option of HWDAG"),
        (["--method", "bm25", "--max-seconds", "9"], "--max-seconds is an option of HWDAG"),
        (["--method", "bm25", "--option", "granularity"], "--option must be NAME=VALUE"),
        (["--method", "bm25", "--option", "size=3"], "bm25 has no option 'size'"),
        (["--method", "bm25", "--embedder", "hashing"], "bm25 has no embedder"),
        (["--option", "mode=tree"], "--option is for the methods beside HWDAG"),
    ],
)
def test_what_means_nothing_is_refused(arguments, message, folder, tmp_path, capsys):
    path = tmp_path / "town"
    assert main(["build", str(folder), "-o", str(path), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize(
    ("method", "option", "message"),
    [
        ("bm25", "contextual=False", "contextual must be true or false, got 'False'"),
        ("bm25", "contextual=1", "contextual must be true or false, got 1"),
        ("bm25", "k1=high", "k1 must be a number, got 'high'"),
        ("gem-rag", "prompt_share=null", "prompt_share must be a number, got None"),
        ("raptor", "threshold=[0.1]", r"threshold must be a number, got [0.1]"),
        ("youra", "most_sentences=true", "most_sentences must be a number, got True"),
        ("memwalker", "max_steps=many", "max_steps must be a whole number"),
    ],
)
def test_values_of_another_kind_are_refused(method, option, message, folder, tmp_path, capsys):
    path = tmp_path / "town"
    build = ["build", str(folder), "-o", str(path), "--method", method, "--option", option]
    assert main(build) == 2
    assert message in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize("method", METHODS)
def test_every_option_may_be_what_it_is_by_default(method):
    cls = retriever_class(method)
    config = cls._options({}).get("config")
    usual = asdict(config) if config else {}
    assert named_options(cls, usual).get("config") == config


@pytest.mark.parametrize(
    "command",
    [
        ["verify", "FILE"],
        ["repair", "FILE"],
        ["compact", "FILE"],
        ["export", "FILE", "OUT"],
        ["refresh", "FILE", "DOCS"],
        ["estimate", "DOCS", "-o", "FILE"],
        ["build", "DOCS", "-o", "FILE"],
    ],
    ids=lambda command: command[0],
)
def test_commands_for_hwdag_name_those_for_other_methods(command, folder, tmp_path, capsys):
    path = tmp_path / "town.bm25"
    BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), path=path)
    before = path.read_bytes()
    names = {"FILE": path, "OUT": tmp_path / "out", "DOCS": folder}
    assert main([str(names.get(word, word)) for word in command]) == 2
    told = capsys.readouterr().err
    assert f"is of the method 'bm25', not an hwdag index; `hwdag {command[0]}` is for those" in told
    assert "`hwdag build --method bm25`, insert, delete, show and ask" in told
    assert path.read_bytes() == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "option",
    [
        ["--tenant", "a"],
        ["--notebook", "2"],
        ["--calibration", "null"],
        ["--progress", "p_yes"],
        ["--confidence", "0.9"],
        ["--patience", "3"],
        ["--scoring", "garlic"],
    ],
    ids=lambda option: option[0],
)
def test_options_of_the_walk_are_refused_where_nothing_walks(option, tmp_path, capsys):
    path = tmp_path / "town.bm25"
    BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), path=path)
    assert main(["ask", str(path), "Who?", *option]) == 2
    assert f"{option[0]} is for HWDAG" in capsys.readouterr().err


def test_a_damaged_file_is_not_sent_to_repair(tmp_path, capsys):
    path = tmp_path / "town.bm25"
    BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), path=path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for command in (["show"], ["verify"], ["repair"], ["delete", "d"], ["insert", str(tmp_path)]):
        assert main([command[0], str(path), *command[1:]]) == 2
        told = capsys.readouterr().err
        assert "restore a copy of the file, or delete it and build again" in told


def test_a_file_that_cannot_be_read_is_left_to_whoever_opens_it(tmp_path, monkeypatch):
    path = tmp_path / "town.bm25"
    BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), path=path)

    def denied(*arguments, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)
    assert not is_saved_retriever(path)


def test_a_file_keeps_its_method(folder, tmp_path, capsys):
    lm, path = ScriptedLM(), tmp_path / "town.bm25"
    BM25Retriever.from_documents([TOWN], reader=lm, path=path)
    assert main(["build", str(folder), "-o", str(path), "--method", "dense"]) == 2
    assert "is of the method 'bm25', not 'dense'" in capsys.readouterr().err


def test_nodes_of_a_document():
    made = BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), granularity="sentence")
    (identity,) = made.documents
    assert [node.text for node in made.nodes(identity)] == TOWN.replace(". ", ".\n").split("\n")
    with pytest.raises(InputError, match="no document 'absent'"):
        made.nodes("absent")
