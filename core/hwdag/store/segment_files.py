"""Large segments in files next to the index, mapped into memory: a new process reads the pages that it needs.

A folder `NAME.arrays` holds a folder per segment, named after its first and last document, with one
`.npy` file per array. It is a cache: anybody may delete it. The index file alone is authoritative: a
segment is used if it was made of the very documents that the index holds between those two, by their
checksums, and removed if it was not. There are no texts in it, but embeddings and hashes of words, so it
goes with each of its documents, see `hwdag.store.erasure`.
"""

from __future__ import annotations

import logging
import math
import mmap
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hwdag.corpus.block import Postings
from hwdag.corpus.segments import SEGMENT_NODES, Segment
from hwdag.errors import HWDAGError
from hwdag.store.atomic_files import unfinished_file
from hwdag.store.erasure import arrays_of, folder_of_arrays, open_plain, remove_segment, sync
from hwdag.store.records import MALFORMED, checksums_of
from hwdag.store.sqlite import Store

logger = logging.getLogger(__name__)

LEAST_NODES = SEGMENT_NODES // 8
"""Smaller segments are read from the index, together in a tenth of a second."""

DIGEST = "documents"
"""The file with the hash of the documents that the others were made of."""

CHECKSUMS = "checksums"
"""The file with the CRC-32 of every other one, in the order of `_TYPES` and then `DIGEST`."""

_POSTINGS = ("keys", "indptr", "rows", "counts")
_TYPES = {
    "numbers": "<i8",
    "first": "<i8",
    "levels": "<i4",
    "generated": "|b1",
    "starts": "<i8",
    "ends": "<i8",
    "paragraphs": "<i4",
    "lengths": "<i4",
    "indptr": "<i8",
    "children": "<i4",
    "weights": "<f8",
    "vectors": "<f4",
    **{
        f"{index}.{part}": dtype
        for index in ("words", "names")
        for part, dtype in zip(_POSTINGS, ("<i8", "<i8", "<i4", "<i4"), strict=True)
    },
}
"""Type of every array; each has a file of its name."""


class SegmentFiles:
    """The segments next to one store; a store in memory has no segments."""

    def __init__(self, store: Store) -> None:
        self._store = store
        place = store.database.place
        # why: Windows removes no file that somebody has mapped, so nothing could be erased
        self._place = None if os.name == "nt" else place

    def segments(self) -> Iterator[Segment]:
        """Yield the segments that equal the store, ascending and apart; others are removed."""
        done = 0
        place = self._place
        if place is None:
            return
        for first, last, folder in sorted(arrays_of(place)):
            segment = None
            with suppress(OSError, *MALFORMED):
                segment = self._read(place, folder, *self._store.checksums(first, last))
            if segment is None or first <= done:
                with suppress(OSError):
                    remove_segment(folder)
            else:
                yield segment
                done = last

    def keep(self, segment: Segment) -> Segment:
        """Return the same segment from files, if it is large, and can be written there."""
        ready = len(segment) >= LEAST_NODES and segment.alive.all()
        if self._place is None or not ready or _folder_of(self._place, segment).exists():
            return segment
        try:
            return self._write(self._place, segment) or segment
        except (HWDAGError, OSError) as error:
            logger.debug("arrays are not kept beside %s: %s", self._place, error)
            return segment

    def _write(self, place: Path, segment: Segment) -> Segment | None:
        first, last = int(segment.numbers[0]), int(segment.numbers[-1])
        parent = folder_of_arrays(place)
        if parent.is_symlink():
            return None  # its target is not ours
        if not parent.is_dir():
            parent.mkdir()
            # whoever may change the index may remove these files
            shutil.copymode(place.parent, parent)
        with unfinished_file(place) as unfinished:
            unfinished.mkdir(mode=0o700)
            numbers, digest = self._store.checksums(first, last)
            _save(unfinished, segment, digest, mode_of=place)
            shutil.copymode(place.parent, unfinished)
            # why a transaction that writes: nobody deletes one of the documents before it ends
            with self._store.database.writing() as connection:
                same = checksums_of(connection, first, last) == (segment.numbers.tolist(), digest)
                if not same or not self._store.database.is_in(place):
                    return None
                for begin, end, folder in list(arrays_of(place)):
                    if begin <= last and first <= end:
                        remove_segment(folder)
                folder = _folder_of(place, segment)
                unfinished.rename(folder)
        return self._read(place, folder, numbers, digest)

    def _read(self, place: Path, folder: Path, numbers: list[int], digest: bytes) -> Segment:
        """Return a segment of these documents; raises one of `MALFORMED` if it is another one, or damaged."""
        maps = _maps_in(folder, place)
        if maps.pop(DIGEST).tobytes() != digest:
            raise ValueError(f"{folder} was made of other documents")
        shapes = {name: array.shape for name, array in maps.items()}
        dimensions = shapes.pop("vectors")[1:]
        if dimensions != (self._store.header.dimension,) or any(
            len(s) != 1 for s in shapes.values()
        ):
            raise ValueError("another shape")
        if maps["numbers"].tolist() != numbers or shapes["first"] != (len(numbers) + 1,):
            raise ValueError("other documents")
        arrays = {name: np.asarray(array) for name, array in maps.items()}
        segment = Segment(
            alive=np.ones(len(numbers), bool),
            words=Postings(*(arrays[f"words.{part}"] for part in _POSTINGS)),
            names=Postings(*(arrays[f"names.{part}"] for part in _POSTINGS)),
            mapped=_memory_of(maps["vectors"]),
            **{name: array for name, array in arrays.items() if "." not in name},
        )
        segment.check(segment.first)
        _unload(maps)
        return segment


