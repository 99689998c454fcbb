"""From an index to a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors.numpy import save_file

from hwdag.errors import InputError
from hwdag.store.exchange.layout import (
    DOCUMENTS,
    FORMAT,
    HEADER,
    KIND,
    MANIFEST,
    NODES,
    TENSORS,
    Array,
    arrays_name,
    hash_of,
)
from hwdag.store.placing import beside, explained, sync
from hwdag.store.sqlite import Entry, Store
from hwdag.trace.bars import Reporter, as_reporter
from hwdag.types import Node

SHARD_BYTES = 256 << 20
"""A file of arrays is closed before it exceeds this, unless a single document does."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What a folder holds."""

    documents: int = 0
    nodes: int = 0
    edges: int = 0


def export_index(
    source: Store | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    shard_bytes: int = SHARD_BYTES,
    show_progress: bool | Reporter = False,
) -> Exported:
    """Write all documents of an index to a new folder, which appears when it is complete.

    Documents that are deleted meanwhile are left out. Memory is bounded by `shard_bytes`, or by the
    largest document.

    Args:
        source: an open store, or the path of an index.
        folder: missing, or empty.
        shard_bytes: limit of one file of arrays.
        show_progress: `True` for a bar, or your own.

    Raises:
        InputError: there is something in the folder already.
        IndexCorrupt: a document is damaged.
        IndexFileError: the index cannot be read, or the folder cannot be written.
    """
    folder = Path(folder).resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not empty; name a folder that does not exist yet")
    with _opened(source) as store, beside(folder) as unfinished, explained():
        unfinished.mkdir()
        written = _write(store, unfinished, shard_bytes, as_reporter(show_progress))
        sync(unfinished)
        if folder.exists():
            folder.rmdir()
        unfinished.rename(folder)
        sync(folder.parent)
    return written


def _write(store: Store, folder: Path, shard_bytes: int, reporter: Reporter) -> Exported:
    _write_json(folder / HEADER, asdict(store.header))
    ids = list(store.ids())
    with (
        _Files(folder, shard_bytes) as files,
        reporter.stage("export", len(ids), "documents") as advance,
    ):
        for document_id in ids:
            if store.number_of(document_id) is not None:
                files.add(store.load(document_id))
            advance()
    written = sorted(folder.iterdir())
    for file in written:
        sync(file)
    recorded = {f.name: {"bytes": f.stat().st_size, "sha256": hash_of(f)} for f in written}
    manifest = {"kind": KIND, "format": FORMAT, **asdict(files.written), "files": recorded}
    _write_json(folder / MANIFEST, manifest)
    sync(folder / MANIFEST)
    return files.written


class _Files:
    """The growing files of a folder; complete when the `with` block ends."""

    def __init__(self, folder: Path, shard_bytes: int) -> None:
        self.written = Exported()
        self._folder = folder
        self._shard_bytes = shard_bytes
        self._shard = _Shard()
        self._shards = 0
        self._stack = ExitStack()
        self._documents, self._nodes = (
            self._stack.enter_context((folder / name).open("x", encoding="utf-8", newline="\n"))
            for name in (DOCUMENTS, NODES)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exception: object) -> None:
        with self._stack:
            if kind is None and self._shard.documents:
                self._close_shard()

    def add(self, entry: Entry) -> None:
        size = self._shard.size + _size(entry)
        if self._shard.documents and size > self._shard_bytes:
            self._close_shard()
        self._shard.add(entry)
        self._documents.write(_line(asdict(entry.document)))
        self._nodes.writelines(_line(_plain(node)) for node in entry.graph.nodes)
        self.written = Exported(
            self.written.documents + 1,
            self.written.nodes + len(entry.graph),
            self.written.edges + len(entry.graph.raw.data),
        )

    def _close_shard(self) -> None:
        self._shards += 1
        save_file(self._shard.tensors, self._folder / arrays_name(self._shards))
        self._shard = _Shard()


@dataclass(slots=True)
class _Shard:
    """The arrays of the documents that go into one file."""

    documents: int = 0
    size: int = 0
    parts: dict[str, list[Array]] = field(default_factory=lambda: {name: [] for name in TENSORS})

    def add(self, entry: Entry) -> None:
        raw = entry.graph.raw
        found = ([len(entry.graph)], np.diff(raw.indptr), raw.indices, raw.data, entry.vectors)
        for (name, dtype), values in zip(TENSORS.items(), found, strict=True):
            self.parts[name].append(np.asarray(values, dtype))
        self.documents += 1
        self.size += _size(entry)

    @property
    def tensors(self) -> dict[str, Array]:
        return {name: np.concatenate(parts) for name, parts in self.parts.items()}


def _size(entry: Entry) -> int:
    """Bytes of a document's arrays."""
    return 8 + 4 * len(entry.graph) + 12 * len(entry.graph.raw.data) + entry.vectors.nbytes


def _plain(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "document_id": node.document_id,
        "level": int(node.level),
        "text": node.text,
        "origin": node.origin,
        "tokens": int(node.tokens),
        "sources": [[span.start, span.end] for span in node.sources],
    }


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=2)
    path.write_text(text + "\n", encoding="utf-8", newline="\n")


@contextmanager
def _opened(source: Store | str | os.PathLike[str]) -> Iterator[Store]:
    with nullcontext(source) if isinstance(source, Store) else Store.open(source) as store:
        yield store
