"""What do the retrievers find that people use today, each through its own package?

LlamaIndex's chunks of 128 tokens with 20 shared, its sentence window (three sentences around each
that is found), and LangChain's parent document retriever (400 characters are searched, 2,000 are
read), together with systems of the evaluation. All have the same embedder, reader and token budget. Run:

    python benchmarks/peers.py ../shared/data/dev/hotpotqa.jsonl --limit 20 --budget 512

A peer whose package is not installed is left out, and the reason is printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from hwdag import Document, SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.retriever import Retriever
from hwdag.types import Node, Span
from hwdag_lab.eval.data import read_records
from hwdag_lab.eval.evidence import evidence_scores
from hwdag_lab.eval.models import RunModels, load_models
from hwdag_lab.eval.schema import Question
from hwdag_lab.eval.statistics import bootstrap
from hwdag_lab.eval.systems import systems
from hwdag_lab.eval.text_metrics import f1
from hwdag_lab.methods.document_retriever import DocumentRetriever
from hwdag_lab.methods.found import Found, Scored, SearchRequest

BESIDE = ("dense@100", "dense@passage+title", "dos-rag", "linear-rag")
"""Systems of the evaluation that are compared unless others are named."""

WINDOW = 3
"""Sentences on each side, the default of LlamaIndex's parser."""

CHILD_CHARACTERS, PARENT_CHARACTERS = 400, 2000
"""The way that LangChain's documentation shows."""

Ranked = Callable[[str], Sequence[Span]]
"""From a question to spans of the document, best first."""


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """A document and the peer's own retriever of it."""

    document: Document
    ranked: Ranked
    nodes: Sequence[Node] = ()


class Peer(DocumentRetriever[Built]):
    """A retriever of another package; `make` gives its ranking of one document."""

    def __init__(self, name: str, make: Callable[[str, Embedder], Ranked], **models: Any) -> None:
        super().__init__(**models)
        self.name = name  # type: ignore[misc]
        self._make = make

    def _build(self, document: Document) -> Built:
        return Built(document, self._make(document.text, self.embedder))

    def _retrieve(self, request: SearchRequest, built: Mapping[str, Built]) -> Found:
        found = []
        for key, one in built.items():
            spans = list(dict.fromkeys(one.ranked(request.question)))
            texts = [one.document.text[span.start : span.end] for span in spans]
            counts = self.reader.count_tokens(texts)
            found += [
                Scored(Node(f"{key}#{span.start}", key, 1, text, "chunk", n, (span,)), 1 / (i + 1))
                for i, (span, text, n) in enumerate(zip(spans, texts, counts, strict=True))
            ]
        return Found(found)


def llama_index_chunks(text: str, embedder: Embedder) -> Ranked:
    """`SentenceSplitter(128, 20)` and a vector index."""
    parsers = import_module("llama_index.core.node_parser")
    return _llama_index(text, embedder, parsers.SentenceSplitter(chunk_size=128, chunk_overlap=20))


def llama_index_window(text: str, embedder: Embedder) -> Ranked:
    """Sentences are searched, and read with those around them."""
    parsers = import_module("llama_index.core.node_parser")
    parser = parsers.SentenceWindowNodeParser.from_defaults(window_size=WINDOW)
    return _llama_index(text, embedder, parser, WINDOW)


def llama_index_embedding(embedder: Embedder) -> Any:
    """Return an embedder as LlamaIndex takes it."""
    embeddings = import_module("llama_index.core.embeddings")

    class Embedding(embeddings.BaseEmbedding):  # type: ignore[misc, name-defined]
        """The embedder of all rows, for LlamaIndex."""

        def _get_query_embedding(self, request: str) -> list[float]:
            return [float(x) for x in embedder.embed_query(request)]

        async def _aget_query_embedding(self, request: str) -> list[float]:
            return self._get_query_embedding(request)

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            return [list(map(float, row)) for row in embedder.embed(texts)]

    return Embedding()


def _llama_index(text: str, embedder: Embedder, parser: Any, window: int = 0) -> Ranked:
    core = import_module("llama_index.core")
    nodes = parser.get_nodes_from_documents([core.Document(text=text)])
    place = {node.node_id: i for i, node in enumerate(nodes)}
    index = core.VectorStoreIndex(nodes, embed_model=llama_index_embedding(embedder))
    retriever = index.as_retriever(similarity_top_k=len(nodes))

    def ranked(question: str) -> list[Span]:
        found = [place[one.node.node_id] for one in retriever.retrieve(question)]
        edges = [(max(0, i - window), min(len(nodes) - 1, i + window)) for i in found]
        return [Span(nodes[a].start_char_idx, nodes[b].end_char_idx) for a, b in edges]

    return ranked


