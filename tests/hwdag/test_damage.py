"""Damage ends in an error that names it, wherever the file is used; no answer rests on it."""

import random
from contextlib import suppress

import pytest
from store_world import change_file

from hwdag import Document, HWDAGIndex, Scope
from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import HWDAGError, IndexCorrupt, IndexVersionError, InputError, NotAnIndex
from hwdag.store.records import slot_of
from hwdag.store.sqlite import Store
from hwdag.store.verify import verify
from hwdag_lab.scripted import ScriptedLM

TEXT = "The mill was built in 1871. It burned down later. Nobody was hurt."
QUESTION = "When was the mill built?"


def loaded(path):
    return HWDAGIndex.load(path, reader=ScriptedLM(), embedder=HashingEmbedder(32))


@pytest.fixture
def path(tmp_path):
    """Two documents, in a file that nobody has open."""
    path = tmp_path / "x.hwdag"
    documents = [
        Document("mill", TEXT, "Mill", {"year": 1871}),
        Document("inn", "The inn is old. It has nine rooms.", "Inn", {"year": 1900}),
    ]
    config = BuildConfig(method="evidence")
    models = {"reader": ScriptedLM(), "embedder": HashingEmbedder(32)}
    HWDAGIndex.from_documents(documents, path=path, config=config, **models).close()
    return path


def flip(path, seen, expected, nth):
    """Flip one bit: the nth `seen` in the file becomes `expected`."""
    content = path.read_bytes()
    parts = content.split(seen)
    before, after = seen.join(parts[: nth + 1]), seen.join(parts[nth + 1 :])
    assert sum((a ^ b).bit_count() for a, b in zip(seen, expected, strict=True)) == 1
    path.write_bytes(before + expected + after)


def test_no_answer_rests_on_a_sentence_with_a_flipped_bit(path):
    for part in range(path.read_bytes().count(b"1871.")):
        whole = path.read_bytes()
        flip(path, b"1871.", b"1861.", part)
        with loaded(path) as index, pytest.raises(IndexCorrupt) as raised:
            index.answer(QUESTION)
        assert "'mill'" in str(raised.value)
        assert "hwdag repair" in str(raised.value)
        path.write_bytes(whole)
    with loaded(path) as index:
        assert index.search(QUESTION).steps


def test_the_node_is_named(path):
    change_file(path, "UPDATE nodes SET data = replace(data, 'nine rooms', 'five rooms')")
    with loaded(path) as index, pytest.raises(IndexCorrupt, match=r"'inn'.*node 0\b"):
        index.search("How many rooms has the inn?", scope=Scope(["inn"]))


def use_by_id(index):
    return index.documents["mill"]


def use_by_ids(index):
    return list(index.documents)


def use_by_name(index):
    return index.search(QUESTION, scope=Scope(["mill"]))


def use_in_a_search(index):
    return index.search(QUESTION)


def use_in_a_filter(index):
    return index.search(QUESTION, scope=Scope(filters={"year": 1871}))


def use_in_a_build(index):
    return index.refresh([Document("mill", TEXT + " More.", "Mill")])


def use_in_a_deletion(index):
    return index.delete("mill")


USES = [
    use_by_id,
    use_by_ids,
    use_by_name,
    use_in_a_search,
    use_in_a_filter,
    use_in_a_build,
    use_in_a_deletion,
]


@pytest.mark.parametrize("use", USES)
def test_a_damaged_identifier_is_reported(path, use):
    change_file(path, "UPDATE documents SET id = 'mjll' WHERE id = 'mill'")
    with loaded(path) as index, pytest.raises(IndexCorrupt, match="mjll"):
        use(index)


@pytest.mark.parametrize("use", [use for use in USES if use is not use_by_ids])
def test_an_entry_of_the_index_of_identifiers_that_is_damaged_is_reported(path, use):
    """The row is as it was, and a search for its id does not find it."""
    stored = slot_of("mill").to_bytes(8, "big", signed=True)
    content = path.read_bytes()
    places = [at for at in range(len(content)) if content.startswith(stored, at)]
    assert len(places) == 2  # the row, and the entry
    for at in places:
        damaged = bytearray(content)
        damaged[at + 7] ^= 1
        path.write_bytes(damaged)
        with loaded(path) as index, pytest.raises(IndexCorrupt, match="repair"):
            use(index)


def test_a_document_that_is_not_there_is_still_an_input_error(path):
    with loaded(path) as index:
        with pytest.raises(InputError, match="'mall'"):
            index.delete("mall")
        with pytest.raises(KeyError):
            index.documents["mall"]
        assert "mall" not in index.documents


def test_damaged_metadata_decide_no_filter(path):
    change_file(path, "UPDATE documents SET metadata = replace(metadata, '1900', '1871')")
    with loaded(path) as index, pytest.raises(IndexCorrupt, match=r"'inn'.*metadata"):
        use_in_a_filter(index)


def test_a_document_that_vanishes_though_nobody_wrote_is_damage(path, monkeypatch):
    monkeypatch.setattr(Store, "nodes", lambda store, addresses: [None] * len(addresses))
    with loaded(path) as index, pytest.raises(IndexCorrupt, match="nothing was written"):
        index.search(QUESTION)


@pytest.mark.slow
def test_flipped_bits_change_no_result(path):
    """As `benchmarks/soak.py --flips` does it; here only what a search reads."""
    with loaded(path) as index:
        expected = [step.node for step in index.search(QUESTION).steps]
    content, rng = path.read_bytes(), random.Random(0)
    refused = 0
    for _ in range(60):
        damaged = bytearray(content)
        damaged[rng.choice([at for at, value in enumerate(content) if value])] ^= (
            1 << rng.randrange(8)
        )
        path.write_bytes(damaged)
        try:
            with loaded(path) as index:
                assert [step.node for step in index.search(QUESTION).steps] == expected
        except HWDAGError:
            refused += 1
            with suppress(NotAnIndex, IndexVersionError):
                assert not verify(path).sound
    assert refused > 10
