"""Which heads retrieve: single heads, mean, lists, null question, question first or last; edges.

Heads are found on some training questions and judged on others of the same sets. A second part
replays windows with points whose source is known, as a build does: sentences of the passages, word
for word, and questions with their answers. Run, and run again to continue:

    python benchmarks/heads.py ../shared/data/train/{hotpotqa,squad,musique,fairytaleqa}.jsonl
        --limit 15 --dtype bfloat16 -o build/heads

Every question is one line of a file in the folder; `--minutes` ends a run early, `--report` reads
the finished rows. A ranking is judged by R-precision: the share of gold passages among the first g,
where g is their number; an edge by whether the heaviest one leads to the source.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from hwdag.arrays import Floats
from hwdag.config import HeadList
from hwdag.embedding.default import default_embedder
from hwdag.lm.base import ReplayRequest
from hwdag.lm.default import BASE_MODEL, load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import ReplayLayout
from hwdag.text.prompts import SummaryPrompt
from hwdag.text.sentences import sentences
from hwdag.types import Span
from hwdag_lab.eval.data import records_of
from hwdag_lab.eval.schema import Record
from hwdag_lab.eval.statistics import bootstrap, paired_bootstrap
from hwdag_lab.heads import AttentionScoring, Example, capture_ranking, read_examples
from hwdag_lab.heads.capture import Order, every_head
from hwdag_lab.heads.detection import Criterion, detection_scoring, head_values, ndcg

Line = dict[str, Any]

ORDERS: tuple[Order, ...] = ("first", "last")
CRITERIA: tuple[Criterion, ...] = ("qrhead", "ndcg", "core")
TOPS = (4, 8, 16)


def main() -> None:
    """Make the missing measurements, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", type=Path, help="JSONL of hwdag_lab.eval")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    parser.add_argument("--limit", type=int, default=15, help="questions per set, found and judged")
    parser.add_argument("--passages", type=int, default=6, help="of a question, gold ones included")
    parser.add_argument("--words", type=int, default=70, help="of a passage, the rest is cut off")
    parser.add_argument("--windows", type=int, default=8, help="per set, for the edges")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--reader", default=BASE_MODEL)
    parser.add_argument("--dtype")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if not options.report:
        _measure(options)
    report(options.output)


