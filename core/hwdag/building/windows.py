"""Filling windows: consecutive nodes, as many as fit (GARLIC 3.1, threshold n_s)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from hwdag.config import BuildConfig
from hwdag.errors import ContextTooSmall
from hwdag.lm.base import Reader, ReplayRequest
from hwdag.text.chunking import pack
from hwdag.text.headings import Outline, lead, parted
from hwdag.text.prompts import CONDENSE, SUMMARY, SummaryPrompt
from hwdag.text.sentences import ends_sentence, sentences
from hwdag.types import Node, Origin, Span

POINTS_RATIO = 0.2
"""Tokens of picked points per token of their window: each level is a fifth of the one below (not in the papers)."""

SUMMARY_SHARE = 0.25
"""Share of a window that is kept free for written points in the papers' methods. GARLIC gives one
threshold, n_s, for prompt, window and summary together (4.1), and does not divide it."""

PASSAGE_TOKENS = 192
"""One statement is written about a passage of at most this many tokens (not in the papers). Asked for
several about a longer text, a small writer retells it sentence by sentence."""

STATEMENT_TOKENS = 96
"""Most tokens of a statement (not in the papers)."""

MOST_OF_PASSAGE = 3 / 5
"""Share of the tokens of a passage that a statement about it may take: less than a level may take of the
one below (not in the papers)."""

STATEMENTS_RATIO = 1 / 2
"""Room for statements per token of their window; most take a fifth (not in the papers)."""

SHORT_PASSAGE = 48
"""A passage of fewer tokens at the end of a window is part of the one before it, since a statement would
take half of it (not in the papers)."""

LEAST_TOKENS = 24
"""A shorter text gets no points: a leaf is as short (not in the papers)."""

HEADING_TOKENS = 32
"""Room for the headings before a window that begins within a section; longer ones are left out."""


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How a window is divided: the tokens of its prompt, of its nodes, and of its points.

    With `is_running` the nodes are shown as running text of paragraphs, else as a bullet line each. With
    `has_passages` points are written passage by passage.
    """

    prompt: SummaryPrompt
    language: str
    prompt_tokens: int
    content_tokens: int
    points_tokens: int
    is_running: bool
    has_passages: bool

    @classmethod
    def of(
        cls, config: BuildConfig, prompt: SummaryPrompt | None, reader: Reader, *, extractive: bool
    ) -> WindowPlan:
        """Divide the window of a config for a reader; `ContextTooSmall` if one chunk does not fit."""
        is_running, language = not config.rules.follows_papers, config.language or ""
        prompt = prompt or SummaryPrompt(CONDENSE if is_running else SUMMARY)
        window = min(config.window_tokens or reader.window_tokens, reader.context_tokens)
        cut = prompt.cut(language)
        overhead = reader.template_tokens + sum(reader.count_tokens(list(cut)))
        free, has_passages = window - overhead, is_running and not extractive
        if extractive:
            content = int(free / (1 + POINTS_RATIO))
        elif has_passages:
            content = int(free / (1 + STATEMENTS_RATIO))
        else:
            content = free - int(SUMMARY_SHARE * window)
        points, content = free - content, content - (HEADING_TOKENS if is_running else 0)
        chunk = config.chunk_tokens + LINE_TOKENS
        if content < chunk or points < MIN_POINTS_TOKENS:
            longest = content - LINE_TOKENS
            shorter = longest >= 8 and points >= MIN_POINTS_TOKENS
            advice = f"set chunk_tokens to at most {longest}" if shorter else "shorten the prompt"
            raise ContextTooSmall(
                f"a window of {window} tokens (context of {reader.name}: {reader.context_tokens}) "
                f"cannot hold the summary prompt ({overhead} tokens), one chunk "
                f"({config.chunk_tokens}) and its points; {advice}, or use a longer window or a "
                "model with a longer context"
            )
        return cls(prompt, language, overhead, content, points, is_running, has_passages)

    @property
    def reply_tokens(self) -> int:
        """Most tokens of a reply."""
        return min(
            self.points_tokens, STATEMENT_TOKENS if self.has_passages else self.points_tokens
        )

    def points_of(self, passage: Window) -> int:
        """Return the most tokens of the points of a passage."""
        return min(self.reply_tokens, max(MIN_POINTS_TOKENS, int(MOST_OF_PASSAGE * passage.tokens)))


LINE_TOKENS = 4  # at most the tokens of the bullet and the line break around a node
MIN_POINTS_TOKENS = 16  # room for at least one short point


