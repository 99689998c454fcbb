"""Corpus layers: points over the top-level points of several documents, and so on upwards.

    documents -> [ fill windows -> make points -> replay: attention -> edges ] until one group is left

A group is one such window. It never changes: where a document comes or goes, the groups above it
give way to others, and all others stay. So a change costs about one window per layer.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice

import numpy as np

from hwdag.building.calls import Calls
from hwdag.building.condensing import Condenser, Tools, window_of, with_sources
from hwdag.building.edges import Floats, segment_attention
from hwdag.building.points import Point, Window, line_costs
from hwdag.building.windows import pack
from hwdag.embedding.base import Vectors
from hwdag.errors import IndexBusy
from hwdag.graph.group import CorpusGroup, GroupFacts
from hwdag.store.groups import Changed, Standing
from hwdag.store.sqlite import Store
from hwdag.trace.progress import Progress
from hwdag.types import Node, Span

MAX_RESTARTS = 5
"""Repairs that are begun anew because a document was deleted meanwhile, before giving up."""

MAX_SOURCES = 8
"""Sentences that a written point of a corpus layer names as its sources, those of what it attended
to most. All documents beneath it would be too many to look up for an answer."""

MAX_LOOKS = 64
"""Groups that are looked at to find one with room; the latest come first, and these have it."""


@dataclass(frozen=True, slots=True)
class LayerChanges:
    """What a repair did.

    Attributes:
        made: groups made.
        dissolved: groups that gave way to them, beside those that went with a document.
        nodes: nodes of the new groups.
        retries: windows whose first reply held no bullet.
        fallbacks: windows whose second reply held none either; their points are extractive.
        reused: finished calls that an earlier run had left.
        notes: about the questions that were asked for, in words.
    """

    made: int = 0
    dissolved: int = 0
    nodes: int = 0
    retries: int = 0
    fallbacks: int = 0
    reused: int = 0
    notes: tuple[str, ...] = ()


def repair_layers(
    store: Store,
    tools: Tools,
    progress: Progress,
    before_call: Callable[[], None] = lambda: None,
) -> LayerChanges:
    """Bring the corpus layers of a store up to date with its documents.

    Afterwards all documents (of a tenant) are beneath a single group, but for those whose top-level
    points take more than half a window: these stand beside the layers. The store changes at the very
    end, all at once; a repair that was interrupted before is run again and finds its finished calls.

    Args:
        store: holds the documents; nobody else should be changing it.
        tools: what a build works with.
        progress: is told about every window.
        before_call: raises where no further call may be made.

    Raises:
        ContextTooSmall: the reader's context cannot hold one chunk and the prompt.
        WriterFailed: the writer raised or broke its contract.
        IndexBusy: documents are deleted faster than layers can be made.
    """
    for _ in range(MAX_RESTARTS):
        since = store.sequence()
        calls = Calls(store.group_calls(since), before_call)
        try:
            return _Repair(store, tools, progress, calls, since).run()
        except Changed:
            continue
    raise IndexBusy(
        f"documents were deleted while corpus layers were made of them, {MAX_RESTARTS} times in a "
        "row; refresh again when fewer changes are made"
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    """A document or group that becomes part of a group, by its nodes of the highest level.

    `number` is negative for a new group, see `Store.exchange_groups`; `first` is the position of the
    first of the nodes, `tokens` is what they take in a window.
    """

    number: int
    layer: int
    name: str
    first: int
    nodes: tuple[Node, ...]
    tokens: int

    @property
    def order(self) -> tuple[bool, int]:
        """In order of number; what is new comes last."""
        return self.number < 0, abs(self.number)


@dataclass(slots=True)
class _Forest:
    """All units of one tenant that no group rests on, and that may become part of one."""

    tenant: str | None
    window: int  # tokens
    tops: dict[int, _Unit] = field(default_factory=dict)

    def add(self, unit: _Unit) -> None:
        """One more, unless it is too large: any two of these must fit into a window."""
        if 2 * unit.tokens <= self.window:
            self.tops[unit.number] = unit

    def up_to(self, layer: int) -> list[_Unit]:
        """Those that may become part of a group of the next layer, in order.

        One that found no company on its own layer is among them on the layers above.
        """
        return sorted((u for u in self.tops.values() if u.layer <= layer), key=lambda u: u.order)

    @property
    def height(self) -> int:
        """The highest layer of a unit."""
        return max((unit.layer for unit in self.tops.values()), default=0)


class _Repair:
    """One-use state of a repair: which groups give way, and which are made.

    What it does follows from what the store holds when it begins, so it is the same when begun anew.
    """

    def __init__(
        self, store: Store, tools: Tools, progress: Progress, calls: Calls, since: int
    ) -> None:
        self._store = store
        self._tools = tools
        self._progress = progress
        self._calls = calls
        self._since = since
        self._known: dict[int, Standing] = {}
        self._dissolved: list[int] = []
        self._made: list[CorpusGroup] = []

    def run(self) -> LayerChanges:
        """Layer by layer, from the documents up."""
        orphans = self._orphans()
        if not orphans:
            return LayerChanges()
        condenser = Condenser(self._tools, self._calls)
        limit = condenser.plan.content_tokens
        forests = [_Forest(tenant, limit) for tenant in orphans]
        for forest in forests:
            for number in orphans[forest.tenant]:
                forest.add(self._unit(number))
        layer = 0
        while layer <= max(forest.height for forest in forests):
            windows = [
                (forest, window) for forest in forests for window in self._windows(forest, layer)
            ]
            if windows:
                self._group(windows, layer + 1, condenser)
            layer += 1
        if self._made:
            self._store.exchange_groups(self._dissolved, self._made, since=self._since)
        return LayerChanges(
            len(self._made),
            len(self._dissolved),
            sum(len(group.nodes) for group in self._made),
            condenser.retries,
            condenser.fallbacks,
            self._calls.reused,
            self._notes(condenser),
        )

    def _notes(self, condenser: Condenser) -> tuple[str, ...]:
        if condenser.questions is None or self._tools.questioner is None:
            return ()
        return tuple(condenser.questions.notes("corpus layers"))

    def _orphans(self) -> dict[str | None, list[int]]:
        """Numbers of what no group rests on, of tenants with something to be done."""
        numbers: dict[str | None, list[int]] = {}
        for number in self._store.orphans():
            tenant = self._tenant_of(self._standing(number))
            # why: a document that does not say whose it is has no company
            if (tenant is None) == (self._tools.config.tenant_key is None):
                numbers.setdefault(tenant, []).append(number)
        return {tenant: found for tenant, found in numbers.items() if len(found) > 1}

    def _tenant_of(self, standing: Standing) -> str | None:
        if standing.facts is not None:
            return standing.facts.tenant
        key = self._tools.config.tenant_key
        tenant = None if key is None else standing.metadata.get(key)
        return tenant if isinstance(tenant, str) else None

    def _standing(self, number: int) -> Standing:
        if number not in self._known:
            self._known[number] = self._store.standing(number)
        return self._known[number]

    def _unit(self, number: int) -> _Unit:
        standing = self._standing(number)
        first, nodes = self._store.top_nodes(number)
        tokens = self._tokens(nodes)
        return _Unit(number, standing.layer, standing.name, first, tuple(nodes), tokens)

    def _tokens(self, nodes: Sequence[Node]) -> int:
        return sum(line_costs([node.text for node in nodes], self._tools.reader))

    # Which windows

    def _windows(self, forest: _Forest, layer: int) -> list[list[_Unit]]:
        """Units that become groups of the next layer; one that is left alone waits for company."""
        units = forest.up_to(layer)
        if not units or len(forest.tops) == 1:
            return []
        room = forest.window - sum(unit.tokens for unit in units)
        if len(units) < len(forest.tops) and room > 0:
            for number in self._path_to_room(forest, layer, room):
                self._dissolve(forest, number)
            units = forest.up_to(layer)
        ranges = pack([unit.tokens for unit in units], forest.window)
        return [units[r.start : r.stop] for r in ranges if len(r) > 1]

    def _path_to_room(self, forest: _Forest, layer: int, room: int) -> tuple[int, ...]:
        """Groups to be dissolved, so that something that takes no more than `room` is set free.

        They lead from a top down to a group of the next layer whose members fit, or to one that a
        lonely unit of this layer is in. Only the latest groups are looked at, depth first. Empty if
        there is none.
        """
        above = sorted(
            (unit for unit in forest.tops.values() if unit.layer > layer),
            key=lambda unit: (-unit.layer, unit.order),
        )
        # why: a group that is new is not dissolved; its layer is never above the present one
        stack: list[tuple[int, ...]] = [(unit.number,) for unit in above]
        for _ in range(MAX_LOOKS):
            if not stack:
                break
            path = stack.pop()
            group = self._standing(path[-1])
            if group.facts is not None and group.layer == layer + 1:
                if group.facts.tokens <= room:
                    return path
                continue
            for member in group.members:
                if self._standing(member).layer > layer:
                    stack.append((*path, member))
                elif self._unit(member).tokens <= room:
                    return path
        return ()

    def _dissolve(self, forest: _Forest, number: int) -> None:
        self._dissolved.append(number)
        forest.tops.pop(number)
        for member in self._standing(number).members:
            forest.add(self._unit(member))

    # Groups

    def _group(
        self, found: Sequence[tuple[_Forest, list[_Unit]]], layer: int, condenser: Condenser
    ) -> None:
        """Make groups of windows, in place of their members."""
        axes = [_Axis([node for unit in units for node in unit.nodes]) for _, units in found]
        windows = [axis.window for axis in axes]
        stage = self._progress.stage
        with stage(f"points of corpus layer {layer}", len(windows), "window") as advance:
            points = condenser.points(windows, advance)
        with stage(f"edges of corpus layer {layer}", len(windows), "window") as advance:
            replays = condenser.replay(windows, points, advance)
        texts = [point.text for made in points for point in made]
        vectors = iter(condenser.vectors(texts, {}, lambda amount: None))
        for (forest, units), axis, made, replay in zip(found, axes, points, replays, strict=True):
            facts = GroupFacts(layer, sum(unit.tokens for unit in units), forest.tenant)
            rested = with_sources(made, axis.window, replay, MAX_SOURCES)
            nodes = self._nodes(units, axis, rested)
            embedded = np.stack(list(islice(vectors, len(nodes))))
            group = _group_of(units, facts, nodes, segment_attention(replay), embedded)
            self._replace(forest, units, group)

    def _nodes(
        self, units: Sequence[_Unit], axis: _Axis, points: Sequence[Point]
    ) -> tuple[Node, ...]:
        level = 1 + max(unit.nodes[-1].level for unit in units)
        counts = self._tools.reader.count_tokens([point.text for point in points])
        name = _name(units)
        return tuple(
            axis.node(f"{name}.{i}", level, point, max(1, count))
            for i, (point, count) in enumerate(zip(points, counts, strict=True))
        )

    def _replace(self, forest: _Forest, units: Sequence[_Unit], group: CorpusGroup) -> None:
        self._made.append(group)
        for unit in units:
            forest.tops.pop(unit.number)
        number, tokens = -len(self._made), self._tokens(group.nodes)
        forest.add(_Unit(number, group.facts.layer, group.name, 0, group.nodes, tokens))


def _group_of(
    units: Sequence[_Unit],
    facts: GroupFacts,
    nodes: tuple[Node, ...],
    attention: Floats,
    vectors: Vectors,
) -> CorpusGroup:
    numbers = [unit.number for unit in units]
    positions = [np.arange(u.first, u.first + len(u.nodes), dtype=np.int32) for u in units]
    return CorpusGroup(
        name=_name(units),
        facts=facts,
        members=tuple(numbers),
        nodes=nodes,
        owners=np.repeat(np.array(numbers, np.int64), [len(unit.nodes) for unit in units]),
        children=np.concatenate(positions),
        attention=attention,
        vectors=vectors,
    )


def _name(units: Sequence[_Unit]) -> str:
    """Of the group of these units; it says nothing about their texts."""
    level = 1 + max(unit.nodes[-1].level for unit in units)
    data = json.dumps([unit.name for unit in units]).encode()
    return f"corpus#{level}.{hashlib.blake2b(data, digest_size=8).hexdigest()}"


class _Axis:
    """Nodes of several documents as if these stood one after the other in a single one.

    So what is made of the spans of one document is made of several as well.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        ends: dict[str, int] = {}
        for document, span in (place for node in nodes for place in node.places):
            ends[document] = max(ends.get(document, 0), span.end)
        # why + 1: spans of two documents never touch
        begins = list(accumulate((end + 1 for end in ends.values()), initial=0))
        self._documents = list(ends)
        self._begins = begins[:-1]
        at = dict(zip(ends, begins, strict=False))
        self.window: Window = window_of([_moved(node, at) for node in nodes])

    def node(self, identity: str, level: int, point: Point, tokens: int) -> Node:
        """A point as a node, its sources in their documents again."""
        owners = [bisect_right(self._begins, span.start) - 1 for span in point.sources]
        sources = tuple(
            Span(span.start - self._begins[i], span.end - self._begins[i])
            for i, span in zip(owners, point.sources, strict=True)
        )
        documents = tuple(self._documents[i] for i in owners)
        return Node(identity, "", level, point.text, point.origin, tokens, sources, documents)


def _moved(node: Node, at: Mapping[str, int]) -> Node:
    spans = (Span(at[name] + span.start, at[name] + span.end) for name, span in node.places)
    return replace(node, sources=tuple(spans), source_documents=())
