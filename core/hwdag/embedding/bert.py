"""A BERT encoder in numpy, which embeds without torch.

Importing torch and sentence-transformers takes seconds, and a forward takes no longer than theirs. Texts
are not padded. The weights are mapped into memory, so processes share them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from tokenizers import Encoding, Tokenizer

from hwdag.arrays import Vectors
from hwdag.embedding.hashing import unit_rows
from hwdag.threads import in_threads, one_blas_thread

WEIGHTS = "model.safetensors"
FINGERPRINT_VALUES = 256  # values per weight: enough to tell models apart, and fast
DOWN, UP, PREFIX = ".lora_A.weight", ".lora_B.weight", "base_model.model."

_TYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "BF16": np.dtype("<u2"),
}
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_SCALE = 0.3275911

PACK_TOKENS = 128
"""Tokens of texts that share a forward: in longer ones, activations leave the cache of the processor."""


class BertEncoder:
    """A BERT model whose embedding is the mean over a text's tokens; threads may share it.

    Args:
        folder: holds the weights, the config and the tokenizer of a BERT checkpoint in float32.
        weights: arrays by name; None maps those of the folder.
    """

    def __init__(self, folder: Path, weights: Mapping[str, Vectors] | None = None) -> None:
        config = json.loads((folder / "config.json").read_text("utf-8"))
        self._folder = folder
        self._weights = mapped(folder / WEIGHTS) if weights is None else weights
        self._layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._epsilon: float = config["layer_norm_eps"]
        self.dimension: int = config["hidden_size"]
        self._tokenizer = _tokenizer(folder)

    def with_adapter(self, folder: Path) -> Self:
        """Return an encoder with a LoRA adapter of PEFT's format merged in, which shares the other weights."""
        settings = json.loads((folder / "adapter_config.json").read_text("utf-8"))
        scale = np.float32(settings["lora_alpha"] / settings["r"])
        factors = mapped(folder / "adapter_model.safetensors")
        weights = dict(self._weights)
        for key, down in factors.items():
            if key.endswith(DOWN):
                layer = key.removeprefix(PREFIX).removesuffix(DOWN)
                up = factors[PREFIX + layer + UP]
                name = f"{layer}.weight"
                weights[name] = weights[name] + scale * (up @ down)
        return type(self)(self._folder, weights)

    def fingerprint(self, prefix: str) -> str:
        """SHA-256 as `SentenceTransformerEmbedder.fingerprint`; a `prefix` precedes the names there."""
        digest = hashlib.sha256()
        for name, weight in sorted(self._weights.items()):
            if weight.dtype == np.float32:
                first = np.ravel(weight)[:FINGERPRINT_VALUES]
                digest.update(f"{prefix}{name} {weight.shape}".encode() + first.tobytes())
        return digest.hexdigest()

    def tokens(self, text: str) -> Encoding:
        """Return the tokens of a text, special ones included."""
        return self._tokenizer.encode(text)

    def pairs(self, question: str, texts: Sequence[str], limit: int) -> list[Encoding]:
        """Return the tokens of a question with each text; the longer one is cut to fit the limit."""
        return _tokenizer(self._folder, limit).encode_batch([(question, text) for text in texts])

    def tokens_of(self, texts: Sequence[str]) -> list[Encoding]:
        """Return the tokens of each text, special ones included."""
        return self._tokenizer.encode_batch(list(texts))

    def embed(self, texts: Sequence[Encoding]) -> Vectors:
        """Return unit vectors, (texts, dimension); texts share forwards of `PACK_TOKENS` in a few threads."""
        found = np.zeros((len(texts), self.dimension), np.float32)
        packs = _packs([len(one.ids) for one in texts])
        with one_blas_thread():
            made = in_threads(lambda pack: self._embed([texts[i] for i in pack]), packs)
        for pack, vectors in zip(packs, made, strict=True):
            found[pack] = vectors
        return found

    def _embed(self, texts: Sequence[Encoding]) -> Vectors:
        """Return unit vectors of texts in one forward, whose states are columns: (dimension, tokens)."""
        lengths = [len(one.ids) for one in texts]
        ends = np.cumsum(lengths)
        ranges = [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)]
        ids, types = (
            np.concatenate([getattr(one, name) for one in texts]) for name in ("ids", "type_ids")
        )
        places = np.concatenate([np.arange(length) for length in lengths])
        rows = (
            self._weights["embeddings.word_embeddings.weight"][ids]
            + self._weights["embeddings.token_type_embeddings.weight"][types]
            + self._weights["embeddings.position_embeddings.weight"][places]
        )
        hidden = self._normalized("embeddings.LayerNorm", np.ascontiguousarray(rows.T))
        for layer in range(self._layers):
            hidden = self._layer(f"encoder.layer.{layer}.", hidden, ranges)
        return unit_rows(np.stack([hidden[:, place].mean(axis=1) for place in ranges]))

    def _layer(self, name: str, hidden: Vectors, ranges: Sequence[slice]) -> Vectors:
        query, key, value = (
            self._linear(f"{name}attention.self.{kind}", hidden)
            for kind in ("query", "key", "value")
        )
        found = np.empty_like(hidden)
        for place in ranges:
            found[:, place] = self._attention(query[:, place], key[:, place], value[:, place])
        attended = self._linear(f"{name}attention.output.dense", found)
        attended += hidden
        hidden = self._normalized(f"{name}attention.output.LayerNorm", attended)
        inner = _gelu(self._linear(f"{name}intermediate.dense", hidden))
        outer = self._linear(f"{name}output.dense", inner)
        outer += hidden
        return self._normalized(f"{name}output.LayerNorm", outer)

    def _attention(self, *states: Vectors) -> Vectors:
        """Return the attended values of one text, (dimension, tokens), from its query, key and value."""
        tokens = states[0].shape[1]
        query, key, value = (one.reshape(self._heads, -1, tokens) for one in states)
        scores = query.transpose(0, 2, 1) @ key
        scores /= np.float32(np.sqrt(query.shape[1]))
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        found: Vectors = (value @ scores.transpose(0, 2, 1)).reshape(-1, tokens)
        return found

    def _linear(self, name: str, x: Vectors) -> Vectors:
        found: Vectors = self._weights[f"{name}.weight"] @ x
        found += self._weights[f"{name}.bias"][:, None]
        return found

    def _normalized(self, name: str, x: Vectors) -> Vectors:
        x -= x.mean(axis=0)
        x /= np.sqrt(np.square(x).mean(axis=0) + np.float32(self._epsilon))
        x *= self._weights[f"{name}.weight"][:, None]
        x += self._weights[f"{name}.bias"][:, None]
        return x


