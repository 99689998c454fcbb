"""A retriever that knows the gold evidence: an upper bound for the answers of a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hwdag.text.headings import headings
from hwdag.types import Document, Node, Span
from hwdag_lab.eval.schema import Question
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored, SearchRequest
from hwdag_lab.methods.passages import Whole


class OracleRetriever(DocumentRetriever[Whole]):
    """The gold evidence of a question in document order, within the budget.

    Gold sentences if the data has them, else gold paragraphs; nothing for an unknown question, or
    one without evidence.
    """

    name = "oracle"
    questions: Sequence[Question] = ()
    """The questions whose evidence it knows; all are about one document."""

    def _build(self, document: Document) -> Whole:
        return Whole.of(document, self.reader)

    def _retrieve(self, request: SearchRequest, built: Mapping[str, Whole]) -> Found:
        known = {q.text: q.sentences or q.evidence for q in self.questions}
        gold = known.get(request.question, ())
        nodes = [node for whole in built.values() for node in self._cut(whole, gold)]
        return Found([Scored(node, 1.0) for node in nodes])

    def _cut(self, whole: Whole, gold: Sequence[Span]) -> list[Node]:
        own = whole.node.sources[0].start  # why: the node has no white space at its start
        spans = [Span(max(0, s.start - own), s.end - own) for s in sorted(gold)]
        found = headings(whole.node.text, spans, whole.node.heading)
        nodes = whole.cut(spans, [f"gold.{i}" for i in range(len(spans))], self.reader)
        return [replace(node, heading=h) for node, h in zip(nodes, found, strict=True)]
