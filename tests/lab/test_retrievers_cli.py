"""`hwdag try`, and how other methods are opened by name."""

import json
from dataclasses import asdict

import pytest

from hwdag.cli.main import main
from hwdag.errors import InputError, UnknownOption
from hwdag.text.files import read_documents
from hwdag_lab.cli.methods import default_config, named_options
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.methods.registry import METHODS, retriever_class
from hwdag_lab.methods.youra import YouraConfig
from hwdag_lab.scripted import ScriptedLM

TOWN = "The harbour was built in 1871 by Clara Holm. Its lamp was made in Lyon."
QUARRY = "The quarry at Elm Hill belonged to the Sorensen family. Its granite is grey."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("docs")
    (root / "town.txt").write_text(TOWN)
    (root / "broken.pdf").write_bytes(b"%PDF-1.7 and then nothing")
    return root


def test_names_of_methods_are_checked():
    with pytest.raises(UnknownOption, match="'bm26'"):
        retriever_class("bm26")


def test_options_are_those_of_the_constructor_and_of_its_config():
    assert named_options("bm25", {"k1": 1.2}) == {"k1": 1.2}
    made = named_options("youra", {"mean": "geometric", "heads": "all"})
    assert made == {"config": YouraConfig(heads="all", mean="geometric")}
    with pytest.raises(UnknownOption, match="'k2'"):
        named_options("bm25", {"k2": 1})
    with pytest.raises(UnknownOption, match="'reader'"):
        named_options("youra", {"reader": "gpt2"})


def try_it(method, paths, question, *arguments):
    arguments = (method, *paths, "--question", question, "-q", *arguments)
    return main(["try", *map(str, arguments)])


@pytest.mark.model
@pytest.mark.parametrize("method", ["dense", "youra"])
def test_a_question_to_another_method(method, folder, tmp_path, capsys):
    question, cache = "Who built the harbour?", tmp_path / "cache"
    options = ["--max-new-tokens", "4", "--cache", cache]
    assert try_it(method, [folder], question, *options, "--json") == 0
    shown = capsys.readouterr()
    assert "broken.pdf" in shown.err  # what was skipped is told
    found = json.loads(shown.out)
    expected = retriever_class(method).from_documents(read_documents([folder / "town.txt"]))
    expected = expected.search(question)
    assert [s["text"] for s in found["walk"]["steps"]] == [s.node.text for s in expected.steps]
    more = tmp_path / "quarry.txt"
    more.write_text(QUARRY)
    assert try_it(method, [folder, more], question, *options) == 0
    shown = capsys.readouterr()
    assert "sources:" in shown.out
    assert "2 documents built" in shown.err


@pytest.mark.model
def test_options_of_a_method(folder, capsys):
    question, options = "Was the harbour built?", ["--json", "--max-new-tokens", "2"]
    assert try_it("bm25", [folder], question, *options, "--option", "granularity=sentence") == 0
    steps = json.loads(capsys.readouterr().out)["walk"]["steps"]
    assert [step["text"].strip() for step in steps] == TOWN.replace(". ", ".\n").split("\n")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--option", "granularity"], "NAME=VALUE"),
        (["--option", "size=3"], "'size'"),
        (["--option", "k1=-1"], "k1"),
        (["--embedder", "hashing"], "embedder"),
        (["--cache", "calls"], "cache"),
        (["--budget", "0"], "token_budget"),
        (["--filter", "{"], "JSON"),
    ],
)
def test_what_means_nothing_is_refused(option, message, folder, capsys):
    assert try_it("bm25", [folder], "Who?", *option) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "option", "message"),
    [
        ("bm25", "contextual=False", "contextual"),
        ("bm25", "contextual=1", "contextual"),
        ("bm25", "k1=high", "'high'"),
        ("gem-rag", "prompt_share=null", "prompt_share"),
        ("raptor", "threshold=[0.1]", "threshold"),
        ("youra", "most_sentences=true", "most_sentences"),
        ("memwalker", "max_steps=many", "max_steps"),
    ],
)
def test_values_of_another_kind_are_refused(method, option, message, folder, capsys):
    assert try_it(method, [folder], "Who?", "--option", option) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("method", METHODS)
def test_every_option_may_be_what_it_is_by_default(method):
    config = default_config(method)
    usual = asdict(config) if config else {}
    assert named_options(method, usual).get("config") == config


def test_nodes_of_a_document():
    made = BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), granularity="sentence")
    (identity,) = made.documents
    assert [node.text for node in made.nodes(identity)] == TOWN.replace(". ", ".\n").split("\n")
    with pytest.raises(InputError, match="'absent'"):
        made.nodes("absent")
