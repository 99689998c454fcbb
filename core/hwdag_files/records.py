"""JSON to text: a record is one line that names its keys, "id: 7, customer.name: Ann, order.count: 70"."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from hwdag.text.sentences import LONGEST_ROW
from hwdag.text.tables import ROW, table_lines
from hwdag_files.content import Content, as_notes
from hwdag_files.encodings import decoded

Pair = tuple[str, str]  # a path such as "customer.name", and its value

LONGEST_VALUE = 400  # characters of a value within a line; longer ones are paragraphs
LONGEST_NUMBERS = 32  # of a list; longer ones are no text, such as embeddings
_TITLES = ("title", "name", "subject", "headline", "question", "id")
_DATA = re.compile(r"(?:data:[\w/+.-]+;base64,)?[A-Za-z0-9+/_=-]{256,}")
_HEADING = re.compile(r"^(?=#{1,4}\s)", re.M)
NOTES = {
    "broken": "{} line{s} of JSON that cannot be read kept as text",
    "numbers": "{} list{s} of more than 32 numbers left out",
    "data": "{} value{s} of encoded data left out",
}


class _Number(str):
    """A number as it is written: "1.10" is another text than 1.1."""

    __slots__ = ()


class _Repeated(list[Any]):
    """The values of a key that an object has more than once."""


def records_content(data: bytes) -> Content:
    """Read JSON, or a line of JSON for each record; numbers stay as they are written."""
    text, notes = decoded(data)
    noted = Counter[str]()
    try:
        values = [_load(text)]
    except ValueError as error:
        values = _each_line(text, noted) or _one_after_another(text)
        if not values:
            return Content(text, "", (*notes, f"not valid JSON ({error}): read as text"))
    value = values[0] if len(values) == 1 else values
    title = value.get("title") if isinstance(value, dict) else None
    lines = record_lines(value, noted)
    title = title if isinstance(title, str) else ""
    return Content("\n".join(lines), title, (*notes, *as_notes(noted, NOTES)))


def _load(text: str) -> Any:
    return _decoder().decode(text)


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_object, parse_float=_Number, parse_int=_Number, parse_constant=_Number
    )


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        found = {key: _Repeated() for key, _ in pairs}
        for key, value in pairs:
            found[key].append(value)
        return {key: value if len(value) > 1 else value[0] for key, value in found.items()}
    return found


def _each_line(text: str, noted: Counter[str]) -> list[Any]:
    """Return the values of the lines, if most of them are JSON; others as texts."""
    values, broken = list[Any](), 0
    for line in filter(str.strip, text.split("\n")):
        try:
            values.append(_load(line.strip("\x1e \t")))
        except ValueError:
            values.append(line.strip())
            broken += 1
    if 2 * broken >= len(values):
        return []
    noted["broken"] += broken
    return values


def _one_after_another(text: str) -> list[Any]:
    """Return values that follow each other, over several lines each; empty if one is not JSON."""
    values, decoder, at = list[Any](), _decoder(), 0
    blank = re.compile(r"[\s\x1e]*")
    while (at := blank.match(text, at).end()) < len(text):  # type: ignore[union-attr]
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            return []
        values.append(value)
    return values


def record_lines(value: Any, noted: Counter[str], path: str = "") -> Iterator[str]:
    """Yield the lines of a value of JSON: its records, below the path of their list.

    `noted` counts values that are left out, by the keys of `NOTES`.
    """
    if isinstance(value, dict) and (records := _rows_of_columns(value)):
        value = records
    if isinstance(value, list):
        if path:
            yield from ("", f"# {path}", "")
        yield from _list(value, noted)
    elif isinstance(value, dict):
        if len(value) > 1 and all(isinstance(one, dict) for one in value.values()):
            yield from _list([{"": key, **one} for key, one in value.items()], noted)
            return
        inner = [key for key, one in value.items() if _holds_records(one)]
        simple = {key: one for key, one in value.items() if key not in inner}
        yield from _list([_within(path, simple)], noted)
        for key in inner:
            yield from record_lines(value[key], noted, f"{path}.{key}" if path else key)
    else:
        yield from _list([value], noted)


def _within(path: str, value: Any) -> Any:
    return {path: value} if path else value


def _holds_records(value: Any, levels: int = 8) -> bool:
    """Return whether a value is, or holds below a few levels of keys, a list of objects or lists."""
    if isinstance(value, dict):
        return levels > 0 and any(_holds_records(one, levels - 1) for one in value.values())
    return (
        isinstance(value, list)
        and len(value) > 1
        and any(isinstance(one, dict) or (isinstance(one, list) and len(one) > 1) for one in value)
    )


def _rows_of_columns(value: dict[str, Any]) -> list[Any]:
    """Return the rows of a table that is stored by columns, as pandas writes it; else empty."""
    names, rows = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(rows, list) and _is_table([names, *rows]):
        return [names, *rows]
    columns = list(value.values())
    is_stored_so = len(columns) > 1 and all(
        isinstance(one, dict) and one and one.keys() == columns[0].keys() for one in columns
    )
    if not is_stored_so or not all(map(str.isdecimal, columns[0])):
        return []
    return [{name: one[row] for name, one in value.items()} for row in columns[0]]


def _is_table(rows: Sequence[Any]) -> bool:
    return len(rows) > 1 and all(
        isinstance(row, list) and len(row) > 1 and not any(isinstance(c, dict | list) for c in row)
        for row in rows
    )


def _list(values: Sequence[Any], noted: Counter[str]) -> Iterator[str]:
    """Yield a line for each record; from the first one that takes several lines on, headings above each."""
    if _is_table(values):
        yield from table_lines([list(map(_shown, row)) for row in values])
        return
    is_headed = False
    for value in values:
        pairs = list(_pairs(value, "", noted))
        line = _line(pairs)
        is_long = len(line) > LONGEST_ROW or any(len(text) > LONGEST_VALUE for _, text in pairs)
        is_headed = is_headed or (is_long and len(values) > 1)
        if is_headed and (title := _title(pairs)):
            yield from ("", f"## {title}", "")
        if is_long:
            yield from _lines(pairs)
        elif pairs:
            yield line


def _pairs(value: Any, path: str, noted: Counter[str]) -> Iterator[Pair]:
    """Yield the values of a record, each with its path; members of lists are counted from 1."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _pairs(one, f"{path}.{key}" if path and key else path or key, noted)
    elif isinstance(value, list):
        if _numbers_in(value) > LONGEST_NUMBERS:
            noted["numbers"] += 1
        elif any(isinstance(one, dict | list) for one in value) and not _is_repeated_text(value):
            for number, one in enumerate(value, 1):
                inner = f"{path}.{number}" if path and len(value) > 1 else path
                yield from _pairs(one, inner, noted)
        elif value:
            yield path, "; ".join(filter(None, map(_shown, value)))
    elif _DATA.fullmatch(text := _shown(value)):
        noted["data"] += 1
    elif text:
        yield path, text


