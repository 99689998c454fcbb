"""Pairs of encoders: tiny random BERT models, compared with transformers used directly."""

from functools import partial

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast
from worlds import WORDS

from hwdag.embedding.base import Embedder
from hwdag.embedding.default import as_embedder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import IndexMismatch, ModelError, ModelNotFound, UnknownOption
from hwdag.index import HWDAGIndex
from hwdag.types import Document
from hwdag_lab.methods.dense import DenseRetriever
from hwdag_lab.methods.two_encoders import TwoEncoderEmbedder, pair_or_as_it_is, two_encoders
from hwdag_lab.scripted import ScriptedLM

PASSAGES = [
    "The amber bridge near the harbor.",
    "A dragon guards the old castle and its orchard of silver trees.",
    "Needle.",
    "The market of the valley: kettle, ladder, umbrella.",
]
QUESTION = "who guards the castle?"


def tokenizer() -> PreTrainedTokenizerFast:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    pieces = [*special, *WORDS, *letters, *(f"##{letter}" for letter in letters), *".,:?"]
    inner = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]")
    )
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=64, **names)


def encoder(folder, *, seed, hidden=32):
    """A saved BERT of two layers; weights large enough that texts differ."""
    torch.manual_seed(seed)
    made = tokenizer()
    config = BertConfig(
        vocab_size=len(made),
        hidden_size=hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)
    made.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("encoders")
    return encoder(root / "questions", seed=1), encoder(root / "passages", seed=2)


def reference(folder, text, pooling="cls"):
    """The vector of one text straight from transformers."""
    model = AutoModel.from_pretrained(folder).eval()
    inputs = AutoTokenizer.from_pretrained(folder)([text], return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs).last_hidden_state[0].double().numpy()
    return states[0] if pooling == "cls" else states.mean(axis=0)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_are_those_of_transformers(folders, pooling):
    embedder = TwoEncoderEmbedder(*folders, pooling=pooling, device="cpu", batch_size=3)
    vectors = embedder.embed(PASSAGES)
    assert (vectors.shape, vectors.dtype) == ((4, embedder.dimension), np.float32)
    expected = [reference(folders[1], text, pooling) for text in PASSAGES]
    assert vectors == pytest.approx(np.array(expected), abs=1e-4)
    asked = embedder.embed_query(QUESTION)
    assert asked == pytest.approx(reference(folders[0], QUESTION, pooling), abs=1e-4)
    assert not np.allclose(asked, embedder.embed([QUESTION])[0], atol=0.1)
    assert not np.allclose(np.linalg.norm(vectors, axis=1), 1)


def test_cosine_makes_unit_vectors(folders):
    dot = TwoEncoderEmbedder(*folders, device="cpu")
    cosine = TwoEncoderEmbedder(*folders, similarity="cosine", device="cpu")
    assert (dot.similarity, cosine.similarity) == ("dot", "cosine")
    assert np.linalg.norm(cosine.embed(PASSAGES), axis=1) == pytest.approx(1)
    assert np.linalg.norm(cosine.embed_query(QUESTION)) == pytest.approx(1)
    raw = dot.embed(PASSAGES)
    unit = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    assert np.allclose(cosine.embed(PASSAGES), unit, atol=1e-6)
    assert dot.embed([]).shape == (0, 32)


def test_dense_retrieval_ranks_by_the_dot_product(folders):
    retriever = DenseRetriever(ScriptedLM(), embedder="|".join(folders), granularity="sentence")
    retriever.insert([Document(str(i), text) for i, text in enumerate(PASSAGES)])
    ranking = [int(step.node.document_id) for step in retriever.search(QUESTION).steps]
    asked = reference(folders[0], QUESTION)
    scores = [reference(folders[1], text) @ asked for text in PASSAGES]
    assert ranking == list(np.argsort(-np.array(scores)))


