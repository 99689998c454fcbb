"""Real questions over real documents, end to end on the embedded models.

`HWDAG_DATA` names the folder of evaluation data (by default ../shared/data from the project's
root); its smoke.jsonl holds 24 short documents of 8 public question-answering sets.
"""

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest
from evidence import TOUCHED, paragraph_spans, shares, sources

from hwdag import Document, HWDAGIndex, SearchConfig

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
    for line in SMOKE.read_text("utf-8").splitlines():
        record = json.loads(line)
        index = HWDAGIndex.from_documents([Document(record["id"], record["text"])])
        index.graphs[record["id"]].check_integrity()
        paragraphs = paragraph_spans(record)
        for question in record["questions"]:
            answer = index.answer(question["question"], config=config)
            found = answer.retrieval
            assert found.context_tokens <= BUDGET
            assert found.stop in ("budget", "exhausted")
            assert answer.usage.tokens > found.context_tokens
            for citation in answer.citations:
                place = slice(citation.span.start, citation.span.end)
                assert record["text"][place] == citation.text
            gold = [paragraphs[key] for key in question["evidence"] if key in paragraphs]
            touched[record["dataset"]] += [
                share >= TOUCHED for share in shares(sources(found), gold)
            ]
    multi_hop = [hit for name in MULTI_HOP for hit in touched[name]]
    assert len(multi_hop) >= 18
    assert sum(multi_hop) / len(multi_hop) >= 0.7, dict(touched)