def damaged_in(path: Path) -> Iterator[Path]:
    """Yield the folders next to an index whose files do not match their checksums."""
    for _, _, folder in sorted(arrays_of(path)):
        try:
            _maps_in(folder, path)
        except FileNotFoundError:
            pass  # removed since
        except (OSError, *MALFORMED):
            yield folder


def _maps_in(folder: Path, index: Path) -> dict[str, NDArray[Any]]:
    """Map all arrays in a folder, and `DIGEST`; raises one of `MALFORMED` if one is damaged."""
    most_bytes = index.stat().st_size  # it holds all of it too
    types = {**_TYPES, DIGEST: "|u1", CHECKSUMS: "<u4"}
    maps = {
        name: _mapped(folder / f"{name}.npy", dtype, most_bytes) for name, dtype in types.items()
    }
    checksums = maps.pop(CHECKSUMS).tolist()
    if [crc32(array.data) for array in maps.values()] != checksums:
        raise ValueError(f"a file in {folder} does not match its checksum")
    _unload(maps)
    return maps


def _folder_of(place: Path, segment: Segment) -> Path:
    return folder_of_arrays(place) / f"{segment.numbers[0]}-{segment.numbers[-1]}"


def _save(folder: Path, segment: Segment, digest: bytes, *, mode_of: Path) -> None:
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(attrgetter(name)(segment), dtype)
        for name, dtype in _TYPES.items()
    }
    arrays[DIGEST] = np.frombuffer(digest, np.uint8)
    arrays[CHECKSUMS] = np.array([crc32(array.data) for array in arrays.values()], np.uint32)
    for name, array in arrays.items():
        file = folder / f"{name}.npy"
        np.save(file, array, allow_pickle=False)
        shutil.copymode(mode_of, file)
        sync(file)


def _mapped(file: Path, dtype: str, most_bytes: int) -> NDArray[Any]:
    """Map an array, read-only, or copy one that somebody else may truncate.

    Raises `ValueError` unless the file is such an array and no more.
    """
    with open_plain(file) as opened:
        seen = os.fstat(opened.fileno())
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > most_bytes:
            raise ValueError(f"{file} is no plain file, or larger than the index")
        try:
            is_known = npy.read_magic(opened) == (1, 0)
            shape, is_fortran, found = npy.read_array_header_1_0(opened)
        except Exception as error:  # a damaged header: any exception of parsing literals
            raise ValueError(f"{file} is no array: {error}") from error
        size = opened.tell() + math.prod(shape) * found.itemsize
        if not is_known or is_fortran or found.str != dtype or size != seen.st_size:
            raise ValueError(f"{file} is another array")
        if _others_may_write(seen):  # a mapped file that is truncated kills the process
            return np.fromfile(opened, found, math.prod(shape)).reshape(shape)
        return np.memmap(opened, found, "r", opened.tell(), shape)


def _others_may_write(seen: os.stat_result) -> bool:
    return seen.st_uid not in (0, os.geteuid()) or bool(
        seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )


def _unload(maps: Mapping[str, NDArray[Any]]) -> None:
    """Remove the checked pages from the memory of the process again."""
    for array in maps.values():
        if memory := _memory_of(array):
            memory.madvise(mmap.MADV_DONTNEED)


def _memory_of(array: NDArray[Any]) -> mmap.mmap | None:
    """Return the mapped file of an array; None for a copy in memory."""
    memory = array.base
    return memory if isinstance(memory, mmap.mmap) else None
