"""A notebook for questions of several hops, after GraphReader (arXiv 2406.14550, section 3.3).

A question names its first hop only. What was read of that hop names the next one, so on its way the
reader notes what it found and what is missing, and the note joins the question: its embedding, and
its words. The graph, the budget and the question that is answered stay as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hwdag.arrays import Vectors
from hwdag.config import SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.lm.base import Session, noting
from hwdag.text.characters import one_line
from hwdag.text.prompts import SearchPrompts

NOTE_TOKENS = 32
"""Length limit of a note: one line."""


class Notebook:
    """The notes of one walk, and what is looked for with them.

    The i-th of n notes is due once i / (n + 1) of the budget is used.

    Attributes:
        notes: what the reader wrote, without empty replies.
        query: the question and the notes, whose words are searched.
        vector: the mean of their embeddings, of length 1, (dimension,).

    Raises:
        InputError: the config asks for notes, and sessions of the reader cannot write any.
    """

    def __init__(
        self,
        question: str,
        vector: Vectors,
        *,
        session: Session,
        embedder: Embedder,
        config: SearchConfig,
        prompts: SearchPrompts,
    ) -> None:
        self.notes: list[str] = []
        self.query = question
        self.vector = vector
        self._vectors = [vector]
        self._session = noting(session) if config.notebook else None
        self._embedder = embedder
        self._prompt = prompts.note
        self._parts = config.notebook + 1
        self._asked = 0

    def is_due(self, used: int, budget: int) -> bool:
        """Whether the next note is, after so many tokens of the budget."""
        return self._asked + 1 < self._parts and used * self._parts >= budget * (self._asked + 1)

    def write(self) -> bool:
        """Have the reader write the next note; False where it says nothing that is new."""
        if self._session is None:
            return False
        self._asked += 1
        note = one_line(self._session.note(self._prompt, max_new_tokens=NOTE_TOKENS)).strip()
        if not note or note in self.notes:
            return False
        self.notes.append(note)
        self.query = "\n".join([self.query, note])
        self._vectors.append(self._embedder.embed_query(note))
        self.vector = _middle(self._vectors)
        return True


def _middle(vectors: list[Vectors]) -> Vectors:
    """The mean direction, (dimension,); the first vector where they cancel out."""
    total = np.sum([_direction(vector) for vector in vectors], axis=0)
    return np.asarray(_direction(total), np.float32) if total.any() else vectors[0]


def _direction(vector: NDArray[np.floating]) -> NDArray[np.float64]:
    """The vector with length 1, (dimension,); a zero vector has none and stays."""
    # why: a question's vector may be given, and then it is of any length
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / (length or 1.0), np.float64)
