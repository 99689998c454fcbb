"""The arrays of a document as columns of one row, and back; nothing is trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwdag.errors import IndexCorrupt, InputError
from hwdag.graph.block import Block, Postings

MALFORMED = (ValueError, TypeError, AttributeError, ArithmeticError, LookupError, RecursionError)
"""What values of a wrong type, length or range raise where they are used; InputError is among it."""

Row = tuple[Any, ...]
"""Values in the order of the columns, whatever SQLite found there."""

_TYPES = {
    "levels": "<i4",
    "generated": "u1",
    "starts": "<i8",
    "ends": "<i8",
    "paragraphs": "<i4",
    "lengths": "<i4",
    "words": "u1",  # postings, see below
    "names": "u1",
    "indptr": "<i4",
    "children": "<i4",
    "attention": "<f8",
    "vectors": "<f4",
}
ARRAY_COLUMNS = tuple(_TYPES)


def array_row(block: Block, attention: NDArray[np.float64]) -> Row:
    """Return the columns of a block; `attention` is that of its edges before normalisation, (edges,)."""
    return tuple(
        _column(attention if name == "attention" else getattr(block, name), dtype)
        for name, dtype in _TYPES.items()
    )


def arrays_of(row: Row) -> dict[str, NDArray[Any]]:
    """Return the columns as arrays of their types; raises one of `MALFORMED` if one is none."""
    columns = zip(ARRAY_COLUMNS, row, strict=True)
    return {name: np.frombuffer(value, _TYPES[name]) for name, value in columns}


def _column(array: NDArray[Any] | Postings, dtype: str) -> bytes:
    return _postings_bytes(array) if isinstance(array, Postings) else array.astype(dtype).tobytes()


def _postings_bytes(postings: Postings) -> bytes:
    parts = (
        (np.array([len(postings.keys)]), "<i8"),
        (postings.keys, "<i8"),
        (postings.indptr, "<i8"),
        (postings.rows, "<i4"),
        (postings.counts, "<i4"),
    )
    return b"".join(array.astype(dtype).tobytes() for array, dtype in parts)


def decode_block(number: int, row: Row, dimension: int) -> Block:
    """Decode what a search needs of a document; raises `IndexCorrupt`.

    Checked are shapes and ranges, so that nothing a search does with it can fail or never end; the
    checksum is not, since it covers the texts too.
    """
    try:
        found: dict[str, Any] = arrays_of(row)
        count, attention = len(found["levels"]), found.pop("attention")
        indptr = found["indptr"].astype(np.int64)
        _demand(_is_indptr(indptr, count, len(attention)), "the row pointers of its edges")
        found["indptr"], found["weights"] = indptr, _shares(attention, indptr)
        found["generated"] = found["generated"].astype(bool)
        found["vectors"] = found["vectors"].reshape(count, dimension)
        for name in ("words", "names"):
            found[name] = _postings(found[name], count)
        block = Block(number=number, **found)
        _check_nodes(block)
        _check_edges(block)
    except MALFORMED as error:
        raise IndexCorrupt(f"its arrays are malformed: {error}") from error
    return block


def _shares(attention: NDArray[np.float64], indptr: NDArray[np.int64]) -> NDArray[np.float64]:
    """Turn raw attention into shares of the sum of its row (GARLIC 3.1)."""
    counts = np.diff(indptr)
    with np.errstate(over="ignore", invalid="ignore"):  # such sums are refused below
        sums = np.add.reduceat(attention, indptr[:-1][counts > 0]) if len(attention) else attention
    sound = (attention >= 0).all() and (sums > 0).all() and (sums < np.inf).all()
    _demand(bool(sound), "its attention")
    return np.asarray(attention / np.repeat(sums, counts[counts > 0]))


def _check_nodes(block: Block) -> None:
    count, levels = len(block), block.levels
    columns = (block.generated, block.starts, block.ends, block.paragraphs, block.lengths)
    _demand(all(len(column) == count for column in columns), "the number of its nodes")
    _demand(bool((levels >= 1).all() and (np.diff(levels) >= 0).all()), "its levels")
    slices = (block.starts >= -1).all() and (block.starts <= block.ends).all()
    _demand(bool(slices), "the slices of nodes")
    _demand(bool((block.paragraphs >= 0).all()), "the paragraphs of nodes")
    _demand(bool((block.lengths >= 0).all()), "the lengths of nodes")
    _demand(bool(np.isfinite(block.vectors).all()), "a vector that is not finite")


def _check_edges(block: Block) -> None:
    children, levels = block.children, block.levels
    _demand(len(children) == len(block.weights), "the number of its edges")
    if not len(children):
        return
    _demand(children.min() >= 0, "a child")
    _demand(children.max() < len(block), "a child that does not exist")
    parents = np.repeat(levels, np.diff(block.indptr))
    _demand(bool((parents - levels[children] == 1).all()), "an edge that leads not one level down")


def _postings(data: NDArray[np.uint8], count: int) -> Postings:
    numbers = data.view("<i8")
    k = int(numbers[0])
    half = len(numbers) - 2 * k - 2
    _demand(k >= 0 and half >= k, "the length of its postings")
    entries = numbers[2 * k + 2 :].view("<i4")
    postings = Postings(numbers[1 : k + 1], numbers[k + 1 : 2 * k + 2], *entries.reshape(2, -1))
    keys, indptr, rows = postings.keys, postings.indptr, postings.rows
    _demand(_is_indptr(indptr, k, half) and bool((np.diff(indptr) > 0).all()), "its postings")
    _demand(bool((keys[1:] > keys[:-1]).all()), "keys out of order in its postings")
    if half:
        in_range = rows.min() >= 0 and rows.max() < count and postings.counts.min() >= 1
        _demand(bool(in_range), "a node that does not exist in its postings")
        rising = rows[1:] > rows[:-1]
        rising[indptr[1:-1] - 1] = True  # where the next key begins
        _demand(bool(rising.all()), "nodes out of order in its postings")
    return postings


def _is_indptr(indptr: NDArray[Any], rows: int, entries: int) -> bool:
    return (
        len(indptr) == rows + 1
        and indptr[0] == 0
        and indptr[-1] == entries
        and bool((np.diff(indptr) >= 0).all())
    )


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise InputError(what)
