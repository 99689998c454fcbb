"""Several index files read as one."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hwdag.errors import IndexCorrupt, IndexMismatch, InputError
from hwdag.store.database import Database
from hwdag.store.sqlite import Entry, Store
from hwdag.types import Document, Node

SPAN = 1 << 40
"""Numbers of documents of one file: that of a document here is its own and SPAN times that of the
file, so that they ascend in the order of the files."""


class Stores(Store):
    """Stores that can be read as if they were one, in their order; what writes raises `InputError`."""

    def __init__(self, stores: Sequence[Store]) -> None:
        """Use `open_all`."""
        self._stores = stores
        self.path = None
        self.header = stores[0].header

    @classmethod
    def open_all(cls, paths: Collection[str | os.PathLike[str]]) -> Stores:
        """Open all of these files; errors as in `HWDAGIndex.open_all`."""
        if not paths or isinstance(paths, str | os.PathLike):
            raise InputError(f"paths must be a list of one file or more, got {paths!r}")
        opened: list[Store] = []
        try:
            for path in paths:
                opened.append(Store.open(Path(path)))
                _check_alike(opened[0], opened[-1])
            found = cls(opened)
            found.ids()
        except BaseException:
            for store in opened:
                store.close()
            raise
        return found

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{len(self._stores)} index files that are open as one"

    @property
    def database(self) -> Database:  # type: ignore[override]
        """Refuse whatever needs a single file."""
        raise InputError(f"{self.name} can only be searched and read; load() one of them for more")

    @property
    def parts(self) -> list[tuple[int, Store]]:
        """The stores, each with what its numbers are higher by."""
        return [(place * SPAN, store) for place, store in enumerate(self._stores)]

    def close(self) -> None:
        """Release the files."""
        for store in self._stores:
            store.close()

    def ids(self) -> list[str]:
        """Return the ids of all documents; raises `InputError` if a document is in two files."""
        for store in self._stores:
            if max(store.numbers(), default=0) >= SPAN:
                raise IndexCorrupt(
                    f"{store.path} numbers its documents wrongly; run `hwdag repair`"
                )
        found = [(name, store) for store in self._stores for name in store.ids()]
        for name, count in Counter(name for name, _ in found).items():
            if count > 1:
                files = ", ".join(str(store.path) for other, store in found if other == name)
                raise InputError(
                    f"document {name!r} is in several of the files: {files}; delete it in all but one"
                )
        return [name for name, _ in found]

    def __len__(self) -> int:
        return sum(map(len, self._stores))

    def node_count(self) -> int:
        """Count the nodes of all documents."""
        return sum(store.node_count() for store in self._stores)

    def number_of(self, document_id: str) -> int | None:
        """Return the number of the document's version that is stored; None if there is none."""
        numbers = ((start, store.number_of(document_id)) for start, store in self.parts)
        return next((start + found for start, found in numbers if found is not None), None)

    def versions(self, document_ids: Collection[str]) -> dict[str, tuple[int, Document]]:
        """Read numbers and documents by id, without those that are not there."""
        return {
            name: (start + number, document)
            for start, store in self.parts
            for name, (number, document) in store.versions(document_ids).items()
        }

    def load(self, document_id: str) -> Entry:
        """Read a document with its graph and vectors; errors as in `Store.load`."""
        number = self.number_of(document_id)
        if number is None:
            raise self._missing(document_id)
        return self._stores[number // SPAN].load(document_id)

    def nodes(self, addresses: Sequence[tuple[int, int]]) -> list[Node | None]:
        """Read the nodes with these numbers of documents and positions; None where it is gone."""
        asked = defaultdict[int, list[int]](list)  # places in the result, by store
        for at, (number, _) in enumerate(addresses):
            asked[number // SPAN].append(at)
        found: list[Node | None] = [None] * len(addresses)
        for place, at_all in asked.items():
            own = [(addresses[at][0] % SPAN, addresses[at][1]) for at in at_all]
            for at, node in zip(at_all, self._stores[place].nodes(own), strict=True):
                found[at] = node
        return found

    def metadata(self, numbers: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """Return the metadata of documents by number; what is gone is left out."""
        return {
            start + number: found
            for start, store in self.parts
            for number, found in store.metadata(
                [n - start for n in numbers if start <= n < start + SPAN]
            ).items()
        }


def _check_alike(first: Store, other: Store) -> None:
    """Raise `IndexMismatch` unless a question can be compared with the nodes of both."""
    for what, of_first, of_other in (
        ("embedder", first.header.embedder, other.header.embedder),
        ("numbers per embedding", first.header.dimension, other.header.dimension),
        (
            "tenant_key",
            first.header.config.get("tenant_key"),
            other.header.config.get("tenant_key"),
        ),
    ):
        if of_first != of_other:
            raise IndexMismatch(
                f"{other.path} was built with {what} {of_other!r} and {first.path} with {of_first!r}; "
                "only files that agree in it can be searched as one"
            )
