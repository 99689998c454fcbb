"""Examples as token trees: many probes and alternatives share one forward.

A walk is one sequence of segments, each with a parent. A token sees its own segment up to itself
and all segments above, at the position that it would have had without the others:

    head, question -+- probe                                             (No)
                    +- node ... node -+- probe                           (No)
                                      +- last gold node -+- probe        (Yes)
                                      |                  +- answer
                                      |                  +- node ... node -+- probe  (Yes)
                                      |                                    +- answer
                                      +- next node - probe               (No)

so a probe never sees later nodes, and "the same nodes with and without the last hop" costs one more
node. Nodes read after the last hop go to one of the two branches, drawn at random: the number of
nodes means little. If evidence is missing, every probe says No, and an answer is learned only if
it can be read in the nodes. Of most walks the answer alone is learned, from few nodes with all of the
evidence: that is one branch. Some of them lose the evidence, and the answer is that it was not found. Layouts are those of `hwdag.lm.session` and of the summary prompt.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from examples.train_adapter.lines import Json
from examples.train_adapter.walked import is_verdict, tells
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import SearchLayout
from hwdag.lm.tokens import Range
from hwdag.search.reading import by_section
from hwdag.text.characters import one_line
from hwdag.text.headings import searched_text
from hwdag.text.prompts import SummaryPrompt
from hwdag.types import Node, Span

WRONG_VERDICT = 0.15
"""Share of complete examples whose first reply is "No": a walk may also end with its budget."""


class Draw(NamedTuple):
    """How the nodes of an example are drawn.

    Attributes:
        budgets: tokens of the nodes, one of these.
        completed: share of incomplete walks whose missing evidence is put in.
        by_section: share that is read by section, as an answer reads it; the others in visiting order.
    """

    budgets: tuple[int, ...]
    completed: float
    by_section: float


WHOLE = Draw((128, 256, 320, 384, 448, 512, 512, 512), 0.75, 0.6)
"""Of walks with all that is learned from them."""

SHORT = Draw((48, 64, 96, 128, 160, 192, 256), 1.0, 0.85)
"""Of those of which the answer alone is learned: more answers for the same tokens."""

ANSWER_ALONE = 0.8
"""Share of walks of which the answer alone is learned."""

WITHOUT_EVIDENCE, NOT_FOUND = 0.1, "Not found"
"""Share of these that lose their evidence, and the answer then."""

BULLET_TOKENS = 3
"""The text around a node, about."""

SHUFFLED = 0.1
"""Share of walks whose order is lost, as other ways to retrieve have another one."""

ON_COMPLETE = 0.65
"""Share of trees in which the later nodes follow the last gold one, not the node in its place."""

ANSWERED_TWICE = 0.5
"""Share of them that answer at once as well as in the end."""

FIRST_ORDINAL = 2
"""The question is at position 1 (PECAN App. C)."""


@dataclass(frozen=True, slots=True)
class Read:
    """The reads of a walk: nodes, each with whether it is gold, and one that it did not read or ""."""

    nodes: list[tuple[str, bool]]
    spare: str
    complete: bool

    @property
    def completed_by(self) -> int:
        """The last gold node; the number of nodes where the evidence is incomplete."""
        gold = [i for i, (_, is_gold) in enumerate(self.nodes) if is_gold]
        return gold[-1] if self.complete else len(self.nodes)


@dataclass(slots=True)
class Tree:
    """Token ids with their segments, and the positions that the losses need."""

    skill: str
    layout: SearchLayout = field(init=False, repr=False)  # of the question of a walk
    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    ancestors: list[frozenset[int]] = field(default_factory=list)  # of a segment, itself included
    ends: list[int] = field(default_factory=list)  # position after the segment
    question: Range = (0, 1)
    first_own: int = 0  # tokens before it are a prompt's, the same in all trees of the skill
    nodes: list[Range] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    contests: list[tuple[list[int], list[int]]] = field(default_factory=list)  # gold, other nodes
    probes: list[tuple[int, bool]] = field(default_factory=list)  # last token of a slot, enough?
    targets: list[tuple[int, int]] = field(default_factory=list)  # token, id that follows it

    def add(self, ids: Sequence[int], parent: int | None) -> int:
        """Append a segment under another one; returns its number."""
        number, start = len(self.ends), 0 if parent is None else self.ends[parent]
        self.ids += ids
        self.positions += range(start, start + len(ids))
        self.segments += [number] * len(ids)
        above = frozenset() if parent is None else self.ancestors[parent]
        self.ancestors.append(above | {number})
        self.ends.append(start + len(ids))
        return number

    def visible(self) -> torch.Tensor:
        """Return which tokens (columns) each token (row) sees, (tokens, tokens)."""
        count, segment = len(self.ends), torch.tensor(self.segments)
        above = torch.zeros(count, count, dtype=torch.bool)
        for i, seen in enumerate(self.ancestors):
            above[i, list(seen)] = True
        return above[segment][:, segment].tril()


def told(example: Json, texts: Sequence[str]) -> bool:
    """Return whether an answer may be read in the texts; a yes or no may be in any."""
    return is_verdict(example["answers"][0]) or tells(" ".join(texts), example["answers"])


def window(example: Json) -> str:
    """Return the lines that points are asked of, as running text or one bullet each."""
    mark = "" if example["running"] else "* "
    return "\n".join(mark + one_line(line) for line in example["lines"])


def placed(text: str, where: Json) -> Node:
    """Return the node of a text, which has a heading, at some character of its document."""
    heading, start = where[text]
    return Node(text, "one", 1, text, "chunk", 1, (Span(start, start + len(text)),), heading)


class Planter:
    """Makes trees out of examples with the tokens and prompts of a model."""

    def __init__(self, lm: HuggingFaceLM) -> None:
        self._codec, self._turns, self._prompts = lm.codec, lm.turns, lm.card.prompts
        self._summary = SummaryPrompt().cut("same")
        self._end = lm.turns.between[0]  # closes an assistant turn

    def plant(self, example: Json, rng: random.Random) -> Tree:
        """Return the tree of one example; `rng` draws the nodes and their order."""
        if example["skill"] != "walk":
            return self._points(example)
        return (self._answered if rng.random() < ANSWER_ALONE else self._walk)(example, rng)

    def _answered(self, example: Json, rng: random.Random) -> Tree:
        """Return a few nodes with all of the evidence, and the answer."""
        tree, read = Tree("walk"), self._read(example, rng, SHORT)
        texts, answer = [text for text, _ in read.nodes], str(example["answers"][0])
        enough = rng.random() >= WRONG_VERDICT
        others = [text for text, is_gold in read.nodes if not is_gold]
        if rng.random() < WITHOUT_EVIDENCE and others and not told(example, others):
            texts, answer, enough = others, NOT_FOUND, False
        at = self._head(tree, example)
        for place, text in enumerate(texts):
            at = self._node(tree, text, at, FIRST_ORDINAL + place)
        self._answer(tree, at, answer, enough=enough)
        return tree

    def _head(self, tree: Tree, example: Json) -> int:
        """Return the prompt up to the nodes."""
        layout = SearchLayout(self._codec, self._turns, example["question"], self._prompts)
        tree.layout, tree.question = layout, layout.question
        tree.first_own = tree.question[0]
        return tree.add(layout.opening, None)

    def _walk(self, example: Json, rng: random.Random) -> Tree:
        tree, read = Tree("walk"), self._read(example, rng, WHOLE)
        at = self._head(tree, example)
        self._probe(tree, at, enough=False)
        path: dict[bool, list[int]] = {True: [], False: []}
        stop = read.completed_by
        probed = rng.randrange(1, stop) if stop > 1 else 0
        for place, (text, is_gold) in enumerate(read.nodes[:stop]):
            at = self._node(tree, text, at, FIRST_ORDINAL + place)
            path[is_gold].append(len(tree.nodes) - 1)
            if place + 1 in (probed, stop):
                self._probe(tree, at, enough=False)
        answers = example["answers"]
        if stop < len(read.nodes):
            self._fork(tree, read, at, path, str(answers[0]), rng)
        elif told(example, [text for text, _ in read.nodes]):
            self._answer(tree, at, str(answers[0]), enough=False)
        if path[True] and path[False]:
            tree.contests.append((path[True], path[False]))
        return tree

    def _fork(
        self,
        tree: Tree,
        read: Read,
        at: int,
        path: dict[bool, list[int]],
        answer: str,
        rng: random.Random,
    ) -> None:
        """Return the node that completes the evidence, another one in its place, and the nodes after it."""
        stop, rest = read.completed_by, read.nodes[read.completed_by + 1 :]
        ordinal = FIRST_ORDINAL + stop
        wrong = rest[0][0] if rest else read.spare
        ends = {True: at, False: at}
        if wrong:
            ends[False] = self._node(tree, wrong, at, ordinal)
            self._probe(tree, ends[False], enough=False)
            tree.contests.append(([len(tree.nodes)], [len(tree.nodes) - 1]))
        path[True].append(len(tree.nodes))
        ends[True] = self._node(tree, read.nodes[stop][0], at, ordinal)
        self._probe(tree, ends[True], enough=True)
        enough = not wrong or rng.random() < ON_COMPLETE
        if enough and len(rest) > 1 and rng.random() < ANSWERED_TWICE:
            self._answer(tree, ends[True], answer, enough=rng.random() >= WRONG_VERDICT)
        following = rest if enough else rest[1:]
        probed = {rng.randrange(len(following)), len(following) - 1} if following else ()
        for place, (text, _) in enumerate(following):
            if enough:
                path[False].append(len(tree.nodes))
            ends[enough] = self._node(tree, text, ends[enough], ordinal + 1 + place)
            if place in probed:
                self._probe(tree, ends[enough], enough=enough)
        self._answer(tree, ends[True], answer, enough=rng.random() >= WRONG_VERDICT)

    def _read(self, example: Json, rng: random.Random, draw: Draw) -> Read:
        """Return the reads of a walk within a budget; mostly with the gold nodes that it does not reach."""
        budget = rng.choice(draw.budgets)
        gold, lost, spare, used = set(example["gold"]), list(example["missing"]), "", 0
        nodes: list[tuple[str, bool]] = []
        for i, text in enumerate(example["nodes"]):
            used += len(self._codec.encode(text)) + BULLET_TOKENS
            if used <= budget:
                nodes.append((text, i in gold))
            elif i in gold:
                lost.append(text)
            else:
                spare = spare or text
        if lost and rng.random() < draw.completed:
            for text in lost:  # in the place of those that were read last
                others = [i for i, (_, is_gold) in enumerate(nodes) if not is_gold]
                if others:
                    dropped, _ = nodes.pop(others[-1])
                    spare = spare or dropped
                nodes.insert(rng.randint(0, len(nodes)), (text, True))
            lost = []
        if rng.random() < SHUFFLED:
            rng.shuffle(nodes)
        places = [placed(text, example["where"]) for text, _ in nodes]
        in_order = enumerate(map(searched_text, places))
        shown = by_section(places) if rng.random() < draw.by_section else in_order
        read = [(text, nodes[i][1]) for i, text in shown]
        spare = searched_text(placed(spare, example["where"])) if spare else ""
        return Read(read, spare, complete=not lost)

    def _node(self, tree: Tree, text: str, parent: int, ordinal: int) -> int:
        ids, parts = self._codec.encode_parts("* ", one_line(text), "\n")
        start = len(tree.ids)
        tree.nodes.append((start + parts[1][0], start + parts[1][1]))
        tree.ordinals.append(ordinal)
        return tree.add(ids, parent)

    def _probe(self, tree: Tree, parent: int, *, enough: bool) -> None:
        tree.add(tree.layout.slot, parent)
        tree.probes.append((len(tree.ids) - 1, enough))

    def _answer(self, tree: Tree, parent: int, answer: str, enough: bool) -> None:
        self._reply(tree, tree.layout.until_answer(enough=enough), answer, parent)

    def _points(self, example: Json) -> Tree:
        tree, (before, after) = Tree("points"), self._summary
        prompt = self._codec.encode(before + window(example) + after)
        ids = [*self._turns.head, *prompt, *self._turns.summary_reply]
        tree.first_own = len(ids) - 1
        self._reply(tree, ids, "\n".join(f"* {point}" for point in example["points"]), None)
        return tree

    def _reply(self, tree: Tree, ids: list[int], reply: str, parent: int | None) -> None:
        """Return the prompt, and the reply that must be generated after it."""
        wanted = [*self._codec.encode(reply), self._end]
        first = len(tree.ids) + len(ids) - 1
        tree.add([*ids, *wanted[:-1]], parent)
        tree.targets += [(first + i, token) for i, token in enumerate(wanted)]
