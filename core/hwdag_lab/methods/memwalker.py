"""MeMWalker (Chen et al. 2023, arXiv 2310.05029): the model walks a tree of summaries by prompts.

The memory tree: segments of about 1000 tokens, a summary of each, then summaries of up to
`max_children` neighbouring summaries, level by level up to one root. Navigation begins at the root:

- at an inner node the model sees the summaries of its children and chooses one, or goes back;
- at a leaf it sees the segment itself, and commits to it or goes back;
- with every prompt it sees its working memory, the summaries of the nodes visited before.

What was left is not offered again, and where one way is open nothing is asked, so a walk ends even
without its limit of steps. Where no reply holds a legal action, the walk goes to the child most similar
to the question by embedding, and commits to a leaf. `Retrieval.notes` counts that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hwdag.arrays import Floats, Vectors
from hwdag.building.points import Point
from hwdag.embedding.base import Embedder
from hwdag.errors import ContextTooSmall
from hwdag.lm.base import Reader, Writer
from hwdag.types import Document
from hwdag_lab.methods.decisions import Asker, Decision
from hwdag_lab.methods.found import Found, Scored, SearchRequest, distinct
from hwdag_lab.methods.options import CheckedOptions, at_least, share
from hwdag_lab.methods.summaries import Summarizer, best_parts, excerpt, filled, units
from hwdag_lab.methods.trees import GrowingTree, SummarizingRetriever, SummaryTree, repetitions_last

SUMMARY = """\
{text}

Summarize the text above comprehensively, in fluent prose. Keep names, places, dates and numbers."""
"""Of segments and of groups of summaries; ours, after the paper's description."""

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
"""At an inner node; ours, after the paper's description of its triage prompt."""

BACK = "If none of them can hold it, go back with Action: -1. "
"""Part of `TRIAGE` wherever there is a way back."""

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
"""At a leaf; ours, after the paper's description of its leaf prompt."""

MEMORY = "\nWhat you have read before, in summary:\n{visited}\n"
"""The working memory, where there is any."""

RETRY = "\n\nEnd your reply with one line: Action: and one of these numbers: {legal}."
"""Added where a reply held no legal action."""

COMMIT, GO_BACK = 0, -1
"""Actions at a leaf; `GO_BACK` also at inner nodes, whose children are numbered from 1."""

