"""A navigator: chooses the next node to read, without the language model (not in the papers).

In a two-hop question, the sentence that answers the first hop names the evidence for the second. A
low-rank adapter of the embedder's question side was trained to find, from "question [SEP] sentence that
was read", the next gold sentence; the embeddings of the nodes do not change. `NodeFeatures` describe the
best open nodes by numbers. A `FeatureRanker`, a small network in numpy alone, was trained on them to pick
the node that touches or completes a gold paragraph (`examples/train_navigator`).

The folder of a navigator has the adapter in PEFT's format, the scorer, and `navigator.json`, which names
the embedder whose question side the adapter changes.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save_file

from hwdag.arrays import Floats, Indices, Vectors
from hwdag.checks import json_bytes, regular
from hwdag.config import Scoring, SearchPlan
from hwdag.corpus.similarity import Similarity
from hwdag.embedding.base import Embedder
from hwdag.embedding.bert import BertEncoder
from hwdag.embedding.default import EmbeddedModel
from hwdag.embedding.hashing import unit_rows
from hwdag.embedding.sentence_transformer import SentenceTransformerEmbedder
from hwdag.errors import InputError, ModelNotFound
from hwdag.search.features import FEATURES, LEAST_SPREAD, MAX_DEVIATIONS, NodeFeatures
from hwdag.search.frontier import Frontier
from hwdag.threads import without_spinning
from hwdag.types import Node

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

SHIPPED = Path(__file__).parents[1] / "embedding" / "navigators" / "all-minilm-l6-v2"
"""The navigator of the default embedder."""

CARD = "navigator.json"
MAX_TOKENS = 128  # of question and sentence together; the longer one is cut

WEIGHTS = "scorer.safetensors"


EmbedPairs = Callable[[str, Sequence[str]], Vectors]


class Navigator:
    """Embeds questions with each of the first `reads` nodes that a walk reads; threads take turns.

    Its `scorer` ranks by `NodeFeatures`.
    """

    def __init__(self, embed: EmbedPairs, reads: int, scorer: FeatureRanker) -> None:
        self._embed, self.reads, self.scorer = embed, reads, scorer
        self._lock = threading.Lock()

    @classmethod
    def load(cls, folder: Path, embedder: Embedder) -> Navigator:
        """Load the navigator in a folder; raises `ModelNotFound`, or `InputError` for another embedder's."""
        reads, fingerprint = _card(folder)
        embedder = _sentence_transformer(embedder)
        if embedder.fingerprint != fingerprint:
            raise InputError(
                f"the navigator in {folder} was trained for another embedder than {embedder.name!r}; "
                "train one for it (examples/train_navigator), or search without one (navigator='none')"
            )
        scorer = FeatureRanker.load(folder)
        if folder == SHIPPED and isinstance(embedder, EmbeddedModel):
            encoder = embedder.encoder.with_adapter(folder)
            return cls(partial(embedded_light, encoder), reads, scorer)
        return cls(partial(embedded, _adapted(folder, embedder)), reads, scorer)

    def embed(self, question: str, read: Sequence[str]) -> Vectors:
        """Return the question with each of these texts to unit vectors, (texts, dimension)."""
        with self._lock, without_spinning():
            return self._embed(question, read)


def _adapted(folder: Path, embedder: SentenceTransformerEmbedder) -> SentenceTransformer:
    """Return a copy of the embedder's model with an adapter merged in, which shares the other weights."""
    from hwdag.lm.adapter import Adapter

    adapter = Adapter.load(folder)
    inner = embedder.model.transformers_model
    if inner is None:
        raise InputError(f"the embedder {embedder.name!r} has no transformer to navigate with")
    changed = {f"{name}.weight" for name in adapter.factors}
    # weights that do not change exist once
    shared = {id(p): p for name, p in inner.named_parameters() if name not in changed}
    model, inner = copy.deepcopy((embedder.model, inner), shared)
    adapter.merge(inner)
    return model


