"""Statements of several dates about one thing, for a question that asks for the present."""

from __future__ import annotations

from dataclasses import replace

from hwdag.answers.abstention import LONGEST_SHOWN, bare, is_short, not_found
from hwdag.answers.passages import grown
from hwdag.search.answerability import is_answerable
from hwdag.text.words import content_words, in_digits, words
from hwdag.types import Answer, Retrieval, Step

MAX_STATEMENTS = 3
"""Statements that are shown, at most."""


def statements(retrieval: Retrieval) -> list[Step]:
    """Return the most similar statement with those of other dates about the same, the latest first; else []."""
    steps = retrieval.context
    best = max(steps, key=lambda step: step.similarity, default=None)
    if best is None:
        return []
    near = [
        step
        for step in steps
        if best.position in step.supersedes or step.position in best.supersedes
    ]
    if not near:
        return []
    near.sort(key=lambda step: -step.similarity)
    by_date = {step.date: step for step in reversed([best, *near])}
    return [by_date[date] for date in sorted(by_date, reverse=True)][:MAX_STATEMENTS]


def with_latest(answer: Answer) -> Answer:
    """Return an answer with a note on statements of several dates, if there are such.

    A short reply of the reader with words that are not in the latest of them, such as "Yes", is replaced by that.
    """
    retrieval, reply = answer.retrieval, answer.reply
    if not (dated := statements(retrieval)):
        return answer
    shown = (f'{step.date or "undated"} "{bare(step.node)[:LONGEST_SHOWN]}"' for step in dated)
    note = "statements of several dates, the latest first: " + "; ".join(shown)
    answer = replace(answer, notes=(*answer.notes, note))
    wanted = set(content_words(in_digits(reply)))
    is_held = wanted and wanted.issubset(words(in_digits(dated[0].node.text)))
    if answer.likelihood is None or answer.confidence is None or not is_short(reply) or is_held:
        return answer
    found = is_answerable(retrieval)
    text = _passage(retrieval, dated[0]) if found else not_found(retrieval)
    return replace(answer, text=text, confidence=retrieval.answerability, found=found)


def _passage(retrieval: Retrieval, step: Step) -> str:
    """Return a statement with its neighbours, unless they are long."""
    for one in (*grown(retrieval, [step])[0], step):
        if len(passage := bare(one.node)) <= LONGEST_SHOWN:
            break
    return passage
