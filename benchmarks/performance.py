"""The figures of docs/performance.md: each ratio of two ways to do the same, side by side.

    python benchmarks/performance.py --quick                # 6 minutes of processor time
    python benchmarks/performance.py -o performance.json

The two ways take turns in one process, so that a busy machine slows both; a ratio is the median over
the rounds. Nothing fails: the figures are printed with the aims of the project. The first part compares
with LlamaIndex's own index, over documents of `HWDAG_DATA` or else the pages of this project. The last
part builds and searches a few documents in float32 and in bfloat16; without `HWDAG_DATA` it is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import file_reading
import numpy as np
import torch
from transformers import DynamicCache, GenerationConfig

from hwdag import BuildConfig, HWDAGIndex, SearchConfig
from hwdag.config import HeadList
from hwdag.embedding.default import default_embedder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.embedding.sentence_transformer import CPU_BATCH, SentenceTransformerEmbedder
from hwdag.lm import packing
from hwdag.lm.attention import SpanRequest
from hwdag.lm.base import Session
from hwdag.lm.cards import Card
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.text.prompts import SearchPrompts
from hwdag.text.sentences import sentences
from hwdag.types import Answer
from hwdag_lab.eval.data import read_records, sample
from hwdag_lab.eval.evidence import retrieval_scores
from hwdag_lab.eval.text_metrics import f1

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "method.md").read_text("utf-8")
QUESTION = "How many nodes are read, and what ends the walk?"
ANSWER_TOKENS = 12
SHORT_DOCUMENTS, SHORT_WORDS = 16, 150  # a window each


@dataclass(frozen=True)
class Row:
    """A measured figure, and the aim of the project in words."""

    claim: str
    value: float
    aim: str = ""


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    rounds: int = 5
    tokens: int = 1024
    new_tokens: int = 32
    batches: tuple[int, ...] = (1, 4, 16)
    questions: int = 20
    pages: int = file_reading.PAGES


QUICK = Plan(rounds=1, tokens=512, new_tokens=8, batches=(1, 16), questions=2, pages=31)

PARTS = (
    "files",
    "peers",
    "forwards",
    "capture",
    "walk",
    "builds",
    "writing",
    "questions",
    "indexes",
)

AT_ONCE = 16

PROMPT_CHARACTERS = 240
"""Of a prompt that is replied to: short, so that it is decoding that is measured."""


def main() -> None:
    """Measure, print a table, and write JSON on request."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--reader", help="hub name or path (default: the embedded model)")
    parser.add_argument("--device")
    parser.add_argument("--questions", type=int, help="of the comparison of precisions")
    parser.add_argument("-o", "--output", type=Path, help="JSON file to write")
    options = parser.parse_args()
    plan = QUICK if options.quick else Plan()
    if options.questions:
        plan = replace(plan, questions=options.questions)
    readers = {
        dtype: load_reader(options.reader, dtype=dtype, device=options.device)
        for dtype in ("float32", "bfloat16")
        if set(options.only) - {"files"}
    }
    rows = []
    print("| claim | measured | aim |\n|---|---|---|", flush=True)
    for row in figures(readers, plan, options.only):
        rows.append(row)
        print(f"| {row.claim} | {row.value:.3g} | {row.aim} |", flush=True)
    print(about := circumstances(readers.get("float32")))
    if options.output:
        found = about | {"rows": [asdict(row) for row in rows]}
        options.output.write_text(json.dumps(found, indent=2), "utf-8")


def figures(
    readers: dict[str, HuggingFaceLM], plan: Plan, parts: Sequence[str] = PARTS
) -> Iterator[Row]:
    """Yield the figures of some parts, each as soon as it is there."""
    if "files" in parts:
        yield from reading_files(plan)
    if not readers:
        return
    full, half = readers["float32"], readers["bfloat16"]
    data = Path(os.environ.get("HWDAG_DATA") or ROOT / ".." / "shared" / "data")
    if "peers" in parts:
        yield from beside_llama_index(half, plan, data / "dev" / "musique.jsonl")
    if "forwards" in parts:
        yield from precision_of_forwards(full, half, plan)
    for name, part in (
        ("capture", capturing),
        ("walk", walking),
        ("writing", writing),
    ):
        for lm in (full, half) if name in parts else ():
            yield from part(lm, plan)
    if "builds" in parts:
        yield from building(half, plan)
    if "questions" in parts:
        yield from asking(half, plan)
    if "indexes" in parts and (file := data / "dev" / "hotpotqa.jsonl").exists():
        yield from precision_of_indexes(full, half, file, plan.questions)


