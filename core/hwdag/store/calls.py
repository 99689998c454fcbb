"""A cache of model calls, keyed by a hash of their inputs.

    with CallCache.open("run/calls.sqlite") as calls:
        keys = [key_of("write", model.name, prompt) for prompt in prompts]
        replies = calls.results(keys, is_text, lambda missing: [... for i in missing])

Every result is committed before the next call begins. A build that is killed repeats at most the call
that was running, and an edited document pays only for the windows whose text changed. A build keeps its
calls in the index file, by document; evaluations and other methods keep theirs in a file of their own.
The table is the same.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hwdag.errors import InputError
from hwdag.lm.base import Replay, ReplayRequest
from hwdag.store.database import Database, on_error
from hwdag.store.erasure import insert_guarded
from hwdag.store.records import (
    CALL_COLUMNS,
    MALFORMED,
    digest_of,
    encode_call,
    find,
    owner_slot,
    slot_of,
)
from hwdag.store.schema import CALLS, statements

VERSION = 1
"""Part of every key. Raise it when the same input begins to give another result: after a change of
the extraction, or of how a reader lays out a window."""

APPLICATION_ID = 0x48574443  # of a file that holds calls alone: the letters HWDC

Value = str | list[int] | Mapping[str, NDArray[Any]]
"""A result that the cache can keep."""

T = TypeVar("T", bound=Value)

UNSOUND = (*MALFORMED, SafetensorError)
"""Exceptions of decoding or checking a value of another kind."""

Finished = Generator[Mapping[int, T], None, None]
"""Results by ordinal of the call, as they finish; each mapping is committed as a whole."""

Fits = Callable[[Any, int], bool]
"""Returns whether a kept value is a result of the call with this ordinal; may raise one of `UNSOUND`."""


class Withdrawn(Exception):
    """A document was deleted while it was being built."""


def key_of(kind: str, *parts: object) -> bytes:
    """Hash everything that a result depends on: JSON-able values, such as model and prompt."""
    content = json.dumps([VERSION, kind, *parts], sort_keys=True)
    return hashlib.sha256(content.encode()).digest()


def encode(result: Value) -> bytes:
    """Return a text or a list as JSON, arrays as safetensors."""
    if isinstance(result, Mapping):
        return save({name: np.ascontiguousarray(array) for name, array in result.items()})
    return json.dumps(result).encode()


def decode(value: bytes) -> Any:
    """Return the encoded value. Raises one of `UNSOUND` for most other bytes."""
    # why this byte: safetensors begins with the length of its header, which ends with a zero byte
    return load(value) if value[7:8] == b"\0" else json.loads(value)


class Calls(ABC):
    """Finished calls by key: asks for missing ones, and keeps them before the next call begins.

    Attributes:
        kept: keys of the calls that a later version of the document may need again.
        reused: number of calls that an earlier run had finished.
        before_call: runs before every call; raises if no call may be made.
    """

    def __init__(self) -> None:
        self._made: set[bytes] = set()
        self.kept: set[bytes] = set()
        self.reused = 0
        self.before_call: Callable[[], None] = lambda: None

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none, or if it is damaged."""

    @abstractmethod
    def put_all(self, items: Mapping[bytes, bytes]) -> None:
        """Keep values by key; they are on disk when this returns."""

    def results(
        self,
        keys: Sequence[bytes],
        fits: Fits,
        call: Callable[[list[int]], Sequence[T]],
        *,
        size: int = 1,
        order: Callable[[int], int] = lambda ordinal: ordinal,
        keep: bool = True,
        commit: bool = True,
        advance: Callable[[int], object] = lambda amount: None,
    ) -> list[T]:
        """Return the result of every call, in order; make the calls that the cache lacks.

        Args:
            keys: of the calls; equal calls are made once.
            fits: checks a cached value; a call whose value does not fit is made again.
            call: makes the calls with these ordinals, and returns values that `encode` accepts. Their
                results are committed before the next batch begins.
            size: most calls of a batch.
            order: sorts the missing ordinals.
            keep: whether a later version of the document may need the results again.
            commit: whether new results are kept; a document's only call is stored with the document.
            advance: receives the number of results found or made.
        """

        def make(missing: list[int]) -> Finished[T]:
            missing = sorted(missing, key=order)
            for start in range(0, len(missing), size):
                batch = missing[start : start + size]
                self.before_call()
                yield dict(zip(batch, call(batch), strict=True))

        return self.streamed(keys, fits, make, keep=keep, commit=commit, advance=advance)

    def streamed(
        self,
        keys: Sequence[bytes],
        fits: Fits,
        make: Callable[[list[int]], Finished[T]],
        *,
        keep: bool = True,
        commit: bool = True,
        advance: Callable[[int], object] = lambda amount: None,
    ) -> list[T]:
        """Return like `results`, for calls that finish one by one: `make` gets all missing ordinals at once."""
        first: dict[bytes, int] = {}
        for i, key in enumerate(keys):
            first.setdefault(key, i)
        found = {key: result for key, i in first.items() for result in self._found(key, fits, i)}
        missing = [i for key, i in first.items() if key not in found]
        self.reused += len(found.keys() - self._made)
        self.kept.update(keys if keep else ())
        advance(len(keys) - len(missing))
        with closing(make(missing)) as made:
            while len(found) < len(first):
                finished = {keys[i]: result for i, result in next(made).items()}
                if commit:
                    self.put_all({key: encode(r) for key, r in finished.items()})
                found |= finished
                advance(len(finished))
        return [found[key] for key in keys]

    def _found(self, key: bytes, fits: Fits, ordinal: int) -> list[Any]:
        value = self.get(key)
        try:
            found = [] if value is None else [decode(value)]
            return found if all(fits(one, ordinal) for one in found) else []
        except UNSOUND:
            return []