@dataclass(frozen=True, slots=True)
class WindowSentence:
    """A part of a window node that may become an extractive point: a sentence, or a whole point."""

    text: str
    segment: int
    unit: Span  # within the segment's text
    sources: tuple[Span, ...]  # within the document
    origin: Origin = "extractive"  # of a point that is picked from it: a slice, or a generated text
    is_heading: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive nodes of one level, as a prompt shows them, and the parts that they consist of.

    Attributes:
        before, after: the prompt around the nodes.
        segments: texts of the nodes.
        leads: the text before each of them; empty if each is a bullet line.
        parts: sentences that may become a picked point, or that a written one may attend to.
        tokens: of the nodes, at most.
        passages: the passages that points are written about; empty if it is the window as a whole.
    """

    before: str
    after: str
    segments: tuple[str, ...]
    leads: tuple[str, ...]
    parts: tuple[WindowSentence, ...]
    tokens: int
    passages: tuple[Window, ...] = ()

    def request(self, points: Sequence[str] = ()) -> ReplayRequest:
        """Return the window with its points, for a replay."""
        units: list[list[Span]] = [[] for _ in self.segments]
        for part in self.parts:
            units[part.segment].append(part.unit)
        return ReplayRequest(
            self.before,
            self.segments,
            self.after,
            tuple(points),
            tuple(map(tuple, units)),
            self.leads,
        )


def windows_of(
    nodes: Sequence[Node], outline: Outline, plan: WindowPlan, reader: Reader
) -> list[tuple[range, Window]]:
    """Divide a level into windows: the places of each in the level, and its texts.

    Leaves are cut into sentences; points stay whole.
    """
    found = _windows(nodes, outline, plan, reader, plan.content_tokens)
    if not plan.has_passages:
        return found
    limits = PASSAGE_TOKENS, SHORT_PASSAGE
    inner = [_windows(nodes[r.start : r.stop], outline, plan, reader, *limits) for r, _ in found]
    return [
        (r, replace(window, passages=tuple(passage for _, passage in passages)))
        for (r, window), passages in zip(found, inner, strict=True)
    ]


def _windows(
    nodes: Sequence[Node],
    outline: Outline,
    plan: WindowPlan,
    reader: Reader,
    limit: int,
    least: int = 0,
) -> list[tuple[range, Window]]:
    texts = [node.text for node in nodes]
    costs = line_costs(texts, reader)
    if not plan.is_running:
        ranges, leads = pack(costs, limit), list[str]()
    else:
        leads = _leads(nodes, outline)
        is_last = [lead == PARAGRAPH for lead in leads[1:]] + [True]
        ranges = _joined(pack(costs, limit, texts, is_last), costs, least)
        for r, heading in zip(ranges, _headings(nodes, ranges, reader), strict=True):
            leads[r.start] = heading
    found = []
    for r in ranges:
        tokens = sum(costs[r.start : r.stop])
        before, after = plan.prompt.cut(plan.language, " ".join(texts[r.start : r.stop]))
        parts = [part for i, at in enumerate(r) for part in _parts(nodes[at], i, outline)]
        inner = slice(r.start, r.stop)
        window = Window(
            before, after, tuple(texts[inner]), tuple(leads[inner]), tuple(parts), tokens
        )
        found.append((r, window))
    return found


def _joined(windows: list[range], costs: Sequence[int], least: int) -> list[range]:
    """Return the windows, the last one as part of the one before it if it costs less than `least`."""
    *others, last = windows
    if others and sum(costs[last.start : last.stop]) < least:
        return [*others[:-1], range(others[-1].start, last.stop)]
    return windows


PARAGRAPH = "\n\n"  # between two paragraphs


def _leads(nodes: Sequence[Node], outline: Outline) -> list[str]:
    """Return the text before each node in running text: a blank, or the end of a paragraph."""
    if nodes[0].level > 1:
        return ["", *(" " if ends_sentence(node.text) else ". " for node in nodes[:-1])]
    paragraphs = outline.paragraphs_of([node.sources[0] for node in nodes])
    return ["", *(" " if one == two else PARAGRAPH for one, two in pairwise(paragraphs))]


def _headings(nodes: Sequence[Node], windows: Sequence[range], reader: Reader) -> list[str]:
    """Return the text before each window of leaves: its headings, or the last if there is no room for all."""
    first = [nodes[window.start] for window in windows]
    choices = [
        [
            before + PARAGRAPH
            for heading in (node.heading, parted(node.heading)[1])
            if node.level == 1 and (before := lead(heading, node.text))
        ]
        for node in first
    ]
    texts = list(chain.from_iterable(choices))
    tokens = dict(zip(texts, reader.count_tokens(texts), strict=True))
    return [
        next((one for one in several if tokens[one] <= HEADING_TOKENS), "") for several in choices
    ]


def _parts(node: Node, segment: int, outline: Outline) -> Iterator[WindowSentence]:
    if node.level > 1:
        # why: a slice of the document stays one when it is picked again; a generated text does not
        origin: Origin = "generated" if node.origin == "generated" else "extractive"
        yield WindowSentence(node.text, segment, Span(0, len(node.text)), node.sources, origin)
        return
    at = node.sources[0].start
    for s in sentences(node.text):
        source, text = Span(at + s.start, at + s.end), node.text[s.start : s.end]
        yield WindowSentence(text, segment, s, (source,), is_heading=outline.is_heading(source))


def line_costs(texts: Sequence[str], reader: Reader) -> list[int]:
    """Count the tokens of every text as the bullet line that it is shown as."""
    return reader.count_tokens([f"* {text}\n" for text in texts])
