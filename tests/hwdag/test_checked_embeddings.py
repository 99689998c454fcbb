"""Vectors of any embedder are checked after each call, before they are stored or compared."""

import ast
import logging
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.embedding.callable import CallableEmbedder
from hwdag.embedding.checked import MIN_ZERO_VECTORS, embedded, embedded_question
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError
from hwdag_lab.scripted import ScriptedLM

ROOT = Path(__file__).parents[2]
TEXTS = [
    "The old harbour was built by Clara Holm in 1871.",
    "Ripe bananas are yellow, and green ones are sour.",
    "It often snows in May on the northern islands.",
]
SOUND = np.eye(3, 4, dtype=np.float32)


@dataclass
class Returns:
    """An embedder that returns given vectors."""

    passages: object
    question: object = field(default_factory=lambda: np.ones(4, np.float32))
    name: str = "mine"
    dimension: int = 4

    def embed(self, texts):
        return self.passages(texts) if callable(self.passages) else self.passages

    def embed_query(self, text):
        return self.question


WRONG = {
    "fewer": (SOUND[:2], "2 vectors for 3 texts"),
    "more": (np.ones((4, 4)), "4 vectors for 3 texts"),
    "nothing": (None, "3 texts"),
    "one number each": ([1.0, 2.0, 3.0], "3 texts"),
    "of several lengths": ([[1.0], [1.0, 2.0], [1.0]], "list that is no array"),
    "words": ([["a"] * 4] * 3, "list that is no array"),
    "three axes": (np.ones((3, 1, 4)), r"\(3, 1, 4\)"),
    "of no numbers": (np.ones((3, 0)), "3 texts"),
    "another dimension": (np.ones((3, 5)), "5 numbers.*is 4"),
    "NaN": (np.where(SOUND == 1, np.nan, 1), "not finite.*3 of 3"),
    "infinite in float32": (SOUND.astype(float) * 1e300, "not finite"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_vectors_name_the_embedder_and_the_document(kind):
    passages, message = WRONG[kind]
    with pytest.raises(InputError, match=rf"(?s)'mine'.*{message}"):
        embedded(Returns(passages), TEXTS)
    with pytest.raises(InputError, match=r"'mine'.*of document 'letters'"):
        HWDAGIndex.from_documents(
            [Document("letters", "\n\n".join(TEXTS))],
            reader=ScriptedLM(),
            embedder=Returns(passages),
        )


@pytest.mark.parametrize("kind", [kind for kind in WRONG if kind != "another dimension"])
def test_functions_are_checked_too(kind):
    passages, message = WRONG[kind]
    embedder = CallableEmbedder(lambda _: passages, lambda _: np.ones(4), name="functions")
    with pytest.raises(InputError, match=rf"'functions'.*{message}"):
        embedder.embed(TEXTS)


QUESTIONS = {
    "NaN": (np.array([1, np.nan, 1, 1]), "not finite"),
    "zero": (np.zeros(4), "zero for the question 'who built it"),
    "a row": (np.ones((1, 4)), r"\(1, 1, 4\)"),
    "of another dimension": (np.ones(3), "3 numbers"),
    "nothing": (None, "1 texts"),
}


@pytest.mark.parametrize("kind", QUESTIONS)
def test_wrong_vectors_of_a_question_are_refused(kind):
    question, message = QUESTIONS[kind]
    embedder = Returns(lambda texts: np.ones((len(texts), 4)), question)
    with pytest.raises(InputError, match=rf"'mine'.*{message}"):
        embedded_question(embedder, "who built it?")
    index = HWDAGIndex.from_documents(TEXTS, reader=ScriptedLM(), embedder=embedder)
    with index, pytest.raises(InputError, match="'mine'"):
        index.search("who built it?")


class Ascii(HashingEmbedder):
    """As a static model whose vocabulary has no Greek letters."""

    def embed(self, texts):
        return super().embed([text if text.isascii() else "" for text in texts])

    def embed_query(self, text):
        return super().embed([text])[0]


def test_an_odd_text_without_a_vector_is_warned_of_and_found_by_its_words(caplog):
    texts = [*TEXTS, "ἐν ἀρχῇ ἦν ὁ λόγος"]
    with caplog.at_level(logging.WARNING, logger="hwdag"):
        index = HWDAGIndex.from_documents(texts, reader=ScriptedLM(), embedder=Ascii())
    assert "'hashing-256' made the vector zero for 1 of 1 texts" in caplog.text
    with index:
        [step] = index.search("ὁ λόγος", config=SearchConfig(token_budget=8)).steps
    assert step.node.text == texts[-1]


def test_a_document_without_vectors_is_an_error_that_counts_them():
    greek = [f"λόγος {i}" for i in range(MIN_ZERO_VECTORS)]
    with pytest.raises(
        InputError,
        match=rf"zero for {MIN_ZERO_VECTORS} of {MIN_ZERO_VECTORS + 2} texts of document 'd'",
    ):
        embedded(Ascii(), [*greek, "One.", "Two."], document="d")


def test_texts_without_words_may_have_the_vector_zero(caplog):
    texts = ["* * *", "—", "🎉"] * MIN_ZERO_VECTORS
    assert not embedded(HashingEmbedder(), texts).any()
    assert embedded(HashingEmbedder(8), []).shape == (0, 8)
    assert not embedded_question(HashingEmbedder(), "??").any()
    assert not caplog.records


@pytest.mark.slow
def test_nobody_calls_an_embedder_without_the_check():
    """Apart from embedders, and those that pass a call on."""
    own = {
        *("checked.py", "callable.py", "default.py", "hashing.py"),
        *("sentence_transformer.py", "navigator.py"),
    }
    passed_on = {"ray.py", "cached_embedder.py"}
    folders = [
        "core",
        "llama_index_hwdag",
        "langchain_hwdag",
        "haystack_hwdag",
        "haystack_integrations",
    ]
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    calls = [
        f"{file.name}:{node.lineno}"
        for file in files
        if file.name not in own | passed_on
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("embed", "embed_query")
    ]
    assert not calls
    assert len(files) > 100
