"""Sentence spans of any language: the line structure first, `sentencex` within paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import sentencex

from hwdag.text.characters import without_surrogates
from hwdag.text.entries import entries
from hwdag.text.languages import language_of
from hwdag.text.tables import is_rule
from hwdag.types import Span

LineKind = Literal[
    "blank", "prose", "continued", "heading", "item", "row", "row rule", "rule", "entry"
]

SLAB = 4096  # characters given to `sentencex` at a time: its time grows with their square
LONGEST_ROW = 1000
"""Characters of a table row that is not cut: after its first sentence it would lack its subject."""

LONGEST_ENTRY = 300
"""Characters of a message or an entry that is not cut: its later sentences do not name its time and speaker."""

LONG_SENTENCE = 300  # characters beyond which a sentence is suspected to be several within quotes

QUOTES = "\"'“”„‟‘’‚‛«»‹›「」『』()[]{}（）【】《》"

_CLOSERS = "\"'”’»)]」』*_ \t\r\n"
_QUESTION_MARKS = ("?", "？", "؟", "\u037e")
_ENDS = (*_QUESTION_MARKS, ".", "!", "…", ":", ";", "。", "！", "．", "।", "۔", "։", "።")

_WITHOUT_QUOTES = str.maketrans(QUOTES, " " * len(QUOTES))
_HEADING = re.compile(r" {0,3}#{1,6}(?:[ \t]|$)")
_BULLET = re.compile(r"[ \t]*[-*+•‣◦▪●][ \t]")
_NUMBER = re.compile(r"[ \t]*\d{1,3}[.)][ \t]")
_FIRST = re.compile(r"[ \t]*1[.)][ \t]")
_ITEM_NUMBER = re.compile(r"\s*(\d{1,3}[.)])\s*")
# Unknown to sentencex: titles before a name, abbreviations before a number, German ordinals.
_TITLE = re.compile(
    r"\b(?:dr|prof|ms|mrs|mr|ing|inż|dott|dhr|mevr|mw|drs|mlle|mme|m|mgr|sig|sr|sra|dra|fr|hr)\.\s*$",
    re.I,
)
_PLACE = re.compile(  # why not after an apostrophe: "in the 1930's. 12 men ..."
    r"(?<![\w'’])(?:pp?|pags?|págs?|s|str|blz|bl|figs?|abb|tab|nr|núms?|n|č|art|kap|cap|kb|ca|cca)\.\s*$",
    re.I,
)
_ORDINAL = re.compile(
    r"\b(?:am|vom|zum|zur|im|beim|ab|bis|seit|der|die|das|dem|den|des)\s+\d{1,2}\.\s*$", re.I
)
_NOTE_MARK = re.compile(r"(?<=\S)(?:\[\^?\d{1,3}\]|\^\d{1,3}|[¹²³⁰⁴-⁹]{1,3})+(?=\s|$)")
"""The number of a footnote after a full stop; it belongs to the sentence before it."""
_WORD = re.compile(r"[^\W\d_]+(?=[.,;:!?]?(?:\s|$))")  # no name such as "mikolov2013" or "t-SNE"
LONGEST_CLUE = 32  # characters before a cut that are looked at

LONGEST_GREETING = 60  # characters
_GREETING = re.compile(
    r"(?:\W*[^\W\d_][^\n:|]{0,40}:)?\W*(?:(?P<closing>(?:kind|best|warm)(?: \w+)? regards|regards|"
    r"best wishes|yours \w+|sincerely|cheers|mit freundlichen grüßen|viele grüße|cordialement|"
    r"un saludo|saludos|atentamente|cordiali saluti|met vriendelijke groet|atenciosamente|مع خالص|此致)|"
    r"dear|hi|hello|hey|(?:many )?thanks|thank you|good (?:morning|afternoon|evening|day)|welcome|"
    r"liebe[rs]?|sehr geehrte[rs]?|guten (?:tag|morgen|abend)|hallo|danke|vielen dank|cher|chère|"
    r"bonjour|merci|estimad[oa]s?|querid[oa]s?|hola|gracias|car[oa]|gentile|buongiorno|grazie|"
    r"beste|geachte|bedankt|prezad[oa]s?|السادة|السيد|(?:尊敬的|各位|您好)\w{0,8})\b"
    r"(?:[\s,]+[^\W\d_]\S*){0,5}\W*$",
    re.I,
)
_MAIL_HEADER = re.compile(
    r"(?:from|to|cc|bcc|date|sent|subject|von|an|gesendet|datum|betreff|de|à|para|envoyé|objet|"
    r"asunto|fecha|assunto|data|oggetto|aan|verzonden|onderwerp)[ ]?[:：].",
    re.I,
)
_ENDS_ITSELF: frozenset[LineKind] = frozenset({"blank", "heading", "row", "row rule", "rule"})
_STARTS_ANEW: frozenset[LineKind] = frozenset({"blank", "heading", "row", "item", "entry"})


def sentences(text: str) -> list[Span]:
    """Find sentences: trimmed, ascending, disjoint, covering every character that is not blank.

    A blank line, a Markdown heading, a list item, a table row and a rule always end a sentence, and so
    does the end of a line among `entries`; a single line break within other paragraphs never does. A
    table row of at most `LONGEST_ROW` characters, and an entry of `LONGEST_ENTRY`, stays whole. Linear in
    the length of the text.
    """
    language = language_of(text)
    return [
        span
        for block, kind in blocks(text)
        for start, end in pairwise(
            [0, *_cuts(text[block.start : block.end], kind, language), len(block)]
        )
        if len(span := trimmed(text, block.start + start, block.start + end))
    ]


def ends_sentence(text: str) -> bool:
    """Return whether a text ends like a sentence, a clause or the lead to a list."""
    return text.rstrip(_CLOSERS).endswith(_ENDS)


def is_question(text: str) -> bool:
    """Return whether a text ends with a question mark."""
    return text.rstrip(_CLOSERS).endswith(_QUESTION_MARKS)


def begins_item(text: str, start: int) -> bool:
    """Return whether a list item begins at a place of a text: a bullet or a number, first on its line."""
    is_marked = _BULLET.match(text, start) or _NUMBER.match(text, start)
    return bool(is_marked) and _begins_line(text, start)


def is_heading_line(text: str) -> bool:
    """Return whether a text is one Markdown heading and nothing else."""
    return "\n" not in text and _HEADING.match(text) is not None


def greeting(text: str) -> Literal["", "greeting", "closing"]:
    """Return whether a text is nothing but a greeting or thanks, or nothing but the end of a letter."""
    if len(text) > LONGEST_GREETING or (match := _GREETING.match(text)) is None:
        return ""
    return "closing" if match["closing"] else "greeting"


def is_mail_header(text: str) -> bool:
    """Return whether a text is nothing but lines above a mail: "Date: 6 March 2025"."""
    return all(map(_MAIL_HEADER.match, text.split("\n")))


def trimmed(text: str, start: int, end: int) -> Span:
    """Leave out whitespace around `text[start:end]`; empty, at `end`, if there is nothing else."""
    piece = text[start:end]
    start = end - len(piece.lstrip())
    return Span(start, start + len(piece.strip()))


def blocks(text: str) -> Iterator[tuple[Span, LineKind]]:
    """Yield paragraphs, and every line of its own, each with the kind of its first line.

    The spans are disjoint and cover the whole text.
    """
    start = position = 0
    previous: LineKind = "blank"
    first: LineKind = "blank"
    lines = text.splitlines(keepends=True)
    complete = entries(lines)
    for number, line in enumerate(lines):
        kind = _kind(line, previous)
        if kind == "prose" and number in complete:
            kind = "entry"
        if position > start and _breaks(previous, kind):
            yield Span(start, position), first
            start = position
        if position == start:
            first = kind
        position += len(line)
        previous = kind
    if position > start:
        yield Span(start, position), first


def _breaks(previous: LineKind, kind: LineKind) -> bool:
    if kind == "row rule":
        return previous != "row"  # it belongs to the header above
    if kind in _STARTS_ANEW or previous in _ENDS_ITSELF:
        return True
    if kind == "rule":
        return previous != "prose"  # under prose it is the underline of a heading
    return kind == "prose" and previous in ("item", "continued")


def _kind(line: str, previous: LineKind) -> LineKind:
    bare = line.strip()
    if not bare:
        return "blank"
    if _HEADING.match(line):
        return "heading"
    if bare[0] == "|":
        return "row rule" if is_rule(bare) else "row"
    if len(bare) > 2 and not bare.strip("-*_=~ \t"):
        return "rule"
    # why: a wrapped line of prose may begin with "12. "; as in CommonMark only 1 interrupts prose
    if _BULLET.match(line) or (_FIRST if previous == "prose" else _NUMBER).match(line):
        return "item"
    if line[0] in " \t" and previous in ("item", "continued"):
        return "continued"
    return "prose"


def _cuts(block: str, kind: LineKind, language: str) -> Iterator[int]:
    """Return where sentences begin, except the first.

    A piece without a letter ("1.", ")", "...") is no sentence of its own and stays with a neighbour: the number of
    an item with the text that follows it, everything else with the sentence before.
    """
    if len(block) <= {"row": LONGEST_ROW, "entry": LONGEST_ENTRY}.get(kind, 0):
        return
    # why: Rust strings hold no lone surrogates; a substitute of the same length keeps the offsets
    safe, _ = without_surrogates(block)
    lettered = is_cased = is_numbered = False
    starts = [_behind_mark(safe, start) for start in _starts(safe, language)]
    for start, end in pairwise([*starts, len(block)]):
        first = next(filter(str.isalpha, block[start:end]), "")
        if not first and _is_item_number(block, start, end):
            if lettered:
                yield start
            is_numbered = True
            continue
        if lettered and first and not is_numbered and not _goes_on(block, start, is_cased):
            yield start
        is_numbered = is_numbered and not first
        lettered = lettered or bool(first)
        is_cased = is_cased or first.isupper()


def _is_item_number(block: str, start: int, end: int) -> bool:
    """Return whether a piece is the number of an item, alone at the beginning of a line."""
    number = _ITEM_NUMBER.fullmatch(block, start, end)
    return number is not None and _begins_line(block, number.start(1))


def _begins_line(text: str, place: int) -> bool:
    """Return whether nothing but a few blanks is before a place on its line."""
    # why not the whole line: it may be the whole text
    before = text[max(0, place - LONGEST_CLUE) : place].rstrip(" \t")
    return before.endswith("\n") or (not before and place <= LONGEST_CLUE)


def _behind_mark(block: str, start: int) -> int:
    """Move the start of a sentence past the number of a footnote."""
    mark = _NOTE_MARK.match(block, start) if start else None
    return mark.end() if mark else start


def _goes_on(block: str, start: int, is_cased: bool) -> bool:
    """Return whether the full stop before `start` ends no sentence; `is_cased`: sentences begin with capitals."""
    before = block[max(0, start - LONGEST_CLUE) : start]
    if not before.rstrip().endswith("."):
        return False
    after = block[start : start + 1]
    return (
        (after == "-" and block[start + 1 : start + 2].isalpha())  # "J.-C."
        or (after in ("/", "\\") and before[-1] == ".")  # "../README.md"
        or (is_cased and after.islower() and _WORD.match(block, start) is not None)
        or (after.isdigit() and _PLACE.search(before) is not None)
        or (after.isupper() and (_TITLE.search(before) or _ORDINAL.search(before)) is not None)
    )


def _starts(block: str, language: str) -> Iterator[int]:
    """Return where `sentencex` lets sentences begin; long ones are looked at again without quotes."""
    for start, end in pairwise([*_slab_starts(block, language), len(block)]):
        yield start
        if end - start > LONG_SENTENCE:
            # why: it never cuts within quotes, and a speech or a stray mark may last for pages
            segment = block[start:end]
            for inner in _slab_starts(segment.translate(_WITHOUT_QUOTES), language):
                if inner:
                    yield start + _before_opening(segment, inner)


def _slab_starts(text: str, language: str) -> Iterator[int]:
    """Return where segments begin; each slab begins with the last segment of the one before it.

    A segment of more than half a slab continues to the first end of a sentence in the next slab.
    """
    at, is_new = 0, True
    while at < len(text):
        starts = list(_segment_starts(text[at : at + SLAB], language))
        again = starts[-1] if starts and at + SLAB < len(text) else 0
        kept = starts[:-1] if again >= SLAB // 2 else starts
        yield from (at + start for start in kept if start or is_new)
        is_new = again >= SLAB // 2
        at += again if is_new else SLAB


def _segment_starts(slab: str, language: str) -> Iterator[int]:
    cursor = 0
    for segment in sentencex.segment(language, slab):
        # why: the segments do not always add up to the text (runs of line breaks may be dropped)
        start = slab.find(segment, cursor)
        if start >= 0:
            cursor = start + len(segment)
            yield start


def _before_opening(text: str, start: int) -> int:
    """Return `start`, moved before the opening quotes and brackets directly before it."""
    opening = start
    while opening > 1 and text[opening - 1] in QUOTES:
        opening -= 1
    return opening if text[opening - 1].isspace() else start
