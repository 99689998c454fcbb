"""Rules of style sheets within a page that hide, strike out or raise text, applied to its elements.

A class alone may hide a tag, if a rule of the page has "display: none" for it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import Tag

_PROPERTIES = (
    "display visibility opacity font-size text-decoration text-decoration-line vertical-align color background"
    " background-color"
)
_SEEN = frozenset(_PROPERTIES.split())
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_NAME = r"(?:[\w-]+|(?=[.#]))(?:[.#][\w-]+)*"
_SELECTOR = re.compile(rf"{_NAME}(?: >?{_NAME}){{0,2}}")
_PARTS = re.compile(r"(#)|(\.)|(?:^|[ >])(?=\w)")
_STEP = re.compile(r"[.#]?[\w-]+")
MOST_MATCHES = 1_000_000
"""Most elements that are compared with selectors; rules beyond that are not applied."""

MAX_DEPTH = 100  # elements around an element that are compared with a step of a selector

LONGEST_SHEET = 1 << 20  # characters of all style sheets of a page


class _Rule(NamedTuple):
    weight: tuple[int, int, int]  # ids, classes and names in its selector; the heavier rule wins
    number: int
    selector: str
    declarations: dict[str, str]


def apply_styles(soup: BeautifulSoup, sheets: str) -> bool:
    """Write the declarations of matching rules into the `style` of elements; False if there are too many rules.

    Selectors of names, classes and ids are known, in at most three steps. Rules for print and for sizes of the
    screen are left out.
    """
    rules = sorted(_rules(sheets[:LONGEST_SHEET]))
    if not rules:
        return True
    keys = {id(tag): frozenset(_keys(tag)) for tag in soup.find_all(True)}
    places: dict[str, list[Tag]] = defaultdict(list)
    for tag in soup.find_all(True):
        for key in keys[id(tag)]:
            places[key].append(tag)
    declared: dict[int, tuple[Tag, dict[str, str]]] = {}
    left = MOST_MATCHES
    for rule in rules:
        steps = [
            (frozenset(_STEP.findall(step)), step.startswith(">"))
            for step in rule.selector.replace(">", " >").split()
        ]
        candidates = min((places[key] for key in steps[-1][0]), key=len)
        left -= len(candidates)
        if left < 0:
            break
        for tag in candidates:
            if _matches(tag, steps, keys):
                declared.setdefault(id(tag), (tag, {}))[1].update(rule.declarations)
    for tag, said in declared.values():
        said |= dict(_declarations(str(tag.get("style", ""))))
        tag["style"] = ";".join(f"{name}:{value}" for name, value in said.items())
    return left >= 0


def _keys(tag: Tag) -> Iterator[str]:
    yield tag.name.lower()
    yield from (f".{name}" for name in tag.get_attribute_list("class") if name)
    yield from (f"#{name}" for name in tag.get_attribute_list("id") if name)


def _matches(
    tag: Tag, steps: Sequence[tuple[frozenset[str], bool]], keys: Mapping[int, frozenset[str]]
) -> bool:
    """Return whether a selector selects a tag; a step is keys, and whether it must be a child of the step before."""
    wanted, is_child = steps[-1]
    if not wanted <= keys.get(id(tag), frozenset()):
        return False
    if len(steps) == 1:
        return True
    above = islice(tag.parents, 1 if is_child else MAX_DEPTH)
    return any(_matches(one, steps[:-1], keys) for one in above)


def _rules(sheets: str) -> Iterator[_Rule]:
    """Yield the rules that hide, strike out or raise text, each for one selector."""
    for number, (selectors, body) in enumerate(_blocks(_COMMENT.sub(" ", sheets))):
        declarations = {name: value for name, value in _declarations(body) if name in _SEEN}
        for selector in selectors.split(",") if declarations else ():
            plain = " ".join(selector.replace(">", " > ").split()).replace("> ", ">")
            if len(plain) <= 100 and _SELECTOR.fullmatch(plain):
                yield _Rule(_weight(plain), number, plain, declarations)


def _blocks(sheets: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations, but not those within "@media" and the like."""
    at = 0
    while (start := sheets.find("{", at)) >= 0:
        head = sheets[at:start].rpartition(";")[2].strip()
        depth, end = 1, start + 1
        while depth and (match := _BRACE.search(sheets, end)):
            depth += 1 if match[0] == "{" else -1
            end = match.end()
        if depth:
            return
        if not head.startswith("@"):
            yield head, sheets[start + 1 : end - 1]
        at = end


_BRACE = re.compile("[{}]")


def _declarations(text: str) -> Iterator[tuple[str, str]]:
    for one in text.split(";"):
        name, colon, value = one.partition(":")
        if colon:
            yield name.strip().lower(), value.strip()


def _weight(selector: str) -> tuple[int, int, int]:
    found = [match.groups() for match in _PARTS.finditer(selector)]
    ids, classes = sum(bool(one[0]) for one in found), sum(bool(one[1]) for one in found)
    return ids, classes, len(found) - ids - classes