class CallCache(Calls):
    """Results of finished calls of one owner. Threads and processes may share a file.

    The owner is a document id, whose deletion takes its calls along, or None.
    """

    def __init__(self, database: Database, owner: str | None = None) -> None:
        """Use `open`, or `Store.calls`."""
        super().__init__()
        self._database = database
        self._owner = owner
        self._written = False

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None = None) -> Self:
        """Open a file of calls, or create it. Without a path the calls stay in memory.

        Raises `InputError` if the file is something else, `IndexFileError` if it cannot be read or written.
        """
        database = Database(None if path is None else Path(path), create=True)
        with on_error(database.close), database.writing() as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            if not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                for statement in statements(CALLS):
                    connection.execute(statement)
            elif application != APPLICATION_ID:
                raise InputError(f"{database.name} is no file of model calls; name another file")
        return cls(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file; closing twice does no harm. A store's cache is closed with the store."""
        self._database.close()

    def fresh(self) -> Self:
        """Return a cache of the same calls that counts anew."""
        new = copy.copy(self)
        new.kept, new.reused, new._made = set(), 0, set()
        return new

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is none, or if it is damaged."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT owner, key, checksum, value FROM calls "
                "WHERE owner_slot IS ? AND key_slot = ?",
                [owner_slot(self._owner), slot_of(key)],
            )
            for owner, found, checksum, value in rows:
                sound = checksum == digest_of((owner, found, value))
                if sound and (owner, found) == (self._owner, key) and isinstance(value, bytes):
                    return value
        return None

    def put_all(self, items: Mapping[bytes, bytes]) -> None:
        """Keep values by key, all or none; they are on disk when this returns."""
        if items:
            rows = [encode_call(self._owner, *item) for item in items.items()]
            with self._database.writing() as connection:
                self.check(connection)
                connection.executemany(
                    "DELETE FROM calls WHERE owner_slot IS ? AND key_slot = ?",
                    [row[:2] for row in rows],
                )
                insert_guarded(connection, "calls", CALL_COLUMNS, rows)
            self._written = True
            self._made.update(items)

    def forget(self) -> None:
        """Overwrite all calls of this owner."""
        with self._database.writing() as connection:
            forget_calls(connection, self._owner)

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise if nothing may be kept any longer; runs in the transaction that writes."""


class DocumentCalls(CallCache):
    """The cache of a document that is being built; raises `Withdrawn` after its deletion."""

    def __init__(self, database: Database, document_id: str) -> None:
        """Use `Store.building`."""
        super().__init__(database, document_id)
        self._document = document_id
        with database.reading() as connection:
            self._number = find(connection, document_id)

    def check(self, connection: sqlite3.Connection) -> None:
        """Raise `Withdrawn` if another process deleted the document or its calls."""
        query = "SELECT 1 FROM calls WHERE owner_slot IS ? LIMIT 1"
        calls = connection.execute(query, [owner_slot(self._owner)]).fetchone()
        if find(connection, self._document) != self._number or (self._written and calls is None):
            raise Withdrawn(self._document)


class SharedCalls(Calls):
    """Calls of several documents that are made together; each is kept with the documents that need it."""

    def __init__(self, owners: Mapping[bytes, Sequence[CallCache]]) -> None:
        """Take the caches that a call belongs to, by its key."""
        super().__init__()
        self._owners = owners

    def get(self, key: bytes) -> bytes | None:
        """Return the value that any of its documents has."""
        return next((found for one in self._owners[key] if (found := one.get(key))), None)

    def put_all(self, items: Mapping[bytes, bytes]) -> None:
        """Keep values with their documents, but for one that another process has deleted."""
        owned: dict[CallCache, dict[bytes, bytes]] = {}
        for key, value in items.items():
            for one in self._owners[key]:
                owned.setdefault(one, {})[key] = value
        for one, values in owned.items():
            with suppress(Withdrawn):  # its build will notice
                one.put_all(values)


def forget_calls(
    connection: sqlite3.Connection,
    owner: str | None,
    kept: Collection[bytes] = (),
    *,
    after: int = 0,
) -> int:
    """Drop the calls of an owner after this number, except the `kept` keys; returns how many."""
    slots = {slot_of(key) for key in kept}
    rows = connection.execute(
        "SELECT number, key_slot FROM calls WHERE owner_slot IS ? AND number > ?",
        [owner_slot(owner), after],
    )
    gone = {number for number, slot in rows if slot not in slots}
    connection.executemany("DELETE FROM calls WHERE number = ?", [(number,) for number in gone])
    return len(gone)


def last_call(connection: sqlite3.Connection, owner: str) -> int:
    """Return the highest number of an owner's calls; 0 if there are none."""
    query = "SELECT coalesce(max(number), 0) FROM calls WHERE owner_slot IS ?"
    (number,) = connection.execute(query, [owner_slot(owner)]).fetchone()
    return int(number)


