"""What a store holds as a mapping that reads nothing before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from hwdag.errors import InputError
from hwdag.store.sqlite import Store

T = TypeVar("T")


class Stored(Mapping[str, T]):
    """By document id; always what the store holds now, other processes' changes included.

    Args:
        store: returns the store, or None while there is none.
        read: what is read of a document.
    """

    def __init__(self, store: Callable[[], Store | None], read: Callable[[Store, str], T]) -> None:
        self._store = store
        self._read = read

    def __getitem__(self, key: str) -> T:
        store = self._store()
        if store is None or not isinstance(key, str):
            raise KeyError(key)
        try:
            return self._read(store, key)
        except InputError:  # it is not there, or no longer
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        store = self._store()
        return isinstance(key, str) and store is not None and store.number_of(key) is not None

    def __iter__(self) -> Iterator[str]:
        store = self._store()
        return iter(() if store is None else store.ids())

    def __len__(self) -> int:
        store = self._store()
        return 0 if store is None else len(store)
