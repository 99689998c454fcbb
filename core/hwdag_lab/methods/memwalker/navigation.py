"""The walk of MeMWalker over the tree of one document, and the model that guides it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hwdag.arrays import Floats
from hwdag.building.writing import ask
from hwdag.errors import QuestionTooLong
from hwdag.lm.base import Reader, Writer
from hwdag_lab.methods.found import Scored
from hwdag_lab.methods.memwalker.config import (
    BACK,
    COMMIT,
    GO_BACK,
    LEAF,
    MEMORY,
    RETRY,
    TRIAGE,
    MemWalkerConfig,
    action_of,
)
from hwdag_lab.methods.summaries import filled
from hwdag_lab.methods.trees import SummaryTree

LABEL_TOKENS = 8
"""At most what the label around a summary takes in a prompt."""


@dataclass(slots=True, eq=False)
class Guide:
    """The model's decisions for one question, counted."""

    question: str
    navigator: Writer
    config: MemWalkerConfig
    steps: int = 0
    defaults: int = 0
    retries: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def steps_left(self) -> int:
        """Decisions that may still be asked for."""
        return self.config.max_steps - self.steps

    @property
    def counted(self) -> list[str]:
        """How many replies could not be used, in words."""
        found = []
        if self.retries:
            found.append(f"{self.retries} replies without a legal action were asked for anew")
        if self.defaults:
            found.append(
                f"{self.defaults} of {self.steps} steps took the default after "
                f"{self.config.max_tries} unusable replies: the most similar part, or to stay"
            )
        return found

    def choose(
        self, prompt: Callable[[str], str], legal: Sequence[int], memory: Sequence[str]
    ) -> int | None:
        """One of the legal actions, or None after `max_tries` replies without one.

        Args:
            prompt: from the working memory, as text, to the prompt.
            legal: the actions that may be taken.
            memory: summaries of the visited nodes, the oldest first.
        """
        self.steps += 1
        asked = prompt(self._remembered(prompt, memory))
        retry = filled(RETRY, legal=", ".join(map(str, legal)))
        for attempt in range(self.config.max_tries):
            text = asked + retry * (attempt > 0)
            [reply] = ask(self.navigator, [text], max_new_tokens=self.config.reply_tokens)
            action = action_of(reply)
            if action in legal:
                return action
            self.retries += attempt + 1 < self.config.max_tries
        self.defaults += 1
        return None

    def _remembered(self, prompt: Callable[[str], str], memory: Sequence[str]) -> str:
        """The newest summaries that fit into the navigator's context, as text."""
        if not isinstance(navigator := self.navigator, Reader):
            return _as_memory(memory)
        bare, retry = navigator.count_tokens([prompt(""), RETRY])
        around = retry + navigator.template_tokens + self.config.reply_tokens + LABEL_TOKENS
        room = navigator.context_tokens - bare - around
        if room < 0:
            raise QuestionTooLong(
                f"question, prompt and a part of the document take {bare + around} tokens, but the "
                f"context of {navigator.name} holds {navigator.context_tokens}; shorten the "
                "question, or build with smaller segment_tokens"
            )
        kept = list(memory)
        while kept and navigator.count_tokens([_as_memory(kept)])[0] > room:
            kept.pop(0)
        return _as_memory(kept)


class Walk:
    """One-use state of the walk over one document's tree.

    Attributes:
        similarity: of every node to the question, (nodes,).
        position: the node that the model is at, a summary.
        committed: whether the model stayed with a leaf.
        leaves: the segments visited so far; the one that was committed to comes first.
        way: the summaries visited so far.
    """

    def __init__(self, tree: SummaryTree, similarity: Floats, guide: Guide) -> None:
        self._tree = tree
        self._guide = guide
        self._path = [tree.top[0]]
        self._closed: set[int] = set()
        self.similarity = similarity
        self.committed = False
        self.leaves: list[Scored] = []
        self.way = [self._scored(self.position)]

    @property
    def position(self) -> int:
        """The last node of the path."""
        return self._path[-1]

    def run(self) -> bool:
        """Walk until a leaf is committed to, nothing is open, or the steps are used up.

        Returns:
            False if nothing is open any more, so that another document may be tried.
        """
        while self._path:
            if self._guide.steps_left == 0:
                limit = self._guide.config.max_steps
                self._guide.notes.append(f"navigation was stopped by max_steps={limit}")
                return True
            if not self._is_leaf(self.position):
                self._choose()
            elif self._commits():
                self.committed = True
                self.leaves.insert(0, self.leaves.pop())
                return True
            else:
                self._go_back()
        return False

    def descend(self) -> None:
        """Without asking, from where the walk ended to the most similar segment."""
        self._path = self._path or [self._tree.top[0]]
        while not self._is_leaf(self.position):
            below = self._tree.children[self.position]
            self._enter(self._most_similar(self._open(below) or below))
        [segment] = self._tree.children[self.position]
        self.leaves.append(self._scored(segment))

    def _choose(self) -> None:
        """To an open child, or back where there is none or the model says so."""
        below = self._open(self._tree.children[self.position])
        if not below:
            self._go_back()
            return
        if len(below) == 1:
            self._enter(below[0])
            return
        is_root = len(self._path) == 1
        legal = [*range(1, len(below) + 1), *([] if is_root else [GO_BACK])]
        prompt = self._triage(below, "" if is_root else BACK)
        action = self._guide.choose(prompt, legal, self._memory(below))
        if action == GO_BACK:
            self._go_back()
        else:
            self._enter(self._most_similar(below) if action is None else below[action - 1])

    def _commits(self) -> bool:
        """Read the segment: whether the model, or the default, stays with it."""
        [segment] = self._tree.children[self.position]
        self.leaves.append(self._scored(segment))
        text = self._tree.nodes[segment].text

        def prompt(memory: str) -> str:
            return filled(LEAF, question=self._guide.question, memory=memory, segment=text)

        memory = self._memory([self.position])
        return self._guide.choose(prompt, [COMMIT, GO_BACK], memory) != GO_BACK

    def _triage(self, below: Sequence[int], back: str) -> Callable[[str], str]:
        summaries = "\n\n".join(
            f"Part {number}: {self._tree.nodes[i].text}" for number, i in enumerate(below, 1)
        )

        def prompt(memory: str) -> str:
            question = self._guide.question
            return filled(TRIAGE, question=question, memory=memory, summaries=summaries, back=back)

        return prompt

    def _memory(self, shown: Sequence[int]) -> list[str]:
        """Summaries visited so far, without those that the prompt shows anyway."""
        hidden = {self._tree.nodes[i].id for i in shown}
        return [scored.node.text for scored in self.way if scored.node.id not in hidden]

    def _enter(self, child: int) -> None:
        self._path.append(child)
        self.way.append(self._scored(child))

    def _go_back(self) -> None:
        self._closed.add(self._path.pop())

    def _open(self, indices: Sequence[int]) -> list[int]:
        return [i for i in indices if i not in self._closed]

    def _is_leaf(self, index: int) -> bool:
        return self._tree.nodes[index].level == LEAF_LEVEL

    def _most_similar(self, indices: Sequence[int]) -> int:
        return max(indices, key=lambda i: float(self.similarity[i]))

    def _scored(self, index: int) -> Scored:
        return Scored(self._tree.nodes[index], float(self.similarity[index]))


LEAF_LEVEL = 2
"""Summaries of single segments, which are level 1."""


def _as_memory(visited: Sequence[str]) -> str:
    return filled(MEMORY, visited="\n".join(visited)) if visited else ""
