"""One file under several paths is one document, or a note says so; copies and missing files are named."""

import shutil

import pytest
from index_world import index_of

from hwdag import Document
from hwdag.index import HWDAGIndex
from hwdag_app.cli.spellings import Spellings
from hwdag_app.main import main
from hwdag_files.read import read_documents

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder of two notes, and their index."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "notes").mkdir()
    for name in ("dike", "mill"):
        (folder / "notes" / f"{name}.md").write_text(f"The {name} is old.\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["build", "notes", "-o", "i.hwdag", "-q"]) == 0
    return folder


@pytest.fixture
def folder(built, tmp_path, monkeypatch):
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ids(file):
    with HWDAGIndex.load(file) as index:
        return list(index.documents)


@pytest.mark.parametrize(
    ("where", "index", "path"),
    [
        (".", "i.hwdag", "{full}/notes"),
        ("notes", "../i.hwdag", "."),
        ("notes", "../i.hwdag", "../notes"),
        (".", "i.hwdag", "./notes/../notes"),
        (".", "i.hwdag", "link"),
    ],
)
def test_a_file_is_refreshed_under_any_spelling(folder, monkeypatch, capsys, where, index, path):
    (folder / "link").symlink_to(folder / "notes")
    (folder / "notes" / "dike.md").write_text("The dike is new.\n")
    monkeypatch.chdir(folder / where)
    capsys.readouterr()
    assert main(["refresh", index, path.format(full=folder), "-q"]) == 0
    shown = capsys.readouterr().out
    assert "1 new or changed, 1 unchanged" in shown and "keep its id" in shown
    with HWDAGIndex.load(folder / "i.hwdag") as found:
        assert sorted(found.documents) == ["notes/dike.md", "notes/mill.md"]
        assert found.documents["notes/dike.md"].text == "The dike is new.\n"
        assert found.documents["notes/dike.md"].metadata["path"] == "notes/dike.md"


def test_a_file_that_was_named_by_a_symbolic_link_keeps_its_id(folder, capsys):
    (folder / "link").symlink_to(folder / "notes")
    assert main(["build", "link", "-o", "l.hwdag", "-q"]) == 0
    (folder / "notes" / "mill.md").unlink()
    capsys.readouterr()
    for path in ("notes", str(folder / "notes"), "link"):
        assert main(["refresh", "l.hwdag", path, "-q"]) == 0
        assert "gone, but not from the index: link/mill.md" in capsys.readouterr().out
    assert ids("l.hwdag") == ["link/dike.md", "link/mill.md"]


def test_pruning_with_another_spelling_deletes_what_is_gone_alone(folder, monkeypatch, capsys):
    (folder / "notes" / "mill.md").unlink()
    monkeypatch.chdir(folder / "notes")
    assert main(["refresh", "../i.hwdag", ".", "-q"]) == 0
    shown = capsys.readouterr().out
    assert (
        "files that are gone, but not from the index: notes/mill.md; --prune deletes them" in shown
    )
    assert main(["refresh", "../i.hwdag", ".", "--prune", "-q"]) == 0
    assert "deleted notes/mill.md" in capsys.readouterr().out
    assert ids("../i.hwdag") == ["notes/dike.md"]


def test_a_path_from_an_unknown_folder_is_named(folder, monkeypatch, capsys):
    (folder / "far").mkdir()
    (folder / "i.hwdag").rename(folder / "far" / "i.hwdag")
    monkeypatch.chdir(folder / "notes")
    (folder / "notes" / "dike.md").write_text("The dike is new.\n")
    assert main(["refresh", "../far/i.hwdag", ".", "-q"]) == 0
    assert "may be in the index under another path" in capsys.readouterr().out


def test_other_files_of_the_same_name_are_other_documents(folder, capsys):
    (folder / "other").mkdir()
    (folder / "other" / "dike.md").write_text("The dike of another place.\n")
    assert main(["build", "other", "-o", "i.hwdag", "-q"]) == 0
    assert "another path" not in capsys.readouterr().out
    assert sorted(ids("i.hwdag")) == ["notes/dike.md", "notes/mill.md", "other/dike.md"]


def test_what_prune_would_delete_is_counted_though_its_file_exists(folder, capsys):
    (folder / "other").mkdir()
    (folder / "other" / "quay.md").write_text("The quay is old.\n")
    assert main(["build", "other", "-o", "i.hwdag", "-q"]) == 0
    (folder / "notes" / "mill.md").unlink()
    capsys.readouterr()
    assert main(["refresh", "i.hwdag", "notes", "-q"]) == 0
    others = "--prune deletes them, and the rest that is not in the given paths: other/quay.md"
    assert others in capsys.readouterr().out
    assert main(["refresh", "i.hwdag", "notes", "--prune", "-q"]) == 0
    assert "deleted notes/mill.md, other/quay.md" in capsys.readouterr().out


def test_the_metadata_of_the_command_line_stays(folder):
    documents = [
        Document(str(folder / "notes" / "dike.md"), "x", metadata={"path": "elsewhere"}),
        *read_documents("notes/mill.md"),
    ]
    [first, second], notes = Spellings.of(folder / "i.hwdag").known(documents)
    assert (first.id, first.metadata) == ("notes/dike.md", {"path": "elsewhere"})
    assert (second.id, len(notes)) == ("notes/mill.md", 1)
    assert Spellings.of(folder / "none.hwdag").known(documents) == (documents, [])


def test_a_text_under_a_new_id_is_noted():
    texts = {"a": "The mill is old.", "b": "The dike is new.", "c": "The mill is old."}
    index = index_of([Document(name, text) for name, text in texts.items()])
    assert copies(index.report) == ["a, c"]
    report = index.insert([Document("d", "The dike is new."), Document("e", "The road is wet.")])
    assert copies(report) == ["b, d"]
    assert copies(index.insert([Document("f", "The road is dry.")])) == []


def copies(report):
    note = "the same text under 2 ids: "
    found = [one.removeprefix(note) for one in report.notes if one.startswith(note)]
    return [one.removesuffix("; delete those that are copies") for one in found]
