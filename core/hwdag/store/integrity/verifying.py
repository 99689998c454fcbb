"""Reads and checks everything that a file holds."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from hwdag.errors import IndexCorrupt, IndexVersionError, NotAnIndex
from hwdag.store.database import Database
from hwdag.store.integrity.first_page import definitions, expected
from hwdag.store.integrity.signs import UNREADABLE
from hwdag.store.integrity.survey import (
    OldSurvey,
    Survey,
    dimension_of,
    moment,
    opened,
    survey_of,
)
from hwdag.store.migrations import OLD_VERSIONS, file_of
from hwdag.store.records import Entry, Unit, encode
from hwdag.store.schema import APPLICATION_ID, SCHEMA_VERSION
from hwdag.trace.bars import Reporter, as_reporter

_MOST_MESSAGES = 100
"""Of SQLite, about pages."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was written.

    Attributes:
        what: in words.
        document_id: whose it is; None where that is not known, or for the file as a whole.
    """

    what: str
    document_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found.

    Attributes:
        whole: ids of the documents that nothing is wrong with, in order.
        problems: all of them; none if the file is sound.
    """

    whole: tuple[str, ...]
    problems: tuple[Problem, ...]

    @property
    def documents(self) -> int:
        """Number of documents that are whole."""
        return len(self.whole)

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def damaged(self) -> tuple[str, ...]:
        """Ids of the documents that are not whole, as far as they can be read."""
        found = dict.fromkeys(problem.document_id for problem in self.problems)
        return tuple(name for name in found if name is not None and name not in self.whole)


def verify(path: str | os.PathLike[str], *, show_progress: bool | Reporter = False) -> Verdict:
    """Check every page, every document, every cached call and the log of changes of an index file.

    Documents are read one by one, so that other processes need not stop. A file of an older format
    version is checked as it is.

    Raises:
        IndexFileError: there is no such file, or it cannot be read.
        NotAnIndex: not SQLite, or SQLite of somebody else.
        IndexVersionError: written by a newer hwdag.
    """
    with closing(opened(Path(path))) as database:
        problems = _checked(database, _kind)
        for check in (_pages, _schema, _header, _log, _calls):
            problems += _checked(database, check)
        whole, damage = _documents(database, as_reporter(show_progress))
    return Verdict(whole, tuple(dict.fromkeys((*problems, *damage))))


def _checked(
    database: Database, check: Callable[[sqlite3.Connection], Iterable[Problem]]
) -> list[Problem]:
    """What a check finds before it can go no further, which is a problem too."""
    found = list[Problem]()
    try:
        with moment(database) as connection:
            for problem in check(connection):
                found.append(problem)  # one by one: a comprehension would lose them all
    except IndexCorrupt as error:
        found.append(Problem(str(error)))
    return found


def _kind(connection: sqlite3.Connection) -> Iterator[Problem]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    name = file_of(connection)
    if version > SCHEMA_VERSION and application == APPLICATION_ID:
        raise IndexVersionError(
            f"{name} has format version {version}, this hwdag reads version {SCHEMA_VERSION}; "
            "upgrade hwdag"
        )
    try:
        survey = survey_of(connection)
    except IndexCorrupt as error:
        if application != APPLICATION_ID:
            raise NotAnIndex(f"{name} is not an hwdag index; check the path") from error
        raise
    if application != APPLICATION_ID:
        yield Problem("its application id is not that of an index")
    if version not in (OLD_VERSIONS if isinstance(survey, OldSurvey) else (SCHEMA_VERSION,)):
        yield Problem(f"it has the format version {version}, but not its tables")
    if mode != "delete":
        yield Problem(f"its journal mode is {mode!r}")


