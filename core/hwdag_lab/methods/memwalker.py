"""MeMWalker (Chen et al. 2023, arXiv 2310.05029): a model walks a tree of summaries.

The memory tree has segments of about 1,000 tokens, a summary of each, then summaries of up to
`max_children` neighbouring summaries, level by level up to one root. The walk starts at the root:

- at an inner node the model sees the summaries of the children, and chooses one or goes back;
- at a leaf it sees the segment, and commits to it or goes back;
- every prompt shows its working memory, the summaries of the nodes visited before.

A node that was left is not offered again, and nothing is asked if only one way is open, so a
walk ends even without its limit of steps. If no reply has a legal action, the default is the child
most similar to the question, and at a leaf to commit. `Retrieval.notes` counts defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.building.points import Point
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded, embedded_question
from hwdag.errors import ContextTooSmall
from hwdag.lm.base import Reader, Writer
from hwdag.options import CheckedOptions, at_least, share
from hwdag.types import Document
from hwdag_lab.methods.decisions import Asker, Decision
from hwdag_lab.methods.found import Found, Scored, SearchRequest, without_repeats
from hwdag_lab.methods.summaries import (
    Summarizer,
    best_parts,
    excerpt,
    fill_template,
    sentence_spans,
)
from hwdag_lab.methods.trees import GrowingTree, SummarizingRetriever, SummaryTree, repetitions_last

SUMMARY = """\
{text}

Summarize the text above comprehensively, in fluent prose. Keep names, places, dates and numbers."""
"""For segments and groups of summaries; our wording of the paper's description."""

TRIAGE = """\
You are looking for the answer to a question in a long document, and read it part by part.

Question: {question}
{memory}
These are summaries of parts of the document:

{summaries}

Which part is most likely to hold the answer? First compare the summaries in a few words, then \
choose one. {back}Reply in this format:
Reasoning: ...
Action: the number of the part"""
"""At an inner node; our wording of the paper's triage prompt."""

BACK = "If none of them can hold it, go back with Action: -1. "
"""Part of `TRIAGE` except at the root."""

LEAF = """\
You are looking for the answer to a question in a long document, and read it part by part.

Question: {question}
{memory}
This is a part of the document:

{segment}

Can the question be answered from this part, together with what you have read before? First give \
your reasons in a few words, then choose Action: 0 to answer now, or Action: -1 to go back and read \
another part. Reply in this format:
Reasoning: ...
Action: 0 or -1"""
"""At a leaf; our wording of the paper's leaf prompt."""

MEMORY = "\nWhat you have read before, in summary:\n{visited}\n"
"""The working memory, unless it is empty."""

RETRY = "\n\nEnd your reply with one line: Action: and one of these numbers: {legal}."
"""Added to the prompt after a reply without a legal action."""

COMMIT, GO_BACK = 0, -1
"""Actions at a leaf. `GO_BACK` is also legal at inner nodes, whose children count from 1."""

