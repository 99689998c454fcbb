"""Export and import: what comes back is what was there; what was tampered with is refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from store_world import HEADER, assert_holds, change_file, entry, fill
from worlds import document_of, graphs, random_vectors

from hwdag.errors import (
    HWDAGError,
    IndexCorrupt,
    IndexFileError,
    IndexVersionError,
    InputError,
    NotAnIndex,
)
from hwdag.graph.dag import HWDAG
from hwdag.store.exchange import Exported, export_index, import_index
from hwdag.store.sqlite import Entry, Store
from hwdag.types import Document, Node, Span

ENTRIES = [entry(name, seed) for seed, name in enumerate(["c", "a", "ü '\n", "b"])]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an index and its export."""
    folder = tmp_path_factory.mktemp("original")
    fill(folder / "x.hwdag", *ENTRIES)
    export_index(folder / "x.hwdag", folder / "export", shard_bytes=600)
    return folder


@pytest.fixture
def index(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(original / "x.hwdag", tmp_path))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original / "export", tmp_path / "export"))


def test_what_is_imported_is_what_was_exported(index: Path, folder: Path, tmp_path: Path) -> None:
    with import_index(folder, tmp_path / "y.hwdag") as store:
        assert store.path == tmp_path / "y.hwdag"
        assert store.header == HEADER
        assert_holds(store, *ENTRIES)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["export", "x.hwdag", "y.hwdag"]
    with import_index(folder) as store:
        assert store.path is None
        assert_holds(store, *ENTRIES)


def test_a_folder_has_files_of_bounded_size(folder: Path, index: Path, tmp_path: Path) -> None:
    names = ["documents.jsonl", "header.json", "manifest.json", "nodes.jsonl"]
    assert sorted(p.name for p in folder.iterdir() if p.suffix != ".safetensors") == names
    shards = sorted(folder.glob("*.safetensors"))
    assert [p.name for p in shards] == [f"arrays-0000{i}.safetensors" for i in (1, 2, 3, 4)]
    export_index(index, tmp_path / "one")
    assert len(list((tmp_path / "one").glob("*.safetensors"))) == 1
    with import_index(tmp_path / "one") as store:
        assert_holds(store, *ENTRIES)


