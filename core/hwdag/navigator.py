"""A navigator: embeds a question together with what was read for it, and judges what to read next (ours).

Evidence for a question with two hops is named by what answers the first one. A low-rank adapter of the
embedder's question side was trained to find, from "question [SEP] sentence that was read", the next
gold sentence; the embeddings of the nodes stay what they are. A scorer then was trained to choose among
the best nodes of such walks (`examples/train_navigator`). The folder of a navigator has the adapter in
PEFT's format, the scorer, and `navigator.json`, which says whose question side the adapter changes.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwdag.arrays import Vectors
from hwdag.checks import json_bytes
from hwdag.config import Scoring, SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.embedding.hashing import unit_rows
from hwdag.embedding.sentence_transformer import SentenceTransformerEmbedder
from hwdag.errors import InputError, ModelNotFound
from hwdag.scorer import Scorer

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

SHIPPED = Path(__file__).parent / "embedding" / "navigators" / "all-minilm-l6-v2"
"""The navigator of the default embedder."""

CARD = "navigator.json"
MAX_TOKENS = 128  # of question and sentence together; what is longer is cut from the longer one


class Navigator:
    """Embeds questions with each of the first `reads` nodes that a walk reads; threads take turns.

    Its `scorer` judges by the signals of `hwdag.search.signals`.
    """

    def __init__(self, model: SentenceTransformer, reads: int, scorer: Scorer) -> None:
        self.model, self.reads, self.scorer = model, reads, scorer
        self._lock = threading.Lock()

    @classmethod
    def load(cls, folder: Path, embedder: Embedder) -> Navigator:
        """The navigator in a folder; raises `ModelNotFound`, or `InputError` for another embedder's."""
        from hwdag.lm.adapter import Adapter

        reads, fingerprint = _card(folder)
        embedder = _sentence_transformer(embedder)
        if embedder.fingerprint != fingerprint:
            raise InputError(
                f"the navigator in {folder} was trained for another embedder than {embedder.name!r}; "
                "train one for it (examples/train_navigator), or search without one (navigator=None)"
            )
        scorer = Scorer.load(folder)
        adapter = Adapter.load(folder)
        inner = embedder.model.transformers_model
        if inner is None:
            raise InputError(f"the embedder {embedder.name!r} has no transformer to navigate with")
        changed = {f"{name}.weight" for name in adapter.factors}
        # weights that stay what they are exist once
        shared = {id(p): p for name, p in inner.named_parameters() if name not in changed}
        model, inner = copy.deepcopy((embedder.model, inner), shared)
        adapter.merge(inner)
        return cls(model, reads, scorer)

    def embed(self, question: str, read: Sequence[str]) -> Vectors:
        """The question with each of these texts to unit vectors, (texts, dimension)."""
        with self._lock:
            return embedded(self.model, question, read)


def embedded(model: SentenceTransformer, question: str, read: Sequence[str]) -> Vectors:
    """A question with each of these texts to unit vectors, (texts, dimension)."""
    import torch

    if not read:
        return np.zeros((0, model.get_embedding_dimension() or 0), np.float32)
    with torch.inference_mode():
        found = model(pairs(model, question, read))["sentence_embedding"]
    return unit_rows(found.float().cpu().numpy())


def pairs(model: SentenceTransformer, question: str, read: Sequence[str]) -> dict[str, Any]:
    """What the model is given for a question with each of these texts."""
    encoded = model.tokenizer(
        [question] * len(read),
        list(read),
        padding=True,
        truncation="longest_first",
        max_length=MAX_TOKENS,
        return_tensors="pt",
    )
    return {name: tensor.to(model.device) for name, tensor in encoded.items()}


def navigator_of(config: SearchConfig, embedder: Embedder, *, waits: bool) -> Navigator | None:
    """The navigator that `SearchConfig.navigator` names, None for none.

    "auto" is none for a walk that `waits` for relevance to be passed on. Loaded once for an embedder.
    Raises what `Navigator.load` raises.
    """
    name = config.navigator
    if name == "auto":
        # attention does not count where nothing is passed on
        is_default = replace(config.scoring, attention=0.0) == Scoring(attention=0.0)
        fits = is_default and not waits and _is_shipped_for(embedder)
        name = "default" if fits else None
    if name is None:
        return None
    folder = SHIPPED if name == "default" else Path(name)
    return _loaded(folder, _sentence_transformer(embedder))


_loaded = lru_cache(maxsize=4)(Navigator.load)


def _is_shipped_for(embedder: Embedder) -> bool:
    if not isinstance(embedder, SentenceTransformerEmbedder):
        return False
    return embedder.fingerprint == _card(SHIPPED)[1]


def _sentence_transformer(embedder: Embedder) -> SentenceTransformerEmbedder:
    """The embedder as one that has a question side to change; raises `InputError` for others."""
    if not isinstance(embedder, SentenceTransformerEmbedder):
        raise InputError(
            f"a navigator changes the question side of a sentence-transformers model, and the "
            f"embedder is {embedder.name!r}; search without one (navigator=None)"
        )
    return embedder


def write_card(folder: Path, *, reads: int, embedder: SentenceTransformerEmbedder) -> None:
    """Write the file that says whose question side the adapter in a folder changes."""
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