def reading_files(plan: Plan) -> Iterator[Row]:
    """Compare reading a PDF of a manual with the version that used pdfplumber."""
    rounds = list(file_reading.beside_the_old_version(plan.pages, min(plan.rounds, 3)))
    new, old = rounds[0]
    speeds = [one.pages / one.seconds for one, _ in rounds]
    ratios = [other.seconds / one.seconds for one, other in rounds]
    yield Row(f"PDF of {new.pages} pages, pages/s", statistics.median(speeds))
    yield Row(
        f"the same, speed / version {file_reading.OLD}, which read it with pdfplumber",
        statistics.median(ratios),
        "at least 6",
    )
    yield Row("the same, memory at the peak, MB", new.memory, "at most 400")
    yield Row("the same, characters / those of that version", new.characters / old.characters)


def circumstances(lm: HuggingFaceLM | None) -> dict[str, Any]:
    """Return the command, the model if there is one, the machine and the day."""
    on_cpu = lm is None or lm.model.device.type == "cpu"
    device = _processor() if on_cpu else torch.cuda.get_device_name(lm.model.device)
    return {
        "command": " ".join(["python", *sys.argv]),
        "reader": lm.name if lm else "",
        "machine": f"{device}, {torch.get_num_threads()} threads, torch {torch.__version__}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def clock() -> float:
    """Seconds of the processor if no other thread computes, so that other processes do not count."""
    return time.perf_counter() if torch.cuda.is_available() else time.process_time()


def taking_turns(*ways: Callable[[], object], rounds: int) -> list[list[float]]:
    """Seconds of each way in each round, after one that is not counted."""
    seconds: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds + 1):
        for way, spent in zip(ways, seconds, strict=True):
            began = clock()
            way()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn:
                spent.append(clock() - began)
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Return the median over the rounds."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def tokens_of(lm: HuggingFaceLM, count: int) -> list[int]:
    """Return the first tokens of a text, as often as it takes."""
    ids = lm.codec.encode(TEXT)
    return (ids * (count // len(ids) + 1))[:count]


def beside_llama_index(lm: HuggingFaceLM, plan: Plan, file: Path) -> Iterator[Row]:
    """Build and search as by default, against `VectorStoreIndex` with the same embedder."""
    from llama_index.core import Document as Page
    from llama_index.core import VectorStoreIndex
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.node_parser import SentenceSplitter

    embedder = default_embedder()

    class Same(BaseEmbedding):
        """The default embedder, each text encoded as its model encodes it."""

        def _get_query_embedding(self, query: str) -> list[float]:
            return list(embedder.model.encode_query(query, show_progress_bar=False).tolist())

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return self._get_text_embeddings([text])[0]

        def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
            encode = embedder.model.encode_document
            return list(encode(texts, batch_size=CPU_BATCH, show_progress_bar=False).tolist())

    texts, questions = compared_texts(file, 10 * plan.tokens)

    def ours() -> HWDAGIndex:
        return HWDAGIndex.from_documents(texts, method="evidence", reader=lm, embedder=embedder)

    def theirs() -> VectorStoreIndex:
        cut = SentenceSplitter(chunk_size=256, chunk_overlap=20)
        pages = [Page(text=text) for text in texts]
        return VectorStoreIndex.from_documents(pages, embed_model=Same(), transformations=[cut])

    built = taking_turns(ours, theirs, rounds=plan.rounds)
    words = sum(len(text.split()) for text in texts)
    yield Row("default build, words/s", words / statistics.median(built[0]))
    yield Row("default build, seconds / VectorStoreIndex", ratio(*built), "at most 1.6")
    retriever = theirs().as_retriever()
    alone = SearchConfig(navigator="none")
    with ours() as index:
        spent = [
            taking_turns(
                partial(index.search, question),
                partial(index.search, question, config=alone),
                partial(retriever.retrieve, question),
                rounds=plan.rounds,
            )
            for question in questions
        ]
    default, plain, vectors = ([sample for one in spent for sample in one[way]] for way in range(3))
    yield Row("default search, seconds", statistics.median(default))
    yield Row("default search, seconds / VectorStoreIndex", ratio(default, vectors), "at most 5")
    about = "search without the navigator, seconds / VectorStoreIndex"
    yield Row(about, ratio(plain, vectors), "at most 3")


def compared_texts(file: Path, words: int) -> tuple[list[str], list[str]]:
    """Texts of about this many words with questions about them: of a data set, or our own pages."""
    if file.exists():
        records = islice(read_records(file), max(1, words // 1000))
        found = [(one.text, [question.text for question in one.questions]) for one in records]
    else:
        pages = [page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md"))]
        found = [
            (page[:6000], [f"What about {page.splitlines()[0]}?"])
            for page in pages[: max(1, words // 1000)]
        ]
    return [text for text, _ in found], [one for _, asked in found for one in asked][:10]


def precision_of_forwards(full: HuggingFaceLM, half: HuggingFaceLM, plan: Plan) -> Iterator[Row]:
    """Yield a prefill, and a step of 20 tokens on top of it, in bfloat16 and in float32."""
    ids = tokens_of(full, plan.tokens)

    def prefill(lm: HuggingFaceLM) -> torch.Tensor:
        return lm.engine.logits([ids], last=1)

    found = taking_turns(lambda: prefill(full), lambda: prefill(half), rounds=plan.rounds)
    yield Row("prefill, tokens/s, float32", plan.tokens / statistics.median(found[0]))
    yield Row("prefill, tokens/s, bfloat16", plan.tokens / statistics.median(found[1]))
    yield Row("prefill, speed of bfloat16 / float32", ratio(*found), "above 1 where auto takes it")

    caches = {lm: DynamicCache() for lm in (full, half)}
    for lm, cache in caches.items():
        lm.engine.forward(ids, cache)

    def step(lm: HuggingFaceLM) -> None:
        lm.engine.forward(ids[:20], caches[lm])
        caches[lm].crop(-20)

    found = taking_turns(lambda: step(full), lambda: step(half), rounds=2 * plan.rounds)
    yield Row("step of 20 tokens, speed of bfloat16 / float32", ratio(*found))
    rows = min(256, plan.tokens)
    first, second = (lm.engine.logits([ids], last=rows)[0] for lm in (full, half))
    yield Row(
        f"likeliest token of {rows} positions, share that agrees",
        float((first.argmax(1) == second.argmax(1)).double().mean()),
    )


def capturing(lm: HuggingFaceLM, plan: Plan) -> Iterator[Row]:
    """Yield a forward that captures attention against one that does not."""
    ids = tokens_of(lm, plan.tokens)
    middle = plan.tokens // 2
    keys = [(i, i + middle // 8) for i in range(0, middle, middle // 8)]
    request = SpanRequest([(middle, plan.tokens)], keys)
    walked = SpanRequest([(32, plan.tokens)], [(8, 24)])  # nodes to a question

    def read(heads: HeadList | None, request: SpanRequest = request) -> None:
        lm.engine.forward(ids, DynamicCache(), request=request, heads=heads)

    ways = [
        lambda: lm.engine.forward(ids, DynamicCache()),
        lambda: read(lm.known_heads),
        lambda: lm.engine.attention([ids], [request], lm.known_heads),
        lambda: read(None),
        lambda: read(None, walked),
    ]
    plain, listed, cut, every, few = taking_turns(*ways, rounds=plan.rounds)
    about = f"captured / plain forward, {lm.dtype}"
    yield Row(f"{about}, heads of the list", ratio(listed, plain), "at most 1.1")
    yield Row(f"{about}, heads of the list, nothing above them", ratio(cut, plain), "at most 1")
    yield Row(f"{about}, all heads", ratio(every, plain), "at most 1.3")
    yield Row(f"{about}, all heads, to a question", ratio(few, plain), "at most 1.1")


def walking(lm: HuggingFaceLM, plan: Plan) -> Iterator[Row]:
    """Nodes read as walks read them, against one prefill of the same context."""
    nodes, room = list[str](), plan.tokens
    for span in sentences(TEXT):
        text = TEXT[span.start : span.end].strip()
        if text and (room := room - lm.count_tokens([text])[0]) > 0:
            nodes.append(text)

    def session() -> Session:
        return lm.session(
            QUESTION, prompts=SearchPrompts(), heads="auto", max_new_tokens=ANSWER_TOKENS
        )

    def walk(stride: int) -> None:
        reading = session()
        for start in range(0, len(nodes), stride):
            reading.read(nodes[start : start + stride])

    whole, ones, fours = taking_turns(
        lambda: walk(len(nodes)), lambda: walk(1), lambda: walk(4), rounds=plan.rounds
    )
    about = f"walk of {len(nodes)} nodes / one prefill, {lm.dtype}"
    yield Row(f"{about}, one node per forward", ratio(ones, whole))
    yield Row(f"{about}, four nodes per forward", ratio(fours, whole), "at most 1.3")


def building(lm: HuggingFaceLM, plan: Plan) -> Iterator[Row]:
    """Default builds, against batches of 64 texts and edges from attention, as they once were."""
    large = SentenceTransformerEmbedder(default_embedder().model, name="large", batch_size=64)
    text = TEXT[: 12 * plan.tokens]

    def build(embedder: SentenceTransformerEmbedder, **options: Any) -> None:
        config = BuildConfig(points="extractive", **options)
        HWDAGIndex.from_documents([text], reader=lm, embedder=embedder, config=config).close()

    default, padded, attending = taking_turns(
        lambda: build(default_embedder()),
        lambda: build(large),
        lambda: build(large, method="hwdag"),
        rounds=1,
    )
    yield Row("default build, words/s", len(text.split()) / default[0])
    yield Row("default build, speed / batches of 64 texts", ratio(padded, default))
    yield Row(
        f"default build, speed / those and edges from attention, {lm.dtype}",
        ratio(attending, default),
        "at least 3",
    )
    yield from writing_short_documents(lm)


def writing_short_documents(lm: HuggingFaceLM) -> Iterator[Row]:
    """Points of many short documents, which are written together, against one document after the other."""
    words = TEXT.split()
    texts = [
        " ".join(words[at : at + SHORT_WORDS])
        for at in range(0, SHORT_DOCUMENTS * SHORT_WORDS, SHORT_WORDS)
    ]
    writer = lm.with_card(Card(writes=True, judges=False, attends=True))

    def build(*groups: Sequence[str]) -> None:
        with HWDAGIndex(reader=writer, embedder=HashingEmbedder()) as index:
            for group in groups:
                index.insert(group)

    together, alone = taking_turns(
        lambda: build(texts), lambda: build(*([text] for text in texts)), rounds=1
    )
    count = f"{SHORT_DOCUMENTS} documents of {SHORT_WORDS} words"
    yield Row(
        f"written points of {count}, words/s, {lm.dtype}", len(texts) * SHORT_WORDS / together[0]
    )
    yield Row(f"the same, speed / one document after the other, {lm.dtype}", ratio(alone, together))


def writing(lm: HuggingFaceLM, plan: Plan) -> Iterator[Row]:
    """Batches of replies: tokens/s against those of one, and against bare `generate`."""
    starts = range(0, 40 * max(plan.batches), 40)
    prompts = [f"Summarise in points:\n{TEXT[at : at + PROMPT_CHARACTERS]}" for at in starts]
    rows = [lm.codec.encode(prompt) for prompt in prompts]

    def rate(size: int) -> float:
        began = clock()
        replies, _ = lm.engine.generate(rows[:size], max_new_tokens=plan.new_tokens)
        return sum(map(len, replies)) / (clock() - began)

    rates = [[rate(size) for size in plan.batches] for _ in range(plan.rounds + 1)][1:]
    for size, several in list(zip(plan.batches, zip(*rates, strict=True), strict=True))[1:]:
        alone = [row[0] for row in rates]
        yield Row(f"replies, tokens/s, batch of {size}, {lm.dtype}", statistics.median(several))
        claim = f"replies, tokens/s, batch of {size} / one by one, {lm.dtype}"
        yield Row(claim, ratio(several, alone), "at least 4 at 16" if size == 16 else "")

    size = min(16, max(plan.batches))
    written = [lm.turns.head + row + lm.turns.summary_reply for row in rows[:size]]
    longest, device = max(map(len, written)), lm.model.device
    ids = torch.tensor([[0] * (longest - len(row)) + row for row in written], device=device)
    lengths = torch.tensor([[len(row)] for row in written], device=device)
    mask = (torch.arange(longest, device=device) >= longest - lengths).long()
    settings = GenerationConfig(
        max_new_tokens=plan.new_tokens,
        do_sample=False,
        eos_token_id=sorted(lm.engine.end_tokens) or None,
        pad_token_id=0,
    )

    def bare() -> None:
        with torch.inference_mode():
            lm.model.generate(ids, attention_mask=mask, generation_config=settings)  # type: ignore[operator]

    def write() -> None:
        lm.write(prompts[:size], max_new_tokens=plan.new_tokens)

    found = taking_turns(bare, write, rounds=plan.rounds)
    claim = f"`write` of {size}, speed / bare `generate`, {lm.dtype}"
    yield Row(claim, ratio(*found), "at least 0.9")


def asking(lm: HuggingFaceLM, plan: Plan) -> Iterator[Row]:
    """Many questions at once, each in a thread of its own, against one after the other."""
    yield from sharing(lm, plan)
    picked = BuildConfig(points="extractive")
    index = HWDAGIndex.from_documents([TEXT], reader=lm, embedder=default_embedder(), config=picked)
    about = [TEXT[span.start : span.end].split() for span in sentences(TEXT)]
    questions = [f"What about {' '.join(words[-4:])}?" for words in about if len(words) > 8]
    config = SearchConfig(token_budget=plan.tokens)

    def ask(question: str) -> Answer:
        return index.answer(question, config=config, max_new_tokens=plan.new_tokens)

    def alone() -> list[Answer]:
        return [ask(question) for question in questions[:AT_ONCE]]

    def together() -> list[Answer]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(ask, questions[:AT_ONCE]))

    ask(questions[0])
    seconds, found, peaks = [], [], []
    for way in (alone, together):
        began = clock()
        found.append(way())
        seconds.append(clock() - began)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    index.close()
    about_them = f"{AT_ONCE} questions at once, {lm.dtype}"
    yield Row(f"one question after the other, seconds each, {lm.dtype}", seconds[0] / AT_ONCE)
    yield Row(f"{about_them}: questions/s / one by one", seconds[0] / seconds[1], "at least 4")
    pairs = list(zip(*found, strict=True))
    same = [nodes_of(one) == nodes_of(other) for one, other in pairs]
    yield Row(f"{about_them}: same nodes, share", float(np.mean(same)), "1 in float32")
    same = [one.text == other.text for one, other in pairs]
    yield Row(f"{about_them}: same answer, share", float(np.mean(same)), "1 in float32")
    yield Row(f"{about_them}: memory beyond that of one, MB at the peak", peaks[1] - peaks[0])


def sharing(lm: HuggingFaceLM, plan: Plan) -> Iterator[Row]:
    """New tokens of many sequences in one forward against a forward each."""
    ids, caches = tokens_of(lm, plan.tokens), [DynamicCache() for _ in range(AT_ONCE)]
    for cache in caches:
        packing.packed_forward(lm.model, [packing.SequenceRow(ids, cache)])

    def step(new: int, size: int) -> None:
        for start in range(0, AT_ONCE, size):
            rows = [packing.SequenceRow(ids[:new], cache) for cache in caches[start : start + size]]
            packing.packed_forward(lm.model, rows)
        for cache in caches:
            cache.crop(-new)

    for new in (1, 120):
        found = taking_turns(
            lambda new=new: step(new, 1), lambda new=new: step(new, AT_ONCE), rounds=plan.rounds
        )
        about = f"{new} new tokens of {AT_ONCE} sequences of {len(ids)}, {lm.dtype}"
        yield Row(f"{about}: one forward, speed / a forward each", ratio(*found))


def nodes_of(answer: Answer) -> list[str]:
    """Return the nodes that were read, in order."""
    return [step.node.id for step in answer.retrieval.steps]


def precision_of_indexes(
    full: HuggingFaceLM, half: HuggingFaceLM, file: Path, limit: int
) -> Iterator[Row]:
    """Yield the same documents built, with edges from attention, and searched in both precisions."""
    # why such patience: if p_yes is read and stops nothing, both walk to the budget
    walk = {"confidence": 0.5, "patience": 1000, "token_budget": 512}
    config = SearchConfig(**walk)
    build = {
        "embedder": default_embedder(),
        "config": BuildConfig(method="hwdag"),
    }
    moved, tops, p_yes, decisions, same = ([] for _ in range(5))
    scores: dict[str, list[float]] = {}
    seconds: dict[str, float] = {"float32": 0.0, "bfloat16": 0.0}
    words = 0
    for record in sample(read_records(file), limit=limit, seed=0):
        question = record.questions[0]
        words += len(record.text.split())
        found, edges = [], []
        for lm in (full, half):
            began = clock()
            with closing(HWDAGIndex.from_documents(record.documents, reader=lm, **build)) as index:
                seconds[lm.dtype] += clock() - began
                edges.append([graph.edges for graph in index.graphs.values()])
                answer = index.answer(question.text, config=config, max_new_tokens=ANSWER_TOKENS)
            found.append(answer.retrieval.steps)
            nodes = [step.node for step in answer.retrieval.steps]
            kept = retrieval_scores(nodes, record, question)
            for name in ("paragraph_touched", "paragraph_half"):
                scores.setdefault(f"{name}, {lm.dtype}", []).append(kept[name])
            scores.setdefault(f"answer F1, {lm.dtype}", []).append(
                f1(answer.text, question.answers)
            )
        for one, other in zip(*edges, strict=True):
            moved += (abs(one - other).sum(axis=1) / 2).ravel().tolist()[_first_row(one) :]
            tops += [
                one[[i]].toarray().argmax() == other[[i]].toarray().argmax()
                for i in range(_first_row(one), one.shape[0])
            ]
        ids = [[step.node.id for step in steps] for steps in found]
        same.append(len(set(ids[0]) & set(ids[1])) / max(1, len(set(ids[0]) | set(ids[1]))))
        for one, other in zip(*found, strict=False):
            if one.node.id != other.node.id:
                break  # from here on they have read different texts
            if one.p_yes is not None and other.p_yes is not None:
                p_yes.append(abs(one.p_yes - other.p_yes))
                decisions.append((one.p_yes > full.confidence) == (other.p_yes > half.confidence))
    about = f"bfloat16 against float32, {len(same)} questions"
    yield Row(f"{about}: weight of a node's edges that moved, mean", float(np.mean(moved)))
    yield Row(f"{about}: heaviest edge is the same, share", float(np.mean(tops)))
    yield Row(f"{about}: difference of p_yes, mean of {len(p_yes)}", float(np.mean(p_yes)))
    yield Row(f"{about}: difference of p_yes, largest", float(np.max(p_yes)))
    yield Row(f"{about}: same decision to stop, share", float(np.mean(decisions)))
    yield Row(f"{about}: nodes that both visited, share of all visited", float(np.mean(same)))
    for name, values in scores.items():
        yield Row(f"{about}: {name}", float(np.mean(values)))
    for dtype, spent in seconds.items():
        yield Row(f"build with edges from attention, words/s, {dtype}", words / spent)


def _first_row(edges: Any) -> int:
    """Return the first node that has edges; leaves come before it and have none."""
    counts = np.diff(edges.indptr)
    return int(np.argmax(counts > 0)) if counts.any() else edges.shape[0]


if __name__ == "__main__":
    main()
