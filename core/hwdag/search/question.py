"""A question with everything that a search derives from its text, made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from hwdag.arrays import Vectors
from hwdag.text.anaphora import asking_part
from hwdag.text.words import codes, with_month_numbers, without_stopwords, words

History = Sequence[tuple[str, str]]
"""Earlier questions with their answers, the last one last."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A question as it is searched for; `Question.of` makes it.

    Attributes:
        text: the question, rewritten to stand alone if a model could rewrite it.
        vector: its embedding, (dimension,).
        words: all words of the part that asks, in order.
        content_words: its distinct words except stopwords, in order.
        asked_words: the content words, the numbers of the months among them, and the codes.
        codes: its numbers and codes of several parts, such as "4.2".
        history: the earlier turns, unless the question was rewritten to stand alone.
    """

    text: str
    vector: Vectors
    words: Sequence[str]
    content_words: Sequence[str]
    asked_words: Sequence[str]
    codes: Sequence[str] = ()
    history: History = ()

    @classmethod
    def of(cls, text: str, vector: Vectors, history: History = ()) -> Self:
        """Split a question into words."""
        text_asked = asking_part(text)
        found = words(text_asked)
        content, named = without_stopwords(found), codes(text_asked)
        return cls(
            text=text,
            vector=vector,
            words=found,
            content_words=tuple(dict.fromkeys(content)),
            asked_words=tuple(dict.fromkeys(with_month_numbers(content, text_asked) + named)),
            codes=tuple(named),
            history=history,
        )
