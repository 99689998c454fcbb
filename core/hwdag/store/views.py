"""What a store holds as a mapping that reads nothing before it is asked for."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from contextlib import suppress
from typing import TypeVar

from hwdag.errors import InputError
from hwdag.store.sqlite import Store

T = TypeVar("T")


class Stored(Mapping[str, T]):
    """By document id; always what the store holds now, other processes' changes included.

    Items and values are read one by one, without documents that are deleted meanwhile. `keys()`
    reads all, so that `dict(...)` gets every document that it names; to iterate gives ids alone.
    """

    def __init__(self, store: Callable[[], Store | None], read: Callable[[Store, str], T]) -> None:
        self._store = store
        self._read = read
        self._named: dict[str, T] = {}  # by `keys()`, in case that they are deleted

    def __getitem__(self, key: str) -> T:
        store = self._store()
        if store is not None and isinstance(key, str):
            with suppress(InputError):  # it is not there, or no longer
                return self._read(store, key)
            if key in self._named:
                return self._named.pop(key)
        raise KeyError(key)

    def keys(self) -> KeysView[str]:
        """Return the ids; what they name is read at once."""
        found = dict(self._present())
        self._named.update(found)
        return found.keys()

    def items(self) -> ItemsView[str, T]:
        """Return ids with what is read of the documents."""
        return _Items(self)

    def values(self) -> ValuesView[T]:
        """Return what is read of the documents."""
        return _Values(self)

    def _present(self) -> Iterator[tuple[str, T]]:
        for key in self:
            with suppress(KeyError):  # deleted since
                yield key, self[key]

    def __contains__(self, key: object) -> bool:
        store = self._store()
        return isinstance(key, str) and store is not None and store.number_of(key) is not None

    def __iter__(self) -> Iterator[str]:
        store = self._store()
        return iter(() if store is None else store.ids())

    def __len__(self) -> int:
        store = self._store()
        return 0 if store is None else len(store)


class _Items(ItemsView[str, T]):
    _mapping: Stored[T]

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return self._mapping._present()


class _Values(ValuesView[T]):
    _mapping: Stored[T]

    def __iter__(self) -> Iterator[T]:
        return (found for _, found in self._mapping._present())
