"""`hwdag try`, and how other methods are opened by name."""

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


def try_it(method, paths, question, *arguments):
    arguments = (method, *paths, "--question", question, "-q", *arguments)
    return main(["try", *map(str, arguments)])


@pytest.mark.model
@pytest.mark.parametrize("method", ["bm25", "youra"])
def test_a_question_to_another_method(method, folder, tmp_path, capsys):
    question, cache = "Who built the harbour?", tmp_path / "cache"
    options = ["--max-new-tokens", "4", "--cache", cache]
    assert try_it(method, [folder], question, *options, "--json") == 0
    shown = capsys.readouterr()
    assert "broken.pdf" in shown.err  # what was skipped is told
    found = json.loads(shown.out)
    expected = open_retriever(cache).search(question)
    assert [s["text"] for s in found["walk"]["steps"]] == [s.node.text for s in expected.steps]
    more = tmp_path / "quarry.txt"
    more.write_text(QUARRY)
    assert try_it(method, [folder, more], question, *options) == 0
    shown = capsys.readouterr()
    assert "sources:" in shown.out
    assert "1 documents built, 1 unchanged" in shown.err  # the cache had the other one


@pytest.mark.model
def test_options_of_a_method(folder, tmp_path, capsys):
    cache, question = tmp_path / "town.bm25", "Was the harbour built?"
    options = ["--cache", cache, "--json", "--max-new-tokens", "2"]
    assert try_it("bm25", [folder], question, *options, "--option", "granularity=sentence") == 0
    steps = json.loads(capsys.readouterr().out)["walk"]["steps"]
    assert [step["text"].strip() for step in steps] == TOWN.replace(". ", ".\n").split("\n")
    assert try_it("bm25", [folder], question, *options, "--option", "granularity=100") == 2
    assert "was built with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--option", "granularity"], "--option must be NAME=VALUE"),
        (["--option", "size=3"], "bm25 has no option 'size'"),
        (["--option", "k1=-1"], "BM25 needs a finite k1"),
        (["--embedder", "hashing"], "bm25 has no embedder"),
        (["--budget", "0"], "token_budget must be a whole number of at least 1"),
        (["--filter", "{"], "--filter must be JSON"),
    ],
)
def test_what_means_nothing_is_refused(option, message, folder, tmp_path, capsys):
    path = tmp_path / "town"
    assert try_it("bm25", [folder], "Who?", "--cache", path, *option) == 2
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
    assert try_it(method, [folder], "Who?", "--cache", path, "--option", option) == 2
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
        ["insert", "FILE", "DOCS"],
        ["show", "FILE"],
        ["ask", "FILE", "Who?"],
        ["delete", "FILE", "town.txt"],
        ["build", "DOCS", "-o", "FILE"],
    ],
    ids=lambda command: command[0],
)
def test_commands_for_an_index_refuse_files_of_other_methods(command, folder, tmp_path, capsys):
    path = tmp_path / "town.bm25"
    BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), path=path)
    before = path.read_bytes()
    names = {"FILE": path, "OUT": tmp_path / "out", "DOCS": folder}
    assert main([str(names.get(word, word)) for word in command]) == 2
    assert str(path) in capsys.readouterr().err
    assert path.read_bytes() == before
    assert not (tmp_path / "out").exists()


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
    assert try_it("dense", [folder], "Who?", "--cache", path) == 2
    assert "the method 'bm25'" in capsys.readouterr().err


def test_nodes_of_a_document():
    made = BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), granularity="sentence")
    (identity,) = made.documents
    assert [node.text for node in made.nodes(identity)] == TOWN.replace(". ", ".\n").split("\n")
    with pytest.raises(InputError, match="no document 'absent'"):
        made.nodes("absent")
