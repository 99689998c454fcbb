"""`hwdag try`, and how other methods are opened by name."""

import json
from dataclasses import asdict

import pytest

from hwdag.errors import InputError, UnknownOption
from hwdag.methods import method_names, retriever_class
from hwdag_app.main import main
from hwdag_files.read import read_documents
from hwdag_lab.cli.methods import config_named
from hwdag_lab.methods.bm25 import BM25Config, BM25Retriever
from hwdag_lab.methods.dos_rag import DosRagRetriever
from hwdag_lab.methods.youra import YouraConfig, YouraRetriever
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
    with pytest.raises(UnknownOption, match="bm26"):
        retriever_class("bm26")


def test_options_are_those_of_the_config():
    made = config_named(BM25Retriever, ["k1=1.2", "granularity=100"])
    assert made == BM25Config(k1=1.2, granularity="100")
    made = config_named(YouraRetriever, ["mean=geometric", "heads=[[1, 2]]"])
    assert made == YouraConfig(heads=[[1, 2]], mean="geometric")
    for cls, option in ((BM25Retriever, "k2=1"), (YouraRetriever, "reader=gpt2")):
        with pytest.raises(UnknownOption, match=option.partition("=")[0]):
            config_named(cls, [option])


def test_a_field_of_the_config_may_be_given_alone_or_with_the_config():
    config = BM25Config(k1=2, b=0.5)
    assert BM25Retriever(config=config).config is not None
    assert BM25Retriever(config=config, b=1).config == BM25Config(k1=2, b=1)
    assert DosRagRetriever().config.granularity == "100"
    with pytest.raises(InputError, match="BM25Config"):
        BM25Retriever(config=YouraConfig())
    with pytest.raises(UnknownOption, match="k2"):
        BM25Retriever(k2=1)


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
    assert "broken.pdf" in shown.err  # skipped files are named
    found = json.loads(shown.out)
    expected = retriever_class(method).from_documents(read_documents([folder / "town.txt"]))
    expected = expected.search(question)
    assert [s["text"] for s in found["walk"]["steps"]] == [s.node.text for s in expected.steps]
    more = tmp_path / "quarry.txt"
    more.write_text(QUARRY)
    assert try_it(method, [folder, more], question, *options) == 0
    shown = capsys.readouterr()
    assert "sources:" in shown.out
    assert "documents: 2 built" in shown.err


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


@pytest.mark.parametrize("method", method_names())
def test_every_option_may_be_what_it_is_by_default(method):
    cls = retriever_class(method)
    said = [f"{name}={json.dumps(value)}" for name, value in asdict(cls.Config()).items()]
    said = [one.replace('"', "") for one in said]
    assert config_named(cls, said) == cls.Config()


def test_nodes_of_a_document():
    made = BM25Retriever.from_documents([TOWN], reader=ScriptedLM(), granularity="sentence")
    (identity,) = made.documents
    assert [node.text for node in made.nodes(identity)] == TOWN.replace(". ", ".\n").split("\n")
    with pytest.raises(InputError, match="'absent'"):
        made.nodes("absent")
