"""Other methods beside the index that `hwdag serve` serves."""

import pytest
from serve_world import CONFIG, DOCUMENTS, QUESTION, index

from hwdag import Document
from hwdag.cli.main import parser
from hwdag.trace.bars import Silent

pytest.importorskip("starlette", reason="needs the extra serve")

from hwdag_serve.application import Systems
from hwdag_serve.serving import others


def test_a_method_beside_holds_what_the_index_holds():
    options = parser().parse_args(["serve", "a.hwdag", "--beside", "bm25", "--beside", "bm25"])
    with index() as served:
        systems = Systems(served, CONFIG, others(options, served))
        assert list(systems) == ["hwdag", "garlic", "similarity", "bm25"]
        other = systems.named("bm25").retriever
        assert dict(other.documents) == {one.id: one for one in DOCUMENTS}
        [first, *_] = other.search(QUESTION, config=CONFIG).steps
        assert "Clara Holm" in first.node.text
        new = Document("harbour.md", "The harbour was rebuilt by Ada Brun.")
        systems.insert([new], Silent())
        assert other.documents["harbour.md"] == served.documents["harbour.md"] == new
        systems.delete("harbour.md")
        assert set(other.documents) == set(served.documents) == {"keepers.txt"}
