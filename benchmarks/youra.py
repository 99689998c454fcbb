"""What does YOURA retrieve, and what does reading less save? Tables 2 and 3 of the paper.

For every system: the retrieval ratio (tokens of the text per token retrieved), evidence recall
(share of gold paragraphs of which a tenth was retrieved), F1 of the answer, the cost of the search,
and requests per second of the reader alone, the retrieval done before, as in Table 3. Truncation to
the same budget is the paper's baseline. Run:

    python benchmarks/youra.py ../shared/data/dev/hotpotqa.jsonl --limit 10 --budget 1024

The systems take turns at every question, so that a busy machine is fair to all. Seconds are those of
the processor; `--systems` names the rows to compare, `--no-answers` leaves the reader out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from hwdag import Document, SearchConfig
from hwdag.lm.base import Reader
from hwdag.lm.default import load_reader
from hwdag.retriever import Retriever
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Retrieval
from hwdag_lab.eval.data import read_records
from hwdag_lab.eval.evidence import evidence_scores
from hwdag_lab.eval.schema import Question
from hwdag_lab.eval.statistics import bootstrap
from hwdag_lab.eval.text_metrics import f1
from hwdag_lab.methods.bm25 import BM25Retriever
from hwdag_lab.methods.truncate_middle import TruncateMiddleRetriever
from hwdag_lab.methods.youra import YouraConfig, YouraRetriever

T = TypeVar("T")

SYSTEMS: Mapping[str, Callable[[Reader], Retriever]] = {
    "truncate-middle": TruncateMiddleRetriever,
    "bm25@sentence": lambda reader: BM25Retriever(reader, granularity="sentence"),
    "youra": YouraRetriever,
    "youra, paper": lambda reader: YouraRetriever(reader, config=YouraConfig.paper()),
    "youra, last layer": lambda reader: YouraRetriever(reader, config=YouraConfig(heads="last")),
    "youra, all heads": lambda reader: YouraRetriever(reader, config=YouraConfig(heads="all")),
    "youra, absolute": lambda reader: YouraRetriever(
        reader, config=YouraConfig(difference="absolute")
    ),
    "youra, geometric": lambda reader: YouraRetriever(reader, config=YouraConfig(mean="geometric")),
    "youra, no memory": lambda reader: YouraRetriever(reader, config=YouraConfig(memory_bytes=0)),
}


@dataclass
class Row:
    """The measured values of one system, one per question."""

    ratios: list[float] = field(default_factory=list)
    touched: list[float] = field(default_factory=list)
    f1: list[float] = field(default_factory=list)
    search: list[float] = field(default_factory=list)
    search_tflops: list[float] = field(default_factory=list)
    answer: list[float] = field(default_factory=list)
    answer_tflops: list[float] = field(default_factory=list)

    def line(self) -> str:
        """Return the means; requests per second from the time of all answers."""
        rate = len(self.answer) / sum(self.answer) if self.answer else float("nan")
        return (
            f"{np.mean(self.ratios):6.2f} {_interval(self.touched):>22} {_mean(self.f1):6.3f} "
            f"{np.mean(self.search):8.2f} {np.mean(self.search_tflops):8.3f} {rate:8.3f} "
            f"{_mean(self.answer_tflops):8.3f}"
        )


def main() -> None:
    """Print one line per system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="JSONL of hwdag_lab.eval")
    parser.add_argument("--limit", type=int, default=10, help="documents")
    parser.add_argument("--questions", type=int, default=1, help="of every document")
    parser.add_argument("--budget", type=int, default=1024, help="node tokens")
    parser.add_argument("--max-new-tokens", type=int, default=16)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--no-answers", action="store_true")
    parser.add_argument("--reader", help="hub name or path (default: the embedded model)")
    parser.add_argument("--dtype")
    options = parser.parse_args()
    reader = load_reader(options.reader, dtype=options.dtype)
    config = SearchConfig(token_budget=options.budget)
    rows = {name: Row() for name in options.systems}
    for record in islice(read_records(options.data), options.limit):
        document = Document(record.id, record.text, record.title)
        made = {name: SYSTEMS[name](reader) for name in rows}
        for retriever in made.values():
            retriever.insert([document])
        [tokens] = reader.count_tokens([record.text])
        for question in record.questions[: options.questions]:
            for name, retriever in made.items():
                _measure(rows[name], retriever, question, config, tokens)
                if not options.no_answers:
                    _answer(rows[name], reader, retriever, question, config, options.max_new_tokens)
    count = len(next(iter(rows.values())).ratios)
    print(f"{options.data.stem}, {count} questions, {options.budget} tokens, {reader.name}")
    print(f"{'system':18}  ratio      paragraphs touched     F1 search s  TFLOPs answer/s   TFLOPs")
    for name, row in rows.items():
        print(f"{name:18} {row.line()}")


def _measure(
    row: Row, retriever: Retriever, question: Question, config: SearchConfig, tokens: int
) -> None:
    seconds, found = _timed(partial(retriever.search, question.text, config=config))
    row.search.append(seconds)
    row.search_tflops.append(found.usage.tflops)
    row.ratios.append(tokens / max(1, found.context_tokens))
    spans = [span for step in found.steps for span in step.node.sources]
    row.touched.append(evidence_scores(spans, question).get("paragraph_touched", float("nan")))


def _answer(
    row: Row,
    reader: Reader,
    retriever: Retriever,
    question: Question,
    config: SearchConfig,
    length: int,
) -> None:
    found = retriever.search(question.text, config=config)
    seconds, (text, tflops) = _timed(partial(_read, reader, found, config, length))
    row.answer.append(seconds)
    row.answer_tflops.append(tflops)
    row.f1.append(f1(text, question.answers))


def _read(reader: Reader, found: Retrieval, config: SearchConfig, length: int) -> tuple[str, float]:
    """Return the answer from the retrieved text, and its TFLOPs."""
    session = reader.session(
        found.question,
        prompts=SearchPrompts(),
        heads=config.heads,
        max_new_tokens=length,
    )
    session.read([step.node.text for step in found.steps])
    decoding = session.decode(enough=True, max_new_tokens=length)
    for _ in decoding:
        pass
    return decoding.text, session.usage.tflops


def _timed(call: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def _interval(values: list[float]) -> str:
    known = [value for value in values if np.isfinite(value)]
    return str(bootstrap(known)) if known else "-"


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


if __name__ == "__main__":
    main()
