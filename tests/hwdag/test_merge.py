"""Several index files merged into one: the same as one build of all their documents."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_world import HEADER, change_file, entry, fill
from test_living_index import BUDGET, CONFIG, QUESTION, documents, index_of, opened

from hwdag import HWDAGIndex, Scope
from hwdag.errors import IndexCorrupt, IndexMismatch, InputError
from hwdag.store.sqlite import Store
from hwdag.store.transfer import merge
from hwdag.store.verify import verify

ATTENTION = replace(CONFIG, method="hwdag")
SCOPES = (None, Scope(filters={"year": {"gte": 2001}}), Scope(document_ids=["doc1", "doc4"]))


def built(path, docs, config=CONFIG):
    index_of(docs, path=path, config=config).close()
    return path


def rows(path):
    """Return all rows of a file; calls decoded."""
    with closing(sqlite3.connect(path)) as connection:
        tables = {
            name: connection.execute(f"SELECT * FROM {name}").fetchall()
            for name in ("documents", "nodes", "arrays")
        }
        calls = connection.execute("SELECT owner, key, value FROM calls").fetchall()
    documents = [(number, *rest) for number, _, _, *rest in tables["documents"]]
    return {**tables, "documents": documents, "calls": sorted(calls)}


@settings(max_examples=5)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=3), st.sampled_from([CONFIG, ATTENTION]))
def test_merged_files_are_one_build_of_all_documents(tmp_path_factory, sizes, config):
    folder, docs = tmp_path_factory.mktemp("merge"), documents(sum(sizes) + 1)
    cuts = [sum(sizes[:i]) for i in range(len(sizes))]
    groups = [docs[a:b] for a, b in zip(cuts, [*cuts[1:], None], strict=True)]
    files = [built(folder / f"{i}.hwdag", group, config) for i, group in enumerate(groups) if group]
    one = built(folder / "one.hwdag", docs, config)
    HWDAGIndex.merge(files, path=folder / "merged.hwdag").close()
    assert verify(folder / "merged.hwdag").sound
    assert rows(folder / "merged.hwdag") == rows(one)
    with opened(one) as single, opened(folder / "merged.hwdag") as merged:
        scopes = SCOPES if len(docs) > 4 else SCOPES[:2]
        for scope in scopes:
            asked = {"config": BUDGET, "scope": scope, "k": 30}
            assert merged.search(QUESTION, **asked) == single.search(QUESTION, **asked)


def test_what_was_built_before_is_not_built_again(tmp_path):
    docs = documents(4, sentences=90)
    first, second = docs[:2], docs[2:]
    files = [built(tmp_path / "a", first, ATTENTION), built(tmp_path / "b", second, ATTENTION)]
    HWDAGIndex.merge(files, path=tmp_path / "c").close()
    with opened(tmp_path / "c") as index:
        assert len(index.refresh(docs).unchanged) == 4
        edited = replace(second[0], text=second[0].text + " The silver dragon sleeps.")
        assert index.refresh([edited]).reused > 0


def test_documents_that_were_not_finished_keep_their_calls(tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]
    for file, name in zip(files, "xy", strict=True):
        fill(file, entry(name))
        with Store.open(file) as store:
            store.calls(f"begun {name}").put_all({b"key": name.encode()})
    merge(files, tmp_path / "c")
    with Store.open(tmp_path / "c") as store:
        assert store.unfinished() == ["begun x", "begun y"]
        for name in "xy":
            assert store.calls(f"begun {name}").get(b"key") == name.encode()


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    one, new = tmp_path / "one", tmp_path / "new"
    fill(one, entry("a"))
    for header in (
        replace(HEADER, reader="another"),
        replace(HEADER, embedder="another"),
        replace(HEADER, config=HEADER.config | {"leaves": "sentences"}),
    ):
        other = tmp_path / "other"
        fill(other, entry("b"), header=header)
        with pytest.raises(IndexMismatch):
            merge([one, other], new)
        other.unlink()
    with pytest.raises(InputError, match="'a'"):
        merge([one, one], new)
    for paths in ([], str(one)):
        with pytest.raises(InputError, match="paths"):
            merge(paths, new)
    with pytest.raises(InputError):
        merge([one], one)
    change_file(one, "UPDATE documents SET text = 'x'")
    with pytest.raises(IndexCorrupt, match="'a'"):
        merge([one], new)
    assert list(tmp_path.iterdir()) == [one]
