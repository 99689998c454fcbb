"""A sentence that refers to a section by its number leads to that section, in its own document."""

import pytest

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.text.words import section_number, section_references
from hwdag_lab.scripted import ScriptedLM

TOPICS = ["parties", "object", "rent", "pets", "keys", "garden", "taxes", "noise", "repairs"]
ANSWER = "Somebody waits ninety days and sends a list by letter."
QUESTION = "Under which conditions is the deposit paid back?"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Under the conditions of section 9.3, it is due.", ["9.3"]),
        ("as in § 9 and §§ 10.1", ["9", "10.1"]),
        ("see Article 12; Ziffer 3.2.1", ["12", "3.2.1"]),
        ("9.3 of the members, in intersection 4", []),
    ],
)
def test_references(text, found):
    assert section_references(text) == found


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9.3 The landlord waits.", "9.3"),
        ("## 4 Deposit ", "4"),
        ("Article 12 Penalties", "12"),
        ("§ 9. Pets", "9"),
        ("**3.2.1** Keys", "3.2.1"),
        ("The landlord of 9.3 waits.", ""),
        ("12,000 people live here", ""),
    ],
)
def test_numbers_at_the_beginning(text, number):
    assert section_number(text) == number


def lease(named, clause):
    """Clauses by number, of which one refers to another one."""
    said = {
        f"{i}.{j}": f"{i}.{j} Nobody mentioned {topic} during May."
        for i, topic in enumerate(TOPICS, 1)
        for j in range(1, 6)
    }
    said["4.2"] = f"4.2 The deposit is paid back under the conditions of {named}."
    said["9.3"] = clause.format(ANSWER)
    return "\n\n".join(said.values())


@pytest.mark.parametrize("named", ["section 9.3", "§ 9.3", "clause 9.3 below", "Abschnitt 9.3"])
@pytest.mark.parametrize("clause", ["9.3 {}", "## 9.3 Moving out\n\n{}\n\n## 10 Rest"])
def test_a_reference_by_number_is_followed(named, clause):
    other = f"{ANSWER.replace('ninety', 'seven')}"
    documents = [
        Document("lease", lease(named, clause)),
        Document("another", lease("section 1.1", "9.3 {}").replace(ANSWER, other)),
    ]
    index = HWDAGIndex.from_documents(
        documents, method="evidence", reader=ScriptedLM(), embedder=HashingEmbedder()
    )
    config = SearchConfig(token_budget=200, navigator="none")
    read = [step.node.text for step in index.search(QUESTION, config=config).steps]
    sources = [i for i, text in enumerate(read) if named in text]
    answers = [i for i, text in enumerate(read) if ANSWER in text]
    assert answers and sources[0] < answers[0] <= sources[0] + 3
    assert not any(other in text for text in read[: answers[0]])