def mapped(path: Path) -> dict[str, Any]:
    """Map the arrays of a safetensors file into memory, by name."""
    data = np.memmap(path, np.uint8, "r")
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    header = json.loads(data[8:start].tobytes())
    header.pop("__metadata__", None)
    found = {}
    for name, facts in header.items():
        begin, end = facts["data_offsets"]
        array = np.frombuffer(data[start + begin : start + end], _TYPES[facts["dtype"]])
        if facts["dtype"] == "BF16":  # the upper half of a float32
            array = (array.astype(np.uint32) << 16).view(np.float32)
        found[name] = array.reshape(facts["shape"])
    return found


@lru_cache(maxsize=4)
def _tokenizer(folder: Path, limit: int | None = None) -> Tokenizer:
    """Return the tokenizer of a folder, which never pads, and cuts at a limit alone."""
    found: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    found.no_padding()
    found.no_truncation()
    if limit is not None:
        found.enable_truncation(limit, strategy="longest_first")
    return found


def _packs(lengths: Sequence[int]) -> list[list[int]]:
    """Return ordinals of texts, the longest first, in groups of `PACK_TOKENS` together or a single text."""
    packs, room = list[list[int]](), 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if not packs or lengths[i] > room:
            packs.append([])
            room = PACK_TOKENS
        packs[-1].append(i)
        room -= lengths[i]
    return packs


def _gelu(x: Vectors) -> Vectors:
    """Return the exact GELU; the error function is that of Abramowitz and Stegun, 7.1.26, exact to 1.5e-7."""
    size = np.abs(x)
    size *= np.float32(np.sqrt(0.5))
    t = np.float32(_ERF_SCALE) * size
    t += 1
    np.divide(1, t, out=t)
    series = np.zeros_like(x)
    for factor in reversed(_ERF):
        series += np.float32(factor)
        series *= t
    size *= size
    series *= np.exp(np.negative(size, out=size), out=size)
    np.copysign(np.subtract(1, series, out=series), x, out=series)
    series += 1
    series *= x
    series *= np.float32(0.5)
    return series
