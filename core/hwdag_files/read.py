"""Documents from files and folders. Notes list everything that is left out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as brief
from typing import Any, NamedTuple

from hwdag.errors import InputError
from hwdag.trace.bars import Reporter, Silent, as_reporter
from hwdag.types import Document
from hwdag_files.content import Content, UnreadableError, has_ocr
from hwdag_files.converting import CONVERTED_SUFFIXES, convert, parse
from hwdag_files.encodings import UNREADABLE
from hwdag_files.kinds import ARCHIVE, PICTURE, kind_of
from hwdag_files.parts import in_parts
from hwdag_files.readers import PACKED_SUFFIXES, READERS, TEXT_READERS
from hwdag_files.texts import PLAIN_READERS, as_markdown, text_content

PARSED_SUFFIXES = frozenset({".pdf"}) | CONVERTED_SUFFIXES
KNOWN_SUFFIXES = frozenset(PLAIN_READERS) | frozenset(TEXT_READERS) | PARSED_SUFFIXES
"""Suffixes, in lower case, that are read from a directory."""

RESERVED = frozenset({"path", "notes", "page_starts", "times"})
"""Keys of the metadata that describe how a file was read."""

MAX_BYTES = 1 << 28
MAX_SECONDS = 300.0

MOST_UNREADABLE = 0.2
"""Share of characters that cannot be read; a file with more is skipped."""

FEW_UNREADABLE = 16  # characters that cannot be read and do not matter in a short text

LONGEST_PAGE = 1 << 20
"""Bytes of a page, or another text with a structure, that is parsed within this process, without a limit of time."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """A path that gives no document, and why."""

    path: str
    reason: str


def read_documents(
    paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    max_bytes: int = MAX_BYTES,
    max_seconds: float = MAX_SECONDS,
    show_progress: bool | Reporter = False,
) -> Iterator[Document | Skipped]:
    """Read files, and directories recursively in sorted order, one at a time.

    From a directory, files with one of `KNOWN_SUFFIXES` are read; hidden names, links to directories, and
    links to files outside of it are not followed. A file that is named explicitly is read whatever its
    suffix is, as text if that is unknown. The first bytes count for more than the suffix: a PDF named .txt is
    read as a PDF, with a note, and an image or an archive is skipped. A file that is reached twice is read once.

    `Document.id` is the path as it was named, in POSIX style. The title is the one that the file gives
    itself, or its stem. `metadata` is `{"path": id, "notes": [...]}`, whose notes list replacements
    and losses. A PDF also has `page_starts` (see `Document.page_of`), a Markdown file its front matter, a
    mail its headers. Line breaks become line feeds, and rows of tables name their columns (`hwdag.text.tables`); all else of a text stays as it is. A text of
    more than 4 million characters is several documents (`hwdag_files.parts`).

    Args:
        paths: files and directories, or one of them.
        max_bytes: larger files are not read.
        max_seconds: for parsing one PDF, office file or large page.
        show_progress: whether to show the pages of a scan that OCR reads, or a `Reporter` that does.

    Raises:
        InputError: a path does not exist, or is not a path; nothing is read then.
    """
    is_one = isinstance(paths, str | bytes) or not isinstance(paths, Iterable)
    given: list[Any] = [paths] if is_one else list(paths)  # type: ignore[arg-type] # a path is one
    if wrong := [one for one in given if not isinstance(one, str | os.PathLike) or not str(one)]:
        raise InputError(
            f"a path must be a text or an os.PathLike, not empty, got {brief(wrong[0])}"
        )
    named = list(map(Path, given))
    for path in named:
        try:
            path.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"cannot read {spelled(path)!r}: {reason}; give existing files or directories"
            ) from error
    return _read_all(named, _Limits(max_bytes, max_seconds, as_reporter(show_progress)))


def read_bytes(data: bytes, name: str, *, max_seconds: float = MAX_SECONDS) -> Document | Skipped:
    """Read the bytes of one file, by the suffix of its name, as `read_documents` reads a file.

    Nothing is written to the disk.
    """
    try:
        return _parsed(data, name, _Limits(len(data), max_seconds, Silent()))
    except UnreadableError as error:
        return Skipped(name, str(error))


class _Limits(NamedTuple):
    """Limits for one file, and the reporter that shows its progress."""

    max_bytes: int
    max_seconds: float
    reporter: Reporter


def _read_all(named: Sequence[Path], limits: _Limits) -> Iterator[Document | Skipped]:
    read: dict[Path, str] = {}
    for path in named:
        for found in _members(path) if path.is_dir() else [path]:
            if isinstance(found, Skipped):
                yield found
                continue
            name = spelled(found)
            try:
                yield from in_parts(_document(found, name, read, limits))
            except OSError as error:
                yield Skipped(name, f"cannot be read: {error.strerror or error}")
            except UnreadableError as error:
                yield Skipped(name, str(error))


def _document(path: Path, name: str, read: dict[Path, str], limits: _Limits) -> Document:
    """Read a file that is not in `read`, the real paths so far and the ids they were read under."""
    if not path.is_file():  # why: a pipe or a device may never end
        raise UnreadableError("not a regular file, or a broken link")
    first = read.setdefault(path.resolve(), name)
    if first is not name:
        raise UnreadableError(f"already read as {first!r}")
    with path.open("rb") as file:
        data = file.read(limits.max_bytes + 1)
    if len(data) > limits.max_bytes:
        raise UnreadableError(f"larger than {limits.max_bytes:,} bytes; allow more with max_bytes")
    return _parsed(data, name, limits)


def _parsed(data: bytes, name: str, limits: _Limits) -> Document:
    content = _content(data, Path(name).suffix.lower(), limits)
    odd = len(content.text) - len(UNREADABLE.sub("", content.text))
    if odd > max(MOST_UNREADABLE * len(content.text), FEW_UNREADABLE):
        raise UnreadableError(
            f"{odd:,} of its {len(content.text):,} characters cannot be read; convert it to UTF-8"
        )
    own: dict[str, Any] = {"path": name, "notes": list(content.notes)}
    if content.page_starts:
        own["page_starts"] = list(content.page_starts)
    own["notes"] += [
        f"{key!r} of its metadata left out: hwdag uses that name"
        for key in sorted(content.metadata.keys() & RESERVED)
    ]
    if content.times:
        own["times"] = [list(pair) for pair in content.times]
    kept = {key: value for key, value in content.metadata.items() if key not in RESERVED}
    return Document(name, content.text, content.title or Path(name).stem, {**kept, **own})


def _content(data: bytes, suffix: str, limits: _Limits) -> Content:
    kind = kind_of(data, suffix)
    # why archives too: the reader of a damaged package reports the damage
    if (
        kind is None
        or kind.suffix == suffix != ""
        or (kind is ARCHIVE and suffix in PACKED_SUFFIXES)
        or (suffix in READERS and READERS[suffix] is READERS.get(kind.suffix))
    ):
        return _read_as(suffix, data, limits)
    if kind.suffix == PICTURE and has_ocr():
        return convert(data, PICTURE, max_seconds=limits.max_seconds, reporter=limits.reporter)
    if kind.suffix not in KNOWN_SUFFIXES:
        advice = f"; {kind.advice}" if kind.advice else ""
        raise UnreadableError(f"it is {kind.name}, which hwdag does not read{advice}")
    content = _read_as(kind.suffix, data, limits)
    note = f"it is {kind.name} and no {suffix or 'text'} file: read as {kind.suffix}"
    return replace(content, notes=(note, *content.notes))


def _read_as(suffix: str, data: bytes, limits: _Limits) -> Content:
    if suffix in TEXT_READERS and len(data) <= LONGEST_PAGE:
        return parse(data, suffix)
    if suffix in TEXT_READERS or suffix in PARSED_SUFFIXES:
        content = convert(data, suffix, max_seconds=limits.max_seconds, reporter=limits.reporter)
        return as_markdown(content) if suffix in CONVERTED_SUFFIXES else content
    return PLAIN_READERS.get(suffix, text_content)(data)


def spelled(path: Path) -> str:
    """Return the path in POSIX style; bytes that are not UTF-8 are spelled out, as Python does."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _members(directory: Path) -> Iterator[Path | Skipped]:
    """Yield the files below a directory: those of a folder before those of its subfolders, each sorted."""
    problems: list[OSError] = []
    found = False
    for folder, subfolders, files in os.walk(directory, onerror=problems.append):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for member in sorted(Path(folder, name) for name in files if not name.startswith(".")):
            if member.suffix.lower() in KNOWN_SUFFIXES:
                found, is_link = True, member.is_symlink() and member.is_file()
                if is_link and not member.resolve().is_relative_to(directory.resolve()):
                    reason = "a link to a file outside the folder; name it to have it read"
                    yield Skipped(spelled(member), reason)
                else:
                    yield member
            else:
                kind = f"{member.suffix} is" if member.suffix else "without a suffix it is"
                yield Skipped(
                    spelled(member), f"{kind} no known kind; name the file to have it read"
                )
        for link in (Path(folder, name) for name in subfolders if Path(folder, name).is_symlink()):
            yield Skipped(spelled(link), "a link to a directory; name it to have it read")
    for problem in problems:
        yield Skipped(spelled(Path(problem.filename)), f"cannot be read: {problem.strerror}")
    if not (found or problems):
        known = ", ".join(sorted(KNOWN_SUFFIXES))
        yield Skipped(spelled(directory), f"holds no file with a known suffix ({known})")
