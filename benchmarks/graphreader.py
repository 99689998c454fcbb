"""Measure GraphReader: function calls as in its Table 8, graphs as in its Table 9.

With the embedded model (which takes most decisions by default, and the table says how many):

    python benchmarks/graphreader.py ../shared/data/dev/hotpotqa.jsonl --limit 5

and sooner done, with shorter replies and fewer paths:

    python benchmarks/graphreader.py ../shared/data/dev/hotpotqa.jsonl --limit 2 --config
        '{"chunk_tokens": 400, "initial_nodes": 2, "reply_tokens": 64}'

With a model that follows instructions, on any server with OpenAI's API:

    python benchmarks/graphreader.py DATA.jsonl --limit 200 --writer MODEL --writer-url URL

Every question is explored once; nothing is answered. With `-o FILE` every finished call is kept, so
that a run that is killed and repeated continues where it was.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from hwdag.lm.base import Reader, Writer
from hwdag.lm.default import load_reader
from hwdag.scope import Scope
from hwdag.store.calls import CallCache
from hwdag.types import Document
from hwdag_lab.eval.data import by_dataset, records_of, sample
from hwdag_lab.eval.models import CachedReader, CachedWriter
from hwdag_lab.eval.schema import Record
from hwdag_lab.methods.graphreader import Exploration, GraphReaderConfig, GraphReaderRetriever
from hwdag_lab.methods.graphreader.graph import FactGraph

STAGES = {
    "facts": ("read_chunk", "stop_and_read_neighbor"),
    "chunk": ("search_more", "read_previous_chunk", "read_subsequent_chunk", "termination"),
    "neighbors": ("read_neighbor_node", "termination"),
}
"""Rows of Table 8."""


def main() -> None:
    """Explore a sample of the questions of every data set, and print both tables."""
    options = parsed()
    config = GraphReaderConfig(**json.loads(options.config))
    reader: Reader = load_reader(options.reader)
    writer = writer_of(options)
    if options.output is not None:
        calls = CallCache.open(options.output)
        reader = CachedReader(reader, calls)
        writer = writer and CachedWriter(writer, calls)
    retriever = GraphReaderRetriever(reader=reader, writer=writer, config=config)
    records = sample(records_of(options.data), limit=options.limit, seed=options.seed)
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, writer {retriever.writer.name}, embedder "
        f"{retriever.embedder.name}, {config}, {platform.processor() or platform.machine()}"
    )
    for dataset, group in by_dataset(records).items():
        explored, graphs = explore(retriever, group, graphs_only=options.graphs_only)
        called = calls_table(explored) if explored else ()
        print("\n".join([f"\n{dataset}", *called, *graphs_table(graphs)]), flush=True)


def parsed() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path, help="JSONL of `hwdag convert`, or folders")
    parser.add_argument("--limit", type=int, default=5, help="questions per data set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--config", default="{}", help="JSON of a GraphReaderConfig")
    parser.add_argument("--graphs-only", action="store_true", help="build, explore nothing")
    parser.add_argument("--reader", help="a local model (default: the embedded one)")
    parser.add_argument("--writer", metavar="MODEL", help="of a server with OpenAI's API")
    parser.add_argument("--writer-url", metavar="URL")
    parser.add_argument("-o", "--output", type=Path, help="file that keeps finished calls")
    return parser.parse_args()


def writer_of(options: argparse.Namespace) -> Writer | None:
    """Return the server, if one was named."""
    if options.writer is None:
        return None
    from hwdag.lm.openai_compatible import OpenAIWriter

    return OpenAIWriter(options.writer, base_url=options.writer_url)


def explore(
    retriever: GraphReaderRetriever, records: Sequence[Record], *, graphs_only: bool
) -> tuple[list[Exploration], list[FactGraph]]:
    """Build each document and explore its questions; a document is dropped before the next one."""
    explored, graphs = [], []
    for record in records:
        report = retriever.insert([Document(record.id, record.text, record.title)])
        print(f"{record.id}: {report.nodes} nodes; {'; '.join(report.notes)}", flush=True)
        graphs.append(retriever.graphs[record.id])
        for question in () if graphs_only else record.questions:
            explored.append(retriever.explore(question.text, scope=Scope([record.id])))
            print(f"{question.id}: {'; '.join(explored[-1].notes)}", flush=True)
        retriever.delete(record.id)
    return explored, graphs


def calls_table(explored: Sequence[Exploration]) -> Iterator[str]:
    """Table 8, and the cost of the calls."""
    paths = [path for one in explored for path in one.paths]
    calls = [call for path in paths for call in path.calls]
    n, stages = len(explored), Counter(call.stage for call in calls)
    functions = Counter((call.stage, call.function) for call in calls)
    each = len(calls) / max(1, len(paths))
    yield f"\nFunction calls: {n} questions, {len(paths)} paths, {each:.1f} per path\n"
    yield "| stage | % of calls | function | % of stage |"
    yield "| :--- | ---: | :--- | ---: |"
    for stage, names in STAGES.items():
        share = 100 * stages[stage] / max(1, len(calls))
        for name in names:
            part = 100 * functions[stage, name] / max(1, stages[stage])
            yield f"| {stage} | {share:.1f} | {name} | {part:.1f} |"
    tokens = sum(one.usage.tokens for one in explored) / n
    defaults = sum(call.is_default for call in calls) / max(1, len(calls))
    yield (
        f"\n{100 * defaults:.0f} % of the calls by default; per question "
        f"{sum(one.requests for one in explored) / n:.1f} prompts, of which "
        f"{sum(one.retries for one in explored) / n:.1f} retries, and {tokens:.0f} tokens"
    )


def graphs_table(graphs: Sequence[FactGraph]) -> Iterator[str]:
    """Table 9: means over documents of the mean, and of the largest, of each graph."""
    neighbors = [[len(one.neighbors(i)) for i in range(len(one.elements))] for one in graphs]
    facts = [list(map(len, one.facts_of)) for one in graphs]
    nodes, total = ([len(one.elements) for one in graphs], [len(one.facts) for one in graphs])
    yield f"\nGraphs: {len(graphs)} documents\n"
    yield "| nodes | most | facts | most | neighbors | most | facts per node | most |"
    yield "| ---: |" + " ---: |" * 7
    yield (
        f"| {fmean(nodes):.1f} | {max(nodes)} | {fmean(total):.1f} | {max(total)} "
        f"| {fmean(map(fmean, neighbors)):.1f} | {fmean(map(max, neighbors)):.1f} "
        f"| {fmean(map(fmean, facts)):.1f} | {fmean(map(max, facts)):.1f} |"
    )


if __name__ == "__main__":
    main()
