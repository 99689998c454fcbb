"""Keep a reply from copying its prompt: n-gram blocking while it is decoded.

After Paulus et al. 2018 (arXiv:1705.04304, 2.5), who block trigrams that the reply itself repeats. Ours:
only a word in lower case ends a run. To leave out the next token of a number or a name would change it:
"1905" became "1915".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import LogitsProcessor

from hwdag.lm.tokens import Codec

LONGEST_COPY = 9
"""The most consecutive tokens of a prompt in a reply that condenses it: room for names and titles, but not
for most sentences (not in the papers; `benchmarks/points.py`)."""


class CopyBlock(LogitsProcessor):
    """Leaves out each word that would be token `longest` + 1 of a run of the row that it continues.

    So that it is not written without the space before it ("58_votes"), any other token with letters is left
    out, too, unless a space precedes it. For greedy decoding.
    """

    def __init__(self, codec: Codec, rows: Sequence[list[int]], longest: int) -> None:
        self._codec, self._longest = codec, longest
        self._next: list[dict[tuple[int, ...], set[int]]] = []
        begins_word = {token: codec.begins_word(token) for token in set().union(*rows)}
        for row in rows:
            following: dict[tuple[int, ...], set[int]] = {}
            for end in range(longest, len(row)):
                if begins_word[row[end]]:
                    following.setdefault(tuple(row[end - longest : end]), set()).add(row[end])
            self._next.append(following)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores of the next tokens, (rows, vocabulary)."""
        for i, ids in enumerate(input_ids.tolist()):
            if blocked := self._next[i].get(tuple(ids[len(ids) - self._longest :])):
                scores[i, list(blocked)] = -torch.inf
                best = int(scores[i].argmax())
                while self._codec.goes_on_with_word(best) and scores[i, best].isfinite():
                    scores[i, best] = -torch.inf
                    best = int(scores[i].argmax())
        return scores
