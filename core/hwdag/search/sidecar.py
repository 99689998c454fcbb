"""Large segments in files beside the index, mapped into memory: a new process reads what it needs.

A folder `NAME.arrays` holds a file per segment, named after its first and last document. It is a cache:
anybody may delete it. The index file alone says what is true: a file is used if it was made of the very
documents that the index holds between those two, by their checksums, and removed if it was not. There
are no texts in it, but embeddings and hashes of words, so it goes with each of its documents, see
`hwdag.store.erasure`.
"""

from __future__ import annotations

import logging
import mmap
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwdag.errors import HWDAGError
from hwdag.graph.block import Postings
from hwdag.search.segments import SEGMENT_NODES, Segment
from hwdag.store.erasure import arrays_of, folder_of_arrays, open_plain, sync
from hwdag.store.records import MALFORMED, checksums_of
from hwdag.store.sqlite import Store
from hwdag.store.unfinished import unfinished_file

logger = logging.getLogger(__name__)

LEAST_NODES = SEGMENT_NODES // 8
"""Smaller segments are read from the index, together in a tenth of a second."""

_HEADER = struct.Struct("<8s32s8q")  # layout, hash of the documents, how many of what
_LAYOUT = b"hwdag\0\0\1"
_ALIGNMENT = 64

_SIZES = ("numbers", "levels", "children", "words.keys", "words.rows", "names.keys", "names.rows")


class Sidecar:
    """The files beside one store; none for a store in memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        place = store.database.place
        # why: Windows removes no file that somebody has mapped, so nothing could be erased
        self._place = None if os.name == "nt" else place

    def segments(self) -> Iterator[Segment]:
        """Those that hold what the store holds, ascending and apart; other files are removed."""
        done = 0
        for first, last, file in sorted(arrays_of(self._place)) if self._place else ():
            segment = None
            with suppress(OSError, *MALFORMED):
                segment = self._read(file, *self._store.checksums(first, last))
            if segment is None or first <= done:
                with suppress(OSError):
                    file.unlink()
            else:
                yield segment
                done = last

    def keep(self, segment: Segment) -> Segment:
        """The same segment from a file, if it is large, and can be written there."""
        ready = len(segment) >= LEAST_NODES and segment.alive.all() and segment.mapped is None
        if self._place is None or not ready:
            return segment
        try:
            return self._write(self._place, segment) or segment
        except (HWDAGError, OSError) as error:
            logger.debug("arrays are not kept beside %s: %s", self._place, error)
            return segment

    def _write(self, place: Path, segment: Segment) -> Segment | None:
        first, last = int(segment.numbers[0]), int(segment.numbers[-1])
        folder = folder_of_arrays(place)
        if folder.is_symlink():
            return None  # what it leads to is not ours
        if not folder.is_dir():
            folder.mkdir()
            # whoever may change the index may remove what is here
            shutil.copymode(place.parent, folder)
        with unfinished_file(place) as unfinished:
            unfinished.touch(mode=0o600)
            shutil.copymode(place, unfinished)
            numbers, digest = self._store.checksums(first, last)
            _save(unfinished, segment, digest)
            sync(unfinished)
            # why a transaction that writes: nobody deletes one of the documents before it ends
            with self._store.database.writing() as connection:
                same = checksums_of(connection, first, last) == (segment.numbers.tolist(), digest)
                if not same or not self._store.database.is_in(place):
                    return None
                for begin, end, file in list(arrays_of(place)):
                    if begin <= last and first <= end:
                        file.unlink(missing_ok=True)
                file = folder / f"{first}-{last}"
                unfinished.replace(file)
        return self._read(file, numbers, digest)

    def _most_bytes(self) -> int:
        """What the file of a segment has at most: all of it is in the index too, and more."""
        return 0 if self._place is None else self._place.stat().st_size

    def _read(self, file: Path, numbers: list[int], digest: bytes) -> Segment:
        """A segment of these documents; raises one of `MALFORMED` if it is another one, or damaged."""
        found, arrays, data = _load(file, self._store.header.dimension, self._most_bytes())
        segment = Segment(
            alive=np.ones(len(arrays["numbers"]), bool),
            words=_postings(arrays, "words"),
            names=_postings(arrays, "names"),
            mapped=data,
            **{name: array for name, array in arrays.items() if "." not in name},
        )
        if found != digest or segment.numbers.tolist() != numbers:
            raise ValueError(f"{file} was made of other documents")
        segment.check(segment.first)
        data.madvise(mmap.MADV_DONTNEED)  # what was checked leaves the memory of the process again
        return segment


def _postings(arrays: dict[str, NDArray[Any]], name: str) -> Postings:
    return Postings(*(arrays[f"{name}.{part}"] for part in ("keys", "indptr", "rows", "counts")))


def _types(sizes: tuple[int, ...], dimension: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Type and shape of every array, in the order of the file."""
    documents, nodes, edges, *of_postings = sizes
    words, names = of_postings[:2], of_postings[2:]
    types: dict[str, tuple[str, tuple[int, ...]]] = {
        "numbers": ("<i8", (documents,)),
        "first": ("<i8", (documents + 1,)),
        "levels": ("<i4", (nodes,)),
        "generated": ("?", (nodes,)),
        "starts": ("<i8", (nodes,)),
        "ends": ("<i8", (nodes,)),
        "paragraphs": ("<i4", (nodes,)),
        "lengths": ("<i4", (nodes,)),
        "indptr": ("<i8", (nodes + 1,)),
        "children": ("<i4", (edges,)),
        "weights": ("<f8", (edges,)),
        "vectors": ("<f4", (nodes, dimension)),
    }
    for name, (keys, entries) in (("words", words), ("names", names)):
        types[f"{name}.keys"] = ("<i8", (keys,))
        types[f"{name}.indptr"] = ("<i8", (keys + 1,))
        types[f"{name}.rows"] = types[f"{name}.counts"] = ("<i4", (entries,))
    return types


def _save(path: Path, segment: Segment, digest: bytes) -> None:
    sizes = tuple(len(attrgetter(name)(segment)) for name in _SIZES)
    with path.open("wb") as file:
        file.write(_HEADER.pack(_LAYOUT, digest, *sizes, segment.vectors.shape[1]))
        for name, (dtype, _) in _types(sizes, segment.vectors.shape[1]).items():
            file.write(bytes(-file.tell() % _ALIGNMENT))
            file.write(np.ascontiguousarray(attrgetter(name)(segment), dtype).data)


def _load(
    path: Path, dimension: int, most_bytes: int
) -> tuple[bytes, dict[str, NDArray[Any]], mmap.mmap]:
    with open_plain(path) as file:
        if file.seek(0, os.SEEK_END) > most_bytes:
            raise ValueError("longer than the index")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if len(data) < _HEADER.size:
        raise ValueError("no header")
    layout, digest, *sizes, recorded = _HEADER.unpack_from(data)
    if layout != _LAYOUT or recorded != dimension or min(sizes) < 0:
        raise ValueError("another layout")
    arrays, at = {}, _HEADER.size
    for name, (dtype, shape) in _types(tuple(sizes), dimension).items():
        at += -at % _ALIGNMENT
        arrays[name] = np.ndarray(shape, dtype, data, at)  # raises where the file is too short
        at += arrays[name].nbytes
    if at != len(data):
        raise ValueError("another length")
    return digest, arrays, data
