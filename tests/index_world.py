"""Small indexes that tests share: scripted models over random documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from worlds import random_prose

from hwdag import BuildConfig, Document, HWDAGIndex
from hwdag.embedding.hashing import HashingEmbedder
from hwdag_lab.scripted import ScriptedLM

CONFIG = BuildConfig("hwdag", chunk_tokens=30, window_tokens=400)


def models(**changes: Any) -> dict[str, Any]:
    """Return a scripted reader and a hashing embedder, as an index or a retriever takes them."""
    return {"reader": ScriptedLM(), "embedder": HashingEmbedder()} | changes


def documents(
    count: int = 4, sentences: int = 12, seed: int = 0, prefix: str = "doc", **metadata: Any
) -> list[Document]:
    """Documents of that many sentences, of one year each from 2000 on."""
    rng = np.random.default_rng(seed)
    return [
        Document(
            f"{prefix}{i}",
            random_prose(rng, sentences, words=(8, 8)),
            f"Title {i}",
            {"year": 2000 + i, **metadata},
        )
        for i in range(count)
    ]


def index_of(documents: list[Document], **options: Any) -> HWDAGIndex:
    """Return an index of these documents, by scripted models unless others are given."""
    return HWDAGIndex.from_documents(documents, **models(config=CONFIG) | options)


def opened(path: Path) -> HWDAGIndex:
    """Return the index in a file, searched by scripted models."""
    return HWDAGIndex.load(path, **models())
