"""The commands that change an index and look after it; no language model, unless it is needed."""

import json
from dataclasses import replace

import pytest
from index_world import documents, index_of, opened

from hwdag import Document
from hwdag.index import HWDAGIndex
from hwdag_app.main import main


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.hwdag"
    index_of(documents(3), path=path).close()
    return path


def test_delete_removes_documents_by_id(file, capsys):
    assert main(["delete", str(file), "doc0", "doc2"]) == 0
    assert "1 documents" in capsys.readouterr().out
    assert list(HWDAGIndex.load(file).documents) == ["doc1"]


def test_deleting_what_is_not_there_is_a_message_that_names_what_is(file, capsys):
    assert main(["delete", str(file), "doc0", "nope"]) == 2
    assert "'nope'" in capsys.readouterr().err


def test_verify_reports_a_sound_file_or_its_damage(file, capsys):
    assert main(["verify", str(file), "--quiet"]) == 0
    assert "3 intact documents" in capsys.readouterr().out
    damage(file, opened(file).documents["doc1"].text[:40].encode())
    assert main(["verify", str(file), "--quiet"]) == 1
    shown = capsys.readouterr().out
    assert "document 'doc1'" in shown
    assert "damaged" in shown


def test_repair_keeps_whole_documents_and_lists_lost_ones(file, capsys):
    damage(file, opened(file).documents["doc1"].text[:40].encode())
    new = file.with_name("new.hwdag")
    assert main(["repair", str(file), "-o", str(new), "--quiet"]) == 1
    shown = capsys.readouterr().out
    assert "lost doc1; insert it again" in shown
    assert "2 documents kept, 1 lost" in shown
    assert list(HWDAGIndex.load(new).documents) == ["doc0", "doc2"]
    assert main(["verify", str(new), "--quiet"]) == 0


def test_files_are_merged_into_a_new_one(file, tmp_path, capsys):
    more, new = tmp_path / "b.hwdag", tmp_path / "new.hwdag"
    index_of([Document("more", "The mill grinds no more.")], path=more).close()
    assert main(["merge", str(file), str(more), "-o", str(new), "--quiet"]) == 0
    assert list(HWDAGIndex.load(new).documents) == ["doc0", "doc1", "doc2", "more"]
    assert main(["merge", str(file), str(file), "-o", str(tmp_path / "c"), "--quiet"]) == 2
    assert "doc0" in capsys.readouterr().err


def test_compact_gives_space_back(file, capsys):
    before = file.stat().st_size
    main(["delete", str(file), "doc0", "doc1"])
    assert main(["compact", str(file), "--drop-calls"]) == 0
    assert f"{before:,} bytes" in capsys.readouterr().out
    assert file.stat().st_size < before


def test_an_index_is_exported_once(file, tmp_path, capsys):
    arguments = ["export", str(file), str(tmp_path / "out.jsonl"), "--quiet"]
    assert main(arguments) == 0
    assert "out.jsonl" in capsys.readouterr().out
    assert len((tmp_path / "out.jsonl").read_text("utf-8").splitlines()) == 1 + 3
    assert main(arguments) == 2
    assert "exists" in capsys.readouterr().err
    assert main([*arguments[:2], str(tmp_path / "out.txt")]) == 2
    assert ".jsonl" in capsys.readouterr().err


