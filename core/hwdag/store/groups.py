"""Groups of corpus layers in the tables: what they may be made of, and the exchange of old for new."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hwdag.errors import IndexCorrupt
from hwdag.graph.group import CorpusGroup, GroupFacts
from hwdag.store.arrays import Row
from hwdag.store.calls import CallCache, forget_calls, write_calls
from hwdag.store.database import Database
from hwdag.store.records import (
    decode_facts,
    decode_metadata,
    decode_nodes,
    documents_of,
    encode_call,
    encode_group,
)
from hwdag.store.units import find, remove_unit, write_unit
from hwdag.types import Node


class Changed(Exception):
    """A document or group was removed while groups were being made of what was there before."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A document or group as something that a group may be made of, without its nodes.

    Attributes:
        number: of this version.
        name: id of a document, name of a group.
        facts: of a group; None for a document.
        metadata: of a document; empty for a group.
        members: numbers of what a group rests on, ascending; empty for a document.
    """

    number: int
    name: str
    facts: GroupFacts | None
    metadata: Mapping[str, Any]
    members: tuple[int, ...] = ()

    @property
    def layer(self) -> int:
        """0 for a document."""
        return 0 if self.facts is None else self.facts.layer


class GroupCalls(CallCache):
    """The call cache of corpus layers, that takes no result once a document is gone.

    A result may say what a document said, and it must not come to a file that the document has
    just been deleted from.
    """

    def __init__(self, database: Database, since: int) -> None:
        """Use `Store.group_calls`."""
        super().__init__(database, None)
        self._since = since

    def put_all(self, items: Mapping[bytes, bytes]) -> None:
        """Keep values by key, all of them or none; on disk when it returns.

        Raises:
            Changed: something was removed since.
        """
        rows = [encode_call(None, key, value) for key, value in items.items()]
        with self._database.writing() as connection:
            check_unchanged(connection, self._since)
            write_calls(connection, rows)


def check_unchanged(connection: sqlite3.Connection, since: int) -> None:
    """Raise `Changed` if a document or group was removed after this sequence number."""
    query = "SELECT count(*), coalesce(sum(removed), 0) FROM changes WHERE sequence > ?"
    count, removed = connection.execute(query, [since]).fetchone()
    # rows that are missing were forgotten by a compaction, and may have been removals
    if removed or count < last_sequence(connection) - since:
        raise Changed


def last_sequence(connection: sqlite3.Connection) -> int:
    """Of the log of changes; 0 if it never had a row."""
    query = "SELECT seq FROM sqlite_sequence WHERE name = 'changes'"
    row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def orphans(connection: sqlite3.Connection) -> list[int]:
    """Numbers of documents and groups that no group rests on, ascending."""
    query = (
        "SELECT number FROM documents "
        "WHERE NOT EXISTS (SELECT 1 FROM members WHERE child = number) ORDER BY number"
    )
    return [number for (number,) in connection.execute(query)]


def standing(connection: sqlite3.Connection, number: int) -> Standing:
    """A document or group; raises `Changed` if it is gone, `IndexCorrupt` if it is damaged."""
    query = "SELECT id, title, metadata FROM documents WHERE number = ?"
    row = connection.execute(query, [number]).fetchone()
    if row is None:
        raise Changed
    name, title, metadata = row
    if name is not None:
        return Standing(number, name, None, decode_metadata(metadata))
    query = "SELECT child FROM members WHERE parent = ? ORDER BY position"
    members = tuple(child for (child,) in connection.execute(query, [number]))
    if not members or max(members) >= number:
        raise IndexCorrupt("a group rests on itself, or on nothing")
    return Standing(number, str(title), decode_facts(metadata), {}, members)


def top_nodes(connection: sqlite3.Connection, number: int) -> tuple[int, list[Node]]:
    """The nodes of the highest level of a document or group, and the position of the first.

    Raises:
        Changed: it is gone.
        IndexCorrupt: it is damaged.
    """
    row = connection.execute("SELECT id FROM documents WHERE number = ?", [number]).fetchone()
    if row is None:
        raise Changed
    query = "SELECT position, data FROM nodes WHERE document = ? ORDER BY position DESC"
    found: list[Node] = []
    first = 0
    for position, data in connection.execute(query, [number]).fetchall():
        nodes = decode_nodes(data, row[0], names_in(connection, [(row[0], data)]))
        top = [node for node in nodes if node.level == (found or nodes)[-1].level]
        first = position + len(nodes) - len(top)
        found = top + found
        if len(top) < len(nodes):
            break
    if not found:
        raise IndexCorrupt("its nodes are missing")
    return first, found


def names_in(connection: sqlite3.Connection, rows: Iterable[Row]) -> dict[int, str]:
    """Ids by number of the documents that rows of nodes of groups, (None, data), rest on."""
    wanted = {n for name, data in rows if name is None for n in documents_of(data)}
    query = "SELECT id FROM documents WHERE number = ? AND slot IS NOT NULL"
    found = {number: connection.execute(query, [number]).fetchone() for number in wanted}
    return {number: row[0] for number, row in found.items() if row is not None}


def exchange(
    connection: sqlite3.Connection,
    removed: Collection[int],
    groups: Sequence[CorpusGroup],
    dimension: int,
) -> list[int]:
    """Remove groups and add others; the numbers of the new ones.

    A member of the number -i is the i-th of the new groups, counted from 1, and comes before.
    Finished calls are dropped: they have done their duty.
    """
    for number in removed:
        if connection.execute("SELECT 1 FROM documents WHERE number = ?", [number]).fetchone():
            remove_unit(connection, number)
    documents: dict[str, int] = {}
    numbers: list[int] = []
    for group in groups:
        for name in {name for node in group.nodes for name, _ in node.places} - documents.keys():
            if (found := find(connection, name)) is None:
                raise Changed
            documents[name] = found
        unit = encode_group(_numbered(group, numbers), documents, dimension=dimension)
        numbers.append(write_unit(connection, unit))
    forget_calls(connection, None)
    return numbers


def _numbered(group: CorpusGroup, numbers: Sequence[int]) -> CorpusGroup:
    """With the numbers of the members that were new."""
    if min(group.members) > 0:
        return group
    known = np.array([0, *reversed(numbers)], np.int64)  # the last is the number of -1
    owners = np.where(group.owners < 0, known[np.minimum(group.owners, 0)], group.owners)
    members = tuple(numbers[-m - 1] if m < 0 else m for m in group.members)
    return replace(group, members=members, owners=owners)
