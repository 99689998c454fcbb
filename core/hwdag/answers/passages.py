"""The passages of a search: nodes as they were read, their sources, or with their neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, get_args

from hwdag.checks import one_of
from hwdag.text.neighbours import Neighbours, without
from hwdag.types import Retrieval, Span, Step

Returns = Literal["nodes", "sources", "passages"]
"""Nodes as they were read; with the text of the document that they rest on, one source per line; or with
the paragraph, list, or question and answer that each is in."""

VERBATIM = ("chunk", "extractive")  # origins of nodes whose text is that of the document


def checked_returns(returns: Returns) -> Returns:
    """Return the option itself. Raises `UnknownOption` for one that does not exist."""
    one_of("returns", returns, get_args(Returns))
    return returns


def returned(retrieval: Retrieval, returns: Returns) -> Retrieval:
    """Return the retrieval in the form of the option."""
    if checked_returns(returns) == "passages":
        return in_passages(retrieval)
    return in_sources(retrieval) if returns == "sources" else retrieval


def in_sources(retrieval: Retrieval) -> Retrieval:
    """Return the same retrieval; the text of every node is that of its sources, one per line."""

    def sourced(step: Step) -> Step:
        node = step.node
        text = retrieval.sources[node.document_id].text if node.sources else ""
        lines = (text[span.start : span.end] for span in node.sources)
        return replace(step, node=replace(node, text="\n".join(lines)))

    steps, unread = (tuple(map(sourced, some)) for some in (retrieval.steps, retrieval.unread))
    return replace(retrieval, steps=steps, unread=unread)


def in_passages(retrieval: Retrieval) -> Retrieval:
    """Return the same retrieval with its nodes in their units, as nodes of their own; see `grown`."""

    def named(step: Step) -> Step:
        node = step.node
        where = ",".join(f"{span.start}-{span.end}" for span in node.sources)
        return replace(
            step, node=replace(node, id=f"{node.document_id}@{where}", level=1, origin="chunk")
        )

    growing = _Growing(retrieval)
    read, left = growing.within(retrieval.context)
    others = growing.all((*left, *retrieval.unread))
    return replace(retrieval, steps=tuple(map(named, read)), unread=tuple(map(named, others)))


def grown(
    retrieval: Retrieval, steps: Sequence[Step] | None = None, *, keeps_written: bool = False
) -> tuple[list[Step], list[Step]]:
    """Return the context with the units of its nodes (`hwdag.text.neighbours`), and the nodes without room.

    Of a node that a model wrote, the units of its sources take the place, unless it `keeps_written` ones.
    `steps` are some of the context, all by default.

    No text comes twice. All takes as many tokens as the context did, estimated from its characters: the
    units of the first nodes take the place of the last nodes.
    """
    return _Growing(retrieval, keeps_written).within(retrieval.context if steps is None else steps)


class _Growing:
    """The texts of documents that were read, and their units."""

    def __init__(self, retrieval: Retrieval, keeps_written: bool = False) -> None:
        self._keeps_written = keeps_written
        self._sources = retrieval.sources
        self._units: dict[str, Neighbours] = {}
        self._covered: dict[str, list[Span]] = {}
        context = [step.node for step in retrieval.context]
        length = sum(len(node.text) for node in context)
        # why: if all was read, a unit adds nothing but blanks
        self._room = math.inf if retrieval.stop == "exhausted" else length
        self._rate = sum(node.tokens for node in context) / max(1, length)

    def within(self, steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
        """Grow nodes in their order until the room is used; return them, and those without room."""
        read, left, room = list[Step](), list[Step](), self._room
        for step in steps:
            node = step.node
            if self._keeps_written and node.origin not in VERBATIM:
                room -= len(node.text)
                read.append(step)
                continue
            for spans in self._choices(step):
                length = sum(map(len, spans))
                if length <= room:
                    break
            else:
                left.append(step)
                continue
            if spans:  # else all of it was read with another node
                room -= length
                read.append(self._taken(step, spans))
        return read, left

    def all(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Grow nodes, whatever room they take."""
        for step in steps:
            if spans := next(self._choices(step)):
                yield self._taken(step, spans)

    def _choices(self, step: Step) -> Iterator[list[Span]]:
        """Yield the forms that a node may be read in: its unit, with a neighbour, or alone, less the text read.

        A question or a heading is nothing without the text after it.
        """
        node = step.node
        text, covered = (
            self._sources[node.document_id].text,
            self._covered.get(node.document_id, []),
        )
        if (units := self._units.get(node.document_id)) is None:
            units = self._units[node.document_id] = Neighbours(text)
        alone = list(node.sources)
        near = [span for source in alone for span in units.near(source, len(source) + 200)]
        yield without(text, [span for source in alone for span in units.unit(source)], covered)
        is_opening = all(map(units.is_opening, alone))
        if near != alone or not is_opening:
            yield without(text, near, covered)
        if not is_opening:
            yield without(text, alone, covered)

    def _taken(self, step: Step, spans: list[Span]) -> Step:
        key = step.node.document_id
        self._covered.setdefault(key, []).extend(spans)
        text = "\n".join(self._sources[key].text[span.start : span.end] for span in spans)
        tokens = max(1, round(self._rate * len(text)))
        return replace(
            step, node=replace(step.node, text=text, tokens=tokens, sources=tuple(spans))
        )
