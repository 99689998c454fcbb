"""How often is an answerer right about a person's own documents, with hwdag and with LlamaIndex?

    python benchmarks/own_answers.py --answerer http://localhost:8080/v1 --answerer-model some \
        --documents examples/faq_documents examples/interview_documents -o build/own_answers

The questions of `benchmarks/own_documents.py`, each answered by the same model on a server with OpenAI's
API. `hwdag` finds sentences and reads them with their neighbours, up to `--budget` tokens; `chunks` is
LlamaIndex's `VectorStoreIndex` over the same texts with chunks of 256 tokens, the `--budget` / 256 most
similar ones, and its query engine's prompt; `default` has LlamaIndex's chunks of 1,024 tokens and its two
most similar ones. All have the same embedder and at most 96 new tokens.

A reply is right if its F1 is at least 0.5 or it holds one of the right answers, and it isn't refused. A
question without an answer is right if it is refused: by the words of the reply, or by hwdag's `found`.
The reply of an answerer that hwdag does not count as found is shown after a warning; the last row of the
table counts it as right, too, if it is. A new run continues an old one.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from llama_index.core import Document as LlamaDocument
from llama_index.core import VectorStoreIndex
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.node_parser import SentenceSplitter
from own_documents import FOLLOW_UP, REFUSAL, RIGHT, documents, rated, rows_of
from peers import llama_index_embedding

from hwdag import HWDAGIndex, SearchConfig
from hwdag.embedding.base import Embedder
from hwdag.lm.openai_compatible import OpenAIWriter
from hwdag.types import Document
from hwdag_lab.eval.statistics import bootstrap

REPLY_TOKENS = 96
CHUNK_TOKENS, DEFAULT_TOKENS = 256, 1024

Ask = Callable[[str], tuple[str, bool | None]]
"""Returns the reply to a question, and whether the search found an answer, if it decides that."""


class Served(CustomLLM):
    """The model on the server, for LlamaIndex."""

    model: str
    url: str | None = None

    @property
    def metadata(self) -> LLMMetadata:
        """Room for the prompts of both kinds of chunks."""
        return LLMMetadata(context_window=4096, num_output=REPLY_TOKENS, model_name=self.model)

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **options: Any) -> CompletionResponse:
        """Send a prompt as the message of a user."""
        writer = OpenAIWriter(self.model, base_url=self.url)
        [reply] = writer.write([prompt], max_new_tokens=REPLY_TOKENS)
        return CompletionResponse(text=reply)

    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **options: Any) -> Any:
        """Raise `NotImplementedError`: nothing is streamed here."""
        raise NotImplementedError


def hwdag_asks(index: HWDAGIndex, budget: int, writer: OpenAIWriter) -> Ask:
    """Return a function that asks an index."""

    def ask(question: str) -> tuple[str, bool | None]:
        config = SearchConfig(token_budget=budget)
        answer = index.answer(question, config=config, answerer=writer, max_new_tokens=REPLY_TOKENS)
        return answer.reply, answer.found

    return ask


def llama_index_asks(
    read: Sequence[Document], embedder: Embedder, llm: Served, chunk_tokens: int, top: int
) -> Ask:
    """Return a function that asks LlamaIndex's query engine over vectors."""
    texts = [LlamaDocument(text=one.text, metadata={"title": one.title or one.id}) for one in read]
    splitter = SentenceSplitter(chunk_size=chunk_tokens, chunk_overlap=20)
    nodes = splitter.get_nodes_from_documents(texts)
    index = VectorStoreIndex(nodes, embed_model=llama_index_embedding(embedder))
    engine = index.as_query_engine(llm=llm, similarity_top_k=top)
    return lambda question: (str(engine.query(question)), None)


def scored(question: Mapping[str, Any], reply: str, found: bool | None) -> dict[str, Any]:
    """Return a reply with its F1, and whether it is right."""
    answers = question["answers"]
    row: dict[str, Any] = {"reply": reply, "found": found}
    if not answers:
        is_refused = bool(REFUSAL.search(reply))
        return row | {"right": found is False or is_refused, "right reply": is_refused}
    value, holds = rated(reply, answers)
    is_right = value >= RIGHT or holds
    return row | {"f1": value, "right": found is not False and is_right, "right reply": is_right}


