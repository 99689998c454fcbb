"""Index files that somebody made to do harm: refused before anything in them runs, and in bounds."""

import sqlite3
import struct
import time

import pytest
from store_world import entry, fill, load_all

from hwdag.errors import IndexCorrupt
from hwdag.store.copying import repair
from hwdag.store.sqlite import Store
from hwdag.store.verify import verify

PAGE = 4096
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.hwdag"
    fill(path, *(entry(name, seed) for seed, name in enumerate("abc")))
    return path


@pytest.mark.parametrize(
    "script",
    [
        f"ALTER TABLE header RENAME TO h; CREATE VIEW header AS {ENDLESS} i AS name, i AS value FROM n",
        "ALTER TABLE header RENAME TO h; "
        "CREATE VIEW header AS SELECT 'reader' AS name, zeroblob(900000000) AS value",
        f"ALTER TABLE calls RENAME TO c; "
        f"CREATE VIEW calls AS {ENDLESS} i AS number, i AS owner_slot, i AS owner FROM n",
        "CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END",
        "CREATE TABLE more (text TEXT)",
        "CREATE INDEX more ON documents (abs(slot))",
        "DROP INDEX calls_by_slot",
    ],
    ids=[
        "endless view",
        "huge value",
        "endless calls",
        "trigger",
        "table",
        "expression",
        "missing",
    ],
)
def test_what_no_index_defines_is_refused_at_once(path, script):
    connection = sqlite3.connect(path)
    connection.executescript(f"PRAGMA legacy_alter_table = ON; {script}")
    connection.close()
    began = time.process_time()
    for readonly in (True, False):
        with pytest.raises(IndexCorrupt):
            Store.open(path, readonly=readonly)
    (problem,) = verify(path).problems
    assert "not defined as in an index" in problem.what
    assert time.process_time() - began < 1


def test_what_was_whole_before_is_saved_without_it(path):
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TRIGGER t AFTER INSERT ON documents BEGIN DELETE FROM documents; END"
    )
    connection.close()
    assert repair(path, path.with_name("new")).kept == ("a", "b", "c")
    with Store.open(path.with_name("new")) as store:
        store.put(*entry("d", 4))
        assert store.ids() == ["a", "b", "c", "d"]


def with_a_circle(path, table, levels):
    """Lead from the first page of a table to the same rows 400 times, and so on for each level."""
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    (root,) = connection.execute(query, [table]).fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    count = len(content) // PAGE
    pages = [content[(root - 1) * PAGE : root * PAGE]]  # the rows, on a page of their own
    assert pages[0][0] == 13, "a leaf"
    for level in range(levels):
        pages.append(interior(count + 1 + level))
    content[(root - 1) * PAGE : root * PAGE] = pages.pop()
    content += b"".join(pages)
    content[28:32] = struct.pack(">I", count + len(pages))
    path.write_bytes(content)


def interior(child):
    """Return a page that refers to one other page 400 times."""
    cells = [struct.pack(">IBB", child, 0x80 | i >> 7, i & 0x7F) for i in range(1, 400)]
    page, places = bytearray(PAGE), []
    end = PAGE
    for cell in cells:
        end -= len(cell)
        page[end : end + len(cell)] = cell
        places.append(end)
    struct.pack_into(">BHHHBI", page, 0, 5, 0, len(cells), end, 0, child)
    struct.pack_into(f">{len(places)}H", page, 12, *places)
    return bytes(page)


@pytest.mark.slow
@pytest.mark.parametrize("table", ["documents", "calls"])
def test_pages_that_lead_in_a_circle_end_in_an_error(path, table):
    with_a_circle(path, table, levels=4)
    began = time.process_time()
    with Store.open(path) as store:
        reads = {
            "documents": (store.ids, store.numbers, store.__len__, lambda: load_all(store)),
            "calls": (store.unfinished,),
        }
        for read in reads[table]:
            with pytest.raises(IndexCorrupt):
                read()
    assert not verify(path).sound
    assert time.process_time() - began < 60


def test_a_value_that_is_longer_than_its_file_is_not_read(path):
    """The pages that a long value goes on with lead in a circle, and its length is a lie."""
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'arrays'"
    (number,) = connection.execute(query).fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    page = memoryview(content)[(number - 1) * PAGE : number * PAGE]
    while page[0] == 5:  # it refers to others; the last of them is named in its header
        (number,) = struct.unpack_from(">I", page, 8)
        page = memoryview(content)[(number - 1) * PAGE : number * PAGE]
    (at,) = struct.unpack_from(">H", page, 8)  # of the first row: two bytes of length, the number,
    guard = at + 5  # the length of what follows, the type of a number that is none, of the guard
    assert page[guard] & 0x80
    page[guard : guard + 2] = bytes([0xFF, 0xFF])  # blobs are that long where the next byte is odd
    page[at : at + 2] = bytes([0xFF, 0xFF])
    path.write_bytes(content)
    began = time.process_time()
    with Store.open(path) as store, pytest.raises(IndexCorrupt):
        load_all(store)
    assert time.process_time() - began < 5