def is_text(value: Any, _: int) -> bool:
    """Return whether a value is a reply."""
    return isinstance(value, str)


def picks_of(available: Sequence[int]) -> Fits:
    """Accept ascending indices into the `available[i]` things of call i; an empty list only for none."""

    def fits(value: Any, ordinal: int) -> bool:
        most = available[ordinal]
        is_list = isinstance(value, list) and all(type(i) is int and 0 <= i < most for i in value)
        return is_list and value == sorted(set(value)) and bool(value) == bool(most)

    return fits


def replays_of(requests: Sequence[ReplayRequest]) -> Fits:
    """Accept the arrays of a `Replay` of each request."""

    def fits(value: Any, ordinal: int) -> bool:
        replay, request = Replay(**value), requests[ordinal]
        attention, tokens, segment = replay.attention, replay.unit_tokens, replay.unit_segment
        expected = [i for i, units in enumerate(request.units) for _ in units]
        return bool(
            attention.dtype == np.float64
            and tokens.dtype == segment.dtype == np.int64
            and segment.tolist() == expected
            and tokens.shape == segment.shape
            and attention.shape == (len(request.points), len(expected))
            and np.isfinite(attention).all()
            and (attention >= 0).all()
        )

    return fits


def vectors_of(counts: Sequence[int], dimension: int) -> Fits:
    """Accept float32 `vectors`, `counts[i]` of them for call i."""

    def fits(value: Any, ordinal: int) -> bool:
        vectors = value["vectors"]
        is_shaped = vectors.shape == (counts[ordinal], dimension) and vectors.dtype == np.float32
        return bool(is_shaped and np.isfinite(vectors).all())

    return fits