def langchain_parents(text: str, embedder: Embedder) -> Ranked:
    """`ParentDocumentRetriever`: small pieces are searched, the larger ones around them are read."""
    try:
        retrievers = import_module("langchain_classic.retrievers")
    except ImportError:
        retrievers = import_module("langchain.retrievers")
    splitters = import_module("langchain_text_splitters")
    documents = import_module("langchain_core.documents")
    embeddings = import_module("langchain_core.embeddings")
    stores = import_module("langchain_core.stores")
    vectors = import_module("langchain_core.vectorstores")

    class Embedding(embeddings.Embeddings):  # type: ignore[misc, name-defined]
        """The embedder of all rows, for LangChain."""

        def embed_query(self, text: str) -> list[float]:
            return [float(x) for x in embedder.embed_query(text)]

        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [list(map(float, row)) for row in embedder.embed(texts)]

    def splitter(size: int) -> Any:
        return splitters.RecursiveCharacterTextSplitter(
            chunk_size=size, chunk_overlap=0, add_start_index=True
        )

    retriever = retrievers.ParentDocumentRetriever(
        vectorstore=vectors.InMemoryVectorStore(Embedding()),
        docstore=stores.InMemoryStore(),
        child_splitter=splitter(CHILD_CHARACTERS),
        parent_splitter=splitter(PARENT_CHARACTERS),
        search_kwargs={"k": 1 + len(text) // 40},
    )
    retriever.add_documents([documents.Document(page_content=text)])

    def ranked(question: str) -> list[Span]:
        found = retriever.invoke(question)
        starts = [one.metadata["start_index"] for one in found]
        return [
            Span(start, start + len(one.page_content))
            for start, one in zip(starts, found, strict=True)
        ]

    return ranked


PEERS: Mapping[str, Callable[[str, Embedder], Ranked]] = {
    "llama-index 128/20": llama_index_chunks,
    "llama-index window": llama_index_window,
    "langchain parents": langchain_parents,
}


@dataclass
class Row:
    """The measured values of one system, one per question."""

    tokens: list[float] = field(default_factory=list)
    touched: list[float] = field(default_factory=list)
    half: list[float] = field(default_factory=list)
    f1: list[float] = field(default_factory=list)

    def line(self) -> str:
        """Means, and the 95 % interval of the half covered."""
        answers = f"{np.mean(self.f1):6.3f}" if self.f1 else "     -"
        half = bootstrap([value for value in self.half if np.isfinite(value)])
        return f"{np.mean(self.tokens):7.0f} {np.nanmean(self.touched):8.3f} {half!s:>22} {answers}"


def main() -> None:
    """Print one line per peer and system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="JSONL of hwdag_lab.eval")
    parser.add_argument("--limit", type=int, default=20, help="documents")
    parser.add_argument("--questions", type=int, default=1, help="of every document")
    parser.add_argument("--budget", type=int, default=512, help="node tokens")
    parser.add_argument("--systems", nargs="*", default=list(BESIDE), help="of the evaluation")
    parser.add_argument("--answers", action="store_true", help="let the reader answer, too")
    parser.add_argument("--max-new-tokens", type=int, default=16)
    parser.add_argument("--reader", help="hub name or path (default: the embedded model)")
    options = parser.parse_args()
    models = load_models(reader=options.reader)
    config = SearchConfig(token_budget=options.budget)
    makers = _makers(models, options.systems)
    rows = {name: Row() for name in makers}
    for record in islice(read_records(options.data), options.limit):
        made = {name: make() for name, make in makers.items()}
        for retriever in made.values():
            retriever.insert([Document(record.id, record.text, record.title)])
        for question in record.questions[: options.questions]:
            for name, retriever in made.items():
                _measure(
                    rows[name],
                    retriever,
                    question,
                    config,
                    options.max_new_tokens * options.answers,
                )
    count = len(next(iter(rows.values())).tokens)
    print(f"{options.data.stem}, {count} questions, {options.budget} tokens, {models.reader.name}")
    print(f"{'system':20}  tokens  touched            half covered     F1")
    for name, row in rows.items():
        print(f"{name:20} {row.line()}")


def _makers(models: RunModels, names: Sequence[str]) -> dict[str, Callable[[], Retriever]]:
    """Return the factory of each row's retriever; peers that cannot be made are reported and left out."""
    found: dict[str, Callable[[], Retriever]] = {}
    for name, make in PEERS.items():
        try:
            make("A sentence to try it.", models.embedder)
        except ImportError as error:
            print(f"{name} is left out: {error}")
            continue
        found[name] = lambda name=name, make=make: Peer(  # type: ignore[misc]
            name, make, reader=models.reader, embedder=models.embedder
        )
    for system in systems(names) if names else ():
        found[system.name] = lambda system=system: system.make(models)  # type: ignore[misc]
    return found


def _measure(
    row: Row, retriever: Retriever, question: Question, config: SearchConfig, length: int
) -> None:
    found = retriever.search(question.text, config=config)
    spans = [span for step in found.steps for span in step.node.sources]
    scores = evidence_scores(spans, question)
    row.tokens.append(found.context_tokens)
    row.touched.append(scores.get("paragraph_touched", float("nan")))
    row.half.append(scores.get("paragraph_half", float("nan")))
    if length:
        text = retriever.answer(question.text, config=config, max_new_tokens=length).text
        row.f1.append(f1(text, question.answers))


if __name__ == "__main__":
    main()
