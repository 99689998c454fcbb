"""The state of one search: its scores, its budget, the reader's session and the rule that ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hwdag.config import MAX_NEW_TOKENS
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.search.answerability import Nearness, answerability, fitted
from hwdag.search.budget import FIRST_POSITION, Budget
from hwdag.search.evidence import Evidence
from hwdag.search.features import NodeFeatures
from hwdag.search.follow_ups import topic
from hwdag.search.frontier import Frontier
from hwdag.search.latest import Latest
from hwdag.search.navigator import NavigatorRanker
from hwdag.search.question import Question
from hwdag.search.references import named_codes
from hwdag.search.request import SearchRequest
from hwdag.search.stopping import StoppingRule
from hwdag.search.table_rows import TableRowPreference
from hwdag.text.dates import asks_for_present
from hwdag.text.headings import parted
from hwdag.text.languages import is_latin
from hwdag.text.tables import ROW, is_rule, names_columns_of
from hwdag.text.words import words
from hwdag.types import Candidate, Node, Retrieval, Step

COPIED_WORDS = 8
"""Words of a sentence that is read once, however often it is repeated: a footer, a quoted mail. Shorter ones may
mean something else under another heading."""

ROWS_BELOW = 2  # a header that are looked at: the first one may have no other value than its name

MAX_RUNNERS_UP = 3  # candidates that are kept with each choice


class ReadSteps(NamedTuple):
    """The steps of a search after reading.

    Attributes:
        steps: the chosen nodes, in the order in which they were chosen.
        shown: ordinals of steps with their texts as they were read, in the order of the cache.
        unread: steps that were chosen and are not read.
    """

    steps: Sequence[Step]
    shown: Sequence[tuple[int, str]] = ()
    unread: Sequence[Step] = ()


class SearchState:
    """Everything that changes while one question is searched for; it belongs to one thread.

    Attributes:
        view, question, request: the input of the search.
        session: the reader's cache, empty at first.
        stopping: decides when the reader has enough.
        similarity, frontier: the scores of all nodes.
        budget: the tokens that are left.
    """

    def __init__(self, view: View, question: Question, request: SearchRequest) -> None:
        self.view, self.question, self.request = view, question, request
        plan, reader, about = request.plan, request.reader, None
        if question.history:
            about = topic(view, question, question.history)
        elif question.codes and not plan.rules.follows_papers:
            about = named_codes(view, question.codes)
        self.similarity = Similarity(
            view, question.asked_words, question.vector, plan.scoring, about
        )
        self.stopping = StoppingRule(plan.confidence, plan.patience, request.deadline)
        self.session = reader.session(
            question.text,
            prompts=request.prompts,
            heads=plan.heads,
            max_new_tokens=request.max_new_tokens,
        )
        self._latest: Latest | None = None
        if not plan.rules.follows_papers and asks_for_present(question.text):
            self._latest = Latest(view, request.metadata, question)
        self.budget = Budget(
            view.corpus,
            reader.count_lines,
            min(plan.token_budget, self.session.room),
            by_section=not plan.reads_during_search,
            counted=request.has_token_counts,
            points_share=plan.rules.points_share,
            keeps_points=plan.rules.keeps_points,
            dated=None if self._latest is None else self._latest.dated,
        )
        similarity, scale = self.similarity.values, plan.rules.scale
        self.frontier = Frontier.of(view, question, similarity, plan.scoring, scale, self._ranker())
        self._rows = None
        if not plan.reads_during_search:
            self._rows = TableRowPreference(question.asked_words, self.frontier, self.budget)
        self._taken = 0  # nodes
        self._sentences = set[tuple[str, ...]]()

    def _ranker(self) -> NavigatorRanker | None:
        navigator, question = self.request.navigator, self.question
        # why not with a history: the navigator was trained on questions of their own
        if navigator is None or question.history:
            return None
        signals = NodeFeatures(self.view, question, self.similarity, self.budget.fetch)
        return NavigatorRanker(navigator, question.text, self.similarity, signals)

    def best(self) -> int | None:
        """Return the node to read next, neither a header row nor a copy of a sentence; None if none fits."""
        while (best := self.frontier.best(self.budget.bounds, self.budget.room)) is not None:
            best = best if self._rows is None else self._rows.first(best)
            [node] = self.budget.fetch([best])
            if self._sentence(node) not in self._sentences and not self.is_header(best, node):
                break
            self.frontier.visit(best)
        return best

    def is_header(self, index: int, node: Node) -> bool:
        """Return whether a leaf repeats in vain: its own heading, or the names of columns, which every row has."""
        if self.request.plan.rules.follows_papers or node.level > 1:
            return False
        line = node.text.rpartition("\n")[2]
        if is_rule(line):
            return True
        is_heading = line == node.text == parted(node.heading)[1]
        if not (is_heading or (line.startswith(ROW) and ": " not in line)):
            return False
        stop = min(index + 1 + ROWS_BELOW, self.view.corpus.document_of(index).stop)
        below = self.budget.fetch([*range(index + 1, stop)])
        if is_heading:
            return any(leaf.heading == node.heading for leaf in below)
        return any(names_columns_of(line, row.text) for row in below)

    def _sentence(self, node: Node) -> tuple[str, ...]:
        """Return the words of a leaf of some length; () for any other node, and by the papers' methods."""
        if node.level > 1 or self.request.plan.rules.follows_papers:
            return ()
        found = words(node.text)
        return tuple(found) if len(found) >= COPIED_WORDS else ()

    def take_best(self, index: int) -> Step:
        """Take a node that the scores chose, and keep the runners-up."""
        runners_up = self.frontier.runners_up(index, MAX_RUNNERS_UP)
        others = tuple(
            Candidate(node, **self.frontier.parts(other)._asdict())
            for other, node in zip(runners_up, self.budget.fetch(runners_up), strict=True)
        )
        parts = self.frontier.parts(index)._asdict()
        node = self._take(index)
        return Step(self._position, node, False, **parts, runners_up=others)

    def take_initial(self, index: int) -> Step:
        """Take a node of the initial set, which nothing but its similarity has chosen."""
        similarity = self.frontier.parts(index).similarity
        node = self._take(index)
        return Step(self._position, node, True, 0.0, similarity)

    @property
    def _position(self) -> int:
        return self._taken - 1 + FIRST_POSITION

    def _take(self, index: int) -> Node:
        """Visit a node; close the points if they have used their share of the budget."""
        node = self.budget.take(index)
        self.frontier.visit(index, node)
        self._sentences.add(self._sentence(node))
        self._sentences.discard(())
        if not self.budget.is_left_for_points:
            self.frontier.close_points()
        self._taken += 1
        return node

    def in_order(self, steps: Sequence[Step]) -> list[Step]:
        """Return chosen steps in the order in which they are read: for the present, later statements first."""
        return list(steps) if self._latest is None else self._latest.later_first(steps)

    def report(self, step: Step) -> None:
        """Pass a step to the caller."""
        if self.request.on_step is not None:
            self.request.on_step(step)

    def evidence(
        self,
        read: ReadSteps,
        note: str,
        *,
        answerability: float | None,
        max_new_tokens: int = MAX_NEW_TOKENS,
        is_quoted: bool = False,
        left_out: str = "",
        is_ranked: bool = True,
    ) -> Evidence:
        """Finish the search; the `note` names the way of searching."""
        plan, budget = self.request.plan, self.budget
        notes = [f'method "{plan.rules.method}": {note}']
        if budget.limit < plan.token_budget:
            notes.append(
                f"the budget was cut to the {budget.limit} tokens that fit into the context"
            )
        if any(step.supersedes for step in read.steps):
            notes.append("the question asks for the present, so later statements come first")
        wanted = (self.request.k or 0) - sum(step.kept for step in read.steps)
        position = len(read.steps) + len(read.unread) + FIRST_POSITION
        others = self._unread(wanted - len(read.unread), position)
        texts = [text for _, text in read.shown]
        retrieval = Retrieval(
            self.question.text,
            tuple(read.steps),
            self.stopping.reason or ("budget" if self.frontier.left_out else "exhausted"),
            sum(budget.counts(texts)) if texts else budget.tokens,
            self.session.usage,
            tuple(notes),
            (*read.unread[: max(0, wanted)], *others),
            answerability=answerability,
            is_ranked=is_ranked and not (plan.rules.follows_papers or self.question.history),
        )
        return Evidence(
            retrieval,
            self.session,
            self.stopping.says_yes,
            read.shown,
            max_new_tokens=max_new_tokens,
            is_quoted=is_quoted,
            left_out=left_out,
        )

    def _unread(self, count: int, position: int) -> Iterator[Step]:
        """Yield the `count` best nodes that were not visited and would be kept, by score."""
        asked, found = count, list[int]()
        while len(found) < count and asked > 0:
            best = self.frontier.ranking(asked).tolist()
            nodes = zip(best, self.budget.fetch(best), strict=True)
            found = [
                index
                for index, node in nodes
                if self.budget.keeps(node) and not self.is_header(index, node)
            ]
            asked = 2 * asked if len(best) == asked else 0  # else there are no more
        for i, index in enumerate(found[:count]):
            [node] = self.budget.fetch([index])
            yield Step(position + i, node, False, **self.frontier.parts(index)._asdict())

    def answerability(self, steps: Sequence[Step]) -> float | None:
        """Estimate the probability that the steps hold an answer; None if it was not fitted for such a search."""
        request, nodes = self.request, [step.node for step in steps if step.kept]
        if not nodes:  # a reader would make an answer up
            return None if request.deadline.stopped else 0.0
        texts = (self.question.text, " ".join(node.text for node in nodes))
        fits = getattr(request.embedder, "fingerprint", None) == fitted()["embedder"]
        fits = fits and all(map(is_latin, texts))
        # why not with a history: a question that refers to others does not name its subject
        if request.plan.rules.follows_papers or self.question.history or not fits:
            return None
        is_default = request.reader.name == fitted()["reader"]
        p_yes = next((s.p_yes for s in reversed(steps) if s.kept and s.p_yes is not None), None)
        nearness = Nearness.of(self.view.values_of(self.similarity.first))
        return answerability(self.question, nodes, nearness, p_yes if is_default else None)
