"""Tolerant parsing of the agent's replies, in linear time and without evaluating anything.

Each function returns None or nothing for a reply that it cannot use.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from hwdag.text.characters import without_surrogates
from hwdag.text.points import parse_points
from hwdag_lab.methods.elements import key_of, singular

Function = Literal[
    "read_chunk",
    "stop_and_read_neighbor",
    "search_more",
    "read_previous_chunk",
    "read_subsequent_chunk",
    "read_neighbor_node",
    "termination",
]
"""The predefined functions of the paper (section 3.3.2)."""

LONGEST_ARGUMENT = 400  # characters of a call's argument; the rest is ignored
LONGEST_FACT = 600  # characters; a longer line is no fact
LONGEST_ELEMENT = 80  # characters; a longer text is no element

LONGEST_NOTHING = 40  # characters of "(none)", "unknown." and the like

MOST_ELEMENTS = 16
"""Most key elements per fact; a long list of words would link everything."""

_GAP = r"[ \t_-]{0,3}"
_SPELLINGS: Mapping[Function, str] = {
    "read_chunk": "read _ chunks?",
    "stop_and_read_neighbor": "stop _ and _ read _ (?:the _ )?neighbou?rs?",
    "search_more": "search _ more",
    "read_previous_chunk": "read _ (?:the _ )?previous _ chunks?",
    "read_subsequent_chunk": "read _ (?:the _ )?(?:subsequent|next) _ chunks?",
    "read_neighbor_node": "read _ (?:the _ )?neighbou?r(?:ing)?s? _ (?:nodes?)?",
    "termination": "terminat(?:ion|e)",
}
_CALLS = {
    name: re.compile(rf"\b{spelling.replace(' _ ', _GAP)}(?![^\W_])", re.IGNORECASE)
    for name, spelling in _SPELLINGS.items()
}
_NUMBER = re.compile(r"(?<!\d)\d{1,9}(?!\d)")
_LABEL = re.compile(
    r"[ \t*#_>•-]*(?:(?:my|the|updated|rational|chosen|next|final) ){0,3}"
    r"(notebook(?: \d{1,3})?|plan|reason(?:ing)?|rationale(?: for[^:\n]{0,40})?|action|answer)"
    r"[ \t*_]{0,8}[:：](?:\*\*|__)?",
    re.IGNORECASE,
)
_FACT_ECHO = re.compile(r"\W*atomic facts?(?:\s*\d+)?\W*", re.IGNORECASE)
_FACT_LABEL = re.compile(r"(?:the \w{1,10} )?atomic fact(?: \d{1,3})?[ *]{0,3}[:：]", re.IGNORECASE)
_ELEMENT_ECHO = re.compile(r"\W*(?:key )?elements?(?:\s*\d+)?\W*", re.IGNORECASE)
_KEY_ELEMENTS = re.compile(r"\bkey elements?[ \t]{0,8}[:：]", re.IGNORECASE)
_NOTHING = re.compile(r"\W*(?:empty|none|n/?a|unknown|nothing|unclear|unanswerable)?\W*", re.I)
_END_OF_THINKING = re.compile(r"</think(?:ing)?>", re.IGNORECASE)
_THINKING = re.compile(r"<think(?:ing)?>", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:```|~~~)\w*")


class Call(NamedTuple):
    """A called function, and the rest of its line."""

    function: Function
    argument: str


class Extracted(NamedTuple):
    """An atomic fact and its key elements, as written."""

    text: str
    elements: tuple[str, ...]


def sound(reply: str) -> str:
    """Return the reply without thinking and without lone surrogates."""
    text, _ = without_surrogates(reply)
    # why: some chat templates open the block, so the reply only closes it
    text = _END_OF_THINKING.split(text)[-1]
    return _THINKING.split(text)[0]


def sections(reply: str) -> dict[str, str]:
    """Return the text after each label ("notebook", "action", ...); the last of equal labels counts."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in sound(reply).splitlines():
        if label := _LABEL.match(line):
            current = found[label[1].lower()] = [line[label.end() :]]
        elif not _FENCE.fullmatch(line):
            current.append(line)
    return {name: "\n".join(lines).strip() for name, lines in found.items()}


def says_something(text: str) -> bool:
    """Return whether a text is more than "none"."""
    bare = text.strip()
    is_nothing = len(bare) <= LONGEST_NOTHING and _NOTHING.fullmatch(bare)
    return not is_nothing and any(map(str.isalnum, bare))


