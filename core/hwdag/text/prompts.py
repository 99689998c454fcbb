"""Every prompt, with its source, and all of them replaceable.

A template is plain text with `{name}` fields; it is cut at its fields, never formatted, so that
braces in documents and questions stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from hwdag.errors import InputError

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

    def cut(self, language: str) -> tuple[str, str]:
        """Return the text before and after the window, for `language` ("same" or a name)."""
        clause = SAME_LANGUAGE
        if language != "same":
            clause = NAMED_LANGUAGE.replace("{language}", language)
        before, after = self.template.split("{information}")
        return before.replace("{language}", clause), after.replace("{language}", clause)


@dataclass(frozen=True, slots=True)
class SearchPrompts:
    """The two turns of the walk."""

    sufficiency: str = SUFFICIENCY
    answer: str = ANSWER
    yes: tuple[str, ...] = ("Yes", " Yes", "yes", " yes", "YES")
    no: tuple[str, ...] = ("No", " No", "no", " no", "NO")

    def __post_init__(self) -> None:
        _require(self.sufficiency, "question", "sufficiency")
        _require(self.sufficiency, "information", "sufficiency")
        if not self.cut()[2].strip() == "":
            raise InputError(
                "the sufficiency prompt must end with {information}: nodes are appended to a KV "
                f"cache, so nothing can follow them, got {self.cut()[2]!r} after it"
            )
        if not (self.answer.strip() and self.yes and self.no):
            raise InputError("the answer prompt and both lists of spellings must not be empty")

    def cut(self) -> tuple[str, str, str]:
        """Cut the first turn into (before the question, between question and nodes, after the nodes)."""
        before, rest = self.sufficiency.split("{question}")
        if "{information}" not in rest:
            raise InputError(
                "the sufficiency prompt must have {question} before {information}: the question "
                "stays in the KV cache while nodes are appended (PECAN App. C)"
            )
        between, after = rest.split("{information}")
        return before, between, after


@dataclass(frozen=True, slots=True)
class Prompts:
    """All prompts of the method; replace what you like: `Prompts(summary=SummaryPrompt("..."))`."""

    summary: SummaryPrompt = SummaryPrompt()
    search: SearchPrompts = SearchPrompts()
