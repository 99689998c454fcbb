"""Export for other programs: JSON lines or GraphML.

The first line of a `.jsonl` file is the header, every other line a document with its nodes and edges. A
`.graphml` file holds the graphs of all documents as one graph, for networkx, Gephi or igraph. Embeddings
are not exported: they follow from the texts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from hwdag.errors import InputError
from hwdag.store.records import Entry
from hwdag.store.sqlite import Header, Store, check_free, opened
from hwdag.store.unfinished import new_file
from hwdag.trace.bars import Reporter, as_reporter

_NOT_IN_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def export_index(
    source: Store | str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    show_progress: bool | Reporter = False,
) -> None:
    """Write all documents of an index to a new `.jsonl` or `.graphml` file, which appears when complete.

    Skips documents deleted during the export. Raises `InputError` if the file exists or has another
    suffix, `IndexFileError` if the index cannot be read or the file not be written.
    """
    path = Path(path).resolve()
    writers = {".jsonl": _write_json, ".graphml": _write_graphml}
    if path.suffix not in writers:
        raise InputError(f"{path} must end in {' or '.join(writers)}, which selects the format")
    check_free(path)
    with opened(source) as store, new_file(path) as unfinished, unfinished.open("xb") as file:
        writers[path.suffix](store.header, _entries(store, as_reporter(show_progress)), file)


def _entries(store: Store, reporter: Reporter) -> Iterator[Entry]:
    ids = store.ids()
    with reporter.stage("export", len(ids), "documents") as advance:
        for document_id in ids:
            if store.has(document_id):
                yield store.load(document_id)
            advance()


def _write_json(header: Header, entries: Iterable[Entry], file: IO[bytes]) -> None:
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


def _write_graphml(header: Header, entries: Iterable[Entry], file: IO[bytes]) -> None:
    import networkx as nx  # why here: its import is slow

    whole: nx.DiGraph[str] = nx.DiGraph()
    for entry in entries:
        whole.update(nx.relabel_nodes(entry.graph.to_networkx(), _plain))
    for _, values in whole.nodes(data=True):
        values.update({name: _plain(value) for name, value in values.items()})
    nx.write_graphml_xml(whole, file)


def _plain(value: Any) -> Any:
    """Replace the characters that XML cannot hold."""
    return _NOT_IN_XML.sub("\ufffd", value) if isinstance(value, str) else value
