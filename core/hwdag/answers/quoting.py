"""A statement in place of a reader's reply that cannot be right, and statements of several dates."""

from __future__ import annotations

from dataclasses import replace

from hwdag.answers.abstention import LONGEST_SHOWN, bare, is_short, not_found
from hwdag.answers.passages import grown
from hwdag.search.answerability import is_answerable
from hwdag.text.anaphora import asks_for_a_thing
from hwdag.text.words import content_words, in_digits, words
from hwdag.types import Answer, Retrieval, Step

MAX_STATEMENTS = 3
"""Statements that are shown, at most."""

YES_OR_NO = ("yes", "no")
"""Replies of the default reader for questions in any language."""


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


def with_quotation(answer: Answer) -> Answer:
    """Return an answer with a note on statements of several dates, if there are such.

    A short reply of the reader that cannot be right is replaced by the best statement: one with words that are
    not in the latest of several statements, and "Yes" or "No" to a question such as "Was wurde beschlossen?".
    """
    retrieval, reply = answer.retrieval, answer.reply
    if dated := statements(retrieval):
        shown = (f'{step.date or "undated"} "{bare(step.node)[:LONGEST_SHOWN]}"' for step in dated)
        note = "statements of several dates, the latest first: " + "; ".join(shown)
        answer = replace(answer, notes=(*answer.notes, note))
    is_rated = answer.likelihood is not None and answer.confidence is not None
    if not (is_rated and is_short(reply) and retrieval.context):
        return answer
    wanted = set(content_words(in_digits(reply)))
    if dated and not (wanted and wanted.issubset(words(in_digits(dated[0].node.text)))):
        best = dated[0]
    elif reply.lower().strip(" .,!") in YES_OR_NO and asks_for_a_thing(retrieval.question):
        best = max(retrieval.context, key=lambda step: step.similarity)
    else:
        return answer
    found = is_answerable(retrieval)
    text = _passage(retrieval, best) if found else not_found(retrieval)
    return replace(answer, text=text, confidence=retrieval.answerability, found=found)


def _passage(retrieval: Retrieval, step: Step) -> str:
    """Return a statement with its neighbours, unless they are long."""
    for one in (*grown(retrieval, [step])[0], step):
        if len(passage := bare(one.node)) <= LONGEST_SHOWN:
            break
    return passage
