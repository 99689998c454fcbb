"""What both directions know of the folder: names, tensors, hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hwdag.errors import IndexCorrupt

Array = NDArray[Any]

KIND, FORMAT = "hwdag export", 1
"""What the manifest says of itself, and the version of the layout."""

MANIFEST, HEADER = "manifest.json", "header.json"
DOCUMENTS, NODES = "documents.jsonl", "nodes.jsonl"

TENSORS: Mapping[str, type[np.generic]] = {
    "nodes": np.int64,  # (documents,): nodes of every document
    "degrees": np.int32,  # (nodes,): out-edges of every node
    "indices": np.int32,  # (edges,): position of the child within its document
    "attention": np.float64,  # (edges,): before normalisation
    "vectors": np.float32,  # (nodes, dimension)
}
"""The tensors of a file of arrays."""


def arrays_name(number: int) -> str:
    """Name of the file of arrays with that number, from 1."""
    return f"arrays-{number:05}.safetensors"


def hash_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse(path: Path, reason: object) -> NoReturn:
    """Raise `IndexCorrupt` for a file of an export."""
    raise IndexCorrupt(f"{path} is damaged: {reason}; export the index again")
