"""Follow-up questions: rewritten by a model, or searched for near the topic of the last turns (not in the papers).

"When was she born?" after "Who built the waterworks?" is about somebody. A question that can be understood
alone (`hwdag.text.anaphora`) is searched alone. A model that writes makes any other one a question of its own.
Without such a model, the paragraphs gain that share the words of the last turns in their text or heading: the
more, the fewer words the question has of its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwdag.arrays import Floats
from hwdag.corpus.view import View
from hwdag.errors import InputError
from hwdag.lm.base import Reader, Writer
from hwdag.search.evidence import Evidence
from hwdag.search.question import History, Question
from hwdag.text.anaphora import own_words, stands_alone
from hwdag.text.characters import one_line, without_surrogates
from hwdag.text.thinking import without_thought
from hwdag.text.words import content_words
from hwdag.types import Step

TURNS = 3  # the last ones, which a question may refer to
HISTORY_DECAY = 0.5  # weight of a turn, as a share of that of the one after it

WEIGHTS = 0.8, 0.6, 0.4
"""Weight of the topic, compared with a similarity of at most 1, if the question has 0, 1, or more words of its own."""

SAID = 0.1
"""Deduction for a node that has all words of the last turn: it adds nothing."""

LEAST_SHARE = 0.7
"""A reader is shown only nodes with at least this share of the best similarity: it cannot know of others
whether they are about the same person."""
# why these: found on TOWN, SHIPS and GARDENS of tests/conversation_world.py, with the default models

NEAR_LAST_TURNS = "searched near what the last turns were about"
UNWRITTEN = "the model gave no question that can be understood alone"

LONGEST_TURN = 600  # characters of a turn in the prompt, and of a rewritten question

REWRITE = """\
Rewrite the last question of a conversation so that it is understood without it: put names in the place \
of words such as "she" or "there". If it is understood without it, repeat it. Reply with the question \
alone, in its own language.

{turns}

Last question: {question}"""

_LOGGER = logging.getLogger("hwdag")

_MARK = re.compile(r"\s{0,8}\[\d{1,9}\]")  # bounded: a flood of blanks must take linear time


def turns_of(messages: Iterable[tuple[object, str]]) -> list[tuple[str, str]]:
    """Return the (role, text) messages of a chat as questions ("user") with their answers ("assistant")."""
    turns = list[tuple[str, str]]()
    for role, text in messages:
        if role == "user":
            turns.append((text, ""))
        elif role == "assistant" and turns:
            asked, said = turns[-1]
            turns[-1] = asked, f"{said} {text}".strip()
    return turns


def _text(text: str) -> str:
    return _MARK.sub("", without_surrogates(text)[0]).strip()


def rewriter(answerer: Writer | None, reader: Reader) -> Writer | None:
    """Return who rewrites a question: the answerer, else a reader that writes; None without either."""
    if answerer is not None:
        return answerer
    return reader if isinstance(reader, Writer) and reader.card.writes else None


@dataclass(frozen=True, slots=True)
class Standalone:
    """The subject of a search: a question, and the turns that it still refers to."""

    question: str
    history: History = ()
    is_rewritten: bool = False
    notes: tuple[str, ...] = ()

    def with_original_question(self, found: Evidence, asked: str) -> Evidence:
        """Return the evidence, under the question as it was asked."""
        retrieval = replace(
            found.retrieval,
            question=asked,
            notes=(*found.retrieval.notes, *self.notes),
            searched_for=self.question if self.is_rewritten else None,
        )
        return replace(found, retrieval=retrieval)


def standalone(question: str, history: object, writer: Writer | None) -> Standalone:
    """Return the question that is searched for within a conversation; a writer rewrites one that refers to it.

    If the writer fails, a note reports that, and the topic of the last turns counts, as without a writer.
    Raises `InputError` for a history that is none.
    """
    turns = checked_history(history)
    if not turns or stands_alone(question):
        return Standalone(question)
    if writer is None:
        return Standalone(question, turns, notes=(NEAR_LAST_TURNS,))
    try:
        found = rewritten(writer, question, turns)
    except Exception as error:
        # why logged: notes reach the clients of a server, and the text may be of another server
        _LOGGER.warning("%s could not rewrite a question: %s", writer.name, error, exc_info=error)
        return Standalone(
            question, turns, notes=(f"{UNWRITTEN}; the log has the reason", NEAR_LAST_TURNS)
        )
    if not found:
        return Standalone(question, turns, notes=(UNWRITTEN, NEAR_LAST_TURNS))
    return Standalone(found, is_rewritten=found != question)


def checked_history(history: object) -> tuple[tuple[str, str], ...]:
    """Return the turns as pairs. Raises `InputError` for anything else."""
    turns = (
        tuple(history) if isinstance(history, Sequence) and not isinstance(history, str) else None
    )
    if turns is None or not all(_is_turn(turn) for turn in turns):
        raise InputError(
            'history must be a list of (question, answer) texts, such as [("Who built it?", "Ada")], '
            f"got {history!r:.200}"
        )
    return tuple((_text(question), _text(answer)) for question, answer in turns)


def _is_turn(turn: object) -> bool:
    if not isinstance(turn, tuple | list) or len(turn) != 2:
        return False
    return all(isinstance(text, str) for text in turn)


def rewritten(writer: Writer, question: str, history: History) -> str:
    """Return the question as one of its own; "" if the reply has none."""
    turns = "\n".join(
        f"Question: {one_line(asked)[:LONGEST_TURN]}\nAnswer: {one_line(said)[:LONGEST_TURN]}"
        for asked, said in history[-TURNS:]
    )
    prompt = REWRITE.replace("{turns}", turns).replace("{question}", one_line(question))
    [reply] = writer.write([prompt], max_new_tokens=LONGEST_TURN // 2)
    lines = without_thought(reply).strip().splitlines()
    found = lines[0].strip().removeprefix("Question:").strip(' "“”') if lines else ""
    return without_surrogates(found)[0][:LONGEST_TURN]


def topic(view: View, question: Question, history: History) -> Floats:
    """Return how much every node is about the topic of the last turns, (n,)."""
    lexicon, values = view.lexicon, np.zeros(len(view))
    for age, turn in enumerate(reversed(history[-TURNS:])):
        scores = lexicon.scores(set(content_words(" ".join(turn))))
        if (most := scores.max(initial=0.0)) > 0:
            values = np.maximum(values, HISTORY_DECAY**age * scores / most)
    weight = WEIGHTS[min(len(own_words(question.content_words)), len(WEIGHTS) - 1)]
    return np.asarray(weight * view.corpus.best_in_paragraph(values) - SAID * values)


def on_topic(steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Return the steps that a reader reads for a question that refers to others, and the rest."""
    least = LEAST_SHARE * max((step.similarity for step in steps), default=0.0)
    near = [step for step in steps if step.similarity >= least]
    return near, [step for step in steps if step.similarity < least]