def embedded_light(encoder: BertEncoder, question: str, read: Sequence[str]) -> Vectors:
    """Embed as `embedded` does, without torch."""
    return encoder.embed(encoder.pairs(question, read, MAX_TOKENS))


def embedded(model: SentenceTransformer, question: str, read: Sequence[str]) -> Vectors:
    """Return a question with each of these texts to unit vectors, (texts, dimension)."""
    import torch

    if not read:
        return np.zeros((0, model.get_embedding_dimension() or 0), np.float32)
    with torch.inference_mode():
        found = model(pairs(model, question, read))["sentence_embedding"]
    return unit_rows(found.float().cpu().numpy())


def pairs(model: SentenceTransformer, question: str, read: Sequence[str]) -> dict[str, Any]:
    """Return the inputs of the model for a question with each of these texts."""
    encoded = model.tokenizer(
        [question] * len(read),
        list(read),
        padding=True,
        truncation="longest_first",
        max_length=MAX_TOKENS,
        return_tensors="pt",
    )
    return {name: tensor.to(model.device) for name, tensor in encoded.items()}


def navigator_of(plan: SearchPlan, embedder: Embedder) -> Navigator | None:
    """Return the navigator that a plan names, or None. Loaded once for an embedder.

    Raises the errors of `Navigator.load`.
    """
    name = plan.navigator
    if name == "auto":
        name = "default" if _is_ours(plan.scoring) and _is_shipped_for(embedder) else "none"
    if name == "none":
        return None
    folder = SHIPPED if name == "default" else Path(name)
    return _loaded(folder, _sentence_transformer(embedder))


_loaded = lru_cache(maxsize=4)(Navigator.load)


@lru_cache(maxsize=64)
def _is_ours(scoring: Scoring) -> bool:
    """Return whether the scorer knows such scores: attention adds to them if there are edges."""
    return replace(scoring, attention=0.0) == Scoring(attention=0.0)


@cache
def _shipped_fingerprint() -> str:
    return _card(SHIPPED)[1]


def _is_shipped_for(embedder: Embedder) -> bool:
    if not isinstance(embedder, SentenceTransformerEmbedder):
        return False
    return embedder.fingerprint == _shipped_fingerprint()


def _sentence_transformer(embedder: Embedder) -> SentenceTransformerEmbedder:
    """Return the embedder as one that has a question side to change; raises `InputError` for others."""
    if not isinstance(embedder, SentenceTransformerEmbedder):
        raise InputError(
            f"a navigator changes the question side of a sentence-transformers model, and the "
            f"embedder is {embedder.name!r}; search without one (navigator='none')"
        )
    return embedder


def write_card(folder: Path, *, reads: int, embedder: SentenceTransformerEmbedder) -> None:
    """Write the file that names the embedder whose question side an adapter changes."""
    card = {"embedder": embedder.name, "fingerprint": embedder.fingerprint, "reads": reads}
    (folder / CARD).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


