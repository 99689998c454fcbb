"""Examples for the four skills, from documents with questions and gold evidence.

    python -m examples.train_adapter.prepare --data $HWDAG_DATA/train --out data
    python -m examples.train_adapter.prepare --data $HWDAG_DATA/dev --out data --final

Writes `train.jsonl` and `held_out.jsonl` (whole documents kept apart, for tuning), with `--final`
only `final.jsonl` (for the report). Two kinds of lines:

    {"skill": "walk", "dataset", "question", "answers", "nodes": [text], "gold": [number], "missing": [text],
     "where": {text: [heading, first character]}}
    {"skill": "points", "dataset", "lines": [text], "running": bool, "points": [text]}

Nodes are those that the library's walk reads, in its order; `gold` says which of them are needed, `missing`
is needed evidence that was not read, and `where` is the place of both. Lines that are not `running` text are
shown as bullets.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from examples.train_adapter import compose, points
from examples.train_adapter.lines import Json, lines_of
from examples.train_adapter.walked import Walks, merged
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import as_embedder


class Plan(NamedTuple):
    """The share of a set that is taken for training.

    Attributes:
        joined: documents that are read as one, so that there is enough to be distracted by.
        documents: their number, at most.
        questions: of each document.
        windows: for points, of the whole set.
        multi_hop: whether a distractor that holds the answer is no evidence by itself.
    """

    joined: int
    documents: int
    questions: int
    windows: int = 0
    multi_hop: bool = True


SUMMARIES = "summaries"
"""The set of texts that people summarised."""

PLANS = {
    "hotpotqa": Plan(1, 1034, 5, windows=260),
    "hotpotqa_gold": Plan(1, 280, 5),
    "musique": Plan(1, 93, 5, windows=90),
    "ircot_demos": Plan(3, 55, 5),
    "2wikimultihopqa": Plan(1, 100, 5),
    "strategyqa": Plan(3, 66, 5),
    "squad": Plan(1, 97, 40, windows=140, multi_hop=False),
    "fairytaleqa": Plan(1, 60, 10, windows=160, multi_hop=False),
    "narrativeqa_summary": Plan(1, 40, 5, windows=140, multi_hop=False),
    "qasper": Plan(1, 70, 2, windows=60, multi_hop=False),
    "boolq": Plan(1, 60, 4, multi_hop=False),
    SUMMARIES: Plan(1, 0, 0, windows=500),
    "tables": Plan(1, 900, 3),  # `tables` makes them
}
COMPOSED = 3
"""Questions made by rule, of documents that are read as one; no two of a kind."""

HELD_OUT = 0.1
MAX_ANSWER_WORDS = 16


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare all examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of <dataset>.jsonl files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", help="comma-separated; all that are known by default")
    parser.add_argument("--final", action="store_true", help="evaluation data: no training part")
    parser.add_argument("--embedder", help="of the walks; the embedded one by default")
    parser.add_argument(
        "--limit", type=int, default=100, help="held-out examples per set and skill"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    embedder = as_embedder(options.embedder)
    sets = options.sets.split(",") if options.sets else list(PLANS)
    parts: dict[str, list[Json]] = {"train": [], "held_out": []}
    for path in sorted(p for p in options.data.glob("*.jsonl") if p.stem in {*PLANS} & {*sets}):
        plan = PLANS[path.stem]
        for part, documents in split(list(lines_of(path)), options.final).items():
            rng = random.Random(f"{options.seed} {path.stem} {part}")
            rng.shuffle(documents)
            trains = part == "train"
            joined = 1 if options.final else plan.joined
            windows = list(windows_of(path.stem, documents, rng)) if plan.windows else []
            rng.shuffle(windows)
            windows = windows[: plan.windows if trains else options.limit]
            chosen = documents[: plan.documents] if trains or not plan.documents else documents
            found = walks(chosen, plan, joined, embedder, rng, made=not options.final)
            examples = list(found if trains else islice(found, options.limit))
            parts[part] += windows + examples
            print(f"{path.stem:22}{part:10}{len(examples):6} walks {len(windows):6} windows")
    if options.final:
        parts = {"final": parts["held_out"]}
    for part, examples in parts.items():
        random.Random(options.seed).shuffle(examples)
        with (options.out / f"{part}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(e, ensure_ascii=False) + "\n" for e in examples)


def windows_of(name: str, documents: Sequence[Json], rng: random.Random) -> Iterator[Json]:
    """Windows of a set with their points."""
    return points.summarised(documents) if name == SUMMARIES else points.windows(documents, rng)


def split(documents: list[Json], final: bool) -> dict[str, list[Json]]:
    """Training and held-out documents, by a hash of their ids."""
    if final:
        return {"held_out": documents}

    def is_held_out(document: Json) -> bool:
        return int(sha256(document["id"].encode()).hexdigest()[:8], 16) < HELD_OUT * 2**32

    return {
        "train": [d for d in documents if not is_held_out(d)],
        "held_out": [d for d in documents if is_held_out(d)],
    }


def walks(
    documents: Sequence[Json],
    plan: Plan,
    joined: int,
    embedder: Embedder,
    rng: random.Random,
    *,
    made: bool,
) -> Iterator[Json]:
    """Examples of the questions, of their steps, and of questions made by rule."""
    for start in range(0, len(documents), joined):
        some = documents[start : start + joined]
        document = merged([d | {"questions": drawn(d, plan, rng)} for d in some])
        asked = [*document["questions"], *(made_of(document, rng) if made else ())]
        corpus = Walks(document, embedder)
        for question in asked:
            example = corpus.example(question, multi_hop=plan.multi_hop)
            if example is not None:
                yield example


def drawn(document: Json, plan: Plan, rng: random.Random) -> list[Json]:
    """Return as many of its questions as the plan takes."""
    usable = [q for q in document["questions"] if is_usable(q)]
    return rng.sample(usable, min(plan.questions, len(usable)))


def made_of(document: Json, rng: random.Random) -> Iterator[Json]:
    """Steps of its questions, and questions made by rule, no two of a kind."""
    for question in document["questions"]:
        yield from compose.steps(question)
    kinds: Counter[str] = Counter()
    for question in compose.composed(document.get("paragraphs", ()), rng):
        kind = " ".join([question["type"], *question["question"].split()[:1]])
        if not kinds[kind] and kinds.total() < COMPOSED:
            kinds[kind] += 1
            yield question


def is_usable(question: Json) -> bool:
    """Return whether the evidence is all text, and the answer is short and can be found in it."""
    return (
        1 <= len(question["evidence"]) <= 4
        and not question.get("has_float_evidence")
        and question["type"] != "unanswerable"
        and len(question["answers"][0].split()) <= MAX_ANSWER_WORDS
        and question["answers"][0] != "Maybe"
    )


if __name__ == "__main__":
    main()