def _is_repeated_text(value: list[Any]) -> bool:
    return isinstance(value, _Repeated) and not any(isinstance(one, dict | list) for one in value)


def _numbers_in(value: Any) -> int:
    """Count the numbers of a list, and of lists in it; 0 if anything else is there."""
    if not isinstance(value, list):
        return int(isinstance(value, _Number))
    counts = list(map(_numbers_in, value))
    return sum(counts) if all(counts) else 0


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def _line(pairs: Sequence[Pair]) -> str:
    comma = "; " if any(", " in text for _, text in pairs) else ", "
    named = (f"{path}: {text}" if path else text for path, text in pairs)
    return ROW + comma.join(" ".join(one.split()) for one in named)


def _title(pairs: Sequence[Pair]) -> str:
    """Return the value that names a record; "" if it has no short one."""
    short = {path: text for path, text in reversed(pairs) if len(text) <= 80 and "\n" not in text}
    last = {path.rpartition(".")[2].casefold(): text for path, text in short.items()}
    first = next(reversed(short.values()), "")
    return last.get("") or next((last[key] for key in _TITLES if key in last), first)


def _lines(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield a long record: a line for each object in it, and its long texts as paragraphs."""
    short = [pair for pair in pairs if len(pair[1]) <= LONGEST_VALUE]
    for _, found in groupby(short, lambda pair: pair[0].rpartition(".")[0]):
        row = list[Pair]()
        for pair in found:
            if row and len(_line([*row, pair])) > LONGEST_ROW:
                yield _line(row)
                row = []
            row.append(pair)
        yield _line(row)
    for path, text in pairs:
        if len(text) > LONGEST_VALUE:
            # why: headings within the text are below that of the record
            text = _HEADING.sub("##", text.replace("\r\n", "\n").replace("\r", "\n"))
            yield from ("", text if text.startswith("#") or not path else f"{path}: {text}", "")
