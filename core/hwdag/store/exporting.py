"""Export for other programs as JSON lines.

The first line is the header, every other line a document with its nodes and edges. Embeddings are not
exported: they follow from the texts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from hwdag.errors import InputError
from hwdag.store.atomic_files import new_file
from hwdag.store.records import Entry
from hwdag.store.sqlite import Header, Store, check_free, opened
from hwdag.trace.bars import Reporter, as_reporter


def export_index(
    source: Store | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    show_progress: bool | Reporter = False,
) -> None:
    """Write all documents of an index to a new `.jsonl` file, which appears when complete.

    Skips documents deleted during the export. Raises `InputError` if the file exists or has another
    suffix, `IndexFileError` if the index cannot be read or the file not be written.
    """
    path = Path(path).resolve()
    if path.suffix != ".jsonl":
        raise InputError(
            f"{path} must end in .jsonl: documents and graphs are exported as JSON lines"
        )
    check_free(path)
    with opened(source) as store, new_file(path) as unfinished, unfinished.open("xb") as file:
        _write(store.header, _entries(store, as_reporter(show_progress)), file)


def _entries(store: Store, reporter: Reporter) -> Iterator[Entry]:
    ids = store.ids()
    with reporter.stage("export", len(ids), "documents") as advance:
        for document_id in ids:
            if store.has(document_id):
                yield store.load(document_id)
            advance()


def _write(header: Header, entries: Iterable[Entry], file: IO[bytes]) -> None:
    file.write(_line(asdict(header)))
    for document, graph, _ in entries:
        edges = [
            {"from": one, "to": other, **values}
            for one, other, values in graph.to_networkx().edges(data=True)
        ]
        nodes = [asdict(node) for node in graph.nodes]
        file.write(_line(asdict(document) | {"nodes": nodes, "edges": edges}))


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n"