_ACTION = re.compile(r"\baction\b\W*?(?:part\W*?)?(-?\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MemWalkerConfig(CheckedOptions):
    """How memory trees are built and walked.

    Attributes:
        segment_tokens: size of a leaf; smaller if the context of the navigator is small.
        summary_tokens: longest summary.
        ratio: tokens of an extractive summary per token of the summarised text.
        max_children: summaries that are summarised together (M of the paper; the number is ours).
        max_tries: replies per decision until the default is taken (3 in the paper).
        max_steps: decisions per question, over all documents.
        reply_tokens: longest reply, reasoning and action together.
    """

    segment_tokens: int = at_least(8, 1000)
    summary_tokens: int = at_least(8, 200)
    ratio: float = share(0.2)
    max_children: int = at_least(2, 8)
    max_tries: int = at_least(1, 3)
    max_steps: int = at_least(1, 16)
    reply_tokens: int = at_least(8, 192)


def action_of(reply: str) -> int | None:
    """Return the number after the last "Action" of a reply; None if there is none."""
    found = _ACTION.findall(reply)
    return int(found[-1]) if found else None


QUESTION_TOKENS = 128  # room for the question if segments are cut for a small context


class MemWalkerRetriever(SummarizingRetriever[SummaryTree]):
    """MeMWalker: the leaves that the model visited, then the summaries on its way.

    The leaf that it committed to comes first. A leaf beyond the rest of the token budget is cut to
    its sentences most similar to the question, in reading order. The walk starts in the document
    whose root is most similar to the question, and continues in the next one if it committed to no
    leaf.

    The writer, or else the reader, navigates. `Retrieval.usage` is the difference of its meter,
    including the spending of other threads on the same model.
    """

    name = "memwalker"
    needs_replies = True
    Config = MemWalkerConfig
    config: MemWalkerConfig

    @property
    def navigator(self) -> Writer:
        """The model that navigates: the writer, or else the reader."""
        return self._replying()

    def _build(self, document: Document) -> SummaryTree:
        config, tree = self.config, GrowingTree(document, self.reader, self.embedder)
        summarizer = self._summarizer(SUMMARY, limit=config.summary_tokens, ratio=config.ratio)
        tokens, width = self._sizes(summarizer)
        level = tree.add_chunks(tokens)
        level = tree.add_summaries([[i] for i in level], summarizer)
        while len(level) > 1:
            groups = np.array_split(np.asarray(level), -(-len(level) // width))
            level = tree.add_summaries([group.tolist() for group in groups], summarizer)
        return tree.finished()

    def _sizes(self, summarizer: Summarizer) -> tuple[int, int]:
        """Return tokens per segment and children per node; fewer if a prompt has no room for them."""
        config, asker = self.config, Asker(self.navigator, self.reader)
        around = (TRIAGE + BACK + RETRY, LEAF + RETRY)
        room = min(asker.room(prompt, limit=config.reply_tokens) for prompt in around)
        room = min(room - QUESTION_TOKENS, summarizer.capacity)
        tokens = min(config.segment_tokens, room)
        width = min(config.max_children, room // (config.summary_tokens + LABEL_TOKENS))
        if tokens < 8 or width < 2:
            raise ContextTooSmall(
                f"the context of {self.navigator.name} cannot hold the prompts and a part of the "
                "document; lower segment_tokens, summary_tokens or reply_tokens, or use a "
                "navigator with a longer context"
            )
        return tokens, width

    def _retrieve(self, request: SearchRequest, built: Mapping[str, SummaryTree]) -> Found:
        vector = embedded_question(self.embedder, request.question)
        asker = Asker(self.navigator, self.reader, tries=self.config.max_tries)
        navigation = Navigation(request.question, asker, self.config)
        walks = [TreeWalk(tree, tree.similarity(vector), navigation) for tree in built.values()]
        walks.sort(key=lambda walk: -walk.similarity[walk.position])
        leaves: list[Scored] = []
        way: list[Scored] = []
        for walk in walks:
            done = walk.run()
            leaves = [*walk.leaves, *leaves] if walk.committed else [*leaves, *walk.leaves]
            way += walk.way
            if done:
                break
        if not leaves:
            walks[0].descend()
            leaves, way = walks[0].leaves, walks[0].way
            navigation.notes.append("no leaf was visited: the most similar one was taken")
        read, cuts = cut_leaves(leaves, request, self.reader, self.embedder, vector)
        ranked = list(without_repeats([*read, *way]))
        notes = [note for tree in built.values() for note in tree.notes]
        notes += [*navigation.notes, *navigation.counted, *cuts]
        return Found(repetitions_last(ranked), asker.usage, tuple(notes))


def cut_leaves(
    leaves: Sequence[Scored],
    request: SearchRequest,
    reader: Reader,
    embedder: Embedder,
    question: Vectors,
) -> tuple[list[Scored], list[str]]:
    """Return the leaves in turn, cut to their sentences most similar to the question if needed.

    A leaf without room is left out. The second result notes the texts that were cut or left out.
    """
    room, found, notes = request.budget, list[Scored](), list[str]()
    for scored in leaves:
        node = scored.node
        if request.cost(node.text) > room:
            parts = [
                (0, Point(node.text[unit.start : unit.end], "extractive", (source,)))
                for unit, source in sentence_spans(node)
            ]
            similarity = embedded(embedder, [part.text for _, part in parts]) @ question
            kept = best_parts(parts, similarity.astype(np.float64), request.cost, room)
            if not kept:
                notes.append(f"{node.id}: left out, the budget has no room for a sentence of it")
                continue
            node = excerpt(node, kept[0], reader)
            sizes = f"{scored.node.tokens} to {node.tokens} tokens"
            notes.append(f"{node.id}: cut from {sizes}, the most similar sentences")
        room -= request.cost(node.text)
        found.append(replace(scored, node=node))
    return found, notes


LABEL_TOKENS = 8  # most tokens of the label of a summary in a prompt


@dataclass(slots=True, eq=False)
class Navigation:
    """The decisions of the model for one question, with counts."""

    question: str
    asker: Asker
    config: MemWalkerConfig
    steps: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def counted(self) -> Iterator[str]:
        """Notes on replies that could not be used."""
        if self.asker.retries:
            yield f"{self.asker.retries} replies without a legal action were asked for again"
        if self.asker.defaults:
            yield (
                f"{self.asker.defaults} of {self.steps} steps took the default after "
                f"{self.config.max_tries} unusable replies: the most similar part, or to stay"
            )

    def choose(
        self, template: str, legal: Sequence[int], memory: Sequence[str], **shown: str
    ) -> int | None:
        """Choose one of the legal actions; None if no reply had one.

        `memory` has the summaries of visited nodes, oldest first; `shown` fills the other fields of
        the template.
        """

        def prompt(kept: Sequence[str]) -> str:
            said = fill_template(MEMORY, visited="\n".join(kept)) if kept else ""
            return fill_template(template, question=self.question, memory=said, **shown)

        def parse(reply: str) -> int | None:
            action = action_of(reply)
            return action if action in legal else None

        self.steps += 1
        retry = fill_template(RETRY, legal=", ".join(map(str, legal)))
        asked = prompt(self._remembered(prompt(()), memory))
        request = Decision(asked, parse, retry)
        [action] = self.asker.decide([request], limit=self.config.reply_tokens)
        return action

    def _remembered(self, bare: str, memory: Sequence[str]) -> list[str]:
        """Return the newest summaries that fit into a prompt."""
        kept = list(memory)
        room = self.asker.room(bare + RETRY, limit=self.config.reply_tokens) - LABEL_TOKENS
        while kept:
            shown = fill_template(MEMORY, visited="\n".join(kept))
            if self.asker.count_tokens([shown])[0] <= room:
                break
            kept.pop(0)
        return kept


class TreeWalk:
    """The walk over the tree of one document.

    Attributes:
        similarity: of every node to the question, (nodes,).
        position: the summary where the model is.
        committed: whether the model committed to a leaf.
        leaves: the visited segments, with the one it committed to first.
        way: the visited summaries.
    """

    def __init__(self, tree: SummaryTree, similarity: Floats, navigation: Navigation) -> None:
        self._tree = tree
        self._navigation = navigation
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
        """Walk until the model commits to a leaf, no way is open, or the steps are used up.

        Returns:
            False if no way is open, so that the next document can be tried.
        """
        limit = self._navigation.config.max_steps
        while self._path:
            if self._navigation.steps >= limit:
                self._navigation.notes.append(f"navigation was stopped by max_steps={limit}")
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
        """Go down from here to the most similar segment without asking."""
        self._path = self._path or [self._tree.top[0]]
        while not self._is_leaf(self.position):
            below = self._tree.children[self.position]
            self._enter(self._most_similar(self._open(below) or below))
        [segment] = self._tree.children[self.position]
        self.leaves.append(self._scored(segment))

    def _choose(self) -> None:
        """Enter an open child, or go back if there is none or the model asks for it."""
        below = self._open(self._tree.children[self.position])
        if not below:
            self._go_back()
            return
        if len(below) == 1:
            self._enter(below[0])
            return
        back = "" if len(self._path) == 1 else BACK
        legal = [*range(1, len(below) + 1), *([GO_BACK] if back else [])]
        texts = [self._tree.nodes[i].text for i in below]
        summaries = "\n\n".join(f"Part {number}: {text}" for number, text in enumerate(texts, 1))
        memory = self._memory(below)
        action = self._navigation.choose(TRIAGE, legal, memory, summaries=summaries, back=back)
        if action == GO_BACK:
            self._go_back()
        else:
            self._enter(self._most_similar(below) if action is None else below[action - 1])

    def _commits(self) -> bool:
        """Read the segment; return whether the model, or the default, commits to it."""
        [segment] = self._tree.children[self.position]
        self.leaves.append(self._scored(segment))
        memory, text = self._memory([self.position]), self._tree.nodes[segment].text
        return self._navigation.choose(LEAF, [COMMIT, GO_BACK], memory, segment=text) != GO_BACK

    def _memory(self, shown: Sequence[int]) -> list[str]:
        """Return visited summaries, except those in the prompt anyway."""
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


LEAF_LEVEL = 2  # summaries of single segments, which are level 1