def test_the_folder_is_for_other_programs_too(index: Path, tmp_path: Path) -> None:
    with Store.open(index) as store:
        counted = export_index(store, tmp_path / "export")
    lines = (tmp_path / "export" / "nodes.jsonl").read_text().splitlines()
    nodes = [node for one in ENTRIES for node in one.graph.nodes]
    assert [json.loads(line)["text"] for line in lines] == [node.text for node in nodes]
    arrays = load_file(tmp_path / "export" / "arrays-00001.safetensors")
    assert np.array_equal(arrays["vectors"], np.concatenate([one.vectors for one in ENTRIES]))
    assert counted == Exported(len(ENTRIES), len(nodes), len(arrays["attention"]))


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20
)
@given(st.lists(graphs(), max_size=3), st.integers(0, 2**32 - 1), st.integers(1, 5000))
def test_any_index_comes_back(
    tmp_path_factory: pytest.TempPathFactory, found: list[HWDAG], seed: int, shard_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("any") / "export"
    with Store.create(None, HEADER) as store:
        entries = []
        for number, graph in enumerate(found):
            nodes = [replace(node, document_id=str(number)) for node in graph.nodes]
            graph = HWDAG(tuple(nodes), graph.edges, graph.raw)
            vectors = random_vectors(np.random.default_rng(seed), len(graph))
            entries.append(Entry(document_of(graph), graph, vectors))
            store.put(*entries[-1])
        export_index(store, folder, shard_bytes=shard_bytes)
    with import_index(folder) as store:
        assert_holds(store, *entries)


def test_any_text_survives(tmp_path: Path) -> None:
    text = "NUL \0, CR\r\n, \u2028, 𝔘𝔫𝔦, \ufeff, quote ' and \N{ZERO WIDTH JOINER}"
    metadata = {"page": 3, "tags": ["a", None, 1.5, 1e300], "ü": {"nested": True}}
    document = Document("id '; DROP TABLE nodes; --\n", text, "Ti\0tle", metadata)
    chunk = Node("n\0", document.id, 1, text, "chunk", 9, (Span(0, len(text)),))
    stored = Entry(document, HWDAG.from_rows([chunk], []), np.ones((1, 8), np.float32))
    with Store.create(None, HEADER) as store:
        store.put(*stored)
        export_index(store, tmp_path / "export")
    with import_index(tmp_path / "export") as store:
        assert_holds(store, stored)


def test_an_index_without_documents(tmp_path: Path) -> None:
    with Store.create(None, HEADER) as store:
        assert export_index(store, tmp_path / "export") == Exported(0, 0, 0)
    with import_index(tmp_path / "export") as store:
        assert_holds(store)
        assert store.header == HEADER


def test_nothing_is_overwritten(index: Path, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not empty; name a folder"):
        export_index(index, folder)
    with pytest.raises(InputError, match="is not empty"):
        export_index(index, index)
    with pytest.raises(InputError, match=r"make .*nowhere first"):
        export_index(index, tmp_path / "nowhere" / "export")
    with pytest.raises(InputError, match="exists; name a file"):
        import_index(folder, index)
    (tmp_path / "empty").mkdir()
    assert export_index(index, tmp_path / "empty").documents == len(ENTRIES)
    with Store.open(index) as store:
        assert_holds(store, *ENTRIES)


def test_a_damaged_document_leaves_no_folder(index: Path, tmp_path: Path) -> None:
    change_file(index, "UPDATE documents SET title = 'other' WHERE id = 'b'")
    with pytest.raises(IndexCorrupt, match="document 'b'"):
        export_index(index, tmp_path / "export")
    assert list(tmp_path.iterdir()) == [index]


def test_a_refused_folder_leaves_no_file(folder: Path, tmp_path: Path) -> None:
    rewrite(folder, "nodes.jsonl", lambda text: text.replace('"chunk"', '"stolen"', 1))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(IndexCorrupt, match="unknown origin 'stolen'"):
        import_index(folder, tmp_path / "y.hwdag")
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_no_export(tmp_path: Path, folder: Path) -> None:
    for nothing in (tmp_path, tmp_path / "nowhere", tmp_path / "x.hwdag"):
        with pytest.raises(NotAnIndex, match="is not an exported index"):
            import_index(nothing)
    for key, value, error in (
        ("kind", "other", NotAnIndex),
        ("format", 2, IndexVersionError),
        ("files", [], IndexCorrupt),
        ("documents", None, IndexCorrupt),
    ):
        kept = (folder / "manifest.json").read_bytes()
        change_json(folder / "manifest.json", **{key: value})
        with pytest.raises(error):
            import_index(folder)
        (folder / "manifest.json").write_bytes(kept)


# Folders that somebody tampered with


def change_json(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def sign(folder: Path) -> None:
    """Make the manifest fit, as a forger would."""
    names = [path.name for path in folder.iterdir() if path.name != "manifest.json"]
    files = {}
    for name in names:
        data = (folder / name).read_bytes()
        files[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    change_json(folder / "manifest.json", files=files)


def rewrite(folder: Path, name: str, change: Callable[[str], str]) -> None:
    text = (folder / name).read_text(encoding="utf-8")
    changed = change(text)
    assert changed != text
    (folder / name).write_text(changed, encoding="utf-8", newline="\n")
    sign(folder)


def test_every_changed_byte_is_noticed(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        kept = path.read_bytes()
        for position in rng.integers(0, len(kept), 12):
            changed = bytearray(kept)
            changed[position] ^= 1 << int(rng.integers(8))
            path.write_bytes(changed)
            try:
                with import_index(folder) as store:  # a space in the manifest
                    assert_holds(store, *ENTRIES)
                assert path.name == "manifest.json"
            except HWDAGError:
                pass
        path.write_bytes(kept)
    with import_index(folder) as store:
        assert_holds(store, *ENTRIES)


def test_truncated_missing_and_added_files(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        kept = path.read_bytes()
        for content in (kept[:-1], kept + b"\n", b""):
            path.write_bytes(content)
            if path.name != "manifest.json" or not content:
                with pytest.raises(IndexCorrupt, match="is damaged"):
                    import_index(folder)
        path.unlink()
        with pytest.raises(IndexFileError):
            import_index(folder)
        path.write_bytes(kept)
    sign(folder)
    (folder / "nodes.jsonl").unlink()
    sign(folder)
    with pytest.raises(IndexCorrupt, match="lists other files"):
        import_index(folder)


def test_no_path_of_the_folder_leads_out_of_it(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    (folder / "documents.jsonl").rename(outside)
    (folder / "documents.jsonl").symlink_to(outside)
    with pytest.raises(IndexCorrupt, match="it is a link"):
        import_index(folder)
    (folder / "documents.jsonl").unlink()
    files = json.loads((folder / "manifest.json").read_text())["files"]
    files["../outside.jsonl"] = files.pop("documents.jsonl")
    change_json(folder / "manifest.json", files=files)
    with pytest.raises(IndexCorrupt, match="lists other files"):
        import_index(folder)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("header.json", lambda text: text.replace("8", "9"), "vectors is F32 of shape"),
        ("header.json", lambda text: text.replace("8", "0"), "dimension must be"),
        ("header.json", lambda text: text.replace("8", "true"), "dimension must be"),
        ("header.json", lambda text: text.replace('"reader": "reader"', '"reader": 1'), "texts"),
        ("header.json", lambda text: text.replace('"config"', '"other"'), "config must be"),
        ("header.json", lambda text: "[" * 100_000, "recursion"),
        ("header.json", lambda text: "[]", "not a JSON object"),
        ("documents.jsonl", lambda text: text.replace('"id"', '"name"', 1), "exactly id"),
        ("documents.jsonl", lambda text: text.replace("1.5", "NaN", 1), "NaN is not JSON"),
        ("documents.jsonl", lambda text: text.replace("Gr", "\\ud800", 1), "surrogate"),
        ("documents.jsonl", lambda text: text.partition("\n")[2], "belongs to 'c', not to 'a'"),
        ("documents.jsonl", lambda text: text + text, "goes on after"),
        ("documents.jsonl", lambda text: text.replace('"id": "a"', '"id": "c"'), "two documents"),
        ("nodes.jsonl", lambda text: text.partition("\n")[2], "belongs to|wrong"),
        ("nodes.jsonl", lambda text: text + text, "goes on after"),
        ("nodes.jsonl", lambda text: text.replace('"level": 1', '"level": true', 1), "level .int"),
        ("nodes.jsonl", lambda text: text.replace('"level": 1', '"level": -1', 1), "out of range"),
        ("nodes.jsonl", lambda text: text.replace('"level": 1', '"level": 7', 1), "levels are not"),
        ("nodes.jsonl", lambda text: text.replace("[[0,", "[[-1,", 1), "0 <= start"),
        ("nodes.jsonl", lambda text: text.replace("[[0,", "[[0, 1,", 1), "a source is"),
        ("nodes.jsonl", lambda text: text.replace("[[0,", "[[0.5,", 1), "a source is"),
        ("nodes.jsonl", lambda text: text.replace('"c#1.1"', '"c#1.0"', 1), "share an id"),
    ],
)
def test_values_are_checked_whoever_signed_them(
    folder: Path, name: str, change: Callable[[str], str], reason: str
) -> None:
    rewrite(folder, name, change)
    with pytest.raises(HWDAGError, match=reason):
        import_index(folder)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("nodes", [-1], "has only|rows"),
        ("nodes", [2**62], "has only"),
        ("nodes", [0], "belong"),
        ("degrees", None, "negative"),
        ("indices", None, "does not exist|level down|index"),
        ("attention", None, "sums to"),
        ("vectors", None, "not finite"),
    ],
)
def test_arrays_are_checked_whoever_signed_them(
    folder: Path, name: str, value: list[int] | None, reason: str
) -> None:
    path = folder / "arrays-00001.safetensors"
    arrays = load_file(path)
    shape, dtype = arrays[name].shape, arrays[name].dtype
    filler = -7 if dtype.kind == "i" else np.nan
    arrays[name] = np.full(shape, filler, dtype) if value is None else np.array(value, dtype)
    save_file(arrays, path)
    sign(folder)
    with pytest.raises(HWDAGError, match=reason):
        import_index(folder)


def test_tensors_of_other_names_and_types(folder: Path) -> None:
    path = folder / "arrays-00001.safetensors"
    arrays = load_file(path)
    for changed, reason in (
        ({**arrays, "extra": arrays["nodes"]}, "it holds"),
        ({**arrays, "vectors": arrays["vectors"].astype(np.float64)}, "vectors is F64"),
        ({**arrays, "vectors": arrays["vectors"].ravel()}, "of shape"),
    ):
        save_file(changed, path)
        sign(folder)
        with pytest.raises(IndexCorrupt, match=reason):
            import_index(folder)
    path.write_bytes(b"\xff" * 100)
    sign(folder)
    with pytest.raises(IndexCorrupt, match=r"arrays-00001.safetensors is damaged"):
        import_index(folder)
