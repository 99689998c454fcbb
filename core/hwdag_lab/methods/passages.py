"""How a document is cut for retrievers that rank passages: fine ones fill a budget better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hwdag.errors import UnknownOption
from hwdag.lm.base import Reader
from hwdag.text.chunking import CountTokens, chunk, leaves
from hwdag.text.headings import headings, in_context
from hwdag.text.sentences import trimmed
from hwdag.types import Document, Node, Span

Granularity = Literal["300", "100", "sentence"]
"""Chunks of whole sentences, of at most 300 or 100 tokens of the reader, or single sentences."""

SENTENCE_TOKENS = 300
"""A longer sentence is cut, so that every passage fits a usual budget."""


@dataclass(frozen=True, slots=True)
class Passages:
    """One document, cut: nodes of level 1 in reading order, with exact spans."""

    nodes: tuple[Node, ...]
    indexed: tuple[str, ...]
    """What is searched of every node: its text, or its text behind its heading."""

    @classmethod
    def of(
        cls, document: Document, granularity: Granularity, reader: Reader, *, contextual: bool
    ) -> Passages:
        """Cut a document; tokens are counted by the reader.

        A sentence that is a mere fragment (a heading, "Yes.") joins the next one.

        Args:
            document: not blank.
            granularity: how fine.
            reader: its tokenizer counts.
            contextual: put the heading that a passage stands under, or else the document's title,
                before what is searched. What is read and returned stays as it is.
        """
        spans = _cut(document.text, granularity, reader.count_tokens)
        texts = [document.text[span.start : span.end] for span in spans]
        nodes = tuple(
            Node(f"{document.id}#{granularity}.{i}", document.id, 1, text, "chunk", tokens, (span,))
            for i, (span, text, tokens) in enumerate(
                zip(spans, texts, reader.count_tokens(texts), strict=True)
            )
        )
        return cls(nodes, tuple(_in_context(document, spans, texts) if contextual else texts))


@dataclass(frozen=True, slots=True)
class Whole:
    """One document, uncut, without the white space around it."""

    node: Node

    @classmethod
    def of(cls, document: Document, reader: Reader) -> Whole:
        """The document as one node; tokens are counted by the reader."""
        span = trimmed(document.text, 0, len(document.text))
        text = document.text[span.start : span.end]
        [tokens] = reader.count_tokens([text])
        identity = f"{document.id}#whole"
        return cls(Node(identity, document.id, 1, text, "chunk", tokens, (span,)))

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The only node."""
        return (self.node,)

    def cut(self, spans: Sequence[Span], names: Sequence[str], reader: Reader) -> list[Node]:
        """Slices of the node's text as nodes, named within the document."""
        whole, origin = self.node, self.node.sources[0].start
        texts = [whole.text[span.start : span.end] for span in spans]
        return [
            Node(
                f"{whole.document_id}#{name}",
                whole.document_id,
                1,
                text,
                "chunk",
                tokens,
                (Span(origin + span.start, origin + span.end),),
            )
            for span, name, text, tokens in zip(
                spans, names, texts, reader.count_tokens(texts), strict=True
            )
        ]


def checked_granularity(granularity: str | int) -> Granularity:
    """The granularity itself. Raises `UnknownOption` for one that does not exist."""
    for known in get_args(Granularity):
        if str(granularity) == known:
            return known  # type: ignore[no-any-return]
    known = ", ".join(map(repr, get_args(Granularity)))
    raise UnknownOption(f"granularity must be one of {known}, got {granularity!r}")


def _cut(text: str, granularity: Granularity, count_tokens: CountTokens) -> list[Span]:
    if granularity == "sentence":
        return leaves(text, count_tokens=count_tokens, limit=SENTENCE_TOKENS)
    return chunk(text, count_tokens=count_tokens, limit=int(granularity))


def _in_context(document: Document, spans: Sequence[Span], texts: Sequence[str]) -> list[str]:
    found = headings(document.text, spans, document.title)
    return [
        in_context(heading or document.title, text)
        for heading, text in zip(found, texts, strict=True)
    ]
