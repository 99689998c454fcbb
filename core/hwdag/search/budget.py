"""Turn selected nodes into texts for a reader, and count their tokens against a budget.

A sentence taken out of its section has lost its subject. So the heading precedes a node (not in the
papers), unless the node before it has the same. Nodes that are read together come by section, in the
order of the document; nodes that are read during the walk, in the order of the visits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hwdag.corpus.corpus import Corpus
from hwdag.text.headings import parted, read_texts
from hwdag.types import Node

FIRST_POSITION = 2  # the question is at position 1 (PECAN App. C)


class Budget:
    """Tokens that nodes may take, `limit` in all; fetches each node and counts each text once.

    `count` counts the tokens of texts as nodes; with `counted` it has counted those of the nodes
    already (`Node.line_tokens`). Nodes are counted as they are read: in the order in which they are
    taken, or `by_section`. Points may take the `points_share` of it, and the point that exceeds that.
    Unless it `keeps_points`, written ones take nothing else. `dated` puts the date of a node above it.
    """

    def __init__(
        self,
        corpus: Corpus,
        count: Callable[[Sequence[str]], list[int]],
        limit: int,
        *,
        by_section: bool = False,
        counted: bool = False,
        points_share: float = 1.0,
        keeps_points: bool = True,
        dated: Callable[[int, Node], Node] | None = None,
    ) -> None:
        self._dated = dated or (lambda _, node: node)
        self._corpus, self._count, self._is_counted = corpus, count, counted
        self._nodes: dict[int, Node] = {}
        self._counted: dict[str, int] = {}
        self._most: dict[int, int] = {}  # tokens of the longest reading of a node
        self._sections = Sections(self._tokens_of) if by_section else None
        self._last: Node | None = None  # whose heading a reader has before it
        self._keeps_points = keeps_points
        self.limit = limit
        self.tokens = 0
        self._room_for_points = limit * points_share

    @property
    def is_left_for_points(self) -> bool:
        """Whether points have not used their share yet."""
        return self._room_for_points > 0

    @property
    def room(self) -> int:
        """Tokens that are left."""
        return self.limit - self.tokens

    def costs(self, indices: Sequence[int]) -> list[int]:
        """Tokens that each of these nodes would take, at most."""
        return self.counts(list(map(self.text, self.fetch(indices))))

    def bounds(self, indices: Sequence[int]) -> list[int]:
        """Return the `costs` of nodes that do not fit, and for others that or a larger number that fits."""
        nodes, room = self.fetch(indices), self.room
        found = [self._most.get(index, room + 1) for index in indices]
        if unsure := [i for i, bound in enumerate(found) if bound > room]:
            counts = self.counts([self.text(nodes[i]) for i in unsure])
            for i, cost in zip(unsure, counts, strict=True):
                found[i] = cost
        return found

    def text(self, node: Node) -> str:
        """Return the text that a reader is shown of the node that is taken next."""
        return read_after(self._last, node) if self._sections is None else self._sections.text(node)

    def keeps(self, node: Node) -> bool:
        """Return whether a node that is read stays in the context."""
        return self._keeps_points or node.origin != "generated"

    def take(self, index: int) -> Node:
        """Count a node in."""
        [node] = self.fetch([index])
        keep = self.keeps(node)
        if self._sections is not None and keep:
            cost = self._sections.add(node)
        else:
            cost = self._tokens_of(self.text(node))
        self._last = under_heading(self._last, node)
        self.tokens += cost * keep
        if node.level > 1:
            self._room_for_points -= cost
        return node

    def fetch(self, indices: Sequence[int]) -> list[Node]:
        """Nodes with their texts, (k,)."""
        if missing := [index for index in indices if index not in self._nodes]:
            new = self._corpus.fetch(missing)
            self._nodes.update(zip(missing, map(self._dated, missing, new), strict=True))
            for index, node in zip(missing, new, strict=True) if self._is_counted else ():
                texts, tokens = read_texts(node), node.line_tokens
                self._counted.update((text, n) for text, n in zip(texts, tokens, strict=True) if n)
                if texts[0] == node.text and self._nodes[index] is node and all(tokens):
                    self._most[index] = max(tokens)
        return [self._nodes[index] for index in indices]

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each of these texts as a node."""
        if missing := [text for text in dict.fromkeys(texts) if text not in self._counted]:
            self._counted.update(zip(missing, self._count(missing), strict=True))
        return [self._counted[text] for text in texts]

    def _tokens_of(self, text: str) -> int:
        return self.counts([text])[0]


def sections_of(nodes: Sequence[Node]) -> list[list[int]]:
    """Return the numbers of the nodes of each section, as `by_section` orders them."""
    sections: dict[tuple[str, str], list[int]] = {}
    for i, node in enumerate(nodes):
        sections.setdefault(section_of(node), []).append(i)
    return [sorted(section, key=lambda i: _start(nodes[i])) for section in sections.values()]


def with_headings(nodes: Sequence[Node]) -> list[str]:
    """Return the texts of nodes, after the heading if the node before it has another."""
    texts, last = list[str](), None
    for node in nodes:
        texts.append(read_after(last, node))
        last = under_heading(last, node)
    return texts


def read_after(last: Node | None, node: Node) -> str:
    """Return the text of a node after its headings.

    Those above the last are left out if `last` has the same, and all if it has all of them.
    """
    alone, behind_one, behind_all = read_texts(node)
    if last is None or last.document_id != node.document_id:
        return behind_all
    if section_of(last) == section_of(node):
        return alone
    above, _ = parted(node.heading)
    return behind_one if above in (last.heading, parted(last.heading)[0]) else behind_all


def under_heading(last: Node | None, node: Node) -> Node | None:
    """Return which of two nodes that are read one after the other leaves its heading before the reader.

    A text that a model wrote has none.
    """
    return last if node.origin == "generated" else node


class Sections:
    """Counts the tokens of nodes that will be read by section; `tokens_of` counts those of one text."""

    def __init__(self, tokens_of: Callable[[str], int]) -> None:
        self._tokens_of = tokens_of
        self._first: dict[tuple[str, str], Node] = {}
        self._before: dict[tuple[str, str], Node | None] = {}
        self._last: Node | None = None

    def cost(self, node: Node) -> int:
        """Tokens that one more node takes, at most."""
        return self._tokens_of(self.text(node))

    def text(self, node: Node) -> str:
        """Return the text by which one more node is counted, after its heading if it would be the first."""
        if not self._leads(node):
            return node.text
        return read_after(self._before.get(section_of(node), self._last), node)

    def add(self, node: Node) -> int:
        """Count a node in; returns how many tokens more there are, fewer if the heading moves."""
        added, section = self.cost(node), section_of(node)
        if self._leads(node):
            if first := self._first.get(section):
                before = read_after(self._before[section], first)
                added += self._tokens_of(first.text) - self._tokens_of(before)
            else:
                self._before[section] = self._last
                self._last = under_heading(self._last, node)
            self._first[section] = node
        return added

    def _leads(self, node: Node) -> bool:
        """Return whether it would be the first of its section."""
        first = self._first.get(section_of(node))
        return first is None or _start(node) < _start(first)


def section_of(node: Node) -> tuple[str, str]:
    """Return the key of a node's section: its document and its heading."""
    # why: a text that a model wrote may rest on several sections, and names its subject
    return node.document_id, "" if node.origin == "generated" else node.heading


def _start(node: Node) -> int:
    return node.sources[0].start
