"""Index files that define more than an index does are refused; reading stays within bounds."""

import sqlite3

import pytest
from store_world import entry, fill, load_all

from hwdag.errors import IndexCorrupt
from hwdag.store import database
from hwdag.store.sqlite import Store
from hwdag.store.transfer import repair
from hwdag.store.verify import verify


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.hwdag"
    fill(path, *(entry(name, seed) for seed, name in enumerate("abc")))
    return path


@pytest.mark.parametrize(
    "script",
    [
        "ALTER TABLE header RENAME TO h; CREATE VIEW header AS SELECT 'reader' AS name, '' AS value",
        "ALTER TABLE calls RENAME TO c; "
        "CREATE VIEW calls AS SELECT 1 AS number, 1 AS owner_slot, 1 AS owner",
        "CREATE TRIGGER t AFTER INSERT ON documents BEGIN SELECT 1; END",
        "CREATE TABLE more (text TEXT)",
        "CREATE INDEX more ON documents (abs(slot))",
        "DROP INDEX calls_by_slot",
    ],
    ids=[
        "view",
        "view of calls",
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
    for readonly in (True, False):
        with pytest.raises(IndexCorrupt):
            Store.open(path, readonly=readonly)
    (problem,) = verify(path).problems
    assert "not defined as in an index" in problem.what


def test_what_was_whole_before_is_saved_without_it(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TRIGGER t AFTER INSERT ON documents BEGIN SELECT 1; END")
    connection.close()
    assert repair(path, path.with_name("new")).kept == ("a", "b", "c")
    with Store.open(path.with_name("new")) as store:
        store.put(*entry("d", 4))
        assert store.ids() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("table", ["documents", "calls"])
def test_a_read_that_takes_more_steps_than_its_file_can_need_ends_in_an_error(
    path, table, monkeypatch
):
    monkeypatch.setattr(database, "STEPS", 1)
    with Store.open(path) as store:
        monkeypatch.setattr(database, "MOST_STEPS_PER_PAGE", 0)
        reads = {
            "documents": (store.ids, store.numbers, lambda: load_all(store)),
            "calls": (store.unfinished,),
        }
        for read in reads[table]:
            with pytest.raises(IndexCorrupt):
                read()


def test_a_value_that_is_longer_than_its_file_is_not_read(path, monkeypatch):
    with Store.open(path) as store:
        monkeypatch.setattr(database, "PAGE_SIZE", 1)  # so every value is longer than the file
        with pytest.raises(IndexCorrupt):
            load_all(store)