def in_any_order(folders: Sequence[Path]) -> list[tuple[Path, dict[str, Any]]]:
    """Return the questions of all folders, shuffled, so that a part of them is a sample."""
    every = [
        (folder, question)
        for folder in folders
        for question in rows_of(folder / "questions.jsonl")
        if question["kind"] != FOLLOW_UP
    ]
    random.Random(0).shuffle(every)
    return every


def main() -> None:
    """Ask the questions without an answer yet, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answerer", help="address of the server; OpenAI's without it")
    parser.add_argument("--answerer-model", required=True, help="model on that server")
    parser.add_argument("--documents", type=Path, nargs="+", required=True, help="folders")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the rows")
    parser.add_argument("--budget", type=int, default=512, help="tokens of evidence")
    parser.add_argument("--systems", nargs="+", default=["hwdag", "chunks", "default"])
    parser.add_argument("--limit", type=int, help="questions, of all folders together")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "rows.jsonl"
    done = {(row["folder"], row["id"], row["system"]) for row in rows_of(path)}
    writer = OpenAIWriter(options.answerer_model, base_url=options.answerer)
    llm = Served(model=options.answerer_model, url=options.answerer)
    asks = {}
    with ExitStack() as stack:
        for folder in options.documents:
            read = list(documents(folder))
            index = HWDAGIndex.from_documents(read, method="evidence")
            stack.enter_context(index)
            embedder = index.embedder
            asks[folder] = {
                "hwdag": hwdag_asks(index, options.budget, writer),
                "chunks": llama_index_asks(
                    read, embedder, llm, CHUNK_TOKENS, options.budget // CHUNK_TOKENS
                ),
                "default": llama_index_asks(read, embedder, llm, DEFAULT_TOKENS, 2),
            }
        for folder, question in in_any_order(options.documents)[: options.limit]:
            for name in options.systems:
                if (folder.name, question["id"], name) not in done:
                    row = {"folder": folder.name, "id": question["id"], "kind": question["kind"]}
                    said = asks[folder][name](question["question"])
                    row |= {"system": name} | scored(question, *said)
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row, ensure_ascii=False) + "\n")
    print(table(rows_of(path)))


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the share of right answers of each system and folder, and the differences to `hwdag`."""
    systems = list(dict.fromkeys(row["system"] for row in rows))
    right = {(row["folder"], row["id"], row["system"]): float(row["right"]) for row in rows}
    names = dict.fromkeys((row["folder"], row["id"]) for row in rows)
    every = [name for name in names if all((*name, system) in right for system in systems)]
    kinds = {(row["folder"], row["id"]): row["kind"] for row in rows}
    lines = [f"| questions | n | {' | '.join(systems)} |", "|---" * (2 + len(systems)) + "|"]
    folders = dict.fromkeys(folder for folder, _ in every)
    for label, some in [
        *((folder, [name for name in every if name[0] == folder]) for folder in folders),
        *((kind, [n for n in every if kinds[n] == kind]) for kind in dict.fromkeys(kinds.values())),
        ("all", every),
    ]:
        means = [np.mean([right[*name, system] for name in some]) for system in systems]
        lines.append(f"| {label} | {len(some)} | {' | '.join(f'{m:.2f}' for m in means)} |")
    replies = {(r["folder"], r["id"], r["system"]): r.get("right reply", r["right"]) for r in rows}
    means = [np.mean([replies[*name, system] for name in every]) for system in systems]
    lines.append(
        f"| all, by the reply alone | {len(every)} | {' | '.join(f'{m:.2f}' for m in means)} |"
    )
    first, *others = systems
    for other in others:
        paired = [right[*name, first] - right[*name, other] for name in every]
        lines.append(f"{first} minus {other}: {bootstrap(paired)}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
