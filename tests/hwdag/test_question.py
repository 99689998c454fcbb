"""The embedding and the words of a question are made once."""

import numpy as np
import pytest
from worlds import random_prose, random_vectors

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.corpus import view as views
from hwdag.text import words as splitting
from hwdag_lab.scripted import ScriptedLM

QUESTION = "Which dragon guards the silver bridge in May?"
TABLE = "# Bridges\n\n| Bridge | Dragon |\n| -- | -- |\n| silver | amber |\n| stone | silver |\n"
TEXT = f"{random_prose(0, 30)}\n\n{TABLE}"


class Counting:
    """An embedder that notes the questions that it embeds."""

    name, dimension = "counting", 8

    def __init__(self):
        self.asked = []

    def embed(self, texts):
        return random_vectors(np.random.default_rng(0), len(texts))

    def embed_query(self, question):
        self.asked.append(question)
        return random_vectors(np.random.default_rng(1), 1)[0]


@pytest.fixture
def split(monkeypatch):
    """Texts that were split into words, in lower case."""
    texts, pattern = [], splitting._word()

    class Noting:
        def findall(self, text):
            texts.append(text)
            return pattern.findall(text)

    monkeypatch.setattr(splitting, "_word", Noting)
    return texts


@pytest.fixture
def lexicons(monkeypatch):
    """The lexicons that were made."""
    made, lexicon = [], views.Lexicon

    def noting(*arguments):
        made.append(lexicon(*arguments))
        return made[-1]

    monkeypatch.setattr(views, "Lexicon", noting)
    return made


@pytest.mark.parametrize("history", [(), [("Who built the bridge?", "Ada")]])
@pytest.mark.parametrize("confidence", [0.9, None])
@pytest.mark.parametrize("method", ["evidence", "hwdag"])
def test_a_question_is_embedded_and_split_once_for_one_lexicon(
    method, confidence, history, split, lexicons
):
    embedder = Counting()
    index = HWDAGIndex.from_documents(
        [Document("d", TEXT)], method=method, reader=ScriptedLM(), embedder=embedder
    )
    split.clear()
    answer = index.answer(QUESTION, config=SearchConfig(confidence=confidence), history=history)
    assert answer.retrieval.steps
    assert embedder.asked == [QUESTION]
    assert split.count(QUESTION.lower()) == 1
    assert len(lexicons) == 1
