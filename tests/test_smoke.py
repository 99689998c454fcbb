"""Real questions over real documents, end to end on the embedded models.

`HWDAG_DATA` names the folder of evaluation data (by default ../shared/data from the project's
root); its smoke.jsonl holds 24 short documents of 8 public question-answering sets.
"""

import os
from collections import defaultdict
from pathlib import Path

import pytest

from hwdag import Document, HWDAGIndex, SearchConfig
from hwdag.eval.data import read_records
from hwdag.eval.evidence import evidence_scores

ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("HWDAG_DATA") or ROOT / ".." / "shared" / "data")
SMOKE = DATA / "smoke.jsonl"
BUDGET = 1024
MULTI_HOP = ("hotpotqa", "musique", "2wikimultihopqa")

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        not SMOKE.is_file(), reason=f"no evaluation data at {SMOKE}; set HWDAG_DATA to its folder"
    ),
]


def test_all_smoke_questions_run_inside_their_budget_and_touch_the_gold_paragraphs():
    config = SearchConfig(token_budget=BUDGET, max_new_tokens=16)
    touched = defaultdict(list)
    for record in read_records(SMOKE):
        index = HWDAGIndex.from_documents([Document(record.id, record.text)])
        index.graphs[record.id].check_integrity()
        for question in record.questions:
            answer = index.answer(question.text, config=config)
            found = answer.retrieval
            assert found.context_tokens <= BUDGET
            assert found.stop in ("budget", "exhausted")
            assert answer.usage.tokens > found.context_tokens
            for citation in answer.citations:
                place = slice(citation.span.start, citation.span.end)
                assert record.text[place] == citation.text
            spans = [span for step in found.steps for span in step.node.sources]
            scores = evidence_scores(spans, question)
            touched[record.dataset] += [scores["paragraph_touched"]] if scores else []
    multi_hop = [hit for name in MULTI_HOP for hit in touched[name]]
    assert len(multi_hop) >= 9
    assert sum(multi_hop) / len(multi_hop) >= 0.7, dict(touched)
