"""Tables as lines that can be read alone: every row names the column of each value.

    | Town  | 2021 | 2022 |      | Town, 2021, 2022
    | ----- | ---- | ---- |      | Hamar, 2021: 530, 2022: 541
    | Hamar | 530  | 541  |

A row found by a search names its numbers without the header, which may be pages above.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import StringIO
from itertools import accumulate, chain, islice, pairwise, repeat, zip_longest
from typing import NamedTuple

Row = Sequence[str]

ROW = "| "  # how a line begins that is a row; sentences end with it

NAMES = " | "  # between the names of columns
LONGEST_NAME = 80  # characters of a column's name; a longer cell is a text
LONGEST_REPEATED = 160  # characters of a name that every row has
MOST_REPEATED = 20
"""How many times as long a large table may become by the names of its columns in every row."""

SMALL_TABLE = (
    1 << 20
)  # characters of names in all rows, up to which only the length of a name counts
NAMED_ONCE = "{} long name{s} of columns written once, not in every row"
"""The note on names that `table_lines` counts under this text."""

_SUMS = ("total", "sum", "subtotal", "gesamt", "insgesamt", "zwischensumme", "somme", "totaal")
_MISSING = frozenset({"none", "n/a", "na", "nan", "null", "-", "–", "—", "?", "unknown", "keine"})
MOST_SIDE_BY_SIDE = 256  # columns of a sheet that may hold several tables
MOST_ABOVE = 50  # rows above the table of a file
SNIFFED = 1 << 16  # characters from which the separator of a file is detected

_NUMBER = re.compile(r"[-+−(]?[$€£]?\s?\d[\d.,:'\s]*(?:[%€$£]|[A-Z]{3})?\)?[⁰¹²³⁴-⁹]*")
_YEAR = re.compile(r"[12]\d{3}|(?:19|20)\d\d [A-Z]{3,4}")  # or "2022 TEUR"
_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
END = "\x1f"
"""The one cell of a row after the last one: a quotation mark that is open there is never closed."""

_FENCE = re.compile(r"(`{3,})[^`]*|(~{3,}).*")


def table_lines(
    rows: Iterable[Row], *, has_header: bool | None = None, noted: Counter[str] | None = None
) -> list[str]:
    """Return a line for every row; empty cells and rows are left out.

    The names of the columns precede the values, except in the first column, which names the row. The first
    line has the names if they would be lost, or are too long to be repeated.

    Args:
        rows: the cells of each row.
        has_header: whether the first row names the columns; None to detect it.
        noted: counts the names that are not repeated, under `NAMED_ONCE`.
    """
    filled = [row for row in (list(map(_one_line, row)) for row in rows) if any(row)]
    comma = "; " if any(", " in cell for row in filled for cell in row) else ", "
    if has_header is None:
        filled = _without_empty_columns(filled)
        if (beside := _side_by_side(filled)) is not None:
            return [_line(names, row, comma) for names, row in zip(beside, filled, strict=True)]
        names, start = told_names(filled)
        body = _with_groups(filled[start:]) if start else filled
    else:
        names = filled[0] if has_header and len(filled) > 1 else []
        body = filled[1 if names else 0 :]
    repeated = _repeated(names, body)
    shown = {i for row in body for i, value in enumerate(row) if i and value}
    once = sum(bool(i and name and not repeated[i]) for i, name in enumerate(names))
    if once and noted is not None:
        noted[NAMED_ONCE] += once
    lines = [_line(repeated, row, comma) for row in body]
    is_lost = once or any(name and i not in shown for i, name in enumerate(names))
    return [_line([], names, comma), *lines] if is_lost else lines


def _repeated(names: Row, body: Sequence[Row]) -> list[str]:
    """Return the names that every row repeats; "" for a name that makes the table too long."""
    kept = [name if len(name) <= LONGEST_REPEATED else "" for name in names]
    if sum(map(len, kept)) * len(body) <= SMALL_TABLE:
        return kept
    uses = Counter(i for row in body for i, value in enumerate(row) if value)
    most = MOST_REPEATED * sum(len(value) + 1 for row in body for value in row)
    lengths = sorted({len(name) for name in kept}, reverse=True)
    for longest in lengths:
        if sum(len(name) * uses[i] for i, name in enumerate(kept)) <= max(most, SMALL_TABLE):
            break
        kept = ["" if len(name) >= longest else name for name in kept]
    return kept


def told_names(rows: Sequence[Row]) -> tuple[list[str], int]:
    """Return the names of the columns, and how many rows have them: up to three, or none without names.

    A header names all columns, or it is above columns of numbers.
    """
    if len(rows) > 3 and _names_groups(rows[0]) and _is_below_groups(rows[1:]):
        return _joined_names(rows[:3]), 3
    if len(rows) > 2 and _is_below_groups(rows):
        return _joined_names(rows[:2]), 2
    if names_columns(rows) or (len(rows) > 2 and _is_above_numbers(rows)):
        return list(rows[0]), 1
    return [], 0


def _joined_names(heads: Sequence[Row]) -> list[str]:
    """Return a name for each column from those of its groups and its own; a group may span columns."""
    levels = list[list[str]]()
    for head in heads[:-1]:
        groups = list[str]()
        for cell, name in zip_longest(head, heads[-1], fillvalue=""):
            groups.append(cell or (groups[-1] if name and len(groups) > 1 else ""))
        levels.append(groups)
    columns = zip_longest(*levels, heads[-1], fillvalue="")
    return [" ".join(dict.fromkeys(filter(None, column))) for column in columns]


def _names_groups(row: Row) -> bool:
    return not row[0] and any(row[1:]) and all(map(_may_name, filter(None, row)))


def _is_below_groups(rows: Sequence[Row]) -> bool:
    """Return whether the second row names columns, and the first one groups of them."""
    groups, names = rows[0], rows[1]
    below = [i for i, name in enumerate(names) if name and i]
    return (
        (not groups[0] or not names[0] or names[0] == groups[0])
        and len(below) > 1
        and all(_may_name(names[i]) for i in below)
        and all(map(_may_name, filter(None, groups)))
        and any(groups[1:])
        and (
            any(not groups[i : i + 1] or not groups[i] for i in below)
            or len({names[i] for i in below}) < len(below)
        )
        and has_numbers(rows[2:])
    )


def _is_above_numbers(rows: Sequence[Row]) -> bool:
    """Return whether most cells below a name are numbers; columns may lack names, or share one."""
    names = [name for name in rows[0] if name]
    if len(names) < 2 or len(set(names)) < 2 or not has_numbers(rows[1:]):
        return False
    if all(map(_may_name, names)):
        return True
    numbers = [int(one) for one in rows[0][1:] if one.isdecimal()]
    steps = {after - before for before, after in pairwise(numbers)}
    # why: hours and days of a month are names, such as 1, 2, 3
    return (
        len(numbers) > 2 and len(numbers) == len(rows[0]) - 1 and len(steps) == 1 and steps != {0}
    )


def _may_name(cell: str) -> bool:
    return len(cell) <= LONGEST_NAME and (_YEAR.fullmatch(cell) is not None or not is_number(cell))


def _with_groups(body: Sequence[Row]) -> list[Row]:
    """Return the rows with the name of their group, if only the first row of each group has it."""
    seconds = [row[1] if len(row) > 1 else "" for row in body]
    if not (body and body[0][0] and all(seconds)) or any(map(is_number, seconds)):
        return list(body)
    rows, group = list[Row](), ""
    for row in body:
        is_sum = row[1].casefold().startswith(_SUMS)  # why: it does not belong to the last group
        group = "" if is_sum else row[0] or group
        rows.append([row[0] or group, *row[1:]])
    return rows


def _without_empty_columns(rows: Sequence[Row]) -> list[list[str]]:
    """Return the rows up to the last column that any of them fills."""
    width = max((i for row in rows for i, cell in enumerate(row, 1) if cell), default=0)
    return [list(row[:width]) for row in rows]


def _side_by_side(rows: Sequence[Row]) -> list[list[str]] | None:
    """Return the names for each row if tables are side by side and begin in different rows."""
    filled = {i for row in rows for i, cell in enumerate(row) if cell}
    width = max(filled, default=0) + 1
    gaps = [i for i in range(width) if i not in filled]
    if not gaps or len(rows) < 3 or width > MOST_SIDE_BY_SIDE:
        return None
    edges = [-1, *gaps, width]
    blocks = [(first + 1, last) for first, last in pairwise(edges) if last - first > 2]
    starts = [next(i for i, row in enumerate(rows) if any(row[a:b])) for a, b in blocks]
    if len(set(starts)) < 2:
        return None
    names = [[""] * width for _ in rows]
    for (first, last), start in zip(blocks, starts, strict=True):
        block = [list(row[first:last]) for row in rows[start:] if any(row[first:last])]
        own, height = told_names(block)
        own = _repeated(own, block[height:])
        for line in names[start + height :] if height else ():
            line[first : first + len(own)] = own
    return names


def names_columns(rows: Sequence[Row]) -> bool:
    """Return whether the first row is a header: different short names in all columns, and no numbers.

    The first cell may be empty, and years are names.
    """
    if len(rows) < 2 or len(rows[0]) < 2 or len(rows[0]) < max(map(len, rows[1:])):
        return False
    names = rows[0][1:] if not rows[0][0] else rows[0]
    return len(set(names)) == len(names) and all(
        0 < len(name) <= LONGEST_NAME and (_YEAR.fullmatch(name) or not is_number(name))
        for name in names
    )


def has_numbers(rows: Sequence[Row]) -> bool:
    """Return whether most cells of a column, not the first one, are numbers."""
    columns = list(zip_longest(*rows, fillvalue=""))[1:]
    return any(2 * sum(map(is_number, column)) > len(column) for column in columns)


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, with its sign, unit of money or percent."""
    return _NUMBER.fullmatch(cell) is not None


