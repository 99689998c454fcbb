"""A sentence that is in many documents is read once, and leaves the budget for others."""

from collections import Counter

import pytest

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

FOOTER = "This mail about the pump may hold secrets of the water works, so delete the pump mail."
SHORT = "The pump is closed on Mondays."
ANSWER = "Somebody mended it with a rubber ring from Holm."


def mails(count):
    texts = [f"Message {i} of the week.\n\n{FOOTER}\n\n{SHORT}" for i in range(count)]
    texts[-1] = f"The pump of the works: {ANSWER}\n\n> {FOOTER}"
    return [Document(f"mail{i}", text, f"Mail {i}") for i, text in enumerate(texts)]


@pytest.mark.parametrize("navigator", ["none", "auto"])
def test_of_equal_sentences_one_is_read(navigator):
    index = HWDAGIndex.from_documents(
        mails(20), method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    config = SearchConfig(token_budget=150, navigator=navigator)
    found = index.search(
        "Which secrets of the pump of the water works may the mail hold?", config=config
    )
    read = Counter(step.node.text.removeprefix("> ") for step in found.steps)
    assert read[FOOTER] == 1
    assert any(ANSWER in text for text in read)
    assert read[SHORT] > 1  # which may mean another pump each time
    assert found.context_tokens <= 150
