"""The second turn: an answer from the walk's own KV cache, and the sentences that it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hwdag.arrays import Floats
from hwdag.errors import InputError
from hwdag.search.context import Evidence
from hwdag.search.progress import Interruption
from hwdag.text.sentences import sentences
from hwdag.types import Answer, Citation, Node, Span, Usage

MAX_CITATIONS = 5


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence of a visited node, and where it stands in its document."""

    node: int  # in the cache
    within: Span  # of the node's text as it was read
    sources: tuple[Span, ...]  # of its document


class AnswerStream:
    """An answer being decoded: iterate for pieces of text, then read `answer`.

    Iterating decodes; `answer` decodes whatever is left. One thread, one pass. `retrieval` is the walk,
    complete before the first piece.
    """

    def __init__(
        self, found: Evidence, max_new_tokens: int, interruption: Interruption | None = None
    ) -> None:
        self._found, self.retrieval = found, found.retrieval
        self._interruption = interruption or Interruption()
        steps = found.retrieval.steps
        self._nodes = [steps[i].node for i, _ in found.shown]
        self._units = [
            unit
            for at, (i, shown) in enumerate(found.shown)
            for unit in _units_of(at, steps[i].node, len(shown) - len(steps[i].node.text))
        ]
        self._decoding = found.session.decode(
            enough=found.says_yes,
            max_new_tokens=max_new_tokens,
            spans=[(unit.node, unit.within) for unit in self._units],
        )
        self._pieces = self._decoded()
        self._has_started = False

    @property
    def usage(self) -> Usage:
        """Cost so far, of the search too."""
        return self._found.spent + self._found.session.usage

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    def likelihoods(self, texts: Sequence[str]) -> Floats:
        """Mean log-probability per token of each text as the answer, (texts,), for multiple choice.

        Raises `InputError` once the first piece was decoded: an answer stands in the cache then.
        """
        if self._has_started:
            raise InputError(
                "the answer is being decoded already, so no other one can be scored in its place; "
                "call likelihoods() before iterating or reading `answer`"
            )
        return self._found.session.likelihoods(texts, enough=self._found.says_yes)

    @property
    def answer(self) -> Answer:
        """The whole answer with its citations; one that was stopped has none."""
        for _ in self._pieces:
            pass
        attended = () if self._interruption.stopped else self._attended()
        citations = tuple(one for one in attended[:MAX_CITATIONS] if one.weight > 0)
        text, likelihood = self._decoding.text, self._decoding.likelihood
        return Answer(text, citations, self.retrieval, self.usage, attended, likelihood)

    def _decoded(self) -> Iterator[str]:
        self._has_started = True
        pieces = iter(self._decoding)
        while not self._interruption.stopped and (piece := next(pieces, None)) is not None:
            yield piece

    def _attended(self) -> tuple[Citation, ...]:
        """Source sentences by the attention that the answer's tokens paid to them.

        A sentence that was read twice, as a point and within a chunk, is one sentence.
        """
        shares: dict[tuple[str, Span], float] = {}
        nodes: dict[tuple[str, Span], str] = {}
        for unit, attention in zip(self._units, self._decoding.attention, strict=True):
            node = self._nodes[unit.node]
            for source in unit.sources:
                place = node.document_id, source
                shares[place] = shares.get(place, 0.0) + float(attention) / len(unit.sources)
                nodes.setdefault(place, node.id)
        total = sum(shares.values()) or 1.0
        best = sorted(shares, key=lambda k: -shares[k])
        return tuple(
            Citation(
                document,
                span,
                self.retrieval.sources[document].text[span.start : span.end],
                shares[document, span] / total,
                nodes[document, span],
                self.retrieval.sources[document].page_of(span.start),
            )
            for document, span in best
        )


def _units_of(position: int, node: Node, heading: int) -> list[_Unit]:
    """Slices of the document are cut into their sentences; any other text is one unit.

    So many characters of `heading` stand before the text.
    """
    if node.origin not in ("chunk", "extractive"):
        return [_Unit(position, Span(heading, heading + len(node.text)), node.sources)]
    units, at = [], 0
    for source in node.sources:
        for part in sentences(node.text[at : at + len(source)]):
            place = Span(source.start + part.start, source.start + part.end)
            start = heading + at + part.start
            units.append(_Unit(position, Span(start, start + len(part)), (place,)))
        at += len(source) + 1  # one character between slices
    return units
