"""A question to the evidence for it, by one of three strategies."""

from __future__ import annotations

from hwdag.corpus.view import View
from hwdag.search.evidence import Evidence
from hwdag.search.overview import read_overview
from hwdag.search.overview_questions import asks_for_overview, asks_for_report, names_documents
from hwdag.search.question import Question
from hwdag.search.request import SearchRequest
from hwdag.search.select import select_evidence
from hwdag.search.walk import walk_graph


def find(view: View, question: Question, request: SearchRequest) -> Evidence:
    """Search for a question by the strategy that it and the method ask for.

    Raises `QuestionTooLong`, and `Vanished` if a document is deleted that is about to be read.
    """
    if _is_about_the_whole(question, request):
        return read_overview(view, question, request)
    strategy = walk_graph if request.plan.rules.has_points else select_evidence
    return strategy(view, question, request)


def _is_about_the_whole(question: Question, request: SearchRequest) -> bool:
    """Return whether a question is about the whole of the documents; the papers' methods have no such questions."""
    # why: "Sum it up" may be about what was said before
    is_unclear = bool(question.history) and not names_documents(question.words)
    is_known = not request.plan.rules.follows_papers and not is_unclear
    return is_known and (
        asks_for_overview(request.embedder, question.vector) or asks_for_report(question.text)
    )
