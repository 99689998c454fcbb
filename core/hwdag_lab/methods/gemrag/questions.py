"""Utility questions: what somebody could ask that a text answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hwdag.building.calls import Calls
from hwdag.building.writing import replies
from hwdag.lm.base import Writer
from hwdag.text.characters import without_surrogates
from hwdag.text.points import parse_points
from hwdag.text.sentences import sentences
from hwdag.text.words import content_words
from hwdag_lab.methods.summaries import filled

QUESTIONS = """\
Write {number} different questions that the following text answers. Each question must be \
understandable without the text, so use full names instead of pronouns. Write in the language of the \
text, one question per line, each beginning with an asterisk and a space. Do not answer them, and do \
not explain anything.

Text:
{text}"""
"""Ours; GEM-RAG (arXiv 2409.15566) describes its prompt and does not print it."""

RETRY = "\n\nReply with questions only. Each line begins with an asterisk and ends with a question mark."
"""Added to the prompt of the single retry; greedy decoding of the same prompt would not change."""

BATCH = 4  # texts that are asked about in one forward

_QUESTION = re.compile(r".*[?？؟\u037e]", re.DOTALL)
_INNER = re.compile(r"(?<=[?？؟\u037e])\s+(?=\S)")
_NUMBER = re.compile(r"\W*(?:question\s*)?(?:\d{1,3}|[a-z])?\s*[.:)\]]\s+", re.IGNORECASE)


def parse_questions(reply: str, number: int) -> list[str]:
    """The first `number` questions of a reply, in order; none if nothing in it is one.

    Bullets of any sign or number, or plain lines. What follows the question mark on its line, such
    as an answer, is left out, as are repetitions and what is no question.
    """
    lines = parse_points(reply) or without_surrogates(reply)[0].splitlines()
    found: dict[str, str] = {}
    for line in lines:
        for question in _questions_of(line):
            found.setdefault(question.casefold(), question)
    return list(found.values())[:number]


def own_sentences(text: str, number: int) -> list[str]:
    """The default where no question was written: the sentences with most content, in their order."""
    texts = list(dict.fromkeys(text[span.start : span.end] for span in sentences(text)))
    most = sorted(range(len(texts)), key=lambda i: -len(content_words(texts[i])))[:number]
    return [texts[i] for i in sorted(most)]


@dataclass(slots=True)
class Questioner:
    """Asks a writer for `number` questions per text; without a writer sentences stand for them.

    A reply without a question costs one retry; where that has none either, the sentences of the
    text itself stand for them. Both are counted.
    """

    writer: Writer | None
    calls: Calls
    number: int
    limit: int
    texts: int = 0  # asked about so far
    retries: int = 0  # replies without a question
    defaults: int = 0  # texts whose own sentences stand for questions

    def questions(
        self, texts: Sequence[str], advance: Callable[[int], object] = lambda amount: None
    ) -> list[tuple[str, ...]]:
        """Questions per text; empty only if `number` is 0 or a text has no sentence."""
        self.texts += len(texts)
        found: list[list[str]] = [[] for _ in texts]
        if self.writer is not None and self.number:
            number = str(self.number)
            prompts = [filled(QUESTIONS, number=number, text=text) for text in texts]
            found = [parse_questions(r, self.number) for r in self._replies(prompts, advance)]
            missing = [i for i, questions in enumerate(found) if not questions]
            again = self._replies([prompts[i] + RETRY for i in missing], lambda amount: None)
            self.retries += len(missing)
            for i, reply in zip(missing, again, strict=True):
                found[i] = parse_questions(reply, self.number)
        self.defaults += sum(not questions for questions in found)
        return [
            tuple(questions or own_sentences(text, self.number))
            for questions, text in zip(found, texts, strict=True)
        ]

    def notes(self, document_id: str) -> Iterator[str]:
        """What was out of the ordinary, in words."""
        if self.number and self.writer is None:
            yield (
                f"{document_id}: no writer, so its own sentences stand for the utility questions of "
                "each node"
            )
        elif self.writer is not None and self.retries:
            yield (
                f"{document_id}: {self.retries} of {self.texts} nodes were asked about twice, and "
                f"for {self.defaults} of them their own sentences stand for utility questions, "
                f"because {self.writer.name} wrote none"
            )

    def _replies(self, prompts: list[str], advance: Callable[[int], object]) -> list[str]:
        assert self.writer is not None  # asked for where there is one
        return replies(
            self.writer, prompts, self.calls, limit=self.limit, batch_size=BATCH, advance=advance
        )


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
