"""Rows of an index file, and cached calls, with values that no build ever wrote."""

from __future__ import annotations

from contextlib import suppress

import atheris
from harness import fuzz, instrumented, some_text

with instrumented("hwdag.store.records", "hwdag.graph", "hwdag.store.calls"):
    from hwdag.store import calls, records

import numpy as np
from worlds import document_of, random_graph, random_vectors

from hwdag.errors import IndexCorrupt
from hwdag.lm.base import ReplayRequest
from hwdag.store.records import DocumentRows, Entry, Row
from hwdag.store.schema import Header
from hwdag.text.characters import without_surrogates
from hwdag.types import Span

DIMENSION = 8
RNG = np.random.default_rng(0)
GRAPH = random_graph(RNG, chunks=5, levels=3)
ENTRY = Entry(document_of(GRAPH), GRAPH, random_vectors(RNG, len(GRAPH), DIMENSION))
UNIT = records.encode(ENTRY, dimension=DIMENSION)
REQUEST = ReplayRequest("a", ("b c",), "d", ("e",), ((Span(0, 1), Span(2, 3)),))
REPLAY = {
    "attention": np.ones((1, 2)),
    "unit_tokens": np.ones(2, np.int64),
    "unit_segment": np.zeros(2, np.int64),
}
RESULTS = (
    (calls.is_text, "reply"),
    (calls.picks_of([3]), [0, 2]),
    (calls.replays_of([REQUEST]), REPLAY),
    (calls.vectors_of([2], DIMENSION), {"vectors": np.ones((2, DIMENSION), np.float32)}),
)


def unicode_text(data: atheris.FuzzedDataProvider) -> str:
    """A text that SQLite can hold."""
    return without_surrogates(some_text(data))[0]


def changed(data: atheris.FuzzedDataProvider, value: object) -> object:
    """Another value, of the same type or not."""
    kind = data.ConsumeIntInRange(0, 5)
    if kind == 0 or not isinstance(value, str | bytes):
        return (None, data.ConsumeInt(8), data.ConsumeFloat(), unicode_text(data), b"")[
            data.ConsumeIntInRange(0, 4)
        ]
    at = data.ConsumeIntInRange(0, len(value))
    end = data.ConsumeIntInRange(at, min(len(value), at + 16))
    if isinstance(value, bytes):
        return value[:at] + data.ConsumeBytes(8 if kind < 3 else end - at) + value[end:]
    new = unicode_text(data)[:16] if kind < 3 else str(data.ConsumeIntInRange(-3, 9))
    return value[:at] + new + value[end:]


def changed_row(data: atheris.FuzzedDataProvider, row: Row, most: int = 2) -> Row:
    """A row with up to that many values changed."""
    values = list(row)
    for _ in range(data.ConsumeIntInRange(0, most)):
        at = data.ConsumeIntInRange(0, len(values) - 1)
        values[at] = changed(data, values[at])
    return tuple(values)


def consistent(row: Row) -> Row:
    """A document's row with the hashes that go with it, where there are such."""
    _, count, identity, title, metadata, _, text = row
    try:
        hashed = records.hash_of(title, text, metadata)
        return (records.slot_of(identity), count, identity, title, metadata, hashed, text)
    except (TypeError, ValueError, AttributeError):
        return row


def check(data: atheris.FuzzedDataProvider) -> None:
    """One damaged document, header and call; the checksums are those of the damaged values."""
    unit = DocumentRows(
        consistent(changed_row(data, UNIT.document, most=1)),
        [changed_row(data, row, most=1) for row in UNIT.nodes],
        changed_row(data, UNIT.arrays),
    )
    with suppress(IndexCorrupt):
        entry = records.decode(unit, checksum=unit.checksum, dimension=DIMENSION)
        again = records.encode(entry, dimension=DIMENSION)
        assert records.decode(again, checksum=again.checksum, dimension=DIMENSION).graph.nodes
    with suppress(IndexCorrupt):
        block = records.decode_block(1, unit.arrays, DIMENSION)
        assert len(block.children) == len(block.weights) == block.indptr[-1]
    check_header(data)
    check_call(data)


def check_header(data: atheris.FuzzedDataProvider) -> None:
    """A header whose checksum is right and whose values need not be."""
    rows = dict(records.encode_header(Header("reader", "embedder", DIMENSION, {})))
    rows.pop("checksum")
    found = [changed_row(data, row, most=1) for row in rows.items()]
    found.append(("checksum", records.header_checksum(dict(found).items())))
    with suppress(IndexCorrupt):
        records.decode_header(found)


def check_call(data: atheris.FuzzedDataProvider) -> None:
    """A cached result of every kind."""
    for fits, result in RESULTS:
        assert fits(calls.decode(calls.encode(result)), 0)
        value = changed(data, calls.encode(result))
        if isinstance(value, bytes):
            with suppress(calls.MALFORMED):
                fits(calls.decode(value), 0)


if __name__ == "__main__":
    fuzz(check)
