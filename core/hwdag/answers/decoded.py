"""An answer that the reader decodes from the KV cache of the search, cited by attention."""

from __future__ import annotations

from collections.abc import Iterator

from hwdag.answers.citations import Place, citable_sentences, citations
from hwdag.answers.generated import CUT_OFF
from hwdag.search.evidence import Evidence
from hwdag.types import Citation, TokenCount


class DecodedAnswer:
    """The answer of the reader, decoded from the KV cache of the search."""

    name: str | None = None
    tokens: TokenCount | None = None  # those of the reader are the session's

    def __init__(self, found: Evidence, max_new_tokens: int) -> None:
        self._retrieval = found.retrieval
        steps = found.retrieval.steps
        self._units = [
            unit
            for at, (i, shown) in enumerate(found.shown)
            for unit in citable_sentences(at, steps[i].node, shown)
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

    @property
    def notes(self) -> tuple[str, ...]:
        """A note if the answer is not whole."""
        return (CUT_OFF["length"],) if self._decoding.is_cut else ()

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
