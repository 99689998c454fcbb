"""What a reader sees of the nodes that a walk found: behind their headings, and by section for an answer.

A sentence taken out of its section has lost what it is about. Where nodes are read as they are visited,
each stands behind its heading; where they are read together (ours), those of a section stand together,
in the order of the document, and the heading stands before the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hwdag.text.headings import searched_text
from hwdag.types import Node


def by_section(nodes: Sequence[Node]) -> list[tuple[int, str]]:
    """Return the numbers of nodes in the order in which they are read, each with its text as shown.

    Sections stand as the walk came to them, the nodes of each in document order. A section is what stands
    under one heading of one document. Where nothing has a heading, documents are sections.
    """
    sections: dict[tuple[str, str], list[int]] = {}
    for i, node in enumerate(nodes):
        sections.setdefault(_section_of(node), []).append(i)
    order = [
        i for section in sections.values() for i in sorted(section, key=lambda i: _start(nodes[i]))
    ]
    return list(zip(order, with_headings([nodes[i] for i in order]), strict=True))


def with_headings(nodes: Sequence[Node]) -> list[str]:
    """Return the texts of nodes, behind the heading where the one before stands under another."""
    return [read_after(last, node) for last, node in zip([None, *nodes], nodes, strict=False)]


def read_after(last: Node | None, node: Node) -> str:
    """Return the text of a node, behind its heading unless `last` stands under the same."""
    is_same = last is not None and _section_of(last) == _section_of(node)
    return node.text if is_same else searched_text(node)


class Sections:
    """Counts the tokens of nodes that will be read by section; `tokens_of` counts those of one text."""

    def __init__(self, tokens_of: Callable[[str], int]) -> None:
        self._tokens_of = tokens_of
        self._first: dict[tuple[str, str], Node] = {}
        self.tokens = 0

    def cost(self, node: Node) -> int:
        """Tokens that one more node takes, at most."""
        return self._tokens_of(self.text(node))

    def text(self, node: Node) -> str:
        """What one more node is counted as: its text, behind its heading where it would be the first."""
        return searched_text(node) if self._leads(node) else node.text

    def add(self, node: Node) -> int:
        """Count a node in; returns how many tokens more there are, fewer where the heading moves."""
        added = self.cost(node)
        if self._leads(node):
            if first := self._first.get(_section_of(node)):
                added += self._tokens_of(first.text) - self._tokens_of(searched_text(first))
            self._first[_section_of(node)] = node
        self.tokens += added
        return added

    def _leads(self, node: Node) -> bool:
        """Whether it would be the first of its section."""
        first = self._first.get(_section_of(node))
        return first is None or _start(node) < _start(first)


def _section_of(node: Node) -> tuple[str, str]:
    # why: a text that a model wrote may rest on several sections, and names what it is about
    return node.document_id, "" if node.origin == "generated" else node.heading


def _start(node: Node) -> int:
    return node.sources[0].start