def call_of(reply: str, legal: Collection[Function]) -> Call | None:
    """Return the first legal call after "Action:", or else the only function that the reply names.

    So a reply that repeats the list of functions calls nothing.
    """
    if called := _first_call(sections(reply).get("action", ""), legal):
        return called
    text = sound(reply)
    named = {name for name in legal if _CALLS[name].search(text)}
    return _first_call(text, named) if len(named) == 1 else None


def numbers(argument: str) -> list[int]:
    """Return the distinct whole numbers in an argument, in order."""
    return list(dict.fromkeys(int(number) for number in _NUMBER.findall(argument)))


def named_element(argument: str, offered: Sequence[str]) -> int | None:
    """Index of the offered element that an argument names; the longest if it names several.

    A part of a name is enough if only one element has it.
    """
    keys = {key: i for i, name in reversed(list(enumerate(offered))) if (key := _folded(name))}
    asked = _folded(argument)
    if asked in keys:
        return keys[asked]
    padded = f" {asked} "
    if inside := [key for key in keys if f" {key} " in padded]:
        return keys[max(inside, key=len)]
    around = [key for key in keys if asked and padded in f" {key} "]
    return keys[around[0]] if len(around) == 1 else None


def chosen_elements(reply: str, offered: Sequence[str]) -> list[int]:
    """Return indices of the offered elements in a reply, one per line, in its order."""
    text = sound(reply)
    lines = parse_points(text) or [part for line in text.splitlines() for part in line.split(",")]
    found = (named_element(line[:LONGEST_ARGUMENT], offered) for line in lines)
    return list(dict.fromkeys(i for i in found if i is not None))


def plan_of(reply: str) -> str | None:
    """Return the plan in a reply, with or without its label."""
    plan = sections(reply).get("plan") or sound(reply).strip()
    return plan if says_something(plan) else None


def notebook_of(reply: str) -> str | None:
    """Return the new notebook in a reply; None if it is missing or empty."""
    notes = sections(reply).get("notebook", "")
    return notes if says_something(notes) else None


def answer_of(reply: str, notebooks: int) -> str | None:
    """Return the final answer, or else the one that most notebooks support (the first of equals).

    A final answer that says nothing ("unknown") counts only if no notebook supports another.
    """
    found = sections(reply)
    final = _first_line(found.get("answer", ""))
    if says_something(final):
        return final
    votes: dict[str, list[str]] = {}
    for i in range(1, notebooks + 1):
        vote = _first_line(found.get(f"notebook {i}", ""))
        if says_something(vote):
            votes.setdefault(key_of(vote), []).append(vote)
    if votes:
        return max(votes.values(), key=len)[0]
    return final if any(map(str.isalnum, final)) else None


def facts_of(reply: str) -> list[Extracted]:
    """Return the distinct facts of a reply, from a list or a table."""
    text = sound(reply)
    table = [line.strip("| \t") for line in text.splitlines() if "|" in line]
    kept: dict[str, Extracted] = {}
    for row in map(_line_fact, parse_points(text) or table):
        says = any(map(str.isalnum, row.text)) and not _FACT_ECHO.fullmatch(row.text)
        if says and len(row.text) <= LONGEST_FACT:
            key = row.text.casefold()
            kept[key] = kept.pop(key, row)
    return list(kept.values())


def _folded(text: str) -> str:
    """Return the key of a text with all words in the singular."""
    return " ".join(map(singular, key_of(text).split()))


def _first_line(text: str) -> str:
    return next((bare for line in text.splitlines() if (bare := line.strip(" \t*_`"))), "")


def _first_call(text: str, legal: Collection[Function]) -> Call | None:
    found = [(match, name) for name in legal if (match := _CALLS[name].search(text))]
    if not found:
        return None
    match, name = min(found, key=lambda one: one[0].start())
    line = text[match.end() : match.end() + LONGEST_ARGUMENT].partition("\n")[0]
    return Call(name, line.strip())


def _line_fact(line: str) -> Extracted:
    label = _FACT_LABEL.match(line)
    fact, _, rest = line[label.end() if label else 0 :].partition("|")
    if label := _KEY_ELEMENTS.search(fact):
        rest = fact[label.end() :] + (rest and f"|{rest}")
        fact = fact[: label.start()].rstrip(" ([-–—")
    rest = _KEY_ELEMENTS.sub("", rest)
    names = re.split(r"[;|；]" if re.search(r"[;|；]", rest) else r"[,，、]", rest)
    plain = (
        " ".join(n.split()).strip("\"'`*[](){}<> .") for n in names if len(n) <= LONGEST_ELEMENT
    )
    kept = dict.fromkeys(n for n in plain if key_of(n) and not _ELEMENT_ECHO.fullmatch(n))
    return Extracted(" ".join(fact.split()), tuple(kept)[:MOST_ELEMENTS])