def test_notes_of_the_files_are_shown(tmp_path, capsys):
    path, note = tmp_path / "a.hwdag", "not UTF-8: read as Windows-1252 (guessed)"
    first, second, third = documents(3)
    noted = [replace(first, metadata={"notes": [note, "3 pictures not read"]}), second]
    index_of([*noted, replace(third, metadata={"notes": "of the user"})], path=path).close()
    assert main(["show", str(path), "--notes"]) == 0
    assert capsys.readouterr().out == f"{first.id}: {note}\n{first.id}: 3 pictures not read\n"
    assert main(["show", str(path), "--notes", "--document", second.id]) == 0
    assert capsys.readouterr().out.startswith("no notes")
    assert main(["show", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["documents"]
    assert [one["notes"] for one in shown] == [[note, "3 pictures not read"], [], []]
    assert note in HWDAGIndex.load(path).to_html()


def test_a_terminal_obeys_no_document(tmp_path, capsys):
    """Escape sequences in ids, titles and texts are shown, by `show` and in messages."""
    path = tmp_path / "a.hwdag"
    wipe = "\x1b[2J"
    index_of([Document(f"id{wipe}", f"The harbour{wipe} is old. " * 9, f"Title{wipe}")], path=path)
    for arguments in (
        ["show", str(path)],
        ["show", str(path), "--json"],
        ["delete", str(path), wipe],
    ):
        main(arguments)
        shown = capsys.readouterr()
        assert "\x1b" not in shown.out + shown.err
        assert "1b[2J" in shown.out + shown.err


@pytest.mark.model
def test_build_insert_and_refresh(tmp_path, capsys):
    folder, path = tmp_path / "docs", tmp_path / "town.hwdag"
    folder.mkdir()
    (folder / "harbour.txt").write_text(
        "Clara Holm built the harbour in 1871. It has a lighthouse. Her son painted it white in 1890. "
        "The ferry to the island left from its foot every morning until the war. Now it is a museum."
    )
    (folder / "quarry.txt").write_text("The quarry at Elm Hill gave the stone. It closed in 1940.")
    build = ["build", str(folder), "-o", str(path), "--quiet", "--method", "hwdag"]
    assert main([*build, "--max-tokens", "1"]) == 3
    assert "max_tokens" in capsys.readouterr().out
    assert main(build) == 0
    assert "2 documents" in capsys.readouterr().out

    (folder / "quarry.txt").write_text("The quarry at Elm Hill is a lake now.")
    (tmp_path / "mill.txt").write_text("The mill grinds no more.")
    assert main(["insert", str(path), str(folder), "--quiet"]) == 2
    assert "refresh" in capsys.readouterr().err
    assert main(["insert", str(path), str(tmp_path / "mill.txt"), "--quiet"]) == 0
    assert main(["refresh", str(path), str(folder), "--prune", "--quiet"]) == 0
    texts = [document.text for document in HWDAGIndex.load(path).documents.values()]
    assert len(texts) == 2
    assert any("lake" in text for text in texts)


@pytest.mark.model
def test_to_prune_keeps_what_could_not_be_read_and_adds_metadata(tmp_path, capsys):
    folder, path = tmp_path / "docs", tmp_path / "town.hwdag"
    folder.mkdir()
    for name in ("harbour", "quarry", "mill"):
        (folder / f"{name}.txt").write_text(f"The {name} is old.")
    build = ["build", str(folder), "-o", str(path), "--quiet"]
    assert main([*build, "--metadata", "town=Brightwater"]) == 0
    (folder / "harbour.txt").unlink()
    (folder / "quarry.txt").unlink()
    (folder / "quarry.txt").symlink_to("nowhere")
    refresh = ["refresh", str(path), str(folder), "--prune", "--quiet"]
    assert main([*refresh, "--metadata", "town=Brightwater"]) == 0
    shown = capsys.readouterr().out
    assert "1 deleted, 1 skipped" in shown
    names = [name.rpartition("/")[2] for name in HWDAGIndex.load(path).documents]
    assert sorted(names) == ["mill.txt", "quarry.txt"]
    (tmp_path / "empty").mkdir()
    assert main(["refresh", str(path), str(tmp_path / "empty"), "--prune", "--quiet"]) == 2


def damage(file, text):
    """Change one byte in the middle of a text."""
    data = bytearray(file.read_bytes())
    at = data.index(text) + len(text) // 2
    data[at] ^= 0x20
    file.write_bytes(data)
