"""What retrievers keep of a document as JSON and arrays, and back. Nothing read is trusted."""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import prod
from typing import Any, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hwdag.types import Document, Node, Origin, Span

MALFORMED = (ValueError, TypeError, AttributeError, ArithmeticError, LookupError, RecursionError)
"""What values of a wrong type, length or range raise where they are used; InputError is among it."""


def packed_nodes(nodes: Sequence[Node]) -> list[Any]:
    """Nodes of one document as JSON: [[id, level, origin, text, tokens, [[start, end], ...]], ...]."""
    return [
        [
            node.id,
            node.level,
            node.origin,
            node.text,
            node.tokens,
            [[span.start, span.end] for span in node.sources],
        ]
        for node in nodes
    ]


def unpacked_nodes(document: Document, packed: Any) -> tuple[Node, ...]:
    """The nodes that `packed_nodes` packed; raises one of `MALFORMED`."""
    return tuple(_node(document, *fields) for fields in _list(packed))


def unpacked_texts(packed: Any) -> tuple[str, ...]:
    """A list of texts as a tuple; raises one of `MALFORMED`."""
    return tuple(_text(text) for text in _list(packed))


def unpacked_groups(packed: Any, size: int) -> tuple[tuple[int, ...], ...]:
    """Lists of indices below `size`; raises one of `MALFORMED`."""
    groups = tuple(tuple(_list(group)) for group in _list(packed))
    demand(all(type(i) is int and 0 <= i < size for group in groups for i in group))
    return groups


def checked_array(
    array: NDArray[Any], dtype: DTypeLike, shape: tuple[int | None, ...]
) -> NDArray[Any]:
    """An array that is of this type and shape (None for any length) and finite.

    Raises:
        ValueError: it is not.
    """
    demand(array.dtype == np.dtype(dtype) and array.ndim == len(shape))
    sizes = zip(array.shape, shape, strict=True)
    demand(all(wanted is None or size == wanted for size, wanted in sizes))
    demand(array.dtype.kind != "f" or bool(np.isfinite(array).all()))
    return array


def array_bytes(array: NDArray[Any]) -> bytes:
    """An array in numpy's own format."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), (1, 0), allow_pickle=False)
    return buffer.getvalue()


def bytes_array(data: bytes) -> NDArray[Any]:
    """The array of `array_bytes`; raises `ValueError` for anything else, pickles included."""
    buffer = io.BytesIO(data)
    try:
        demand(np.lib.format.read_magic(buffer) == (1, 0))
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
    except (EOFError, SyntaxError) as error:
        raise ValueError(f"no array: {error}") from error
    values = data[buffer.tell() :]
    demand(dtype.kind in "biuf" and not fortran and len(values) == dtype.itemsize * prod(shape))
    array = np.frombuffer(values, dtype).reshape(shape).copy()
    array.setflags(write=False)
    return array


def demand(holds: bool) -> None:
    """Raise `ValueError` unless it holds."""
    if not holds:
        raise ValueError("a value is not what it should be")


def _node(
    document: Document, identity: Any, level: Any, origin: Any, text: Any, tokens: Any, spans: Any
) -> Node:
    demand(type(level) is int and level > 0 and type(tokens) is int and tokens >= 0)
    demand(origin in get_args(Origin))
    sources = tuple(Span(start, end) for start, end in _list(spans))
    demand(bool(sources))
    demand(all(type(span.start) is type(span.end) is int for span in sources))
    demand(max(span.end for span in sources) <= len(document.text))
    return Node(_text(identity), document.id, level, _text(text), origin, tokens, sources)


def _text(value: Any) -> str:
    demand(isinstance(value, str))
    return str(value)


def _list(value: Any) -> list[Any]:
    demand(isinstance(value, list))
    return list(value)
