"""JSON from strangers: rows with their place in the file, typed fields, one way to report."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from hwdag.errors import InputError, UnknownOption
from hwdag.text.characters import without_surrogates

Malformed = Literal["error", "skip"]
"""What a malformed record does: end the reading, or be left out and said."""

OnSkip = Callable[[str], None]
"""Takes the message of a record that was left out."""

Row = Mapping[str, Any]
"""A JSON object whose fields nobody has checked yet."""

Item = TypeVar("Item")
Result = TypeVar("Result")

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    type(None): "null",
}


class DataError(InputError):
    """A data file cannot be read: `<file>:<line>: what is wrong`, or `<file>: item <n>: ...`."""


class MalformedRecord(Exception):
    """What is wrong with a record, without its place; `checked` makes it a `DataError`."""


def checked(
    items: Iterable[tuple[str, Item]],
    parse: Callable[[Item], Result],
    malformed: Malformed,
    on_skip: OnSkip | None,
) -> Iterator[Result]:
    """`parse` of every item; `items` are pairs of a place ("file:line") and what stands there.

    Raises:
        UnknownOption: `malformed` is neither "error" nor "skip" (at once, not at the first item).
        DataError: `parse` raised `MalformedRecord` and `malformed` is "error".
    """
    if malformed not in ("error", "skip"):
        raise UnknownOption(f'malformed={malformed!r} is unknown; use "error" or "skip"')
    return _checked(items, parse, malformed, on_skip)


def _checked(
    items: Iterable[tuple[str, Item]],
    parse: Callable[[Item], Result],
    malformed: Malformed,
    on_skip: OnSkip | None,
) -> Iterator[Result]:
    for place, item in items:
        try:
            result = parse(item)
        except MalformedRecord as problem:
            message = f"{place}: {problem}"
            if malformed == "error":
                raise DataError(
                    f'{message}; correct it, or leave it out with malformed="skip" (--malformed skip)'
                ) from problem
            if on_skip:
                on_skip(message)
        else:
            yield result


def lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Lines that are not blank, each with its place; the file is never in memory as a whole.

    Raises:
        DataError: the file cannot be opened.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.removeprefix(codecs.BOM_UTF8).strip():
                    yield f"{path}:{number}", line
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> DataError:
    """The `DataError` for a file that the system does not give."""
    return DataError(f"{path}: cannot be read ({error.strerror or error}); give an existing file")


def json_file(path: Path) -> Any:
    """The JSON value that a file holds, which is read as a whole.

    Raises:
        DataError: the file cannot be opened, or is not UTF-8, or not JSON.
    """
    try:
        return decoded(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error
    except MalformedRecord as problem:
        raise DataError(f"{path}: {problem}") from problem


def json_row(line: bytes) -> Row:
    """The JSON object of one line; MalformedRecord if it is anything else."""
    return row(decoded(line), "the line")


def decoded(data: bytes) -> Any:
    """The JSON value in UTF-8 bytes; MalformedRecord if they are not that."""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"not UTF-8 at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"not JSON ({error})") from error


def row(value: Any, name: str) -> Row:
    """`value` as a JSON object; the `name` is for the message."""
    if not isinstance(value, dict):
        raise MalformedRecord(f"{name} is {_kind(value)}, not an object")
    return value


def items(value: Any, name: str) -> list[Any]:
    """`value` as a JSON list."""
    if not isinstance(value, list):
        raise MalformedRecord(f"{name} is {_kind(value)}, not a list")
    return value


def string(value: Any, name: str, *, blank: bool = False) -> str:
    """`value` as text, which must hold more than whitespace unless `blank` is True."""
    if not isinstance(value, str):
        raise MalformedRecord(f"{name} is {_kind(value)}, not a string")
    if not blank and not value.strip():
        raise MalformedRecord(f"{name} is blank")
    if not value.isascii() and without_surrogates(value)[1]:
        raise MalformedRecord(f"{name} holds half of a surrogate pair, which is not Unicode text")
    return value


def integer(value: Any, name: str) -> int:
    """`value` as a whole number; True and False are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedRecord(f"{name} is {_kind(value)}, not a whole number")
    return value


def field(of: Row, key: str, where: str = "") -> Any:
    """The value of a field that must be there; `where` names the object in the message."""
    if key not in of:
        raise MalformedRecord(f"{named(key, where)} is missing")
    return of[key]


def text_field(of: Row, key: str, where: str = "", *, blank: bool = False) -> str:
    """A field that must be there and be text."""
    return string(field(of, key, where), named(key, where), blank=blank)


def optional_text(of: Row, key: str, where: str = "") -> str:
    """A field that may be absent or null; if it is there, it must be text, which may be blank."""
    value = of.get(key)
    return "" if value is None else string(value, named(key, where), blank=True)


def rows_field(of: Row, key: str, where: str = "") -> list[Row]:
    """A field that must be there and be a list of objects."""
    name = named(key, where)
    return [row(v, f"{name}[{i}]") for i, v in enumerate(items(field(of, key, where), name))]


def texts_field(of: Row, key: str, where: str = "", *, blank: bool = False) -> list[str]:
    """A field that must be there and be a list of texts."""
    name = named(key, where)
    values = items(field(of, key, where), name)
    return [string(value, f"{name}[{i}]", blank=blank) for i, value in enumerate(values)]


def named(key: str, where: str = "") -> str:
    """How messages call a field: `"answers" of questions[2]`."""
    return f'"{key}"' + (f" of {where}" if where else "")


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)
