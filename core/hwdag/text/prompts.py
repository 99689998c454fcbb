"""Every prompt, with its source, and all of them replaceable.

A template is plain text with `{name}` fields; it is cut at its fields, never formatted, so that
braces in documents and questions stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from hwdag.errors import InputError
from hwdag.text.languages import NAMES, detect_language, may_be_english

SUMMARY = """\
Summary the following information. Each segment is separated by a new line symbol.

{information}

Split your summary into different summary points according to the semantic information in these \
information points. It is not necessary to generate each summary point for each information point. \
Gather and organize information into summary points. In each summary point, try to avoid using \
pronouns like he/she/they and instead use full names.{language} Generate in the format of:

* summary point
* summary point
* summary point
……

Do not provide any explanation and start the summary directly."""
"""GARLIC Table 4, PECAN Table A1, to the letter; `{language}` is ours (empty or one sentence)."""

SAYS = "says who did what, and why, or what is the case"
SUMS_UP = "sums up the whole text"

CONDENSE = f"""\
Summarize the following text.

{{information}}

Write one summary point, in your own words: one statement of at most 25 words that {SAYS}. Never quote or \
copy a sentence. Use full names instead of pronouns like he/she/they.{{language}} Generate in the format of:

* summary point

Do not provide any explanation and start with the summary point."""
"""Ours (`benchmarks/points.py`). Asked for several points about a longer text, a small writer retells it
sentence by sentence; asked to sum up the text, it writes "The text describes". Asked who did what, it
sometimes copies a deed; then it is asked once more, for what `SUMS_UP`."""

SAME_LANGUAGE = " Write in the same language as the information."
NAMED_LANGUAGE = " Write in {language}."

SUFFICIENCY = """\
Can this question be answered by the following information? Response “Yes” or “No” in one word. \
Do not provide any explanation.

Question:
{question}

Information:
{information}"""
"""First turn: GARLIC Table 5, PECAN Table A2."""

ANSWER = "Given the above information and question, answer the question as concisely as you can."
"""Second turn: GARLIC Table 5, PECAN Table A2."""

ONE_TURN = """\
Answer the question from the information below.

Question: {question}

Information:
{information}"""

ENOUGH = """
Question: {question}
Is the information above enough to answer this question? Reply with Yes or No."""

ANSWER_AGAIN = """
Question: {question}
Reply with the answer alone, in a few words, without an explanation.{language}"""
"""Chosen on training questions (`benchmarks/answer_prompts.py`)."""

OVERVIEW = """\
Given the above information and question, answer the question in at most three short sentences, unless the \
question asks for another form."""

OVERVIEW_AGAIN = """
Question: {question}
Reply in at most three short sentences, unless the question asks for another form.{language}"""

QUESTION_LANGUAGE = " Write it in the language of the question."


def _require(template: str, field: str, which: str) -> None:
    seen = template.count("{" + field + "}")
    if seen != 1:
        raise InputError(
            f"the {which} prompt must contain {{{field}}} exactly once, it has it {seen} times"
        )


@dataclass(frozen=True, slots=True)
class SummaryPrompt:
    """The prompt that turns a window into Information Points."""

    template: str = SUMMARY

    def __post_init__(self) -> None:
        _require(self.template, "information", "summary")

    def cut(self, language: str, window: str = "") -> tuple[str, str]:
        """Return the text before and after the window.

        `language` is "same" as that of the window, a name, or "" to leave it out; it is named if
        the template has a field for it.
        """
        if language == "same":
            # why: asked to write in the same language, a small writer mostly writes in English
            found = detect_language(window) or "en"
            language = "same" if found == "en" else NAMES[found]
        clause = SAME_LANGUAGE if language == "same" else ""
        if language not in ("same", ""):
            clause = NAMED_LANGUAGE.replace("{language}", language)
        before, after = (
            part.replace("{language}", clause) for part in self.template.split("{information}")
        )
        return before, after


@dataclass(frozen=True, slots=True)
class SearchPrompts:
    """How a reader is asked whether it has enough, and for the answer. The defaults are the papers'.

    Attributes:
        opening: the template of question and nodes: {question}, and {information} at the end.
        probe: follows the nodes to ask whether they are enough, and is forgotten after each try;
            empty if the opening asks it.
        answer: asks for the answer. In it and in the probe, {question} is the question again; in it,
            {language} asks for the language of a question that is not in English.
        overview: takes the place of `answer` if the question is about the whole of the documents.
        second_turn: the answer is asked for in a second turn, after the reader's own "Yes" or "No",
            as in the papers; otherwise in the turn of the nodes.
        yes, no: spellings of the two replies to the probe.
    """

    opening: str = SUFFICIENCY
    probe: str = ""
    answer: str = ANSWER
    overview: str = OVERVIEW
    second_turn: bool = True
    yes: tuple[str, ...] = ("Yes", " Yes", "yes", " yes", "YES")
    no: tuple[str, ...] = ("No", " No", "no", " no", "NO")

    def __post_init__(self) -> None:
        _require(self.opening, "question", "opening")
        _require(self.opening, "information", "opening")
        rest = self.opening.split("{question}")[1]
        if "{information}" not in rest:
            raise InputError(
                "the opening prompt must have {question} before {information}: the question "
                "stays in the KV cache while nodes are appended (PECAN App. C)"
            )
        after = rest.split("{information}")[1]
        if after.strip():
            raise InputError(
                "the opening prompt must end with {information}: nodes are appended to a KV cache, "
                f"so nothing can follow them, got {after!r} after it; the probe and the answer "
                "prompt follow the nodes"
            )
        if not (self.answer.strip() and self.yes and self.no):
            raise InputError("the answer prompt and both lists of spellings must not be empty")

    @classmethod
    def one_turn(cls) -> Self:
        """Instruction, question, nodes, the question again: for a reader that nobody trained.

        After the papers' first turn such a reader answers the second with "Yes" or "No" too
        (`benchmarks/answer_prompts.py`).
        """
        return cls(ONE_TURN, ENOUGH, ANSWER_AGAIN, OVERVIEW_AGAIN, second_turn=False)

    def ask(self, question: str) -> str:
        """Return the answer prompt for a question."""
        clause = "" if may_be_english(question) else QUESTION_LANGUAGE
        return self.answer.replace("{language}", clause).replace("{question}", question)

    def cut(self) -> tuple[str, str, str]:
        """Cut the opening into (before the question, between question and nodes, after the nodes)."""
        before, rest = self.opening.split("{question}")
        between, after = rest.split("{information}")
        return before, between, after


@dataclass(frozen=True, slots=True)
class Prompts:
    """All prompts of the method; replace any of them: `Prompts(summary=SummaryPrompt("..."))`.

    Attributes:
        summary: asks for Information Points; None is `CONDENSE`, in the papers' methods the papers' words.
        search: how the reader is asked at search time; None is as the reader is used to
            (`hwdag.lm.cards.Card.prompts`), in the papers' methods the papers' words.
    """

    summary: SummaryPrompt | None = None
    search: SearchPrompts | None = None
