"""How a document is cut for retrievers that rank passages: fine ones fill a budget better."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from hwdag.lm.base import Reader
from hwdag.text.chunking import CountTokens, chunk, leaves
from hwdag.text.headings import headings, searched_text
from hwdag.text.sentences import trimmed
from hwdag.types import Document, Node, Span
from hwdag_lab.methods.options import CheckedOptions

Granularity = Literal["300", "100", "sentence", "passage"]
"""Chunks of whole sentences, of at most 300 or 100 tokens of the reader, single sentences, or
paragraphs: a passage never goes on over a blank line, and a longer one than 300 tokens is cut."""


@dataclass(frozen=True, slots=True)
class PassageConfig(CheckedOptions):
    """How a document is cut into what is ranked.

    Attributes:
        granularity: "300" or "100" for chunks of whole sentences with at most that many tokens,
            "sentence", or "passage" for paragraphs with the heading above them.
        contextual: search every passage together with its heading, or the title of its document.
    """

    granularity: Granularity = "300"
    contextual: bool = False


SENTENCE_TOKENS = 300
"""A longer sentence or paragraph is cut, so that every passage fits a usual budget."""

HEADING_MARKS = 8
"""Characters around a heading that stands alone in its paragraph: number signs, a rule."""

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n")


@dataclass(frozen=True, slots=True)
class Passages:
    """One document, cut: nodes of level 1 in reading order, with exact spans."""

    nodes: tuple[Node, ...]
    indexed: tuple[str, ...]
    """What is searched of every node: its text, or its text behind its heading."""

    @classmethod
    def of(cls, document: Document, config: PassageConfig, reader: Reader) -> Passages:
        """Cut a document; tokens are counted by the reader.

        A sentence that is a mere fragment (a heading, "Yes.") joins the next one. With
        `config.contextual` the heading above a passage, or else the document's title, stands before
        what is searched and read; what is returned stays as it is.
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
    """Spans of a document as nodes of level 1, named and numbered within it."""
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
    """Slices of a text that begins at `at` in its document as nodes, named within the document."""
    texts = [text[span.start : span.end] for span in spans]
    counts = reader.count_tokens(texts)
    for span, name, part, tokens in zip(spans, names, texts, counts, strict=True):
        source, key = Span(at + span.start, at + span.end), f"{document_id}#{name}"
        yield Node(key, document_id, 1, part, "chunk", max(1, tokens), (source,))


@dataclass(frozen=True, slots=True)
class Whole:
    """One document, uncut, without the white space around it."""

    node: Node

    @classmethod
    def of(cls, document: Document, reader: Reader) -> Whole:
        """The document as one node; tokens are counted by the reader."""
        span = trimmed(document.text, 0, len(document.text))
        [node] = _slices(document.id, document.text, [span], ["whole"], reader)
        return cls(replace(node, heading=document.title))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The only node."""
        return (self.node,)

    def cut(self, spans: Sequence[Span], names: Sequence[str], reader: Reader) -> list[Node]:
        """Slices of the node's text as nodes, named within the document."""
        whole, at = self.node, self.node.sources[0].start
        return list(_slices(whole.document_id, whole.text, spans, names, reader, at))


def _cut(text: str, granularity: Granularity, count_tokens: CountTokens) -> list[Span]:
    if granularity == "sentence":
        return leaves(text, count_tokens=count_tokens, limit=SENTENCE_TOKENS)
    if granularity == "passage":
        return list(_passages(text, count_tokens))
    return chunk(text, count_tokens=count_tokens, limit=int(granularity))


def paragraphs(text: str) -> list[Span]:
    """What stands between blank lines, trimmed."""
    cuts = [0, *(found.end() for found in _BLANK_LINES.finditer(text)), len(text)]
    return [span for a, b in pairwise(cuts) if len(span := trimmed(text, a, b))]


def _passages(text: str, count_tokens: CountTokens) -> Iterator[Span]:
    """Paragraphs, each behind the heading that stands alone above it; long ones cut."""
    spans = paragraphs(text)
    start = None  # of headings that wait for their paragraph
    for i, (span, heading) in enumerate(zip(spans, headings(text, spans), strict=True)):
        start = span.start if start is None else start
        alone = heading in text[span.start : span.end] and len(span) <= len(heading) + HEADING_MARKS
        if heading and alone and i + 1 < len(spans):
            continue
        inner = text[start : span.end]
        for part in chunk(inner, count_tokens=count_tokens, limit=SENTENCE_TOKENS):
            yield Span(start + part.start, start + part.end)
        start = None