def _pages(connection: sqlite3.Connection) -> Iterator[Problem]:
    (count,) = connection.execute("PRAGMA page_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    if Path(file_of(connection)).stat().st_size != count * size:
        yield Problem("it has not the length that it should have; it was truncated or added to")
    for (message,) in connection.execute(f"PRAGMA integrity_check({_MOST_MESSAGES})"):
        if message != "ok":
            yield Problem(f"SQLite says: {message}")
    for table, *_ in connection.execute("PRAGMA foreign_key_check"):
        yield Problem(f"a row of table {table} belongs to a document that does not exist")


def _schema(connection: sqlite3.Connection) -> Iterator[Problem]:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version in OLD_VERSIONS:
        return
    for kind, name, *_ in sorted(definitions(connection).keys() ^ expected().keys(), key=repr):
        yield Problem(f"{kind} {name} is not defined as in format version {SCHEMA_VERSION}")


def _header(connection: sqlite3.Connection) -> Iterator[Problem]:
    try:
        survey_of(connection).header()
    except UNREADABLE as error:
        yield Problem(f"its header cannot be used: {error}")


def _calls(connection: sqlite3.Connection) -> Iterator[Problem]:
    for owner, row in survey_of(connection).calls():
        if row is None:
            yield Problem("a cached call is damaged; it will be made again", owner)


def _log(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Readers in other processes rely on the log to know which documents came and went."""
    survey = survey_of(connection)
    if isinstance(survey, OldSurvey):
        return
    log = connection.execute("SELECT sequence, document, removed FROM changes ORDER BY sequence")
    rows = log.fetchall()
    used = dict(connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    last, highest = used.get("changes", 0), used.get("documents", 0)
    if not all(type(value) is int for value in (last, highest, *chain(*rows))):
        yield Problem("the log of changes holds something else than numbers")
        return
    first = rows[0][0] if rows else last + 1
    if [sequence for sequence, *_ in rows] != list(range(first, last + 1)):
        yield Problem("the log of changes has gaps")
    known = survey.signs().known
    state = {document: removed for _, document, removed in rows}
    if max((*known, *state), default=0) > highest:
        yield Problem("there is a number that was never given to a document")
    if any(removed != (document not in known) for document, removed in state.items()):
        yield Problem("the log of changes does not fit the documents")
    if first == 1 and not known <= state.keys():
        yield Problem("the log of changes lacks documents")


def _documents(database: Database, reporter: Reporter) -> tuple[tuple[str, ...], list[Problem]]:
    """Ids of whole documents, and what is wrong with the others."""
    try:
        with moment(database) as connection:
            survey = survey_of(connection)
            signs, dimension = survey.signs(), dimension_of(survey)
    except IndexCorrupt:  # `_kind` has said so
        return (), []
    check = _Documents(survey, dimension or 1)
    with reporter.stage("verify", len(signs.tried), "documents") as advance:
        for number in signs.tried:
            with moment(database):
                check.one(number)
            advance()
    with moment(database):  # what was deleted meanwhile is not missing
        still_known = survey.signs().known & signs.known
    return tuple(check.ids), [p for number, p in check.problems if number in still_known]


class _Documents:
    """Checks one document after the other."""

    def __init__(self, survey: Survey, dimension: int) -> None:
        self.ids = dict[str, None]()
        self.problems = list[tuple[int, Problem]]()
        self._survey = survey
        self._dimension = dimension

    def one(self, number: int) -> None:
        try:
            found = self._survey.find(number, self._dimension)
            if found is None:
                raise IndexCorrupt("only parts of it are there")
            if found.entry is not None:
                self._document(found.unit, found.entry)
        except UNREADABLE as error:
            name = self._survey.id_of(number)
            what = str(error) if name is not None else f"number {number}: {error}"
            self.problems.append((number, Problem(what, name)))

    def _document(self, unit: Unit, entry: Entry) -> None:
        name = entry.document.id
        if encode(entry, dimension=self._dimension) != unit:
            raise IndexCorrupt("its search arrays are not those of its text; insert it again")
        if name in self.ids:
            raise IndexCorrupt("there are two documents with this id")
        self.ids[name] = None