def markdown_with_headers(text: str, noted: Counter[str] | None = None) -> str:
    """Write the tables of a Markdown text, those in code excepted, as `table_lines`."""
    lines, written, done = text.split("\n"), list[str](), 0
    for at, end in _tables_in(lines):
        names, body = _cells(lines[at]), [_cells(line) for line in lines[at + 2 : end]]
        named = [names, *body] if any(names) else body
        rows = table_lines(named, has_header=bool(any(names)) or None, noted=noted)
        written += [*lines[done:at], *rows]
        done = end
    return "\n".join([*written, *lines[done:]])


class Table(NamedTuple):
    """A table of a Markdown text: where its rows start and end, and the names of its columns."""

    start: int
    end: int
    names: str


def tables(text: str) -> Iterator[Table]:
    """Find the tables of a Markdown text, those in code excepted, in its order."""
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    for at, end in _tables_in(lines):
        names = NAMES.join(name.replace("|", "/") for name in _cells(lines[at]))
        yield Table(starts[at + 2], starts[end], names.rstrip(" |"))


def with_names(row: str, names: str) -> str:
    """Return a row of a Markdown table as `table_lines` has it, with the names of `Table`; else the text."""
    if NAMES not in names or "\n" in row or not row.startswith(ROW):
        return row
    columns, cells = names.split(NAMES), _cells(row)
    if len(columns) > len(cells):
        return row
    return _line(columns, cells, "; " if any(", " in cell for cell in cells) else ", ")