_ACTION = re.compile(r"\baction\b\W*?(?:part\W*?)?(-?\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MemWalkerConfig(CheckedOptions):
    """How memory trees are built and walked.

    Attributes:
        segment_tokens: size of a leaf; smaller where the navigator's context is small.
        summary_tokens: at most this many tokens per summary.
        ratio: tokens of an extractive summary per token of what it summarises.
        max_children: summaries that are summarised together (M of the paper; the number is ours).
        max_tries: replies asked for until the default is taken (the paper's 3).
        max_steps: decisions per question, over all documents.
        reply_tokens: length limit of reasoning and action.
    """

    segment_tokens: int = at_least(8, 1000)
    summary_tokens: int = at_least(8, 200)
    ratio: float = share(0.2)
    max_children: int = at_least(2, 8)
    max_tries: int = at_least(1, 3)
    max_steps: int = at_least(1, 16)
    reply_tokens: int = at_least(8, 192)


def action_of(reply: str) -> int | None:
    """The number after the last "Action" of a reply; None if there is none."""
    found = _ACTION.findall(reply)
    return int(found[-1]) if found else None


QUESTION_TOKENS = 128  # kept free for the question when segments are cut for a small context


class MemWalkerRetriever(SummarizingRetriever[SummaryTree]):
    """MeMWalker: the leaves that the model visited, then the summaries on its way.

    The leaf that it committed to comes first. A leaf longer than what is left of the token budget
    is cut to those of its sentences that fit, the most similar to the question first, and shown in
    reading order. Of several documents the one whose root is most similar to the question is walked
    first, and the next only where no leaf was committed to.

    The writer, or else the reader, navigates; `Retrieval.usage` is what the meter of a reader says
    before and after, other threads' work on the same model included.
    """

    name = "memwalker"
    needs_replies = True
    Config = MemWalkerConfig
    config: MemWalkerConfig

    @property
    def navigator(self) -> Writer:
        """Who chooses the way: the writer, or the reader."""
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
        """Tokens per segment and children per node: less where they would not fit into a prompt."""
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

    def _retrieve(self, query: SearchRequest, built: Mapping[str, SummaryTree]) -> Found:
        vector = self.embedder.embed_query(query.question)
        asker = Asker(self.navigator, self.reader, tries=self.config.max_tries)
        navigation = Navigation(query.question, asker, self.config)
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
        read, cuts = within_budget(leaves, query, self.reader, self.embedder, vector)
        ranked = list(distinct([*read, *way]))
        notes = [note for tree in built.values() for note in tree.notes]
        notes += [*navigation.notes, *navigation.counted, *cuts]
        return Found(repetitions_last(ranked), asker.usage, tuple(notes))


def within_budget(
    leaves: Sequence[Scored],
    query: SearchRequest,
    reader: Reader,
    embedder: Embedder,
    question: Vectors,
) -> tuple[list[Scored], list[str]]:
    """The leaves in turn, the longer ones cut to the sentences most similar to the question.

    Those that nothing is left for are left out. The second result says which were cut or left out.
    """
    room, found, notes = query.budget, list[Scored](), list[str]()
    for scored in leaves:
        node = scored.node
        if query.cost(node.text) > room:
            parts = [
                (0, Point(node.text[unit.start : unit.end], "extractive", (source,)))
                for unit, source in units(node)
            ]
            similarity = embedder.embed([part.text for _, part in parts]) @ question
            kept = best_parts(parts, similarity.astype(np.float64), query.cost, room)
            if not kept:
                notes.append(f"{node.id}: left out, the budget has no room for a sentence of it")
                continue
            node = excerpt(node, kept[0], reader)
            sizes = f"{scored.node.tokens} to {node.tokens} tokens"
            notes.append(f"{node.id}: cut from {sizes}, the most similar sentences")
        room -= query.cost(node.text)
        found.append(replace(scored, node=node))
    return found, notes


LABEL_TOKENS = 8  # at most what the label around a summary takes in a prompt


@dataclass(slots=True, eq=False)
class Navigation:
    """The model's decisions for one question, counted."""

    question: str
    asker: Asker
    config: MemWalkerConfig
    steps: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def counted(self) -> Iterator[str]:
        """How many replies could not be used, in words."""
        if self.asker.retries:
            yield f"{self.asker.retries} replies without a legal action were asked for anew"
        if self.asker.defaults:
            yield (
                f"{self.asker.defaults} of {self.steps} steps took the default after "
                f"{self.config.max_tries} unusable replies: the most similar part, or to stay"
            )

    def choose(
        self, template: str, legal: Sequence[int], memory: Sequence[str], **shown: str
    ) -> int | None:
        """One of the legal actions; None where no reply had one.

        `memory` are summaries of the visited nodes, the oldest first; `shown` are the other fields of
        the template.
        """

        def prompt(kept: Sequence[str]) -> str:
            said = filled(MEMORY, visited="\n".join(kept)) if kept else ""
            return filled(template, question=self.question, memory=said, **shown)

        def parse(reply: str) -> int | None:
            action = action_of(reply)
            return action if action in legal else None

        self.steps += 1
        retry = filled(RETRY, legal=", ".join(map(str, legal)))
        asked = prompt(self._remembered(prompt(()), memory))
        request = Decision(asked, parse, retry)
        [action] = self.asker.decide([request], limit=self.config.reply_tokens)
        return action

    def _remembered(self, bare: str, memory: Sequence[str]) -> list[str]:
        """The newest summaries that fit into the navigator's context beside the rest of a prompt."""
        kept = list(memory)
        room = self.asker.room(bare + RETRY, limit=self.config.reply_tokens) - LABEL_TOKENS
        while kept:
            shown = filled(MEMORY, visited="\n".join(kept))
            if self.asker.count_tokens([shown])[0] <= room:
                break
            kept.pop(0)
        return kept


class TreeWalk:
    """One-use state of the walk over one document's tree.

    Attributes:
        similarity: of every node to the question, (nodes,).
        position: the node that the model is at, a summary.
        committed: whether the model stayed with a leaf.
        leaves: the segments visited so far; the one that was committed to comes first.
        way: the summaries visited so far.
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
        """Walk until a leaf is committed to, nothing is open, or the steps are used up.

        Returns:
            False if nothing is open any more, so that another document may be tried.
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
        """Read the segment: whether the model, or the default, stays with it."""
        [segment] = self._tree.children[self.position]
        self.leaves.append(self._scored(segment))
        memory, text = self._memory([self.position]), self._tree.nodes[segment].text
        return self._navigation.choose(LEAF, [COMMIT, GO_BACK], memory, segment=text) != GO_BACK

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


LEAF_LEVEL = 2  # summaries of single segments, which are level 1
