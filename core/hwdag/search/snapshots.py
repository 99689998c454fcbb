"""The corpus of a store that changes: every search gets the documents of one moment, the latest one."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from hwdag.arrays import Mask
from hwdag.errors import InputError
from hwdag.filters import Equals
from hwdag.scope import Scope
from hwdag.search.corpus import Corpus, Vanished
from hwdag.search.segments import Segment, packed
from hwdag.search.sidecar import Sidecar
from hwdag.store.sqlite import Store
from hwdag.threads import in_threads


class Snapshots:
    """Brings a corpus up to date before every search: only what changed since is read.

    Threads may share it. A corpus that was handed out never changes; where a document of it is gone
    by the time that its text is wanted, `Vanished` is raised and the search begins anew.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._catching_up = threading.Lock()
        self._parts = [_Part(start, part) for start, part in store.parts]
        self._corpus = Corpus(store.nodes)
        self._metadata: dict[int, Mapping[str, Any]] = {}

    def current(self) -> Corpus:
        """All documents of this moment."""
        for _, store in self._store.parts:
            store.data_version()  # why: after a fork it says so, where the lock might never open
        with self._catching_up:
            found = in_threads(_Part.current, self._parts)
            segments = tuple(chain.from_iterable(found))
            if segments != self._corpus.segments:
                if len(found) > 1:
                    self._store.ids()  # which refuses a document that is in two files now
                self._corpus = Corpus(self._store.nodes, segments)
                present = set(self._corpus.numbers)
                self._metadata = {n: m for n, m in self._metadata.items() if n in present}
            return self._corpus

    def visible(self, corpus: Corpus, scope: Scope, tenant: Equals | None) -> Mask | None:
        """The nodes that are in scope, (n,), None for all; `InputError` where a document is not there."""
        if scope == Scope():
            return None
        numbers = corpus.numbers
        if scope.document_ids is not None:
            numbers = self._numbers(corpus, scope.document_ids, tenant)
        if scope.filters is not None or tenant is not None:
            found = self._metadata_of(numbers)
            numbers = [n for n in numbers if scope.admits(found[n], tenant)]
        return corpus.within(numbers)

    def _numbers(
        self, corpus: Corpus, document_ids: Collection[str], tenant: Equals | None
    ) -> list[int]:
        known, numbers = set(corpus.numbers), []
        for identity in document_ids:
            number = self._store.number_of(identity)
            if number is not None and number not in known:
                raise Vanished(f"document {identity!r} was replaced")
            if tenant is not None:  # which ids others use is nobody's business
                theirs = number is None or not tenant.matches(self._metadata_of([number])[number])
                if theirs:
                    raise InputError(f"this tenant has no document {identity!r}")
            if number is None:
                raise InputError(f"no document {identity!r}; there are {some(self._store.ids())}")
            numbers.append(number)
        return sorted(numbers)

    def _metadata_of(self, numbers: Collection[int]) -> Mapping[int, Mapping[str, Any]]:
        if missing := [n for n in numbers if n not in self._metadata]:
            self._metadata |= self._store.metadata(missing)
        if any(n not in self._metadata for n in numbers):
            raise Vanished("a document was deleted")
        return self._metadata


def some(ids: Collection[str], limit: int = 5) -> str:
    """A few ids for a message."""
    listed = list(ids)
    more = f" and {len(listed) - limit} more" if len(listed) > limit else ""
    return ", ".join(map(repr, listed[:limit])) + more


class _Part:
    """The documents of one store, as segments whose numbers are higher by `start`."""

    def __init__(self, start: int, store: Store) -> None:
        self._start = start
        self._store = store
        self._version = -1
        self._sidecar = Sidecar(store)
        self._corpus = Corpus(store.nodes)
        self._moved: tuple[Segment, ...] = ()

    def current(self) -> tuple[Segment, ...]:
        """Those of this moment; the same objects where nothing has changed."""
        version = self._store.data_version()
        if version != self._version:
            known, present = set(self._corpus.numbers), self._store.numbers()
            added = [number for number in present if number not in known]
            segments = self._read(added) if known else self._first_read(added)
            left = self._corpus.without(known.difference(present))
            self._corpus = left.joined(segments, self._sidecar.keep)
            self._moved = tuple(part.moved(self._start) for part in self._corpus.segments)
            self._version = version
        return self._moved

    def _first_read(self, numbers: Sequence[int]) -> Iterator[Segment]:
        """Read what is beside the file there, and the rest in it."""
        done = 0
        for segment in self._sidecar.segments():
            begin = bisect_left(numbers, segment.numbers[0])
            end = bisect_right(numbers, segment.numbers[-1])
            if list(numbers[begin:end]) == segment.numbers.tolist():  # else it changed just now
                yield from self._read(numbers[done:begin])
                yield segment
                done = end
        yield from self._read(numbers[done:])

    def _read(self, numbers: Sequence[int]) -> Iterator[Segment]:
        return packed(self._store.blocks(numbers))
