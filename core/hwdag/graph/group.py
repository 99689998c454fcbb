"""A group of a corpus layer: points over the top-level nodes of several documents, or groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Floats, Ints, Vectors
from hwdag.errors import IndexCorrupt, InputError
from hwdag.types import Node


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a group without its nodes.

    Attributes:
        layer: 1 for a group of documents; one more than the highest layer of its members.
        tokens: of the window that it was made of.
        tenant: whose documents are beneath it; None where there are no tenants.
    """

    layer: int
    tokens: int
    tenant: str | None = None

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Of parsed JSON; raises `InputError`."""
        try:
            facts = cls(**values)
        except TypeError as error:
            raise InputError(f"what is known of a group is malformed: {error}") from error
        sound = type(facts.layer) is type(facts.tokens) is int and facts.layer >= 1
        if not sound or not isinstance(facts.tenant, str | None):
            raise InputError("what is known of a group is malformed")
        return facts


@dataclass(frozen=True, slots=True, eq=False)
class CorpusGroup:
    """A group before it is stored. Every point has an edge to every node of the window.

    Attributes:
        name: begins the ids of its nodes.
        facts: its layer, size and tenant.
        members: numbers of the documents and groups that it rests on, in order.
        nodes: its points, all of one level.
        owners: number of the member that each node of the window belongs to, (window,).
        children: position of that node in its member, (window,).
        attention: of the points to the nodes of the window, (points, window).
        vectors: embeddings of the points, (points, dimension).
    """

    name: str
    facts: GroupFacts
    members: tuple[int, ...]
    nodes: tuple[Node, ...]
    owners: Ints
    children: NDArray[np.int32]
    attention: Floats
    vectors: Vectors

    def check_integrity(self) -> None:
        """Raise `IndexCorrupt` unless every point has text and sources, and edges that sum to 1."""
        shape = len(self.nodes), len(self.children)
        if not self.nodes or self.attention.shape != shape or self.owners.shape != shape[1:]:
            raise IndexCorrupt(f"group {self.name} is not of one window")
        if len(self.members) < 2 or not set(self.owners.tolist()) == set(self.members):
            raise IndexCorrupt(f"group {self.name} does not rest on its members")
        for node in self.nodes:
            if not node.text.strip() or node.tokens < 1 or not node.sources:
                raise IndexCorrupt(f"node {node.id} lacks text, tokens or sources")
        sums = self.attention.sum(axis=1)
        if not ((self.attention >= 0).all() and (sums > 0).all() and (sums < np.inf).all()):
            raise IndexCorrupt(f"the attention of group {self.name} cannot be shared out")
