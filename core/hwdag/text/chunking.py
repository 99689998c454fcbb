"""Level 1 of the graph: verbatim, sentence-aligned slices of the document (GARLIC 3.1)."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import accumulate
from operator import attrgetter
from typing import Literal

from hwdag.errors import InputError
from hwdag.text.sentences import (
    begins_item,
    ends_sentence,
    greeting,
    is_heading_line,
    is_mail_header,
    sentences,
)
from hwdag.types import Span

CountTokens = Callable[[Sequence[str]], list[int]]  # texts to their numbers of tokens
Cut = Callable[[str, Span], list[Span]]  # a span of a text to smaller ones

COUNT_BATCH = 1024
"""Texts per call of `count_tokens`, so that counting a huge document takes little memory."""

FRAGMENT_TOKENS = 6  # a leaf of fewer tokens is not enough alone

LEADS = (":", "：")
"""Ends of a text that leads to a list."""

_Held = Literal["", "heading", "greeting", "closing", "header", "open", "fragment"]
"""Why a piece is not enough alone: a heading, a greeting, the end of a letter, lines above a mail, a short line
that does not end like a sentence, or a short sentence."""

LONGEST_CLUSTER = 8
"""Combining marks that are kept with their letter; more are no writing but an attack."""

ZERO_WIDTH_JOINER = "\u200d"

_WORD = re.compile(r"\S+")


def chunk(text: str, *, count_tokens: CountTokens, limit: int) -> list[Span]:
    """Pack sentences greedily into chunks of at most `limit` tokens.

    The spans are trimmed, ascending and disjoint, and cover every character that is not blank. A
    sentence beyond the limit is cut at whitespace, a word beyond it between characters. Every chunk
    is counted as the slice that it is, since counts of pieces do not add up. Pieces without tokens
    (zero-width characters) join a neighbour.
    """
    if limit < 1:
        raise InputError(f"a chunk needs room for at least 1 token, got a limit of {limit}")
    meter = _Meter(text, count_tokens)
    spans, counts = _atoms(meter, limit)
    chunks = list(_packed(meter, spans, counts, limit))
    return _without_weightless(chunks, meter.tokens(chunks))


def leaves(text: str, *, count_tokens: CountTokens, limit: int) -> list[Span]:
    """Cut a text into single sentences, and those beyond `limit` tokens as `chunk` does.

    A piece that is not enough alone joins a neighbour, if there is room: a heading the text that follows; a fragment of
    fewer than `FRAGMENT_TOKENS` tokens ("Yes."), and a greeting, the sentence that follows in the same
    paragraph or item, else the one before it. A greeting or an unfinished fragment that is a block of its own joins
    the next block, the end of a letter with the name below it the one before. The lines above a mail are
    one piece. A row of a table joins nothing. The spans have the same properties as those of `chunk`.
    """
    meter = _Meter(text, count_tokens)
    spans = sentences(text)
    found: list[Span] = []
    counts: list[int] = []
    held: _Held = ""
    for span, count in zip(spans, meter.tokens(spans), strict=True):
        if count > limit:
            inner = chunk(text[span.start : span.end], count_tokens=count_tokens, limit=limit)
            found += [Span(span.start + part.start, span.start + part.end) for part in inner]
            counts += [limit] * len(inner)
            held = ""
            continue
        kind = _held(text, span, count)
        has_room = bool(found) and counts[-1] + count < limit
        if has_room and _follows(text, found[-1], span, held, kind):
            found[-1] = Span(found[-1].start, span.end)
            counts[-1] += count
            is_said = counts[-1] >= FRAGMENT_TOKENS and kind in ("open", "fragment")
            held = "" if is_said else kind
            continue
        _join_back(text, found, counts, held, limit)
        found.append(span)
        counts.append(count)
        held = kind
    _join_back(text, found, counts, held, limit)
    return _without_weightless(found, meter.tokens(found))


def _held(text: str, span: Span, count: int) -> _Held:
    """Return why a sentence is not enough alone; "" if it is."""
    piece = text[span.start : span.end]
    if is_heading_line(piece):
        return "heading"
    if piece.startswith("|"):
        return ""
    if kind := greeting(piece):
        return kind
    if is_mail_header(piece):
        return "header"
    if count >= FRAGMENT_TOKENS:
        return ""
    return "fragment" if ends_sentence(piece) else "open"


def _follows(text: str, before: Span, span: Span, held: _Held, kind: _Held) -> bool:
    """Return whether a piece that is not enough alone joins the sentence that follows it."""
    is_apart = text.count("\n", before.end, span.start) > 1
    if held == "heading":
        return True
    if kind == "closing":
        return not text.startswith("|", before.start)
    if held == "header":
        is_alone = "\n" not in text[before.start : before.end].rpartition("\n\n")[2]
        return kind != "heading" and (is_alone if kind != "header" else not is_apart)
    if held == "closing":
        return kind == "open"
    if held == "fragment":
        leads = text.endswith(LEADS, before.start, before.end)
        is_apart = is_apart or (begins_item(text, span.start) and not leads)
    return (
        bool(held)
        and kind != "header"
        and kind != "heading"
        and (held != "fragment" or not is_apart)
    )


def _join_back(text: str, found: list[Span], counts: list[int], held: _Held, limit: int) -> None:
    """Join the last piece, if it is not enough alone, to the one before it, unless a blank line parts them."""
    if (
        held not in ("fragment", "open", "greeting")
        or len(found) < 2
        or text.startswith("|", found[-2].start)
    ):
        return
    is_apart = text.count("\n", found[-2].end, found[-1].start) > 1
    if counts[-2] + counts[-1] < limit and (held != "fragment" or not is_apart):
        found[-2:] = [Span(found[-2].start, found[-1].end)]
        counts[-2:] = [sum(counts[-2:])]


FULL_ENOUGH = 0.5
"""Share of its limit from which a window may end. Less finds back to the old borders sooner after an
edit, and makes more windows. With 1/2, on six stories of 10,000 words in windows of 2,048 tokens:
1.2 windows for every one that is filled to the brim, 2 % more tokens, and a sentence more in the
middle changes one window of each level (1.3 of each with leaves of 300 tokens)."""


def pack(
    costs: Sequence[int],
    limit: int,
    texts: Sequence[str] | None = None,
    is_last: Sequence[bool] | None = None,
) -> list[range]:
    """Put consecutive items into windows whose costs add up to at most `limit`, or hold one item beyond it.

    Without `texts` windows are filled to the brim. With them a window that is not the last ends after
    the item, of those that leave it at least `FULL_ENOUGH`, whose text has the smallest hash: after an
    edit the borders soon are the old ones again (ours, after content-defined chunking of files). Items
    that are the last of their paragraph go before others.
    """
    totals = [0, *accumulate(costs)]
    windows, start = [], 0
    while start < len(costs):
        end = max(start + 1, bisect_right(totals, totals[start] + limit) - 1)
        if texts is not None and end < len(costs):
            earliest = bisect_left(totals, totals[start] + FULL_ENOUGH * limit, start + 1, end)
            borders = list(range(end, earliest - 1, -1))
            if is_last is not None:
                borders = [i for i in borders if is_last[i - 1]] or borders
            end = min(borders, key=lambda i: _hash(texts[i - 1]))
        windows.append(range(start, end))
        start = end
    return windows


def _hash(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class _Meter:
    text: str
    count_tokens: CountTokens

    def tokens(self, spans: Sequence[Span]) -> list[int]:
        counts: list[int] = []
        for first in range(0, len(spans), COUNT_BATCH):
            batch = [self.text[s.start : s.end] for s in spans[first : first + COUNT_BATCH]]
            counts.extend(self.count_tokens(batch))
        return counts


def _atoms(meter: _Meter, limit: int) -> tuple[list[Span], list[int]]:
    """Yield sentences, and of those beyond the limit ever smaller parts, with their tokens."""
    spans = sentences(meter.text)
    counts = dict(zip(spans, meter.tokens(spans), strict=True))
    cuts: tuple[Cut, ...] = (
        lambda text, span: [Span(*m.span()) for m in _WORD.finditer(text, span.start, span.end)],
        # why: tokens have one character or more as a rule, so slices of limit/8 fill a chunk well
        partial(_slices, size=max(1, limit // 8)),
        lambda text, span: [Span(i, i + 1) for i in range(span.start, span.end)],
    )
    for cut in cuts:
        parts = {span: cut(meter.text, span) for span in spans if counts[span] > limit}
        spans = [part for span in spans for part in parts.get(span, [span])]
        new = [part for several in parts.values() for part in several]
        counts |= zip(new, meter.tokens(new), strict=True)
    return spans, [counts[span] for span in spans]


def _slices(text: str, span: Span, *, size: int) -> list[Span]:
    """Parts of about `size` characters that do not begin with a combining mark."""
    parts: list[Span] = []
    start = span.start
    while start < span.end:
        end = min(start + size, span.end)
        latest = min(end + LONGEST_CLUSTER, span.end)
        while end < latest and _belongs_to_previous(text, end):
            end += 1
        parts.append(Span(start, end))
        start = end
    return parts


def _belongs_to_previous(text: str, position: int) -> bool:
    joined = ZERO_WIDTH_JOINER in (text[position], text[position - 1])
    return joined or unicodedata.category(text[position])[0] == "M"


def _packed(meter: _Meter, spans: list[Span], counts: list[int], limit: int) -> Iterator[Span]:
    # why: one token at least for each, so that no run is longer than the limit, whatever is counted
    totals = list(accumulate((max(1, count) for count in counts), initial=0))
    first = 0
    while first < len(spans):
        last = max(first, bisect_right(totals, totals[first] + limit) - 2)
        last = _shortened(meter, spans, first, last, limit)
        yield Span(spans[first].start, spans[last].end)
        first = last + 1


def _shortened(meter: _Meter, spans: list[Span], first: int, last: int, limit: int) -> int:
    """Return the last of the spans first..last such that the slice they make is within the limit."""
    while last > first:
        run = Span(spans[first].start, spans[last].end)
        [tokens] = meter.tokens([run])
        if tokens <= limit:
            break
        # why: by the ratio and not one by one, or many tiny spans would cost a count each
        reach = run.start + len(run) * limit // tokens
        fitting = bisect_right(spans, reach, first, last, key=attrgetter("end")) - 1
        last = max(first, fitting)
    return last


def _without_weightless(chunks: list[Span], counts: list[int]) -> list[Span]:
    """Join chunks without tokens to the one before them, at the beginning to the one after."""
    joined: list[Span] = []
    tokens = 0
    for span, count in zip(chunks, counts, strict=True):
        if joined and (count == 0 or tokens == 0):
            joined[-1] = Span(joined[-1].start, span.end)
            tokens += count
        else:
            joined.append(span)
            tokens = count
    return joined
