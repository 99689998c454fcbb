"""The corpus of a store that changes: every search gets the documents of one moment, the latest one."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hwdag.arrays import Mask
from hwdag.errors import InputError
from hwdag.filters import predicate
from hwdag.scope import Scope
from hwdag.search.corpus import Corpus, Vanished
from hwdag.search.segment_files import SegmentFiles
from hwdag.search.segments import Segment, packed
from hwdag.store.sqlite import Store


class Snapshots:
    """Brings a corpus up to date before every search: only what changed since is read.

    Threads may share it. A corpus that was handed out never changes; where a document of it is gone
    by the time that its text is wanted, `Vanished` is raised and the search begins anew.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catching_up = threading.Lock()
        self._version = -1
        self._files = SegmentFiles(store)
        self._corpus = Corpus(store.nodes)
        self._metadata: dict[int, Mapping[str, Any]] = {}

    def current(self) -> Corpus:
        """All documents of this moment; the same object where nothing has changed."""
        self._store.data_version()  # why: after a fork it raises, where the lock might never open
        with self._catching_up:
            version = self._store.data_version()
            if version != self._version:
                known, present = set(self._corpus.numbers), self._store.numbers()
                added = [number for number in present if number not in known]
                segments = self._read(added) if known else self._first_read(added)
                left = self._corpus.without(known.difference(present))
                self._corpus = left.joined(segments, self._files.keep)
                self._metadata = {n: self._metadata[n] for n in present if n in self._metadata}
                self._version = version
            return self._corpus

    def visible(self, corpus: Corpus, scope: Scope) -> Mask | None:
        """The nodes that are in scope, (n,), None for all; `InputError` where a document is not there."""
        if scope == Scope():
            return None
        numbers = corpus.numbers
        if scope.document_ids is not None:
            numbers = self._numbers(corpus, scope.document_ids)
        if scope.filters is not None:
            matches, found = predicate(scope.filters), self._metadata_of(numbers)
            numbers = [n for n in numbers if matches(found[n])]
        return corpus.within(numbers)

    def _numbers(self, corpus: Corpus, document_ids: Collection[str]) -> list[int]:
        known, numbers = set(corpus.numbers), []
        for identity in document_ids:
            number = self._store.number_of(identity)
            if number is None:
                raise InputError(f"no document {identity!r}; there are {listed(self._store.ids())}")
            if number not in known:
                raise Vanished(f"document {identity!r} was replaced")
            numbers.append(number)
        return sorted(numbers)

    def _metadata_of(self, numbers: Collection[int]) -> Mapping[int, Mapping[str, Any]]:
        if missing := [n for n in numbers if n not in self._metadata]:
            self._metadata |= self._store.metadata(missing)
        if any(n not in self._metadata for n in numbers):
            raise Vanished("a document was deleted")
        return self._metadata

    def _first_read(self, numbers: Sequence[int]) -> Iterator[Segment]:
        """Read what is beside the file there, and the rest in it."""
        done = 0
        for segment in self._files.segments():
            begin = bisect_left(numbers, segment.numbers[0])
            end = bisect_right(numbers, segment.numbers[-1])
            if list(numbers[begin:end]) == segment.numbers.tolist():  # else it changed just now
                yield from self._read(numbers[done:begin])
                yield segment
                done = end
        yield from self._read(numbers[done:])

    def _read(self, numbers: Sequence[int]) -> Iterator[Segment]:
        return packed(self._store.blocks(numbers))


def listed(ids: Collection[str], limit: int = 5) -> str:
    """A few ids for a message."""
    found = list(ids)
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return ", ".join(map(repr, found[:limit])) + more
