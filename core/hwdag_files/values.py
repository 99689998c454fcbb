"""Values of cells as the program shows them, which is by the format of each cell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from itertools import chain, takewhile

LONGEST_FORMAT = 255  # characters, as Excel has it
_MOST_DECIMALS = 30
_PLACES = frozenset("0#?")  # signs of a format for a digit
_ANY = Context(prec=400)  # digits; a number may have 309 of them before its point
_PIECE = re.compile(
    r"""
    "(?P<quoted>[^"]*)"? | \\(?P<escaped>.) | _. | \*. | \[\$(?P<unit>[^\]-]*)[^\]]*\]
    | \[(?:<|>|=)(?P<condition>[^\]]*)\] | \[[^\]]*\] | (?P<exponent>E[+-]0+) | (?P<general>General)
    | (?P<sign>[0\#?.,%/@]) | (?P<plain>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_LITERAL = re.compile(r'"[^"]*"?|\\.|\[[^\]]*\]|_.|\*.')


def as_shown(value: object, number_format: str = "General") -> str:
    """Return the value of a cell as a person sees it; dates in the order of ISO 8601."""
    if isinstance(value, datetime | date | time | timedelta):
        return _moment(value, number_format)
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return _number(value, number_format)
    return str(value)


def _moment(value: datetime | date | time | timedelta, number_format: str) -> str:
    """Return those parts of a date or time that its format shows."""
    if isinstance(value, timedelta):
        total = round(value.total_seconds())
        minutes, rest = divmod(abs(total), 60)
        return f"{'-' * (total < 0)}{minutes // 60}:{minutes % 60:02}:{rest:02}"
    form = _LITERAL.sub("", number_format.split(";")[0]).lower()
    form = form.replace("am/pm", "").replace("a/p", "")
    seconds = "seconds" if "s" in form else "minutes"
    if isinstance(value, time):
        return value.isoformat(seconds)
    has_clock = isinstance(value, datetime) and ("h" in form or "s" in form)
    day = value.date() if isinstance(value, datetime) else value
    if "d" not in form and "y" not in form and (has_clock or "m" not in form):
        shown = "" if has_clock else day.isoformat()
    elif "d" in form or "y" not in form or has_clock:
        shown = day.isoformat()
    else:
        shown = day.isoformat()[: 7 if "m" in form else 4]
    # why not midnight: dates that a program computes have it, whatever their format
    if isinstance(value, datetime) and has_clock and (value.time() != time() or not shown):
        return f"{shown} {value.time().isoformat(seconds)}".strip()
    return shown


@dataclass(frozen=True, slots=True)
class _Form:
    """A format of numbers: places of digits, and signs around and within them."""

    before: str
    whole: str  # places before the point, with signs among them, such as "000-00"
    decimals: int
    least_decimals: int
    after: str
    percent: int
    thousands: int  # how often a number is divided by 1,000


def _number(value: float, number_format: str) -> str:
    if isinstance(value, float) and value != value:
        return "NaN"
    sections = _sections(number_format)
    section, is_signed = sections[0], value < 0
    if len(sections) > 1 and value < 0:
        section, is_signed = sections[1], False
    elif len(sections) > 2 and value == 0:
        section = sections[2]
    if section == "" and len(sections) > 1:
        return ""  # such a format hides a value
    form = _form(section)
    if form is None:
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    if isinstance(form, str):
        return form
    return _shown(value, form, is_signed=is_signed)


def _shown(value: float, form: _Form, *, is_signed: bool) -> str:
    number = abs(Decimal(f"{value:.15g}" if isinstance(value, float) else value)).scaleb(
        2 * form.percent - 3 * form.thousands
    )
    rounded = number.quantize(Decimal(1).scaleb(-form.decimals), ROUND_HALF_UP, _ANY)
    whole, _, decimals = f"{rounded:f}".partition(".")
    while len(decimals) > form.least_decimals and decimals.endswith("0"):
        decimals = decimals[:-1]
    sign = "-" if is_signed and rounded else ""
    point = "." if decimals else ""
    return f"{sign}{form.before}{_placed(whole, form.whole)}{point}{decimals}{form.after}".strip()


def _placed(digits: str, places: str) -> str:
    """Put the digits of a whole number into their places, from the right."""
    rest, found = list(digits.lstrip("0")), list[str]()
    for sign in reversed(places):
        if sign in "#?":
            found.append(rest.pop() if rest else "")
        elif sign == "0":
            found.append(rest.pop() if rest else "0")
        else:
            found.append(sign)
    return "".join([*rest, *reversed(found)])


@lru_cache(maxsize=1024)
def _sections(number_format: str) -> Sequence[str]:
    """Return the parts of a format: for numbers, negative ones, zero and texts."""
    parts, start = list[str](), 0
    for match in _PIECE.finditer(number_format[:LONGEST_FORMAT]):
        if match["plain"] == ";":
            parts.append(number_format[start : match.start()])
            start = match.end()
    return [*parts, number_format[start:]]


@lru_cache(maxsize=1024)
def _form(section: str) -> _Form | str | None:
    """Return how a part of a format shows a number: always as one text, or None for all its digits."""
    pieces = list[tuple[str, str]]()
    for match in _PIECE.finditer(section):
        sign, plain = match["sign"] or "", match["plain"] or ""
        if match["condition"] or match["exponent"] or match["general"] or sign in ("/", "@"):
            return None
        if plain.isalpha():  # why: that is a format of dates
            return None
        text = match["quoted"] or match["escaped"] or match["unit"] or plain
        pieces.append((sign, "%" if sign == "%" else text))
    signs = [sign for sign, _ in pieces]
    places = [i for i, sign in enumerate(signs) if sign in _PLACES]
    if not places:
        return "".join(text for _, text in pieces)
    end = places[-1] + 1
    point = signs.index(".") if "." in signs else end
    start = min(places[0], point)
    after = pieces[max(end, point) :]
    decimals = [sign for sign in signs[point:end] if sign in _PLACES]
    scaled = chain(takewhile(_is_comma, reversed(pieces[start:point])), takewhile(_is_comma, after))
    return _Form(
        before="".join(text for _, text in pieces[:start]),
        whole="".join(sign or text for sign, text in pieces[start:point] if sign != ","),
        decimals=min(len(decimals), _MOST_DECIMALS),
        least_decimals=min(decimals.count("0"), _MOST_DECIMALS),
        after="".join(text for _, text in after),
        percent=signs.count("%"),
        thousands=len(list(scaled)),
    )


def _is_comma(piece: tuple[str, str]) -> bool:
    return piece[0] == ","
