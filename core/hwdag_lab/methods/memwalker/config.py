"""Prompts and parameters of MeMWalker, and how its replies are read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hwdag_lab.methods.options import check_counts, check_shares

SUMMARY = """\
{text}

Summarize the text above comprehensively, in fluent prose. Keep names, places, dates and numbers."""
"""Of segments and of groups of summaries; ours, after the paper's description."""

TRIAGE = """\
You are looking for the answer to a question in a long document, and read it part by part.

Question: {question}
{memory}
These are summaries of parts of the document:

{summaries}

Which part is most likely to hold the answer? First compare the summaries in a few words, then \
choose one. {back}Reply in this format:
Reasoning: ...
Action: the number of the part"""
"""At an inner node; ours, after the paper's description of its triage prompt."""

BACK = "If none of them can hold it, go back with Action: -1. "
"""Part of `TRIAGE` wherever there is a way back."""

LEAF = """\
You are looking for the answer to a question in a long document, and read it part by part.

Question: {question}
{memory}
This is a part of the document:

{segment}

Can the question be answered from this part, together with what you have read before? First give \
your reasons in a few words, then choose Action: 0 to answer now, or Action: -1 to go back and read \
another part. Reply in this format:
Reasoning: ...
Action: 0 or -1"""
"""At a leaf; ours, after the paper's description of its leaf prompt."""

MEMORY = "\nWhat you have read before, in summary:\n{visited}\n"
"""The working memory, where there is any."""

RETRY = "\n\nEnd your reply with one line: Action: and one of these numbers: {legal}."
"""Added when a reply held no legal action; the same prompt would be answered the same."""

COMMIT, GO_BACK = 0, -1
"""Actions at a leaf; `GO_BACK` also at inner nodes, whose children are numbered from 1."""

_ACTION = re.compile(r"\baction\b\W*?(?:part\W*?)?(-?\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MemWalkerConfig:
    """How memory trees are built and walked.

    Attributes:
        segment_tokens: of a leaf; cut down where the navigator's context is small.
        summary_tokens: at most this many tokens per summary.
        ratio: tokens of an extractive summary per token of what it summarises.
        max_children: summaries that are summarised together (M of the paper; the number is ours).
        max_tries: replies asked for until the default is taken (the paper's 3).
        max_steps: decisions per question, over all documents.
        reply_tokens: length limit of reasoning and action.
    """

    segment_tokens: int = 1000
    summary_tokens: int = 200
    ratio: float = 0.2
    max_children: int = 8
    max_tries: int = 3
    max_steps: int = 16
    reply_tokens: int = 192

    def __post_init__(self) -> None:
        least = {
            "segment_tokens": 8,
            "summary_tokens": 8,
            "max_children": 2,
            "max_tries": 1,
            "max_steps": 1,
            "reply_tokens": 8,
        }
        check_counts(self, least)
        check_shares(self, ("ratio",))


def action_of(reply: str) -> int | None:
    """The number after the last "Action" of a reply; None if there is none."""
    found = _ACTION.findall(reply)
    return int(found[-1]) if found else None
