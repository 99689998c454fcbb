"""Cutting documents into passages; small ones fill a budget better."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from hwdag.lm.base import Reader
from hwdag.options import CheckedOptions
from hwdag.text.chunking import CountTokens, chunk, leaves
from hwdag.text.headings import headings, parted, searched_text
from hwdag.text.sentences import trimmed
from hwdag.types import Document, Node, Span

Granularity = Literal["300", "100", "sentence", "passage"]
"""Chunks of whole sentences (at most 300 or 100 reader tokens), sentences, or paragraphs (cut at
300 tokens)."""


@dataclass(frozen=True, slots=True)
class PassageConfig(CheckedOptions):
    """How a document is cut.

    Attributes:
        granularity: "300" or "100" for chunks of whole sentences with at most that many tokens,
            "sentence", or "passage" for paragraphs with the heading above them.
        contextual: search every passage together with its heading, or with the title of its
            document.
    """

    granularity: Granularity = "300"
    contextual: bool = False


SENTENCE_TOKENS = 300
"""Longer sentences and paragraphs are cut, so that every passage fits into a usual budget."""

HEADING_MARKS = 8
"""Characters around a heading that is a paragraph of its own, such as number signs."""

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n")


@dataclass(frozen=True, slots=True)
class Passages:
    """One document, cut: level-1 nodes in reading order, with exact spans."""

    nodes: tuple[Node, ...]
    indexed: tuple[str, ...]
    """The searched text of every node: its own text, with its heading if `contextual`."""

    @classmethod
    def of(cls, document: Document, config: PassageConfig, reader: Reader) -> Passages:
        """Cut a document; the reader counts tokens.

        A fragment (a heading, "Yes.") joins the next sentence. With `config.contextual`, the
        heading above a passage, or else the title, is searched and read with it; the returned text
        stays the same.
        """
        spans = _cut(document.text, config.granularity, reader.count_tokens)
        nodes = verbatim_nodes(document, spans, config.granularity, reader)
        if config.contextual:
            found = headings(document.text, spans, document.title)
            pairs = zip(nodes, found, strict=True)
            nodes = tuple(
                replace(node, heading=heading or document.title) for node, heading in pairs
            )
        return cls(nodes, tuple(map(searched_text, nodes)))


def verbatim_nodes(
    document: Document, spans: Sequence[Span], name: str, reader: Reader
) -> tuple[Node, ...]:
    """Return spans of a document as level-1 nodes, numbered within it."""
    names = [f"{name}.{i}" for i in range(len(spans))]
    return tuple(_slices(document.id, document.text, spans, names, reader))


def _slices(
    document_id: str,
    text: str,
    spans: Sequence[Span],
    names: Sequence[str],
    reader: Reader,
    at: int = 0,
) -> Iterator[Node]:
    """Yield slices of a text as nodes; the text begins at `at` in its document."""
    texts = [text[span.start : span.end] for span in spans]
    counts = reader.count_tokens(texts)
    for span, name, part, tokens in zip(spans, names, texts, counts, strict=True):
        source, key = Span(at + span.start, at + span.end), f"{document_id}#{name}"
        yield Node(key, document_id, 1, part, "chunk", max(1, tokens), (source,))


@dataclass(frozen=True, slots=True)
class Whole:
    """One whole document, trimmed."""

    node: Node

    @classmethod
    def of(cls, document: Document, reader: Reader) -> Whole:
        """Return the document as one node; the reader counts tokens."""
        span = trimmed(document.text, 0, len(document.text))
        [node] = _slices(document.id, document.text, [span], ["whole"], reader)
        return cls(replace(node, heading=document.title))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The only node."""
        return (self.node,)

    def cut(self, spans: Sequence[Span], names: Sequence[str], reader: Reader) -> list[Node]:
        """Return slices of the document as nodes with these names."""
        whole, at = self.node, self.node.sources[0].start
        return list(_slices(whole.document_id, whole.text, spans, names, reader, at))


def _cut(text: str, granularity: Granularity, count_tokens: CountTokens) -> list[Span]:
    if granularity == "sentence":
        return leaves(text, count_tokens=count_tokens, limit=SENTENCE_TOKENS)
    if granularity == "passage":
        return list(_passages(text, count_tokens))
    return chunk(text, count_tokens=count_tokens, limit=int(granularity))


def paragraphs(text: str) -> list[Span]:
    """Return the text between blank lines, trimmed."""
    cuts = [0, *(found.end() for found in _BLANK_LINES.finditer(text)), len(text)]
    return [span for a, b in pairwise(cuts) if len(span := trimmed(text, a, b))]


def _passages(text: str, count_tokens: CountTokens) -> Iterator[Span]:
    """Yield paragraphs with the headings directly above them; long ones are cut."""
    spans = paragraphs(text)
    start = None  # of the headings before the next paragraph
    for i, (span, path) in enumerate(zip(spans, headings(text, spans), strict=True)):
        _, heading = parted(path)
        start = span.start if start is None else start
        alone = heading in text[span.start : span.end] and len(span) <= len(heading) + HEADING_MARKS
        if heading and alone and i + 1 < len(spans):
            continue
        inner = text[start : span.end]
        for part in chunk(inner, count_tokens=count_tokens, limit=SENTENCE_TOKENS):
            yield Span(start + part.start, start + part.end)
        start = None
