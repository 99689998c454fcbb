"""Long texts are read as several documents."""

from __future__ import annotations

from functools import partial

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_files import read
from hwdag_files.parts import in_parts
from hwdag_files.read import read_documents
from hwdag_lab.scripted import ScriptedLM

TEXT = "".join(
    f"# Year {year}\n\nThe mill ground {year} sacks. It rested in winter.\n\n"
    for year in range(1900, 1930)
)


def test_a_long_text_is_cut_before_headings_and_nothing_is_lost():
    found = list(in_parts(Document("log.txt", TEXT, "Log", {"path": "log.txt"}), 400))
    assert "".join(one.text for one in found) == TEXT
    assert all(len(one.text) <= 400 and one.text.startswith("# Year") for one in found)
    assert [one.id for one in found[:3]] == ["log.txt", "log.txt (part 2)", "log.txt (part 3)"]
    assert found[1].title == "Log (part 2)" and found[1].metadata["path"] == "log.txt"
    [note] = found[0].notes
    assert f"{len(found)} parts" in note and not found[1].notes


def test_a_text_without_good_places_is_cut_at_the_limit():
    assert [one.text for one in in_parts(Document("a", "abcdefgh"), 3)] == ["abc", "def", "gh"]


def test_code_that_is_cut_is_fenced_in_both_parts():
    code = "".join(f"# step {i}\nrun {i}\n\n" for i in range(40))
    found = list(in_parts(Document("run.sh", f"```\n{code}```\n"), 200))
    assert len(found) > 2
    assert all(one.text.startswith("```\n") and one.text.rstrip().endswith("```") for one in found)
    kept = "".join(one.text.replace("```\n", "").rstrip("\n") + "\n" for one in found)
    assert [line for line in kept.splitlines() if line] == [
        line for line in code.splitlines() if line
    ]


def test_pages_keep_a_document_whole():
    paged = Document("book.pdf", TEXT, metadata={"page_starts": [0, 500]})
    assert list(in_parts(paged, 400)) == [paged]


def test_parts_of_a_file_are_refreshed_and_pruned_by_themselves(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "in_parts", partial(in_parts, longest=400, part=400))
    file = tmp_path / "log.txt"
    file.write_text(TEXT)
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder()}
    with HWDAGIndex.from_documents(
        read_documents(file), config=BuildConfig(method="evidence"), **models
    ) as index:
        count = len(index.documents)
        assert count > 4
        file.write_text(
            TEXT[: len(TEXT) // 2] + TEXT[len(TEXT) // 2 :].replace("rested", "slept", 1)
        )
        report = index.refresh(read_documents(file), prune=True)
        assert len(report.built) == 1 and len(report.unchanged) == count - 1
        file.write_text(TEXT[:300])
        report = index.refresh(read_documents(file), prune=True)
        assert len(report.deleted) == count - 1
        assert list(index.documents) == [file.as_posix()]
