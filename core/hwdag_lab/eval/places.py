"""Where quoted text stands: paragraphs and gold sentences as character spans of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hwdag.types import Span


def paragraph_spans(text: str, pieces: Iterable[str]) -> list[Span | None]:
    """The span of every paragraph; None for one that does not occur verbatim.

    Each is searched from the end of the previous one, where a whole line is preferred to a part of
    one (so that a short paragraph is not found in a heading), and then from the start. An
    occurrence is used once as long as there is another, so that repeated paragraphs get distinct
    spans.
    """
    spans: list[Span | None] = []
    used: set[Span] = set()
    cursor = 0
    for piece in pieces:
        span = _free(text, piece, cursor, used) or _free(text, piece, 0, used)
        span = span or next(_occurrences(text, piece, 0), None)
        spans.append(span)
        if span:
            used.add(span)
            cursor = span.end
    return spans


def first_span(text: str, piece: str) -> Span | None:
    """Where `piece` first occurs verbatim."""
    return next(_occurrences(text, piece, 0), None)


def sentence_spans(text: str, sentences: Iterable[str], within: Sequence[Span]) -> list[Span]:
    """Where sentences stand inside of the `within` spans, ascending and distinct.

    Each is searched verbatim, then with any whitespace for any other; what is found nowhere is
    left out. A sentence that is named twice is searched in two places.
    """
    found: set[Span] = set()
    for sentence in sentences:
        places = list(_inside(text, sentence, within))
        found.update([next((p for p in places if p not in found), places[0])] if places else [])
    return sorted(found)


def _free(text: str, piece: str, start: int, used: set[Span]) -> Span | None:
    """The first unused occurrence that is a whole line (or several), or else the first unused."""
    first = None
    for span in _occurrences(text, piece, start):
        if span not in used:
            if _is_line(text, span):
                return span
            first = first or span
    return first


def _is_line(text: str, span: Span) -> bool:
    is_start = span.start == 0 or text[span.start - 1] == "\n"
    return is_start and (span.end == len(text) or text[span.end] == "\n")


def _occurrences(text: str, piece: str, start: int) -> Iterator[Span]:
    """Occurrences that begin at `start` or later; they may overlap each other."""
    while (start := text.find(piece, start)) >= 0:
        yield Span(start, start + len(piece))
        start += 1


def _inside(text: str, sentence: str, within: Sequence[Span]) -> Iterator[Span]:
    """The first verbatim occurrence in every span, then the first one up to whitespace."""
    for outer in within:
        start = text.find(sentence, outer.start, outer.end)
        if start >= 0:
            yield Span(start, start + len(sentence))
    loose = re.compile(r"\s+".join(map(re.escape, sentence.split())))
    for outer in within:
        if match := loose.search(text, outer.start, outer.end):
            yield Span(*match.span())
