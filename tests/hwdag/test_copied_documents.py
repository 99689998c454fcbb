"""Documents with the text of another one are said, whoever adds them."""

from __future__ import annotations

import pytest

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder

MILL = "The miller keeps grain. He counts the sacks."
FERRY = "The ferry crosses at dawn. Its bell wakes the village."


def an_index(**options):
    return HWDAGIndex(embedder=HashingEmbedder(), config=BuildConfig(method="evidence"), **options)


@pytest.mark.parametrize("reopened", [False, True])
def test_a_text_under_another_id_is_reported(reopened, tmp_path):
    index = an_index(path=tmp_path / "a.hwdag")
    report = index.insert([Document("mill", MILL), Document("ferry", FERRY)])
    assert report.copies == [] and report.copies_warning == ""
    if reopened:
        index.close()
        index = HWDAGIndex.load(tmp_path / "a.hwdag", embedder=HashingEmbedder())
    report = index.refresh([Document("moulin", MILL, "Moulin", {"n": 1}), Document("ferry", FERRY)])
    assert report.copies == [["mill", "moulin"]]
    assert "1 documents have the text of another one, the first under mill, moulin:" in (
        report.copies_warning
    )
    # an unchanged document is no news
    assert index.refresh([Document("moulin", MILL, "Moulin", {"n": 1})]).copies == []
    index.delete("mill")
    assert index.refresh([Document("moulin", MILL)]).copies == []


def test_copies_within_one_call_are_reported():
    report = an_index().insert([Document(name, MILL) for name in "abc"])
    assert report.copies == [["a", "b", "c"]]