def _tables_in(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the line of the header of each table, and the line after its last row."""
    at, code = 0, fenced(lines)
    while at < len(lines):
        if at in code or not _is_header(lines, at):
            at += 1
            continue
        end = at + 2
        while end < len(lines) and "|" in lines[end] and end not in code:
            end += 1
        yield at, end
        at = end


def fenced(lines: Sequence[str]) -> set[int]:
    """Return the numbers of the lines of code between fences, those included (CommonMark 0.31, 4.5).

    A fence ends with as many of its signs, or more, alone in a line. An unclosed fence is ignored.
    """
    found, opened = set[int](), None
    for number, line in enumerate(map(str.strip, lines)):
        if opened is None:
            if match := _FENCE.fullmatch(line):
                opened = number, match[1] or match[2]
        elif line.startswith(opened[1]) and not line.strip(line[0]):
            found.update(range(opened[0], number + 1))
            opened = None
    return found


def is_rule(line: str) -> bool:
    """Return whether a line is the rule below the header of a Markdown table."""
    return "|" in line and _RULE.fullmatch(line.strip()) is not None


def separated_lines(text: str, noted: Counter[str] | None = None) -> list[str]:
    """Return the rows of a text with a separator, such as CSV, as `table_lines`; its lines if it has none.

    A text alone in its line above the table is its title. Rows above it that have fewer cells and
    an empty line below them do not belong to it.
    """
    try:
        rows = _rows(text)
    except csv.Error:  # a cell beyond 128 KB
        return text.split("\n")
    start = next((i for i, row in enumerate(rows) if any(row[1:])), 0)
    title = [line for row in rows[:start] if (line := _one_line(" ".join(row)))]
    above = [*title, ""] if title else []
    filled = [sum(map(bool, row)) for row in rows[: MOST_ABOVE + 1]]
    for i in range(start, len(filled) - 1):
        # why: such as the account and its balance above the bookings
        if not filled[i] and max(filled[start:i], default=0) < filled[i + 1]:
            above += [*table_lines(rows[start:i], has_header=False), ""]
            start = i + 1
    for part in _parts(rows[start:]):
        above += table_lines(part, noted=noted)
    return above


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Yield the tables that empty rows part, each with a title in a row of its own if it has one.

    Rows without names of their own belong to the table above the empty row.
    """
    start = 0
    for i in range(2, len(rows)):
        if any(rows[i - 1]) or not any(rows[i]):
            continue
        title = sum(map(bool, rows[i])) == 1
        ends = (k for k in range(i, len(rows)) if not any(rows[k]))
        own = rows[i + title : next(ends, len(rows))]
        if len(own) > 1 and sum(map(bool, own[0])) > 1 and _is_above_others(own):
            yield rows[start:i]
            if title:
                yield [list(filter(None, rows[i]))]
            start = i + title
    yield rows[start:]


def _is_above_others(rows: Sequence[Row]) -> bool:
    """Return whether the first row has no numbers, and most cells of a column below it are numbers."""
    values = any(is_number(cell) or cell.casefold() in _MISSING for cell in rows[0])
    return not values and has_numbers(rows[1:])


def _rows(text: str) -> list[list[str]]:
    """Return the rows of a text with a separator; a quotation mark that is never closed is a sign like others."""
    separator = _separator(text)
    with suppress(csv.Error):  # a cell beyond 128 KB, as an open quotation mark makes it
        rows = list(csv.reader(StringIO(text.rstrip("\n") + f"\n{END}", ""), delimiter=separator))
        if rows.pop() == [END]:
            return rows
    return list(csv.reader(StringIO(text, ""), delimiter=separator, quoting=csv.QUOTE_NONE))


def _line(names: Row, row: Row, comma: str) -> str:
    # why not over the names: a header may be far longer than the rows
    pairs = enumerate(zip(row, chain(names, repeat("")), strict=False))
    values = (f"{name}: {value}" if i and name else value for i, (value, name) in pairs if value)
    return f"{ROW}{comma.join(values)}"


def names_columns_of(line: str, row: str) -> bool:
    """Return whether a line is the header that `table_lines` writes above a row.

    A name that is too long to be repeated is nowhere else, so a line with such a name counts as text.
    """
    comma = "; " if "; " in line else ", "
    names = line.removeprefix(ROW).split(comma)
    named = {
        cell.partition(": ")[0] for cell in row.removeprefix(ROW).split(comma)[1:] if ": " in cell
    }
    return not named.isdisjoint(names) and max(map(len, names)) <= LONGEST_REPEATED


def _one_line(cell: str) -> str:
    return " ".join(cell.split())


def _is_header(lines: Sequence[str], at: int) -> bool:
    """Return whether a line is above a rule of as many columns, as GitHub's Markdown has it."""
    if "|" not in lines[at] or at + 1 == len(lines):
        return False
    rule = lines[at + 1]
    return is_rule(rule) and len(_cells(rule)) == len(_cells(lines[at]))


def _cells(line: str) -> list[str]:
    bare = line.strip().removeprefix("|")
    if bare.endswith("|") and not bare.endswith("\\|"):
        bare = bare[:-1]
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", bare)]


def _separator(text: str) -> str:
    """Return the sign that parts most of the first lines into equally many cells; a comma if none does."""
    head = list(islice(StringIO(text[:SNIFFED], ""), 50))
    agreeing = dict[str, int]()
    # why in this order: if as many agree, commas may be those of numbers
    for sign in "\t;|,":
        widths = Counter(len(row) for row in csv.reader(head, delimiter=sign))
        agreeing[sign] = max((n for width, n in widths.items() if width > 1), default=0)
    best = max(agreeing, key=lambda sign: agreeing[sign])
    return best if agreeing[best] else ","
