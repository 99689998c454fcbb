"""Does the evidence hold an answer, and is the answer right? Rows, coefficients and a report by kind.

    python benchmarks/found.py rows train --limit 50    # a line for each question; continues an old run
    python benchmarks/found.py rows train --pool 25     # the same over one pool of documents
    python benchmarks/found.py rows dev --limit 40
    python benchmarks/found.py fit                      # writes core/hwdag/search/answerability.json
    python benchmarks/found.py report                   # AUC, calibration and coverage on the dev rows

The default reader answers questions over small collections (a few paragraphs, a document, several), over
a pool, and over whole collections: folders of `examples`, conversations, news. In nearly every second one
there is no answer: the gold paragraphs are taken out, the question is one about other documents, an
entity, number or date of it is exchanged for another one of the text ("near miss"), or the data say so.
Rows are kept in the folder that HWDAG_FOUND names, ~/.cache/hwdag-found, with everything that is known of
an answer. `--reader FOLDER` asks another reader, with a folder there for its rows, and reports it by the fit
to the default one.

Evidence *holds* an answer if it has the answer's words, or touches every gold paragraph. An answer is
*right* if its F1 is at least 0.5, or it contains one of the right answers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path

import numpy as np
from own_documents import FOLLOW_UP, NEAR_MISS, UNANSWERABLE, auc, documents, places_of
from own_documents import holds as has_words
from own_documents import rows_of as read_rows
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from hwdag import HWDAGIndex, SearchConfig
from hwdag.answers.abstention import is_short
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import default_embedder
from hwdag.lm.default import DEFAULT_MODEL, load_reader
from hwdag.scope import Scope
from hwdag.search.answerability import (
    COEFFICIENTS,
    Nearness,
    answer_signals,
    evidence_signals,
    logit,
)
from hwdag.search.reading import by_section
from hwdag.text.words import content_words, words
from hwdag.types import Document, Node
from hwdag_lab.eval.data import read_records
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.text_metrics import f1

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data"))
EXAMPLES = Path(__file__).parents[1] / "examples"
CACHE = Path(os.environ.get("HWDAG_FOUND", "~/.cache/hwdag-found")).expanduser()
SETS = {
    "train": (
        *("hotpotqa", "squad", "ircot_demos", "musique", "fairytaleqa", "qasper"),
        *("narrativeqa_summary", "boolq"),
    ),
    "dev": ("hotpotqa", "squad", "2wikimultihopqa", "musique", "fairytaleqa", "qasper"),
}
FOLDERS = {
    "train": ("own_documents", "more_documents", "table_documents"),
    "dev": ("faq_documents", "interview_documents"),
}
WHOLE = {"train": (), "dev": ("locomo", "multihoprag_facts")}
TITLED = (  # whose paragraphs are documents of their own
    *("hotpotqa", "2wikimultihopqa", "musique", "boolq", "multihoprag_facts"),
)
BUDGETS = (128, 256, 512)
VARIANTS = {"gold": 0.5, "removed": 0.2, NEAR_MISS: 0.2, "foreign": 0.1}
SIZES = {"few": 0.45, "own": 0.4, "six": 0.15}
BESIDE = {"few": (1, 3)}  # paragraphs besides the gold ones
NO_ANSWER = ("Unanswerable",)
ENTITY = re.compile(
    r"(?<=[\w,;] )(?:[^\W\d_a-z]\w+(?: (?=[^\W\d_a-z]\w))?)+|\d[\d.,:]*\d|\d"
)  # not at the start of a sentence
PER_RECORD = 3  # questions
GROUP = 6  # records of a collection, at most
MOST_OWN = 12_000  # characters of a question's own document, about
MOST_MORE = 16_000  # characters of the other records
NEW_TOKENS = 24

RIGHT = 0.5  # F1
LEAST_ANSWERABLE = 0.95  # share of training questions with an answer that count as answerable
LEAST_KEPT = 0.93  # share of right training answers that are kept
FOLDS = 5
BINS = 10
PRECISION = 0.9
COLUMNS = (
    *("kind", "n", "AUC of answerability, without p_yes", "with it", "AUC of confidence"),
    *("expected right", "right", "calibration error", "kept at 90 % precision"),
    *("refused, of right", "of those with an answer", "of others"),
)


@dataclass(frozen=True)
class Case:
    """A question over a collection, or a scope of the pool, with the budgets that it is asked with."""

    id: str
    dataset: str
    question: str
    answers: tuple[str, ...]
    places: tuple[tuple[str, str], ...]  # of the evidence: the name of a file or "", and the text
    variant: str
    budgets: tuple[int | None, ...]
    documents: tuple[Document, ...] = ()
    scope: Scope | None = None


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("step", choices=("rows", "fit", "report"))
    parser.add_argument("split", nargs="?", choices=("train", "dev"), default="train")
    parser.add_argument("--limit", type=int, default=150, help="questions of each set")
    parser.add_argument("--skip", type=int, default=0, help="records of each set to leave out")
    parser.add_argument("--pool", type=int, help="records of each set in one pool of documents")
    parser.add_argument("--reader", help="hub name or path (default: the embedded model)")
    options = parser.parse_args()
    folder = CACHE / Path(options.reader).name if options.reader else CACHE
    if options.step == "rows":
        folder.mkdir(parents=True, exist_ok=True)
        remember(default_embedder())
        file = Rows(folder / f"{options.split}.jsonl", options.reader)
        if options.pool:
            write_pool(options.split, file, options.limit, options.pool)
        else:
            write_whole(options.split, file, options.limit)
            write_rows(options.split, file, options.limit, options.skip)
    elif options.step == "fit":
        fit(estimated(rows_of(CACHE / "train.jsonl")))
    else:
        rows = estimated(rows_of(folder / "dev.jsonl"))
        print(report(rows, is_default=options.reader is None))


class Rows:
    """The finished rows of a split in a file, and the reader that answers for more."""

    def __init__(self, path: Path, reader: str | None) -> None:
        self.path = path
        self.reader = load_reader(reader)
        self._done = {row["id"] for row in rows_of(path)}

    def lacks(self, case: Case) -> bool:
        """Return whether a budget of a case was not asked yet."""
        return any(f"{case.id}:{budget}" not in self._done for budget in case.budgets)

    def write(self, index: HWDAGIndex, case: Case) -> None:
        """Append the rows of a case that are not there yet."""
        for budget in case.budgets:
            if (name := f"{case.id}:{budget}") not in self._done:
                row = {"id": name, **answered(index, case, budget)}
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row, ensure_ascii=False) + "\n")
                self._done.add(name)  # a pool draws some questions more than once


def write_rows(split: str, rows: Rows, limit: int, skip: int) -> None:
    """Ask the questions of a split, the sets in turn, and append a row for each budget."""
    for case in in_turn([cases(split, name, limit, skip) for name in SETS[split]]):
        if rows.lacks(case):
            with HWDAGIndex.from_documents(
                case.documents, reader=rows.reader, method="evidence"
            ) as index:
                rows.write(index, case)


def write_pool(split: str, rows: Rows, limit: int, size: int) -> None:
    """Ask over one pool, about records of it and others."""
    chosen = [shuffled(split, name, 11) for name in SETS[split]]
    documents = {d.id: d for rs in chosen for r in rs[:size] for d in documents_of(r, None)}
    with HWDAGIndex.from_documents(
        documents.values(), reader=rows.reader, method="evidence"
    ) as index:
        for case in in_turn([pool_cases(split, rs, size, [*documents], limit) for rs in chosen]):
            rows.write(index, case)


def write_whole(split: str, rows: Rows, limit: int) -> None:
    """Ask the questions of whole collections: of folders, and of records that name the questions without an answer."""
    collections = [folder_cases(name, limit) for name in FOLDERS[split]]
    collections += [one for name in WHOLE[split] for one in whole_cases(split, name, limit)]
    for read, asked in collections:
        if any(map(rows.lacks, asked)):
            with HWDAGIndex.from_documents(read, reader=rows.reader, method="evidence") as index:
                for case in asked:
                    rows.write(index, case)


def folder_cases(name: str, limit: int) -> tuple[list[Document], list[Case]]:
    """Return the files of a folder of `examples`, and its questions that are no follow-ups.

    All those that the files do not answer, and twice `limit` others.
    """
    folder = EXAMPLES / name
    asked = [r for one in ("questions", "refusals") for r in read_rows(folder / f"{one}.jsonl")]
    random.Random(name).shuffle(asked)
    found, left = list[Case](), 2 * limit
    for row in asked:
        left -= bool(is_answered := row["kind"] not in (FOLLOW_UP, NEAR_MISS, UNANSWERABLE))
        if row["kind"] != FOLLOW_UP and (left >= 0 or not is_answered):
            variant = "gold" if is_answered else row["kind"]
            places = tuple(places_of(row)) if variant == "gold" else ()
            id_ = f"{name}:{row['id']}:{variant}:whole"
            answers = tuple(row["answers"]) or NO_ANSWER
            found.append(Case(id_, name, row["question"], answers, places, variant, (None,)))
    return list(documents(folder)), found


def whole_cases(split: str, name: str, limit: int) -> Iterator[tuple[list[Document], list[Case]]]:
    """Yield the records of a set whole, with as many questions that have an answer as have none."""
    records = shuffled(split, name, 7)
    for record in records:
        questions = list(record.questions)
        random.Random(record.id).shuffle(questions)
        most = -(-limit // len(records))
        with_none = [q for q in questions if q.answers == NO_ANSWER][:most]
        others = [q for q in questions if q.evidence][: most if with_none else 2 * most]
        read = list(documents_of(record, None))
        yield (
            read,
            [
                record_case(record, q, UNANSWERABLE if q in with_none else "gold", "whole", (None,))
                for q in (*with_none, *others)
            ],
        )


def record_case(
    record: Record,
    question: Question,
    variant: str,
    size: str,
    asked: tuple[int | None, ...],
    read: tuple[Document, ...] = (),
    scope: Scope | None = None,
) -> Case:
    """Return a question of a record as a case."""
    name = f"{record.dataset}:{question.id}:{variant}:{size}"
    places = tuple(("", record.text[s.start : s.end]) for s in question.evidence)
    return Case(
        name, record.dataset, question.text, question.answers, places, variant, asked, read, scope
    )


def rows_of(path: Path) -> list[dict]:
    """Return the finished rows of a file; a line that a killed run left half written ends them."""
    rows: list[dict] = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def estimated(rows: list[dict]) -> list[dict]:
    """Return the rows that have an estimate: those in Latin letters."""
    return [row for row in rows if row["answerability"] is not None]


def remember(embedder: Embedder) -> None:
    """Let an embedder embed every text once."""
    known: dict[str, np.ndarray] = {}
    embed = embedder.embed

    def cached(texts: Sequence[str]) -> np.ndarray:
        if new := [text for text in dict.fromkeys(texts) if text not in known]:
            known.update(zip(new, embed(new), strict=True))
        return np.stack([known[text] for text in texts])

    embedder.embed = cached  # type: ignore[method-assign]


def in_turn(streams: Sequence[Iterator[Case]]) -> Iterator[Case]:
    """Yield the first of each, then the second of each, and so on."""
    yield from (one for turn in zip_longest(*streams) for one in turn if one is not None)


def shuffled(split: str, name: str, seed: int) -> list[Record]:
    """Return the records of a set, in an order that depends on the seed."""
    records = list(read_records(DATA / split / f"{name}.jsonl"))
    random.Random(seed).shuffle(records)
    return records


def cases(split: str, name: str, limit: int, skip: int) -> Iterator[Case]:
    """Yield the questions of a set, each over a collection of its own."""
    records = shuffled(split, name, 7)
    records = records[skip % max(1, len(records) - 20) :]
    count = 0
    for i, record in enumerate(records):
        others = [records[(i + j) % len(records)] for j in range(1, GROUP + 1)]
        chance = random.Random(zlib.crc32(f"{record.id}{count}".encode()))
        questions = [q for q in record.questions if q.evidence or q.type == UNANSWERABLE]
        chance.shuffle(questions)
        for question in questions[:PER_RECORD]:
            if count == limit:
                return
            yield case_of(split, record, question, others, chance)
            count += 1


def case_of(
    split: str, record: Record, question: Question, others: Sequence[Record], chance: random.Random
) -> Case:
    """Return a question over some documents, with or without its gold paragraphs."""
    variant = chance.choices(list(VARIANTS), list(VARIANTS.values()))[0]
    if question.type == UNANSWERABLE:
        variant = UNANSWERABLE
    size = chance.choices(list(SIZES), list(SIZES.values()))[0]
    home = others[0] if variant == "foreign" else record
    gold = {*question.evidence, *(span for spans in question.evidence_sets for span in spans)}
    is_gold = [any(p.span.overlap(span) for span in gold) for p in home.paragraphs]
    asked_of = set[int]()
    if variant == NEAR_MISS:
        question, asked_of = near_miss(record, question, is_gold, chance)
        variant = NEAR_MISS if asked_of else "removed"
    keep = {i for i, known in enumerate(is_gold) if variant != "removed" or not known}
    must = asked_of | {i for i in keep if home is record and home.paragraphs[i].span in gold}
    spare = sorted(keep - must)
    length = sum(len(p.span) for p in home.paragraphs) or 1
    most = len(spare) * MOST_OWN // length
    if size in BESIDE:
        most = chance.randint(*BESIDE[size])
    keep = must | set(chance.sample(spare, min(len(spare), most)))
    read = list(documents_of(home, keep))
    if size == "six":
        more = [one for r in others[1:] for one in documents_of(r, None)]
        sizes = np.cumsum([len(one.text) for one in more])
        read += [one for one, end in zip(more, sizes, strict=True) if end < MOST_MORE]
    chance.shuffle(read)
    asked: tuple[int | None, ...] = (chance.choice(BUDGETS) if split == "train" else None,)
    return record_case(record, question, variant, size, asked, tuple(read))


def near_miss(
    record: Record, question: Question, is_gold: Sequence[bool], chance: random.Random
) -> tuple[Question, set[int]]:
    """Exchange an entity of a question for one of another paragraph that no gold one has.

    Return the question and the number of that paragraph; the question as it was and no number if there is
    no such entity.
    """
    texts = [record.text[p.span.start : p.span.end] for p in record.paragraphs]
    golden = " ".join(text for text, known in zip(texts, is_gold, strict=True) if known)
    known = f"{golden} {question.text}".lower()
    new = [
        (entity, i)
        for i, text in enumerate(texts)
        for entity in ENTITY.findall(text)
        if not is_gold[i] and entity.lower() not in known
    ]
    chance.shuffle(new)
    for old in chance.sample(found := ENTITY.findall(question.text), len(found)):
        for entity, i in new:
            if entity[0].isdigit() == old[0].isdigit():
                return replace(question, text=question.text.replace(old, entity)), {i}
    return question, set()


def pool_cases(
    split: str, records: list[Record], size: int, documents: list[str], limit: int
) -> Iterator[Case]:
    """Questions of a set over the pool, whose first `size` records are in it."""
    inside, outside = records[:size], records[size:]
    for i in range(limit):
        chance = random.Random(f"{i}{records[0].id}")
        variant = ("gold", "removed", "foreign")[i % 3]
        if variant == "removed" and records[0].dataset not in TITLED:
            variant = "gold"
        among = outside if variant == "foreign" else inside
        record = chance.choice(among) if among else None
        if record is None or not (questions := [q for q in record.questions if q.evidence]):
            continue
        question = chance.choice(questions)
        gold = {f"{record.id}/{p.id}" for p in record.paragraphs if p.span in question.evidence}
        scope = Scope([d for d in documents if d not in gold]) if variant == "removed" else None
        budget = chance.choice(BUDGETS[1:]) if split == "train" else None
        yield record_case(record, question, variant, "pool", (budget,), scope=scope)


def documents_of(record: Record, keep: set[int] | None) -> Iterator[Document]:
    """Yield a record as documents, with these paragraphs alone; None for all."""
    kept = [p for i, p in enumerate(record.paragraphs) if keep is None or i in keep]
    texts = [record.text[p.span.start : p.span.end] for p in kept]
    if record.dataset in TITLED:
        for p, text in zip(kept, texts, strict=True):
            yield Document(f"{record.id}/{p.id}", text, p.title)
    elif texts and record.dataset in WHOLE["dev"]:
        yield record.whole
    elif texts:
        headed = [f"# {p.title}\n\n" if p.title else "" for p in kept]
        whole = "\n\n".join(map(str.__add__, headed, texts))
        yield Document(record.id, whole, record.title)


@lru_cache(maxsize=1)
def entries_of(index: HWDAGIndex) -> list:
    """Documents with graphs and embeddings."""
    return list(index.entries.values())


def answered(index: HWDAGIndex, case: Case, budget: int | None) -> dict:
    """Everything that is known of an answer."""
    config = SearchConfig(token_budget=budget)
    answer = index.answer(case.question, config=config, scope=case.scope, max_new_tokens=NEW_TOKENS)
    nodes = [step.node for step in answer.retrieval.steps]
    inside = case.scope and set(case.scope.document_ids or ())
    entries = [e for e in entries_of(index) if not inside or e.document.id in inside]
    cosines = np.concatenate([e.vectors for e in entries]) @ index.embedder.embed_query(
        case.question
    )
    numbers = {
        (e.document.id, node.id): i
        for i, (e, node) in enumerate((e, node) for e in entries for node in e.graph.nodes)
    }
    read = "\n".join(node.text for node in nodes).lower()
    return {
        "set": case.dataset,
        "variant": case.variant,
        "question": case.question,
        "answers": case.answers,
        "budget": budget,
        "tokens": sum(node.tokens for entry in entries for node in entry.graph.nodes),
        "nodes": len(cosines),
        "text": answer.reply,
        "f1": f1(answer.reply, case.answers),
        "likelihood": answer.likelihood,
        "p_yes": answer.retrieval.p_yes,
        "answerability": answer.retrieval.answerability,
        "confidence": answer.confidence,
        "found": answer.found,
        "seconds": answer.usage.seconds,
        "cosines": np.sort(cosines)[::-1][:20].round(4).tolist(),
        "cosine_mean": float(cosines.mean()),
        "texts": [text for _, text in by_section(nodes)],
        "lines": [node.text for node in nodes],
        "near": [float(cosines[numbers[node.document_id, node.id]].round(4)) for node in nodes],
        "touched": [any(touches(node, *place) for node in nodes) for place in case.places],
        "held": any(one.lower() in read for one in case.answers),
    }


def touches(node: Node, file: str, text: str) -> bool:
    """Return whether a node is in a paragraph, or has all words of the evidence in a file."""
    return has_words(node, file, text) if file else node.text in text or text in node.text


def holds(row: dict) -> bool:
    """Return whether the evidence holds an answer."""
    touched = bool(row["touched"]) and all(row["touched"])
    says = row["answers"][0].lower() in ("yes", "no")  # words that any text may have
    return row["variant"] == "gold" and (touched or (row["held"] and not says))


def is_right(row: dict) -> bool:
    """Return whether the answer is right."""
    said = f" {' '.join(words(row['text']))} "
    named = any(f" {' '.join(words(one))} " in said for one in row["answers"])
    return row["variant"] == "gold" and (row["f1"] >= RIGHT or named)


def evidence_of(row: dict) -> dict[str, float]:
    """Signals of the evidence."""
    nearness = Nearness(row["cosines"][0], row["cosine_mean"], row["nodes"])
    return evidence_signals(row["question"], content_words(row["question"]), row["texts"], nearness)


def read_of(row: dict) -> dict[str, float]:
    """Signals of the evidence, and p_yes."""
    return evidence_of(row) | {"p_yes": logit(row["p_yes"])}


def answer_of(row: dict, likely: float) -> dict[str, float]:
    """Signals of the answer."""
    return answer_signals(likely, row["likelihood"] or 0.0)


def fit(rows: list[dict]) -> None:
    """Fit all three, print the threshold, and write the JSON of the package."""
    groups = [row["id"].rsplit(":", 3)[0] for row in rows]  # the question
    held, right = (np.array([f(row) for row in rows]) for f in (holds, is_right))
    evidence, _ = fitted([evidence_of(row) for row in rows], held, groups)
    read, likely = fitted([read_of(row) for row in rows], held, groups)
    said = [answer_of(row, p) for row, p in zip(rows, likely, strict=True)]
    answer, sure = fitted(said, right, groups)
    least_answerability = float(np.quantile(likely[held], 1 - LEAST_ANSWERABLE))
    least_confidence = float(np.quantile(sure[right], 1 - LEAST_KEPT))
    found = {
        "embedder": default_embedder().fingerprint,
        "reader": DEFAULT_MODEL,
        "least answerability": round(least_answerability, 2),
        "least confidence": round(least_confidence, 2),
        "evidence": evidence,
        "evidence and p_yes": read,
        "answer": answer,
    }
    COEFFICIENTS.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
    print(f"{len(rows)} rows, {len(set(groups))} questions, {held.mean():.2f} hold an answer")
    print(f"{right.mean():.2f} are right; they are given from {least_confidence:.2f}")


def fitted(
    signals: Sequence[dict[str, float]], labels: np.ndarray, groups: Sequence[str]
) -> tuple[dict, np.ndarray]:
    """Weights of a logistic regression, and its probability for each row, fitted without that row's question.

    Every question counts the same, however often it was asked.
    """
    names = list(signals[0])
    matrix = np.array([[row[name] for name in names] for row in signals])
    weights = np.array([1 / groups.count(group) for group in groups])
    model: Pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.5))
    options = {"logisticregression__sample_weight": weights}
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    unseen = cross_val_predict(
        model, matrix, labels, groups=groups, cv=folds, params=options, method="predict_proba"
    )[:, 1]
    model.fit(matrix, labels, **options)
    scaler, regression = model[0], model[-1]
    raw = regression.coef_[0] / scaler.scale_
    intercept = regression.intercept_[0] - raw @ scaler.mean_
    found = {name: round(float(weight), 4) for name, weight in zip(names, raw, strict=True)}
    return {"intercept": round(float(intercept), 4), "weights": found}, unseen


def report(rows: list[dict], *, is_default: bool) -> str:
    """Return a line for each set of the dev rows, each variant, and all; p_yes is used of the default reader."""
    fitted = json.loads(COEFFICIENTS.read_text("utf-8"))

    def said(name: str, signals: dict[str, float]) -> float:
        model = fitted[name]
        total = model["intercept"] + sum(w * signals[k] for k, w in model["weights"].items())
        return float(1 / (1 + np.exp(-total)))

    held, right = (np.array([f(row) for row in rows]) for f in (holds, is_right))
    bare = np.array([said("evidence", evidence_of(row)) for row in rows])
    read = np.array([said("evidence and p_yes", read_of(row)) for row in rows])
    likely = read if is_default else bare
    sure = np.array(
        [said("answer", answer_of(row, p)) for row, p in zip(rows, likely, strict=True)]
    )
    short = np.array([is_short(row["text"]) for row in rows])
    unlikely = likely < fitted["least answerability"]
    refused = (sure < fitted["least confidence"]) & (short | unlikely)
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    groups = [(key, row[key]) for key in ("set", "variant") for row in rows]
    for key, value in [*dict.fromkeys(groups), ("", "all")]:
        own = np.array([not key or row[key] == value for row in rows])
        cells = [
            *(
                auc(labels[own], value[own]).rpartition(",")[0]
                for labels, value in ((held, bare), (held, likely), (right, sure))
            ),
            *(f"{sure[own].sum():.1f}", f"{right[own].sum()}"),
            f"{calibration_error(right[own], sure[own]):.2f}",
            f"{coverage(right[own], sure[own]):.2f}",
            *(share(refused[own & group]) for group in (right, held, ~held)),
        ]
        lines.append(f"| {value} | {own.sum()} | {' | '.join(cells)} |")
    return "\n".join(lines)


def share(chosen: np.ndarray) -> str:
    """Return the share of rows that are chosen."""
    return f"{chosen.mean():.2f} of {len(chosen)}" if len(chosen) else ""


def calibration_error(labels: np.ndarray, said: np.ndarray) -> float:
    """Return the calibration error: predicted less observed, over at most `BINS` bins of equally many rows."""
    bins = np.array_split(np.argsort(said), min(BINS, len(said)))
    gaps = [abs(said[rows].mean() - labels[rows].mean()) * len(rows) for rows in bins]
    return float(sum(gaps) / len(said))


def coverage(labels: np.ndarray, said: np.ndarray) -> float:
    """Return the largest share of the surest rows of which `PRECISION` are as said."""
    order = np.argsort(-said)
    precision = np.cumsum(labels[order]) / np.arange(1, len(order) + 1)
    return float((np.flatnonzero(precision >= PRECISION) + 1).max(initial=0) / len(order))


if __name__ == "__main__":
    main()
