"""Multiple choice: the probability that each option answers a question.

The search does not see the options. They are listed for the reader, which replies with a letter; nothing
is decoded. They are listed in both orders, and the two log-probabilities of an option are averaged, since
small readers favour a letter (Zheng et al. 2024, arXiv 2309.03882).
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase

import numpy as np

from hwdag.arrays import Floats
from hwdag.errors import InputError
from hwdag.search.evidence import Evidence
from hwdag.text.characters import one_line

CHOOSE = """
Question: {question}
{options}
Which option answers this question? Reply with its letter alone."""


def choose(found: Evidence, options: Sequence[str]) -> Floats:
    """Return the probability that each option answers the question of a search, (options,).

    Raises `InputError` for other options than 2 to 26 texts. Nothing may have been decoded yet: an answer
    would be in the cache.
    """
    are_texts = all(isinstance(option, str) and option.strip() for option in options)
    most = len(ascii_uppercase)
    if isinstance(options, str) or not are_texts or not 2 <= len(options) <= most:
        raise InputError(f"options must be a list of 2 to {most} texts, got {options!r:.200}")
    logprobs = (_letters(found, options) + _letters(found, options[::-1])[::-1]) / 2
    chances = np.exp(logprobs - logprobs.max())
    return np.asarray(chances / chances.sum())


def _letters(found: Evidence, options: Sequence[str]) -> Floats:
    """Return the log-probability of the letter of each option in a list of them, (options,)."""
    ask = choosing(found.retrieval.question, options)
    letters = list(ascii_uppercase[: len(options)])
    return found.session.likelihoods(letters, enough=found.says_yes, ask=ask)


def choosing(question: str, options: Sequence[str]) -> str:
    """Ask which of the options, each with a letter, answers a question."""
    lines = zip(ascii_uppercase, map(one_line, options), strict=False)
    return CHOOSE.format(question=question, options="\n".join(map(". ".join, lines)))
