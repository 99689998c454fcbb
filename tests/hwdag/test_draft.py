"""A build makes each value of a document, and of the prompt, once."""

import pytest
from worlds import random_prose

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.text import draft as drafts
from hwdag.text.headings import Outline
from hwdag.text.prompts import CONDENSE
from hwdag_lab.scripted import ScriptedLM


def documents(count):
    return [Document(f"d{i}", random_prose(i, 30, words=(6, 9))) for i in range(count)]


@pytest.fixture
def made(monkeypatch):
    """Values that were made, by name: texts of outlines and of content hashes, and tokenised texts."""
    found = {"outlines": [], "hashes": [], "tokenised": []}
    outline, hashed, counted = Outline.__init__, drafts.hash_of, ScriptedLM.count_tokens

    def noting_outline(self, text, title=""):
        found["outlines"].append(text)
        outline(self, text, title)

    def noting_hash(title, text, metadata):
        found["hashes"].append(text)
        return hashed(title, text, metadata)

    def noting_count(self, texts):
        found["tokenised"] += texts
        return counted(self, texts)

    monkeypatch.setattr(Outline, "__init__", noting_outline)
    monkeypatch.setattr(drafts, "hash_of", noting_hash)
    monkeypatch.setattr(ScriptedLM, "count_tokens", noting_count)
    return found


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("method", ["evidence", "hwdag"])
def test_a_build_makes_each_thing_once(method, writes, made):
    """Short documents wait for a batch of the writer, and their leaves with them."""
    docs, reader = documents(3), ScriptedLM(writes=writes)
    index = HWDAGIndex(reader=reader, embedder=HashingEmbedder(), config=BuildConfig(method))
    report = index.refresh(docs)
    texts = sorted(document.text for document in docs)
    assert sorted(report.built) == [document.id for document in docs]
    assert sorted(made["outlines"]) == sorted(made["hashes"]) == texts
    for text in CONDENSE.split("{text}"):
        assert sum(text.strip() in one for one in made["tokenised"]) <= 1
    for values in made.values():
        values.clear()
    assert index.refresh(docs).unchanged
    assert sorted(made["hashes"]) == texts
    assert made["outlines"] == made["tokenised"] == []
