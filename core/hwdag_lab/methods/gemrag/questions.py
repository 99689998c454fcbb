"""Utility questions: questions that a text answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hwdag.text.characters import without_surrogates
from hwdag.text.points import parse_points
from hwdag.text.sentences import sentences
from hwdag.text.words import content_words
from hwdag_lab.methods.decisions import Asker, Decision
from hwdag_lab.methods.summaries import fill_template

QUESTIONS = """\
Write {number} different questions that the following text answers. Each question must be \
understandable without the text, so use full names instead of pronouns. Write in the language of the \
text, one question per line, each beginning with an asterisk and a space. Do not answer them, and do \
not explain anything.

Text:
{text}"""
"""Our wording; GEM-RAG (arXiv 2409.15566) describes its prompt without printing it."""

RETRY = "\n\nReply with questions only. Each line begins with an asterisk and ends with a question mark."
"""Added to the prompt if the first reply had no question."""

_QUESTION = re.compile(r".*[?？؟\u037e]", re.DOTALL)
_INNER = re.compile(r"(?<=[?？؟\u037e])\s+(?=\S)")
_NUMBER = re.compile(r"\W*(?:question\s*)?(?:\d{1,3}|[a-z])?\s*[.:)\]]\s+", re.IGNORECASE)


def parse_questions(reply: str, number: int) -> list[str]:
    """Return the first `number` distinct questions of a reply, in order.

    Accepts bullets, numbers and plain lines. Ignores the text after a question mark on its line, such
    as an answer, and lines without a question.
    """
    lines = parse_points(reply) or without_surrogates(reply)[0].splitlines()
    found: dict[str, str] = {}
    for line in lines:
        for question in _questions_of(line):
            found.setdefault(question.casefold(), question)
    return list(found.values())[:number]


def own_sentences(text: str, number: int) -> list[str]:
    """Return the default for questions: the sentences with most content words, in their order."""
    texts = list(dict.fromkeys(text[span.start : span.end] for span in sentences(text)))
    most = sorted(range(len(texts)), key=lambda i: -len(content_words(texts[i])))[:number]
    return [texts[i] for i in sorted(most)]


@dataclass(slots=True)
class Questioner:
    """Asks for `number` questions per text; sentences replace them if two replies have none.

    `asker` None takes sentences for every text. `limit` is the longest reply in tokens.
    """

    asker: Asker | None
    number: int
    limit: int
    texts: int = 0  # asked about so far

    def questions(
        self, texts: Sequence[str], advance: Callable[[int], object] = lambda amount: None
    ) -> list[tuple[str, ...]]:
        """Return questions per text; empty only if `number` is 0 or the text has no sentence."""
        self.texts += len(texts)
        found: list[list[str] | None] = [None] * len(texts)
        if self.asker is not None and self.number:
            number = str(self.number)
            prompts = [fill_template(QUESTIONS, number=number, text=text) for text in texts]
            requests = [Decision(prompt, self._read, RETRY) for prompt in prompts]
            found = self.asker.decide(requests, limit=self.limit, advance=advance)
        return [
            tuple(questions or own_sentences(text, self.number))
            for questions, text in zip(found, texts, strict=True)
        ]

    def notes(self, document_id: str) -> Iterator[str]:
        """Yield notes on texts without written questions."""
        if self.number and self.asker is None:
            yield (
                f"{document_id}: no writer, so its own sentences replace the utility questions of "
                "each node"
            )
        elif self.asker is not None and self.asker.retries:
            yield (
                f"{document_id}: {self.asker.retries} of {self.texts} nodes were asked about twice, "
                f"and for {self.asker.defaults} of them their own sentences replace utility "
                f"questions, because {self.asker.writer.name} wrote none"
            )

    def _read(self, reply: str) -> list[str] | None:
        return parse_questions(reply, self.number) or None


def _questions_of(line: str) -> Iterator[str]:
    match = _QUESTION.match(line)
    if match is None:
        return
    for part in _INNER.split(match[0]):
        start = 0
        while number := _NUMBER.match(part, start):
            start = number.end()
        question = part[start:].strip(" \t*_\"“”„«»'`")
        if any(map(str.isalnum, question)) and _QUESTION.fullmatch(question):
            yield question