def _measure(options: argparse.Namespace) -> None:
    lm = load_reader(options.reader, dtype=options.dtype)
    _check_model(options.output, lm)
    found = read_examples(options.data, limit=2 * options.limit, seed=1)
    by_set: dict[str, list[Example]] = {}
    for example in found:
        short = _shorter(example, options.passages, options.words)
        by_set.setdefault(example.dataset, []).append(short)
    # sets take turns, so that a run that ends early has something of each
    turns = [e for turn in zip_longest(*by_set.values()) for e in turn if e is not None]
    seen, held = turns[: len(turns) // 2], turns[len(turns) // 2 :]
    end = time.monotonic() + 60 * options.minutes
    path = options.output / "detect.jsonl"
    if not _all(seen, path, lambda e: detected(lm, e), end):
        return
    lists = lists_of(_lines(path), every_head(lm)) | _shipped(lm)
    (options.output / "lists.json").write_text(json.dumps(lists))
    if not _all(held, options.output / "judge.jsonl", lambda e: judged(lm, e, lists), end):
        return
    records = _windows(options.data, options.windows, options.passages)
    _all(records, options.output / "edges.jsonl", lambda r: edges(lm, r, lists), end)


def _check_model(folder: Path, lm: HuggingFaceLM) -> None:
    """Store the facts on the model for the report; a folder is of one model."""
    path = folder / "model.json"
    model = {
        "name": lm.name,
        "dtype": str(lm.model.dtype),
        "heads_per_layer": lm.engine.shape.heads,
    }
    if path.exists() and json.loads(path.read_text("utf-8")) != model:
        raise SystemExit(f"{folder} is of another model or dtype; name another folder")
    path.write_text(json.dumps(model), "utf-8")


def _all(items: Sequence[Any], path: Path, measure: Callable[[Any], Line], end: float) -> bool:
    """Append a line for every item that has none; whether all have one when time is up."""
    done = {line["key"] for line in _lines(path)}
    with path.open("a", encoding="utf-8") as file:
        for i, item in enumerate(items):
            if (key := _key(item)) in done:
                continue
            if time.monotonic() > end:
                print(f"{path.name}: {i} of {len(items)}; the same command goes on from there")
                return False
            file.write(json.dumps({"key": key, **measure(item)}) + "\n")
            file.flush()
    return True


def _lines(path: Path) -> list[Line]:
    return (
        [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    )


def _key(item: Example | Record) -> str:
    is_record = isinstance(item, Record)
    return f"{item.dataset}/{item.id}" if is_record else f"{item.group}: {item.question}"


def _shorter(example: Example, count: int, words: int) -> Example:
    """Return all gold passages and some others, in their order, and only the first words of each."""
    # why drawn: were they the first ones, gold would follow them, and the last passage win
    order = sorted(
        example.negatives, key=lambda i: blake2b(f"{i} {example.question}".encode()).digest()
    )
    others = order[: max(1, count - len(example.gold))]
    kept = sorted({*example.gold, *others})
    gold = tuple(i for i, at in enumerate(kept) if at in example.gold)
    passages = tuple(" ".join(example.passages[i].split()[:words]) for i in kept)
    return replace(example, passages=passages, gold=gold)


def detected(lm: HuggingFaceLM, example: Example) -> Line:
    """Return each head's criteria, for both orders, with and without subtracting the null question."""
    line: Line = {}
    for order in ORDERS:
        subtract = None if order == "last" else False
        captured = capture_ranking(
            lm, example.question, example.passages, order=order, null=order == "last"
        )
        for criterion in CRITERIA:
            scores = detection_scoring(criterion, order, subtract).per_head(captured)
            values = head_values(scores, example, criterion)
            line[f"{criterion}/{order}"] = [round(v, 6) for v in values.tolist()]
    return line


def lists_of(lines: Sequence[Line], every: HeadList) -> dict[str, HeadList]:
    """Return the best heads by every criterion and order."""
    found: dict[str, HeadList] = {}
    for name in (f"{criterion}/{order}" for criterion in CRITERIA for order in ORDERS):
        means = np.mean([line[name] for line in lines], axis=0)
        ranked = sorted(zip(every, means.tolist(), strict=True), key=lambda x: (-x[1], x[0]))
        for top in TOPS:
            found[f"{name}/{top}"] = tuple(pair for pair, _ in ranked[:top])
    return found


def _shipped(lm: HuggingFaceLM) -> dict[str, HeadList]:
    known = lm.known_heads
    return {} if known is None else {f"shipped/{order}/{len(known)}": known for order in ORDERS}


def judged(lm: HuggingFaceLM, example: Example, lists: Mapping[str, HeadList]) -> Line:
    """R-precision of every head alone, and of every scoring of a few."""
    line: Line = {"dataset": example.dataset, "group": example.group}
    for order in ORDERS:
        captured = capture_ranking(lm, example.question, example.passages, order=order)
        for null in ("none", "subtract"):
            base = _scoring(order, null)
            alone = base.per_head(captured)
            line[f"heads/{order}/{null}"] = _rounded(r_precision(alone, example.gold))
            if null == "subtract":
                line[f"ndcg/{order}"] = _rounded(ndcg(alone, example.gold))
            rows = {f"all/{order}/all": every_head(lm), **lists}
            for name, pairs in rows.items():
                if name.split("/")[1] == order:
                    scores = replace(base, heads=pairs).scores(captured)
                    line[f"{name}/{null}"] = _one(scores, example)
        for preset in ("garlic", "pecan", "icr"):
            scoring = AttentionScoring.preset(preset)
            if scoring.order == order:
                line[f"preset/{preset}"] = _one(scoring.scores(captured), example)
        if order == "last":
            narrow = AttentionScoring(heads=lists["core/last/8"])
            line["question/last/core/8"] = _one(narrow.scores(captured), example)
    vectors = default_embedder().embed([*example.passages, example.question])
    line["embedder"] = _one(vectors[:-1] @ vectors[-1], example)
    return line


def _scoring(order: Order, null: Any) -> AttentionScoring:
    """Read with the question first, as the walk does, and last, as QRHead does."""
    if order == "first":
        return AttentionScoring.preset("pecan", null_question=null)
    return AttentionScoring.preset("qrhead", heads="all", null_question=null)


def r_precision(scores: Floats, gold: Sequence[int]) -> Floats:
    """Share of gold among the first g of every row, (heads, passages) -> (heads,)."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, : len(gold)]
    found: Floats = np.isin(best, gold).mean(axis=1)
    return found


def _one(scores: Any, example: Example) -> float:
    return float(r_precision(np.asarray(scores, np.float64)[None], example.gold)[0])


def _rounded(values: Floats) -> list[float]:
    return [round(v, 4) for v in values.tolist()]


def _windows(paths: Sequence[Path], limit: int, passages: int) -> list[Record]:
    """Records with few paragraphs, and with the questions about them."""
    found: list[Record] = []
    for path in paths:
        fitting = [r for r in records_of([path]) if len(r.paragraphs) >= 3]
        for record in fitting[:limit]:
            kept = record.paragraphs[:passages]
            spans = {p.span for p in kept}
            asked = tuple(q for q in record.questions if q.evidence and spans >= set(q.evidence))
            found.append(replace(record, paragraphs=kept, questions=asked[:passages]))
    return found


def edges(lm: HuggingFaceLM, record: Record, lists: Mapping[str, HeadList]) -> Line:
    """Replay one window: per kind of point and choice of heads, hits and shares of every point."""
    texts = [record.text[p.span.start : p.span.end] for p in record.paragraphs]
    kinds, points, sources = [], [], []
    for i, text in enumerate(texts):
        longest = max(sentences(text), key=len)
        kinds.append("sentence")
        points.append(text[longest.start : longest.end])
        sources.append({i})
    for question in record.questions:
        kinds.append("answer")
        points.append(f"{question.text} {question.answers[0]}")
        sources.append({i for i, p in enumerate(record.paragraphs) if p.span in question.evidence})
    attention = _replayed(lm, texts, points)  # (heads, points, passages)
    every = every_head(lm)
    row = {pair: i for i, pair in enumerate(every)}
    line: Line = {"kinds": kinds, "group": f"{record.dataset}/{record.id}"}
    line["alone"] = {
        kind: _rounded(_hits(attention, sources, [k == kind for k in kinds]))
        for kind in sorted(set(kinds))
    }
    for name, pairs in {"all/-/all": every, **lists}.items():
        mean = attention[[row[tuple(pair)] for pair in pairs]].mean(axis=0)
        centred = np.maximum(mean - mean.mean(axis=0), 0.0)
        for label, weights in (("plain", mean), ("centred", centred)):
            shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
            line[f"{name}/{label}"] = [
                [
                    float(shares[p].argmax() in source),
                    round(float(shares[p, sorted(source)].sum()), 4),
                ]
                for p, source in enumerate(sources)
            ]
    return line


def _replayed(lm: HuggingFaceLM, texts: Sequence[str], points: Sequence[str]) -> Floats:
    """Attention of every point to every passage, by head, each point alone after the window."""
    before, after = SummaryPrompt().cut("same")
    units = tuple((Span(0, len(text)),) for text in texts)
    request = ReplayRequest(before, tuple(texts), after, tuple(points), units)
    layout = ReplayLayout(lm.codec, lm.turns, request)
    captured, _ = lm.engine.attention([layout.ids], [layout.request(0)], None)
    layers = [found[0] for _, found in sorted(captured.per_head.items())]
    return np.concatenate([layer.double().cpu().numpy() for layer in layers])


def _hits(attention: Floats, sources: Sequence[set[int]], chosen: Sequence[bool]) -> Floats:
    """Return how often the heaviest edge of a head leads to the source, (heads,)."""
    best = attention.argmax(axis=2)  # (heads, points)
    hits = [[top in sources[p] for p, top in enumerate(row) if chosen[p]] for row in best.tolist()]
    found: Floats = np.mean(hits, axis=1) if any(chosen) else np.zeros(len(best))
    return found


def report(folder: Path) -> None:
    """Print all tables of the results in the folder."""
    model = json.loads((folder / "model.json").read_text("utf-8"))
    lists = (
        json.loads((folder / "lists.json").read_text()) if (folder / "lists.json").exists() else {}
    )
    for name, pairs in lists.items():
        if name.endswith("/8"):
            print(f"{name:16} {' '.join(f'{layer}-{head}' for layer, head in pairs)}")
    if judge := _lines(folder / "judge.jsonl"):
        _print_rankings(judge)
        _print_heads(judge, model["heads_per_layer"])
    if windows := _lines(folder / "edges.jsonl"):
        _print_edges(windows, model["heads_per_layer"])


def _print_rankings(lines: Sequence[Line]) -> None:
    sets = sorted({line["dataset"] for line in lines})
    print(f"\nR-precision, {len(lines)} questions; difference to the mean over all heads\n")
    groups = [line["group"] for line in lines]
    names = [n for n, v in lines[0].items() if isinstance(v, float)]
    for name in names:
        values = [line[name] for line in lines]
        order = "first" if "first" in name or name in ("preset/garlic", "preset/pecan") else "last"
        base = [line[f"all/{order}/all/none"] for line in lines]
        each = " ".join(
            f"{np.mean([line[name] for line in lines if line['dataset'] == s]):.2f}" for s in sets
        )
        gain = paired_bootstrap(values, base, groups=groups)
        print(f"{name:28} {bootstrap(values, groups=groups)!s:20} {gain!s:32} {each}")
    print("sets:", " ".join(sets))


def _print_heads(lines: Sequence[Line], per_layer: int) -> None:
    groups = [line["group"] for line in lines]
    for order in ORDERS:
        table = np.array([line[f"heads/{order}/subtract"] for line in lines])
        means = table.mean(axis=0)
        ranked = np.argsort(-means, kind="stable")
        print(f"\nsingle heads, question {order}, minus the null question: R-precision")
        for at in [*ranked[:10], *ranked[-5:]]:
            layer, head = divmod(int(at), per_layer)
            print(f"  {layer}-{head:<3} {bootstrap(table[:, at].tolist(), groups=groups)}")
        layers = means.reshape(-1, per_layer)
        print("best of every layer:", " ".join(f"{v:.2f}" for v in layers.max(axis=1)))


def _print_edges(lines: Sequence[Line], per_layer: int) -> None:
    print(f"\nedges of {len(lines)} windows: heaviest edge leads to the source; share of weight")
    for kind in ("sentence", "answer"):
        for name in (n for n, v in lines[0].items() if n.endswith(("/plain", "/centred"))):
            found = list(_points(lines, name, kind))
            if found:
                hits, shares, groups = zip(*found, strict=True)
                print(
                    f"{kind:9} {name:28} {len(hits)} points {bootstrap(hits, groups=groups)} "
                    f"{bootstrap(shares, groups=groups)}"
                )
        alone = np.mean([line["alone"][kind] for line in lines if kind in line["alone"]], axis=0)
        best = np.argsort(-alone, kind="stable")[:10]
        names = (f"{at // per_layer}-{at % per_layer} {alone[at]:.2f}" for at in best)
        print(f"{kind}: best heads {', '.join(names)}; mean of single heads {alone.mean():.2f}")


def _points(lines: Sequence[Line], name: str, kind: str) -> Iterator[tuple[float, float, str]]:
    for line in lines:
        for one, (hit, share) in zip(line["kinds"], line[name], strict=True):
            if one == kind:
                yield hit, share, line["group"]


if __name__ == "__main__":
    main()
