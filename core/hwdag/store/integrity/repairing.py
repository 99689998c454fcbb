"""Saves what is whole of a damaged file into a new one."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from hwdag.config import BuildConfig
from hwdag.errors import IndexCorrupt, IndexFileError, InputError, NotAnIndex
from hwdag.store.calls import write_calls
from hwdag.store.integrity.first_page import nothing_in, readable_file
from hwdag.store.integrity.signs import UNREADABLE
from hwdag.store.integrity.survey import Found, Survey, moment, opened, survey_of
from hwdag.store.integrity.verifying import Verdict, verify
from hwdag.store.placing import beside, explained, settle, sync
from hwdag.store.schema import Header
from hwdag.store.sqlite import Store
from hwdag.store.units import write_unit
from hwdag.trace.bars import Reporter, as_reporter

_BATCH = 256
"""Cached calls that are in memory at once."""

_BESIDE = ("-journal", "-wal", "-shm")
"""Endings of files that SQLite may have left; they belong to the damaged file alone."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did.

    Attributes:
        path: the file that is whole now.
        damaged: the file that is not; None if nothing had to be done.
        kept: ids of the documents in it, in order.
        lost: ids of the documents that are not in it; inserting them again makes it complete.
        unnamed: documents or groups that were lost and whose ids cannot be read.
        calls: cached model calls in it.
        notes: in words, what else is not as it was.
    """

    path: Path
    damaged: Path | None
    kept: tuple[str, ...]
    lost: tuple[str, ...] = ()
    unnamed: int = 0
    calls: int = 0
    notes: tuple[str, ...] = ()


def repair(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    reader: str | None = None,
    embedder: str | None = None,
    show_progress: bool | Reporter = False,
) -> Repaired:
    """Save every document that is whole, and every cached call, into a new file.

    The new file takes the place of the old one, which is kept as `FILE.damaged`; or it is written to
    `output`, and the old one stays where it is. Other programs should have closed the file. A file
    that is sound is left alone.

    Args:
        path: an index file; of an older format version too.
        output: a file that does not exist yet.
        reader: name of the reader, used where the file does not say it any more.
        embedder: name of the embedder, likewise.
        show_progress: `True` for a bar, or your own.

    Raises:
        InputError: `FILE.damaged` or `output` exists.
        IndexFileError: there is no such file, or the new one cannot be written.
        IndexVersionError: written by a newer hwdag.
        IndexCorrupt: nothing can be saved, or nobody knows what it was built with.
    """
    path = Path(path).resolve()
    reporter = as_reporter(show_progress)
    sound = _if_sound(path, reporter)
    if sound and output is None:
        return Repaired(path, None, sound.whole)
    target = path.with_name(f"{path.name}.damaged") if output is None else Path(output).resolve()
    if target.exists():
        raise InputError(f"{target} exists; move it away, or name another output")
    with explained(), beside(target) as unfinished:
        repaired = _save(path, unfinished, _Names(reader, embedder), reporter)
        if not (sound or repaired.kept or repaired.calls):
            raise nothing_in(path)
        if not verify(unfinished).sound:
            raise IndexFileError(
                f"what was saved of {path} is damaged again; {path} stays as it was: check the disk"
            )
        if output is not None:
            settle(unfinished, target)
            return replace(repaired, path=target, damaged=None if sound else path)
        _exchange(unfinished, path, target)
    return replace(repaired, path=path, damaged=target)


def _if_sound(path: Path, reporter: Reporter) -> Verdict | None:
    try:
        verdict = verify(path, show_progress=reporter)
    except NotAnIndex:  # because of its first bytes, or indeed; what can be saved decides
        return None
    return verdict if verdict.sound else None


class _Names(NamedTuple):
    """What the caller says of a header that cannot be read."""

    reader: str | None
    embedder: str | None


def _save(path: Path, unfinished: Path, names: _Names, reporter: Reporter) -> Repaired:
    with (
        readable_file(path) as source,
        closing(opened(source)) as database,
        moment(database) as connection,
    ):
        survey = survey_of(connection)
        header, notes = _header(path, survey, names)
        with Store.create(unfinished, header) as store:
            saved = _Saved(survey, header.dimension)
            with store._database.writing() as target:
                saved.copy(target, reporter)
    return saved.report(path, notes)


def _header(path: Path, survey: Survey, names: _Names) -> tuple[Header, tuple[str, ...]]:
    """The header, or one of what is left of it, with a note about that."""
    with suppress(*UNREADABLE):
        return survey.header(), ()
    values = survey.header_values()
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    texts |= {name: value for name, value in names._asdict().items() if value is not None}
    dimension = survey.dimension() or values.get("dimension")
    missing = [name for name in names._fields if name not in texts]
    if missing:
        raise IndexCorrupt(
            f"{path} does not say any more which {' and '.join(missing)} it was built with; say it "
            f"with {' and '.join(f'{name}=NAME' for name in missing)}, on the command line "
            f"{' '.join(f'--{name} NAME' for name in missing)}"
        )
    if type(dimension) is not int or dimension < 1:
        raise nothing_in(path)
    header = Header(texts["reader"], texts["embedder"], dimension, _config(values.get("config")))
    return header, (f"the header was damaged and is a guess, check it: {header}",)


def _config(found: Any) -> Mapping[str, Any]:
    """Build options as they stand, or none, which means the defaults."""
    try:
        BuildConfig.from_dict(found)
    except (InputError, TypeError, ValueError, AttributeError):
        return {}
    config: Mapping[str, Any] = found
    return config


class _Saved:
    """What gets into the new file, and what does not."""

    def __init__(self, survey: Survey, dimension: int) -> None:
        self._survey = survey
        self._dimension = dimension
        self._numbers = set[int]()
        self._kept = dict[str, None]()
        self._lost = list[str | None]()
        self._groups = 0
        self._calls = 0
        self._lost_calls = 0

    def copy(self, target: sqlite3.Connection, reporter: Reporter) -> None:
        """Everything that is whole, under its number."""
        signs = self._survey.signs()
        with reporter.stage("repair", len(signs.tried), "documents") as advance:
            for number in signs.tried:
                if (found := self._find(number)) is not None:
                    self._write(target, number, found)
                elif number in signs.known:
                    self._lost.append(self._survey.id_of(number))
                advance()
        calls = self._survey.calls()
        while batch := list(islice(calls, _BATCH)):
            rows = [row for _, row in batch if row is not None]
            write_calls(target, rows)
            self._calls += len(rows)
            self._lost_calls += len(batch) - len(rows)

    def report(self, path: Path, notes: tuple[str, ...]) -> Repaired:
        names = (name for name in self._lost if name is not None and name not in self._kept)
        return Repaired(
            path=path,
            damaged=None,
            kept=tuple(self._kept),
            lost=tuple(dict.fromkeys(names)),
            unnamed=self._lost.count(None),
            calls=self._calls,
            notes=(*notes, *self._notes()),
        )

    def _find(self, number: int) -> Found | None:
        try:
            return self._survey.find(number, self._dimension)
        except UNREADABLE:
            return None

    def _write(self, target: sqlite3.Connection, number: int, found: Found) -> None:
        if not self._numbers.issuperset(found.unit.members):
            self._groups += 1
        elif found.entry is None or found.entry.document.id not in self._kept:
            write_unit(target, found.unit, number)
            self._numbers.add(number)
            if found.entry is not None:
                self._kept[found.entry.document.id] = None

    def _notes(self) -> Iterator[str]:
        if self._groups:
            yield (
                f"groups of corpus layers that rested on what is lost: {self._groups}; the next "
                "build makes them anew"
            )
        if self._lost_calls:
            yield f"cached calls that were damaged: {self._lost_calls}; they will be made again"


def _exchange(unfinished: Path, path: Path, damaged: Path) -> None:
    """Put the new file in the place of the old one, which gets another name first."""
    try:
        os.link(path, damaged)
    except OSError:  # a file system without links
        shutil.copyfile(path, damaged)
        sync(damaged)
    for ending in _BESIDE:
        leftover = path.with_name(path.name + ending)
        if leftover.exists():  # SQLite would apply it to the new file
            leftover.rename(damaged.with_name(damaged.name + ending))
    unfinished.replace(path)
    sync(path.parent)
