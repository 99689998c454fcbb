"""Files of every earlier format version open, and hold what the code that wrote them saw."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_world import assert_same_block, change_file, files_no_longer_than

from hwdag.cli.main import parser
from hwdag.cli.models import reader
from hwdag.config import BuildConfig
from hwdag.errors import IndexCorrupt, IndexFileError, IndexVersionError
from hwdag.graph.block import Block
from hwdag.lm import default
from hwdag.store.integrity import repair, verify
from hwdag.store.migrations import OLD_VERSIONS
from hwdag.store.schema import SCHEMA_VERSION
from hwdag.store.sqlite import Entry, Store
from hwdag.types import Document, Node, Span

FIXTURES = Path(__file__).parents[1] / "fixtures"
NEW_IN_2 = {"leaves": "chunks", "contextual": False, "tree": False}

versions = pytest.mark.parametrize("version", range(1, SCHEMA_VERSION + 1))
old_versions = pytest.mark.parametrize("version", OLD_VERSIONS)


def seen(version: int) -> dict[str, Any]:
    """What the code of that version saw in its file."""
    found: dict[str, Any] = json.loads((FIXTURES / f"format-{version}.json").read_text("utf-8"))
    return found


def assert_as_seen(entry: Entry, expected: dict[str, Any]) -> None:
    """To the last bit."""
    assert entry.document == Document(**expected["document"])
    assert entry.graph.nodes == tuple(as_node(node) for node in expected["nodes"])
    assert entry.graph.raw.indptr.tolist() == expected["indptr"]
    assert entry.graph.raw.indices.tolist() == expected["indices"]
    assert entry.graph.raw.data.tolist() == expected["raw"]
    assert entry.graph.edges.data.tolist() == expected["edges"]
    assert entry.vectors.dtype == np.float32
    assert entry.vectors.tolist() == expected["vectors"]


def as_node(node: dict[str, Any]) -> Node:
    return Node(**node | {"sources": tuple(Span(**span) for span in node["sources"])})


@pytest.fixture
def path(version: int, tmp_path: Path) -> Path:
    return Path(shutil.copy(FIXTURES / f"format-{version}.hwdag", tmp_path / "x.hwdag"))


@versions
def test_a_file_of_every_version_opens(path: Path, version: int) -> None:
    expected = seen(version)
    config = expected["header"]["config"]
    with Store.open(path) as store:
        header = asdict(store.header)
        assert header == expected["header"] | {
            "config": config | NEW_IN_2 if version == 1 else config
        }
        BuildConfig.from_dict(store.header.config)
        entries = store.load_all()
        for entry, one in zip(entries, expected["documents"], strict=True):
            assert_as_seen(entry, one)
        numbers = [store.number_of(entry.document.id) for entry in entries]
        for block, entry in zip(store.blocks(numbers), entries, strict=True):
            assert_same_block(block, Block.of(block.number, *entry))
    assert verify(path).problems == ()
    with Store.open(path, readonly=True) as store:
        assert store.ids() == [one["document"]["id"] for one in expected["documents"]]


@old_versions
def test_a_migrated_file_is_used_like_any_other(path: Path, version: int) -> None:
    with Store.open(path) as store:
        first, *rest = store.load_all()
        before = store.changes(0)
        assert store.put(*first) > max(before.added)
        assert store.delete(rest[0].document.id)
        assert store.changes(before.sequence).removed == before.added[:2]
        assert store.ids() == [entry.document.id for entry in (*rest[1:], first)]
    assert verify(path).problems == ()


@old_versions
def test_nothing_is_left_of_the_old_tables(path: Path, version: int) -> None:
    with Store.open(path) as store:
        for entry in store.load_all():
            store.delete(entry.document.id)
    content = path.read_bytes()
    for one in seen(version)["documents"]:
        text = one["document"]["text"].encode()
        assert not any(word in content for word in re.findall(rb"\w{7,}", text))


@old_versions
def test_an_old_file_is_not_changed_by_reading(path: Path, version: int) -> None:
    before = path.read_bytes()
    with pytest.raises(IndexVersionError, match=r"older format version .*without readonly"):
        Store.open(path, readonly=True)
    verdict = verify(path)
    assert verdict.problems == ()
    assert verdict.whole == tuple(one["document"]["id"] for one in seen(version)["documents"])
    assert path.read_bytes() == before


@old_versions
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE documents SET text = 'x' WHERE id = 'harbor'", "document 'harbor' of .*x.hwdag"),
        ("UPDATE nodes SET tokens = 7 WHERE document = 4 AND position = 2", "document 'harbor'"),
        ("DELETE FROM nodes WHERE document = 4 AND position = 2", "document 'harbor'"),
        ("UPDATE header SET value = '9' WHERE name = 'dimension'", "checksum of its header"),
        ("CREATE TRIGGER t AFTER DELETE ON nodes BEGIN SELECT 1; END", "other tables than"),
        ("DROP TABLE nodes", "other tables than"),
    ],
)
def test_a_damaged_file_stays_as_it_was(
    path: Path, version: int, statement: str, message: str
) -> None:
    change_file(path, statement)
    before = path.read_bytes()
    with pytest.raises(IndexCorrupt, match=message):
        Store.open(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@old_versions
def test_what_is_whole_of_a_damaged_old_file_can_be_kept(path: Path, version: int) -> None:
    change_file(path, "UPDATE documents SET text = 'x' WHERE id = 'harbor'")
    verdict = verify(path)
    assert verdict.damaged == ("harbor",)
    assert len(verdict.whole) == 2
    repaired = repair(path)
    assert repaired.lost == ("harbor",)
    with Store.open(path, readonly=True) as store:
        assert store.header.config == NEW_IN_2 | seen(version)["header"]["config"]
        for entry, one in zip(store.load_all(), seen(version)["documents"][:2], strict=True):
            assert_as_seen(entry, one)


@old_versions
def test_every_flipped_bit_is_noticed_or_harmless(path: Path, version: int) -> None:
    sound, expected = path.read_bytes(), seen(version)["documents"]
    rng = np.random.default_rng(version)
    for position in rng.integers(100, len(sound), 60):
        damaged = bytearray(sound)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        noticed = not verify(path).sound
        try:
            with Store.open(path) as store:
                for entry, one in zip(store.load_all(), expected, strict=True):
                    assert_as_seen(entry, one)
        except IndexCorrupt:
            assert noticed


@old_versions
def test_a_full_disk_leaves_the_file_as_it_was(path: Path, version: int) -> None:
    before = path.read_bytes()
    with files_no_longer_than(len(before) + 10_000), pytest.raises(IndexFileError, match="disk"):
        Store.open(path)
    with Store.open(path) as store:  # rolls the journal back, if there is one
        assert len(store) == len(seen(version)["documents"])


@pytest.mark.parametrize("version", [1])
def test_a_version_that_never_was(path: Path) -> None:
    for number in (0, -7):
        change_file(path, f"PRAGMA user_version = {number}")
        before = path.read_bytes()
        with pytest.raises(IndexVersionError, match=f"version {number}, which never was"):
            Store.open(path)
        assert path.read_bytes() == before


@old_versions
def test_one_old_version_does_not_pass_for_the_other(path: Path, version: int) -> None:
    change_file(path, f"PRAGMA user_version = {3 - version}")
    assert "not of format version" in verify(path).problems[0].what
    with pytest.raises(IndexCorrupt, match="not of format version"):
        Store.open(path)


@versions
def test_the_fixture_is_of_its_version(path: Path, version: int) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (version,)
    connection.close()


@versions
def test_the_command_line_finds_the_model_that_an_old_file_names(path: Path, version: int) -> None:
    """Whatever it was asked to do with that model: a dtype alone, for example."""
    arguments = ["ask", str(path), "Who?", "--dtype", "float32"]
    assert _built_by_of(arguments, path) == seen(version)["header"]["reader"]


def test_an_empty_file_names_no_model(tmp_path: Path) -> None:
    """A build that was killed at its very start leaves one."""
    path = tmp_path / "x.hwdag"
    path.touch()
    assert _built_by_of(["build", "-o", str(path), "a.txt", "--dtype", "float32"], path) is None


def _built_by_of(arguments: list[str], path: Path) -> str | None:
    """The name that `load_reader` is called with."""
    asked: list[str | None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default, "load_reader", lambda name, **options: asked.append(name))
        reader(parser().parse_args(arguments), path)
    return asked[0]