def _card(folder: Path) -> tuple[int, str]:
    try:
        text = json_bytes(folder / CARD)
    except OSError as error:
        raise ModelNotFound(
            f"no navigator in {folder}: {error.strerror} ({CARD}); SearchConfig.navigator is "
            '"default" or the folder of one (examples/train_navigator makes it)'
        ) from error
    try:
        card = json.loads(text)
        reads, fingerprint = card["reads"], card["fingerprint"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InputError(f"{folder / CARD} is no navigator's card: {error!r}") from error
    if type(reads) is not int or reads < 1 or not isinstance(fingerprint, str):
        raise InputError(
            f"{folder / CARD} must have a whole number of reads of at least 1 and a fingerprint, got "
            f"{reads!r} and {fingerprint!r}"
        )
    return reads, fingerprint


class NavigatorRanker:
    """A navigator during one search: `hwdag.search.frontier.NodeRanker`."""

    def __init__(
        self, navigator: Navigator, question: str, similarity: Similarity, features: NodeFeatures
    ) -> None:
        self._navigator, self._question = navigator, question
        self._similarity, self._features = similarity, features
        self._visits = 0

    def rank(self, frontier: Frontier, nodes: Indices, scores: Floats) -> Floats:
        """Rank open nodes with these scores, (k,); higher is to be read sooner."""
        return self._navigator.scorer(self._features.of(frontier, nodes, scores))

    def visit(self, index: int, node: Node) -> Floats | None:
        """Take note of a visited node, and embed the question with it if it is among the first."""
        self._features.visit(index)
        self._visits += 1
        if self._visits > self._navigator.reads:
            return None
        self._similarity.add(self._navigator.embed(self._question, [node.text]))
        return self._similarity.values


@dataclass(frozen=True, slots=True, eq=False)
class FeatureRanker:
    """Weights of a scorer of f features: which of some nodes a walk should read first.

    It sees every feature as it is, and how far it is from the mean of the nodes that are ranked together,
    in standard deviations.

    Attributes:
        mean, scale: of every feature over the training data, (f,).
        layers: matrix (inputs, outputs) and bias (outputs,) of every layer; the first has 2 f inputs,
            the last 1 output, between them is ReLU.
    """

    mean: Vectors
    scale: Vectors
    layers: tuple[tuple[Vectors, Vectors], ...]

    def __call__(self, features: Floats) -> Floats:
        """Rank nodes that compete with each other, (k, f) to (k,); higher is to be read sooner."""
        x = inputs(features, self.mean, self.scale)
        for i, (weight, bias) in enumerate(self.layers):
            x = (np.maximum(x, 0.0) if i else x) @ weight + bias
        return np.asarray(x[:, 0], np.float64)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load the scorer in a folder; raises `ModelNotFound`, or `InputError` if it takes other features."""
        path, features = folder / WEIGHTS, len(FEATURES)
        try:
            tensors = load(regular(path).read_bytes())
        except OSError as error:
            raise ModelNotFound(
                f"no scorer in {folder}: {error.strerror} ({WEIGHTS}); examples/train_navigator makes it"
            ) from error
        except SafetensorError as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        count = sum(name.startswith("weight") for name in tensors)
        try:
            layers = tuple((tensors[f"weight{i}"], tensors[f"bias{i}"]) for i in range(count))
            found = cls(tensors["mean"], tensors["scale"], layers)
        except KeyError as error:
            raise InputError(f"{path} has no tensor {error}") from error
        widths = [*(weight.shape[0] for weight, _ in layers if weight.ndim), 1]
        shapes = [(weight.shape, bias.shape) for weight, bias in layers]
        expected = [((a, b), (b,)) for a, b in pairwise(widths)]
        fits = layers and shapes == expected and widths[0] == 2 * features
        if not (fits and found.mean.shape == found.scale.shape == (features,)):
            raise InputError(
                f"{path} must rank by {features} features, got layers of {shapes}; it belongs to "
                "another version of hwdag: train one anew (examples/train_navigator)"
            )
        if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
            raise InputError(f"{path} has weights that are not finite")
        if not (found.scale > 0).all():
            raise InputError(f"{path} has a scale that is not positive")
        return found

    def save(self, folder: Path) -> None:
        """Write the file that `load` reads."""
        tensors: dict[str, Vectors] = {"mean": self.mean, "scale": self.scale}
        for i, (weight, bias) in enumerate(self.layers):
            tensors |= {f"weight{i}": weight, f"bias{i}": bias}
        save_file(
            {k: np.ascontiguousarray(v, np.float32) for k, v in tensors.items()}, folder / WEIGHTS
        )


def inputs(features: Floats, mean: Vectors, scale: Vectors) -> Vectors:
    """Return the inputs of the network, (k, f) to (k, 2 f)."""
    spread = features.std(axis=0) + LEAST_SPREAD
    seen = ((features - mean) / scale, (features - features.mean(axis=0)) / spread)
    clipped = np.clip(np.concatenate(seen, axis=1), -MAX_DEVIATIONS, MAX_DEVIATIONS)
    return np.asarray(clipped, np.float32)
