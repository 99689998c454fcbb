"""Export: other programs read exactly the content of the index."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from store_world import HEADER, change_file, entry, files_no_longer_than, fill

from hwdag.errors import IndexCorrupt, IndexFileError, InputError
from hwdag.graph.dag import HWDAG
from hwdag.store.exporting import export_index
from hwdag.store.sqlite import Store
from hwdag.types import Document, Node, Span

ENTRIES = [entry(name, seed) for seed, name in enumerate(["c", "a", "ü '\n", "b"])]


@pytest.fixture
def index(tmp_path):
    fill(tmp_path / "x.hwdag", *ENTRIES)
    return tmp_path / "x.hwdag"


def test_a_line_has_a_document_with_its_graph(index, tmp_path):
    with Store.open(index) as store:
        export_index(store, tmp_path / "out.jsonl")
    header, *documents = map(json.loads, (tmp_path / "out.jsonl").read_text("utf-8").splitlines())
    assert header == asdict(HEADER)
    for found, expected in zip(documents, ENTRIES, strict=True):
        assert [node["text"] for node in found["nodes"]] == [n.text for n in expected.graph.nodes]
        names = [node.id for node in expected.graph.nodes]
        edges = expected.graph.edges.tocoo()
        for one, other, weight in zip(*edges.coords, edges.data, strict=True):
            (edge,) = (
                e for e in found["edges"] if (e["from"], e["to"]) == (names[one], names[other])
            )
            assert edge["weight"] == weight
        assert len(found["edges"]) == len(edges.data)
        document = {name: found[name] for name in ("id", "text", "title", "metadata")}
        assert document == asdict(expected.document)


def test_any_text_survives(tmp_path):
    text = "NUL \0, CR\r\n, \u2028, 𝔘𝔫𝔦, \ufeff, quote ' <b>&amp; and \N{ZERO WIDTH JOINER}"
    document = Document("id '; --\n", text, "Ti\0tle", {"ü": {"nested": [None, 1e300]}})
    chunk = Node("n\0", document.id, 1, text, "chunk", 9, (Span(0, len(text)),))
    with Store.create(None, HEADER) as store:
        store.put(document, HWDAG.from_rows([chunk], []), np.ones((1, 8), np.float32))
        export_index(store, tmp_path / "out.jsonl")
    found = json.loads((tmp_path / "out.jsonl").read_bytes().split(b"\n")[1])
    assert found["text"] == found["nodes"][0]["text"] == text
    assert found["metadata"] == document.metadata


def test_what_cannot_be_written_leaves_nothing(index, tmp_path):
    with pytest.raises(InputError, match="jsonl"):
        export_index(index, tmp_path / "out")
    with pytest.raises(InputError, match="exists"):
        export_index(index, index.rename(tmp_path / "x.jsonl"))
    index = tmp_path / "x.jsonl"
    with pytest.raises(InputError, match="nowhere"):
        export_index(index, tmp_path / "nowhere" / "out.jsonl")
    with files_no_longer_than(5000), pytest.raises(IndexFileError):
        export_index(index, tmp_path / "out.jsonl")
    change_file(index, "UPDATE documents SET text = 'x' WHERE id = 'b'")
    with pytest.raises(IndexCorrupt, match="'b'"):
        export_index(index, tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == [index]