def test_a_pair_is_found_by_the_name_it_records(folders):
    made = TwoEncoderEmbedder(*folders, pooling="mean", similarity="cosine", device="cpu")
    assert made.name == f"{folders[0]}|{folders[1]}|mean|cosine"
    found = pair_or_as_it_is(made.name)
    assert isinstance(found, TwoEncoderEmbedder)
    assert isinstance(found, Embedder)
    assert found.name == made.name
    assert np.allclose(found.embed(PASSAGES), made.embed(PASSAGES), atol=1e-6)
    assert TwoEncoderEmbedder(*folders, device="cpu").name == "|".join(folders)
    assert TwoEncoderEmbedder(*folders, name="mine", device="cpu").name == "mine"


def test_one_model_may_be_both(folders):
    embedder = two_encoders(f"{folders[0]}|{folders[0]}", device="cpu")
    assert np.allclose(embedder.embed([QUESTION])[0], embedder.embed_query(QUESTION), atol=1e-5)


def test_an_index_records_and_loads_a_pair(folders, tmp_path):
    path = tmp_path / "pair.hwdag"
    text = " ".join(PASSAGES)
    built = HWDAGIndex.from_documents(
        [Document("d", text)],
        reader=ScriptedLM(),
        embedder=two_encoders("|".join(folders), device="cpu"),
        path=path,
    )
    pair = two_encoders("|".join(folders), device="cpu")
    loaded = HWDAGIndex.load(path, reader=ScriptedLM(), embedder=pair)
    assert loaded.embedder.name == "|".join(folders)
    assert loaded.entries["d"].vectors.dtype == np.float32
    lengths = np.linalg.norm(loaded.entries["d"].vectors, axis=1)
    assert not np.allclose(lengths, 1)
    once, again = built.search(QUESTION), loaded.search(QUESTION)
    assert [step.node for step in once.steps] == [step.node for step in again.steps]
    assert once.steps
    turned = two_encoders("|".join(reversed(folders)), device="cpu")
    other = HWDAGIndex.load(path, reader=ScriptedLM(), embedder=turned)
    with pytest.raises(IndexMismatch):
        other.search(QUESTION)


@pytest.mark.parametrize("name", ["a|", "a|b|c", "a|b|mean|dot|e", "|"])
def test_a_name_that_is_no_pair(name):
    with pytest.raises(UnknownOption, match="facebook/dragon-plus"):
        two_encoders(name)


def test_unknown_ways_are_refused():
    with pytest.raises(UnknownOption, match="pooling must be one of cls, mean, got 'max'"):
        two_encoders("a|b|max|dot")
    with pytest.raises(UnknownOption, match="similarity must be one of dot, cosine, got 'l2'"):
        TwoEncoderEmbedder("a", "b", similarity="l2")


def test_what_cannot_be_loaded_is_named(folders, tmp_path):
    with pytest.raises(ModelNotFound, match="absent"):
        two_encoders(f"{folders[0]}|{tmp_path / 'absent'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelNotFound, match="empty"):
        two_encoders(f"{tmp_path / 'empty'}|{folders[1]}")


def test_a_checkpoint_in_dprs_own_format_is_refused(folders, tmp_path):
    folder = tmp_path / "dpr"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "dpr", "num_hidden_layers": 1}')
    with pytest.raises(ModelError, match="facebook/dpr-single-nq"):
        two_encoders(f"{folders[0]}|{folder}")


def test_encoders_of_different_length_are_no_pair(folders, tmp_path):
    other = encoder(tmp_path / "wide", seed=3, hidden=64)
    make = partial(TwoEncoderEmbedder, folders[0], other, device="cpu")
    with pytest.raises(ModelError, match=r"vectors of length 32 and .* of 64"):
        make()


def test_an_embedder_is_taken_as_it_is_or_by_name():
    embedder = HashingEmbedder(8)
    assert as_embedder(embedder) is pair_or_as_it_is(embedder) is embedder
    assert pair_or_as_it_is("a/name") == "a/name"
    assert as_embedder("hashing-16").name == "hashing-16"
