"""What can be read of an index file: documents, and what a search needs of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hwdag.errors import IndexCorrupt, InputError
from hwdag.graph.block import Block
from hwdag.store.arrays import Row, decode_block
from hwdag.store.database import Database
from hwdag.store.groups import Standing, last_sequence, names_in, orphans, standing, top_nodes
from hwdag.store.opening import bring_up_to_date, read_header
from hwdag.store.records import (
    DOCUMENT_COLUMNS,
    Entry,
    Unit,
    content_hash,
    decode,
    decode_document,
    decode_metadata,
    decode_nodes,
)
from hwdag.store.schema import NODES_PER_ROW
from hwdag.store.units import find, read_arrays, read_node_row, read_unit
from hwdag.types import Document, Node, Span

_BATCH_BYTES = 4 << 20
"""Arrays that are read in one transaction: a few milliseconds that a writer may have to wait."""

_BATCH_ROWS = 256
"""Short rows that are read in one transaction."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Which documents and groups came and went.

    Attributes:
        sequence: of the moment that this was true; the next question is what came after it.
        added: numbers that exist now and did not before, ascending.
        removed: numbers that existed before and do not now, ascending.
        complete: False if the log does not reach back far enough; `added` are then all numbers that
            exist, and `removed` is empty.
    """

    sequence: int
    added: list[int]
    removed: list[int]
    complete: bool = True


class StoredUnits:
    """The reading half of `hwdag.store.sqlite.Store`, which explains threads, errors and numbers.

    Everything is read in short transactions, so that a writer never waits long.
    """

    def __init__(self, database: Database) -> None:
        """Bring the file to the current format, and read its header; errors as in `Store.open`."""
        self.path = database.path
        self.readonly = database.readonly
        self._database = database
        try:
            bring_up_to_date(database)
            self.header = read_header(database)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the file; closing twice does no harm."""
        self._database.close()

    # One document

    def number_of(self, document_id: str) -> int | None:
        """The number of the document's version that is stored; None if there is none."""
        with self._database.reading() as connection:
            return find(connection, document_id)

    def content_hash_of(self, document_id: str) -> str | None:
        """The `content_hash` that the document was stored with; None if it is not there."""
        with self._database.reading() as connection:
            number = find(connection, document_id)
            if number is None:
                return None
            query = "SELECT content_hash FROM documents WHERE number = ?"
            (found,) = connection.execute(query, [number]).fetchone()
        return str(found)

    def document(self, document_id: str) -> Document:
        """A document alone.

        Raises:
            InputError: no such document.
            IndexCorrupt: it is damaged.
        """
        with self._database.reading() as connection:
            number = find(connection, document_id)
            row = None if number is None else _document_row(connection, number)
        if row is None:
            raise self._missing(document_id)
        with self._blaming(document_id):
            return decode_document(row)

    def versions(self, document_ids: Collection[str]) -> dict[str, tuple[int, Document]]:
        """Numbers and documents of one moment, by id; those that are not there are left out."""
        rows: dict[str, tuple[int, Row]] = {}
        with self._database.reading() as connection:
            for identity in document_ids:
                number = find(connection, identity)
                row = None if number is None else _document_row(connection, number)
                if number is not None and row is not None:
                    rows[identity] = number, row
        found = {}
        for identity, (number, row) in rows.items():
            with self._blaming(identity):
                found[identity] = number, decode_document(row)
        return found

    def holds(self, document: Document) -> bool:
        """Whether this very content is stored under its id."""
        return self.content_hash_of(document.id) == content_hash(document)

    def text(self, document_id: str) -> str | None:
        """The text of a document; None if it is not there. Raises `IndexCorrupt` if damaged."""
        try:
            return self.document(document_id).text
        except InputError:
            return None

    def slice(self, document_id: str, span: Span) -> str | None:
        """A slice of a document's text, as in `text`."""
        text = self.text(document_id)
        return None if text is None else text[span.start : span.end]

    def load(self, document_id: str) -> Entry:
        """A document with its graph and vectors, as they were put, to the last bit.

        Raises:
            InputError: no such document.
            IndexCorrupt: it is damaged.
        """
        with self._database.reading() as connection:
            number = find(connection, document_id)
            found = None if number is None else read_unit(connection, number)
        if found is None:
            raise self._missing(document_id)
        return self._decode(*found)

    # All documents

    def __len__(self) -> int:
        """Number of documents; groups do not count."""
        with self._database.reading() as connection:
            query = "SELECT count(*) FROM documents WHERE slot IS NOT NULL"
            (count,) = connection.execute(query).fetchone()
        return int(count)

    def ids(self) -> list[str]:
        """The ids of all documents."""
        return list(self.content_hashes())

    def unfinished(self) -> list[str]:
        """Ids of documents that are not stored, but that there are finished calls for."""
        query = (
            "SELECT DISTINCT owner FROM calls WHERE owner_slot IS NOT NULL AND owner_slot NOT IN "
            "(SELECT slot FROM documents WHERE slot IS NOT NULL) ORDER BY owner"
        )
        with self._database.reading() as connection:
            return [str(owner) for (owner,) in connection.execute(query)]

    def content_hashes(self) -> dict[str, str]:
        """`content_hash` of every document by id, without reading the texts."""
        query = "SELECT id, content_hash FROM documents WHERE slot IS NOT NULL ORDER BY number"
        with self._database.reading() as connection:
            return dict(connection.execute(query).fetchall())

    def documents(self) -> Iterator[Document]:
        """The documents alone, one by one; raises `IndexCorrupt` at a damaged one."""
        with self._database.reading() as connection:
            numbers = _numbers(connection, documents_only=True)
        for number in numbers:
            with self._database.reading() as connection:
                row = _document_row(connection, number)
            if row is not None:  # else somebody deleted it meanwhile
                with self._blaming(row[_ID]):
                    document = decode_document(row)
                yield document

    def load_all(self) -> list[Entry]:
        """All documents of one moment; errors as in `load`."""
        with self._database.reading() as connection:
            units = [
                found
                for number in _numbers(connection, documents_only=True)
                if (found := read_unit(connection, number)) is not None
            ]
        return [self._decode(*found) for found in units]

    # What a search needs

    def data_version(self) -> int:
        """Equal to an earlier one if nothing was written since, by this or by another process."""
        return self._database.version()

    def changes(self, since: int) -> Changes:
        """Which documents and groups came and went after a sequence number; 0 is the beginning."""
        with self._database.reading() as connection:
            sequence = last_sequence(connection)
            if not _reaches_back(connection, since, sequence):
                return Changes(sequence, _numbers(connection), [], complete=since == 0)
            query = "SELECT document, removed FROM changes WHERE sequence > ?"
            rows = connection.execute(query, [since]).fetchall()
        added = {number for number, removed in rows if not removed}
        removed = {number for number, removed in rows if removed}
        return Changes(sequence, sorted(added - removed), sorted(removed - added))

    def blocks(self, numbers: Sequence[int]) -> Iterator[Block]:
        """The arrays of documents and groups, in the order given; those that are gone are left out.

        Read a few at a time, so that a writer never waits long.

        Raises:
            IndexCorrupt: a document is damaged.
        """
        rest = iter(numbers)
        while batch := self._arrays(rest):
            for number, arrays, members in batch:
                yield self._block(number, arrays, members)

    def nodes(self, addresses: Sequence[tuple[int, int]]) -> list[Node | None]:
        """The nodes with these numbers of documents and positions; None where it is gone.

        Raises:
            IndexCorrupt: a document is damaged.
        """
        wanted: dict[tuple[int, int], list[int]] = {}  # places in a row, by document and first node
        for number, position in addresses:
            place = int(position) % NODES_PER_ROW
            wanted.setdefault((int(number), int(position) - place), []).append(place)
        with self._database.reading() as connection:
            rows = {at: read_node_row(connection, *at) for at in sorted(wanted)}
            names = names_in(connection, (row for row in rows.values() if row is not None))
        found: dict[tuple[int, int], Node] = {}
        for (number, first), row in rows.items():
            if row is not None:
                places = wanted[number, first]
                with self._blaming(row[0]):
                    nodes = decode_nodes(row[1], row[0], names, places)
                found.update(((number, first + p), n) for p, n in zip(places, nodes, strict=True))
        return [found.get((int(number), int(position))) for number, position in addresses]

    def names(self, numbers: Sequence[int]) -> dict[int, str]:
        """The ids of documents by number; groups and what is gone are left out."""
        return {number: name for number, (name,) in self._columns(numbers, "id")}

    def metadata(self, numbers: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """The metadata of documents by number; groups and what is gone are left out.

        Raises:
            IndexCorrupt: a document is damaged.
        """
        found = {}
        for number, (name, metadata) in self._columns(numbers, "id, metadata"):
            with self._blaming(name):
                found[number] = decode_metadata(metadata)
        return found

    def _arrays(self, numbers: Iterator[int]) -> list[tuple[int, Row, tuple[int, ...]]]:
        """The next few that exist."""
        batch, size = [], 0
        with self._database.reading() as connection:
            while size < _BATCH_BYTES and (number := next(numbers, None)) is not None:
                found = read_arrays(connection, int(number))
                if found is not None:
                    batch.append((int(number), *found))
                    size += sum(len(value) for value in found[0] if isinstance(value, bytes))
        return batch

    def _block(self, number: int, arrays: Row, members: tuple[int, ...]) -> Block:
        with self._blaming_number(number):
            return decode_block(number, arrays, members, self.header.dimension)

    def _columns(self, numbers: Sequence[int], columns: str) -> Iterator[tuple[int, Row]]:
        query = f"SELECT {columns} FROM documents WHERE number = ? AND slot IS NOT NULL"
        for start in range(0, len(numbers), _BATCH_ROWS):
            batch = [int(number) for number in numbers[start : start + _BATCH_ROWS]]
            with self._database.reading() as connection:
                rows = [(n, connection.execute(query, [n]).fetchone()) for n in batch]
            yield from ((number, row) for number, row in rows if row is not None)

    # Corpus layers

    def sequence(self) -> int:
        """Of the latest change; what is read after it may be newer, never older."""
        with self._database.reading() as connection:
            return last_sequence(connection)

    def orphans(self) -> list[int]:
        """Numbers of documents and groups that no group rests on, ascending."""
        with self._database.reading() as connection:
            return orphans(connection)

    def standing(self, number: int) -> Standing:
        """A document or group without its nodes.

        Raises:
            Changed: it is gone.
            IndexCorrupt: it is damaged.
        """
        with self._blaming_number(number), self._database.reading() as connection:
            return standing(connection, number)

    def top_nodes(self, number: int) -> tuple[int, list[Node]]:
        """The nodes of the highest level and the position of the first; errors as in `standing`."""
        with self._blaming_number(number), self._database.reading() as connection:
            return top_nodes(connection, number)

    # Errors

    def _decode(self, unit: Unit, checksum: object) -> Entry:
        with self._blaming(unit.document[_ID]):
            return decode(unit, checksum=checksum, dimension=self.header.dimension)

    @contextmanager
    def _blaming(self, document_id: object) -> Iterator[None]:
        """Name the document in an `IndexCorrupt`."""
        try:
            yield
        except IndexCorrupt as error:
            raise self._blamed(document_id, error) from error

    @contextmanager
    def _blaming_number(self, number: int) -> Iterator[None]:
        """As `_blaming`, where only the number is known."""
        try:
            yield
        except IndexCorrupt as error:
            raise self._blamed(self.names([number]).get(number), error) from error

    def _blamed(self, document_id: object, error: IndexCorrupt) -> IndexCorrupt:
        what = "a corpus layer" if document_id is None else f"document {document_id!r}"
        mend = "" if document_id is None else ", or delete this document and insert it again"
        return IndexCorrupt(
            f"{what} of {self._database.name} is damaged: {error}; restore a copy of the file, or "
            f"run `hwdag repair`{mend}"
        )

    def _missing(self, document_id: str) -> InputError:
        return InputError(
            f"there is no document {document_id!r} in {self._database.name}; ids() lists them all"
        )


_ID = DOCUMENT_COLUMNS.index("id")


def _document_row(connection: sqlite3.Connection, number: int) -> Row | None:
    query = f"SELECT {', '.join(DOCUMENT_COLUMNS)} FROM documents WHERE number = ?"
    row: Row | None = connection.execute(query, [number]).fetchone()
    return row


def _numbers(connection: sqlite3.Connection, *, documents_only: bool = False) -> list[int]:
    """What exists, ascending."""
    only = "WHERE slot IS NOT NULL" if documents_only else ""
    rows = connection.execute(f"SELECT number FROM documents {only} ORDER BY number")
    return [number for (number,) in rows]


def _reaches_back(connection: sqlite3.Connection, since: int, sequence: int) -> bool:
    """Whether the log holds all that came after `since`."""
    (oldest,) = connection.execute("SELECT min(sequence) FROM changes").fetchone()
    return (oldest or sequence + 1) - 1 <= since <= sequence
