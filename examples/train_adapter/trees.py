"""Examples as token trees: many probes and alternatives share one forward.

A walk is one sequence of segments, each with a parent. A token sees its own segment up to itself
and all segments above, at the position that it would have had without the others:

    head, question -+- probe                                             (No)
                    +- node, node -+- probe                              (No)
                                   +- last gold node -+- probe           (Yes)
                                   |                  +- node - probe    (Yes) ... answer
                                   +- distractor -+- probe               (No)
                                                  +- node - probe        (No)

so a probe never sees later nodes, and "the same nodes with and without the last hop" costs one more
node. The nodes after the last hop go to one of the two branches, drawn at random: the number of nodes
tells nothing. Layouts are those of `hwdag.lm.session` and of the summary prompt.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from examples.train_adapter.lines import Json
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.tokens import Range
from hwdag.text.characters import one_line
from hwdag.text.prompts import Prompts

WRONG_VERDICT = 0.15
"""Share of complete examples whose first reply is "No": a walk may also end with its budget."""

BEFORE, AFTER = (0, 0, 0, 1, 1, 1, 2, 2, 5), (0, 0, 1, 1, 2)
"""Numbers of distractors before and after the place of the last gold node."""

FIRST_ORDINAL = 2
"""The question is at position 1 (PECAN App. C)."""


@dataclass(slots=True)
class Tree:
    """Token ids with their segments, and what the losses need to know about them."""

    skill: str
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
        """Which tokens (columns) each token (row) sees, (tokens, tokens)."""
        count, segment = len(self.ends), torch.tensor(self.segments)
        above = torch.zeros(count, count, dtype=torch.bool)
        for i, seen in enumerate(self.ancestors):
            above[i, list(seen)] = True
        return above[segment][:, segment].tril()


class Planter:
    """Makes trees out of examples with the tokens and prompts of a model."""

    def __init__(self, lm: HuggingFaceLM, prompts: Prompts | None = None) -> None:
        self._codec, self._turns = lm.codec, lm.turns
        prompts = prompts or Prompts()
        search = prompts.search
        self._before, self._between, after = search.cut()
        encode = lm.codec.encode
        self._slot = [*(encode(after) if after else []), *lm.turns.reply]
        second = [*lm.turns.between, *encode(search.answer), *lm.turns.second_reply]
        self._second = {
            True: [*encode(search.yes[0]), *second],
            False: [*encode(search.no[0]), *second],
        }
        self._summary = prompts.summary.cut("same")
        self._end = lm.turns.between[0]  # closes an assistant turn

    def plant(self, example: Json, rng: random.Random) -> Tree:
        """The tree of one example; `rng` draws the nodes and their order."""
        return self._walk(example, rng) if example["skill"] == "walk" else self._points(example)

    def _walk(self, example: Json, rng: random.Random) -> Tree:
        tree = Tree("walk")
        gold, others = list(example["gold"]), list(example["distractors"])
        rng.shuffle(gold)
        # the best distractor is often the one that takes the place of the missing evidence
        wrong = others.pop(0 if rng.random() < 0.5 else rng.randrange(len(others)))
        rng.shuffle(others)
        last, trunk = gold[0], [(text, True) for text in gold[1:]]
        before = rng.choice(BEFORE)
        trunk += [(others.pop(), False) for _ in range(min(before, len(others)))]
        rng.shuffle(trunk)
        after = [others.pop() for _ in range(min(rng.choice(AFTER), len(others)))]

        ids, parts = self._codec.encode_parts(self._before, example["question"], self._between)
        head = len(self._turns.head)
        at = tree.add([*self._turns.head, *ids], None)
        tree.question = (head + parts[1][0], head + parts[1][1])
        tree.first_own = tree.question[0]
        self._probe(tree, at, enough=False)
        path: dict[bool, list[int]] = {True: [], False: []}
        ordinal = FIRST_ORDINAL
        for text, is_gold in trunk:
            at = self._node(tree, text, at, ordinal)
            path[is_gold].append(len(tree.nodes) - 1)
            ordinal += 1
        if trunk:
            self._probe(tree, at, enough=False)
        missing = self._node(tree, wrong, at, ordinal)
        impostor = len(tree.nodes) - 1
        self._probe(tree, missing, enough=False)
        at = self._node(tree, last, at, ordinal)
        path[True].append(len(tree.nodes) - 1)
        tree.contests.append(([len(tree.nodes) - 1], [impostor]))
        self._probe(tree, at, enough=True)
        enough = rng.random() < 0.5
        ends = {True: at, False: missing}
        for place, text in enumerate(after, ordinal + 1):
            ends[enough] = self._node(tree, text, ends[enough], place)
            self._probe(tree, ends[enough], enough=enough)
            if enough:
                path[False].append(len(tree.nodes) - 1)
        if path[False]:
            tree.contests.append((path[True], path[False]))
        self._answer(tree, ends[True], str(example["answers"][0]), rng.random() >= WRONG_VERDICT)
        return tree

    def _node(self, tree: Tree, text: str, parent: int, ordinal: int) -> int:
        ids, parts = self._codec.encode_parts("* ", one_line(text), "\n")
        start = len(tree.ids)
        tree.nodes.append((start + parts[1][0], start + parts[1][1]))
        tree.ordinals.append(ordinal)
        return tree.add(ids, parent)

    def _probe(self, tree: Tree, parent: int, *, enough: bool) -> None:
        tree.add(self._slot, parent)
        tree.probes.append((len(tree.ids) - 1, enough))

    def _answer(self, tree: Tree, parent: int, answer: str, enough: bool) -> None:
        self._reply(tree, [*self._slot, *self._second[enough]], answer, parent)

    def _points(self, example: Json) -> Tree:
        tree, (before, after) = Tree("points"), self._summary
        lines = "\n".join(f"* {one_line(line)}" for line in example["lines"])
        prompt = self._codec.encode(before + lines + after)
        ids = [*self._turns.head, *prompt, *self._turns.summary_reply]
        tree.first_own = len(ids) - 1
        self._reply(tree, ids, "\n".join(f"* {point}" for point in example["points"]), None)
        return tree

    def _reply(self, tree: Tree, ids: list[int], reply: str, parent: int | None) -> None:
        """What is asked, and what must be generated after it."""
        wanted = [*self._codec.encode(reply), self._end]
        first = len(tree.ids) + len(ids) - 1
        tree.add([*ids, *wanted[:-1]], parent)
        tree.targets += [(first + i, token) for i, token in enumerate(wanted)]
