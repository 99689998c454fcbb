"""An answer with its citations, in pieces: of the reader from the search's own KV cache, or of an answerer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from string import ascii_uppercase

import numpy as np

from hwdag.arrays import Floats
from hwdag.config import ANSWERER_TOKENS, MAX_NEW_TOKENS, OVERVIEW_TOKENS
from hwdag.errors import InputError
from hwdag.lm.base import Writer
from hwdag.search.answerer import WrittenAnswer
from hwdag.search.context import Evidence
from hwdag.search.found import bare, is_answerable, is_short, judged
from hwdag.search.progress import Interruption
from hwdag.search.units import Place, citations, units_of
from hwdag.text.prompts import choosing
from hwdag.types import Answer, Citation, TokenCount, Usage

MAX_CITATIONS = 5
LEAST_QUOTED, MOST_QUOTED = 4, 12  # sentences, where the reader is too small to sum up


class AnswerStream:
    """An answer as it is made: iterate for pieces of text, then read `answer`.

    Iterating decodes; `answer` decodes whatever is left. One thread, one pass. `retrieval` is the walk,
    complete before the first piece. Where an answerer fails, iterating raises `AnswererFailed`.

    Args:
        found: the evidence.
        max_new_tokens: the longest answer; None is `MAX_NEW_TOKENS`, about the whole `OVERVIEW_TOKENS`, of
            an answerer `ANSWERER_TOKENS`.
        interruption: ends the answer before the next piece.
        answerer: who answers; None is the reader that found the evidence.
    """

    def __init__(
        self,
        found: Evidence,
        max_new_tokens: int | None = None,
        interruption: Interruption | None = None,
        *,
        answerer: Writer | None = None,
    ) -> None:
        self._found, self.retrieval = found, found.retrieval
        self._interruption = interruption or Interruption()
        self._source: DecodedAnswer | QuotedAnswer | WrittenAnswer
        if answerer is None and found.is_quoted:
            self._source = QuotedAnswer(found)
        elif answerer is None:
            most = OVERVIEW_TOKENS if found.is_overview else MAX_NEW_TOKENS
            self._source = DecodedAnswer(found, max_new_tokens or most)
        else:
            limit = max_new_tokens or ANSWERER_TOKENS
            self._source = WrittenAnswer(
                answerer, found.retrieval, limit, self._interruption, found.session.cost
            )
        self._seconds = 0.0  # spent by an answerer
        self._pieces = self._decoded()
        self._has_started = False

    @property
    def usage(self) -> Usage:
        """Cost so far, of the search too; TFLOPs of an answerer are not known."""
        asked = self._source.tokens
        tokens = asked.prompt + asked.reply if asked else 0
        spent = Usage(tokens, seconds=self._seconds)
        return self._found.spent + self._found.session.usage + spent

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def choose(self, options: Sequence[str]) -> Floats:
        """Probability that each option answers the question, (options,), for multiple choice.

        The search does not see the options. They are listed for the reader, which replies with a letter;
        nothing is decoded. They are listed in both orders, and the two log-probabilities of an option are
        averaged, since small readers favour a letter (Zheng et al. 2024, arXiv 2309.03882).

        Raises `InputError` for other options than 2 to 26 texts, once the first piece was decoded,
        since an answer stands in the cache then, and where an answerer answers, whose probabilities
        nobody knows.
        """
        if isinstance(self._source, WrittenAnswer):
            raise InputError("an answerer has no probabilities; leave the answerer out")
        if self._has_started:
            raise InputError(
                "the answer is being decoded already, so no option can be chosen in its place; "
                "call choose() before iterating or reading `answer`"
            )
        are_texts = all(isinstance(option, str) and option.strip() for option in options)
        most = len(ascii_uppercase)
        if isinstance(options, str) or not are_texts or not 2 <= len(options) <= most:
            raise InputError(f"options must be a list of 2 to {most} texts, got {options!r:.200}")
        logprobs = (self._letters(options) + self._letters(options[::-1])[::-1]) / 2
        chances = np.exp(logprobs - logprobs.max())
        found: Floats = chances / chances.sum()
        return found

    def _letters(self, options: Sequence[str]) -> Floats:
        """Log-probability of the letter of each option in a list of them, (options,)."""
        ask = choosing(self.retrieval.question, options)
        letters = list(ascii_uppercase[: len(options)])
        return self._found.session.likelihoods(letters, enough=self._found.says_yes, ask=ask)

    @property
    def answer(self) -> Answer:
        """The whole answer with its citations; one that was stopped has none."""
        for _ in self._pieces:
            pass
        return self._whole

    @cached_property
    def _whole(self) -> Answer:
        """What was said, as it stands when it is complete."""
        source = self._source
        attended = () if self._interruption.stopped else source.cited()
        most = MAX_CITATIONS if isinstance(source, DecodedAnswer) else None
        answer = Answer(
            source.text,
            tuple(one for one in attended[:most] if one.weight > 0),
            self.retrieval,
            self.usage,
            attended,
            source.likelihood,
            source.name,
            source.notes,
            answerer_tokens=source.tokens,
        )
        return judged(answer)

    def _decoded(self) -> Iterator[str]:
        self._has_started = True
        is_judged = self._source.name is None and self.retrieval.answerability is not None
        is_doubtful = not is_answerable(self.retrieval)
        held = "" if is_judged else None  # until it is known that it is given
        for piece in self._said():
            if held is None:
                yield piece
            elif not is_short(held := held + piece) and not is_doubtful:
                yield held
                held = None
        if held is not None:
            answer = self._whole
            if text := held if answer.text == answer.reply else answer.text:
                yield text

    def _said(self) -> Iterator[str]:
        pieces = iter(self._source)
        while not self._interruption.stopped:
            began = time.perf_counter()
            try:
                piece = next(pieces, None)
            finally:
                if isinstance(self._source, WrittenAnswer):
                    self._seconds += time.perf_counter() - began
            if piece is None:
                return
            yield piece


class DecodedAnswer:
    """The answer of the reader, decoded from the KV cache of the search."""

    name: str | None = None
    notes: tuple[str, ...] = ()
    tokens: TokenCount | None = None  # those of the reader are the session's

    def __init__(self, found: Evidence, max_new_tokens: int) -> None:
        self._retrieval = found.retrieval
        steps = found.retrieval.steps
        self._units = [
            unit
            for at, (i, shown) in enumerate(found.shown)
            for unit in units_of(at, steps[i].node, shown)
        ]
        self._decoding = found.session.decode(
            enough=found.says_yes,
            max_new_tokens=max_new_tokens,
            spans=[(unit.position, unit.within) for unit in self._units],
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoding)

    @property
    def text(self) -> str:
        """The text so far, stripped."""
        return self._decoding.text

    @property
    def likelihood(self) -> float | None:
        """Mean log-probability per decoded token; None before the first."""
        return self._decoding.likelihood

    def cited(self) -> tuple[Citation, ...]:
        """Source sentences by the attention that the answer's tokens paid to them.

        A sentence that was read twice, as a point and within a chunk, is one sentence.
        """
        shares, nodes = dict[Place, float](), dict[Place, str]()
        for unit, attention in zip(self._units, self._decoding.attention, strict=True):
            for place in unit.places:
                shares[place] = shares.get(place, 0.0) + float(attention) / len(unit.sources)
                nodes.setdefault(place, unit.node.id)
        total = sum(shares.values()) or 1.0
        best = sorted(shares.items(), key=lambda one: -one[1])
        of_total = ((place, share / total) for place, share in best)
        return citations(of_total, nodes, self._retrieval.sources)


class QuotedAnswer:
    """How the documents begin, word for word, where a reader is too small to sum them up."""

    name: str | None = None
    notes = ("the reader is too small to sum up: these sentences are how the documents begin",)
    tokens: TokenCount | None = None
    likelihood: float | None = None

    def __init__(self, found: Evidence) -> None:
        self._retrieval = found.retrieval
        nodes = [step.node for step in found.retrieval.steps[:MOST_QUOTED]]
        # steps begin with a sentence of each document
        documents = len({node.document_id for node in nodes})
        self._first = nodes[: max(LEAST_QUOTED, documents)]

    def __iter__(self) -> Iterator[str]:
        return iter([self.text] if self.text else [])

    @property
    def text(self) -> str:
        """The sentences, in a line each."""
        return "\n".join(f"- {bare(node)}" for node in self._first)

    def cited(self) -> tuple[Citation, ...]:
        """The sentences, with equal shares."""
        units = [
            unit for i, node in enumerate(self._first) for unit in units_of(i, node, node.text)
        ]
        nodes = {place: unit.node.id for unit in units for place in unit.places}
        return citations(((p, 1 / len(nodes)) for p in nodes), nodes, self._retrieval.sources)
