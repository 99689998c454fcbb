"""Real questions over real documents, end to end on the embedded models.

`HWDAG_DATA` names the folder of evaluation data (by default ../shared/data from the project's
root); its smoke.jsonl holds 24 short documents of 8 public question-answering sets.
"""

import os
from pathlib import Path

import pytest

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag_lab.eval.data import read_records
from hwdag_lab.eval.evidence import evidence_scores

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("HWDAG_DATA") or ROOT / ".." / "shared" / "data")
SMOKE = DATA / "smoke.jsonl"
BUDGET = 512
BEGINNING = 4_000
"""Characters of a long document: twice the budget of the walk."""

MULTI_HOP, LONG = ("hotpotqa", "musique", "2wikimultihopqa"), "quality"

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        not SMOKE.is_file(), reason=f"no evaluation data at {SMOKE}; set HWDAG_DATA to its folder"
    ),
]


def records():
    """Return all documents of sets that need several hops, and the beginning of the shortest long one."""
    found = [record for record in read_records(SMOKE) if record.dataset in (*MULTI_HOP, LONG)]
    long = min((r for r in found if r.dataset == LONG), key=lambda record: len(record.text))
    hops = [(r.dataset, r.text, r.questions) for r in found if r.dataset != LONG]
    return [*hops, (LONG, long.text[:BEGINNING], long.questions[:1])]


def test_smoke_questions_run_inside_their_budget_and_touch_the_gold_paragraphs():
    """Each is searched; one of each set is also answered."""
    config = SearchConfig(token_budget=BUDGET)
    touched, answered = [], set()
    for dataset, text, questions in records():
        index = HWDAGIndex.from_documents([Document(dataset, text)])
        index.graphs[dataset].check_integrity()
        for question in questions:
            if dataset in answered:
                found = index.search(question.text, config=config)
            else:
                answered.add(dataset)
                answer = index.answer(question.text, config=config, max_new_tokens=16)
                found = answer.retrieval
                assert answer.usage.tokens > found.context_tokens
                for citation in answer.citations:
                    assert text[citation.span.start : citation.span.end] == citation.text
            assert found.context_tokens <= BUDGET
            assert found.stop in ("budget", "exhausted")
            if dataset != LONG:
                spans = [span for step in found.steps for span in step.node.sources]
                scores = evidence_scores(spans, question)
                touched += [scores["paragraph_touched"]] if scores else []
    assert len(touched) >= 9
    assert sum(touched) / len(touched) >= 0.7, touched
