"""Examples for the four skills, from documents with questions and gold evidence.

    python -m examples.train_adapter.prepare --data $HWDAG_DATA/train --out data
    python -m examples.train_adapter.prepare --data $HWDAG_DATA/dev --out data --final

Writes `train.jsonl` and `held_out.jsonl` (whole documents kept apart, for tuning), with `--final`
only `final.jsonl` (for the report). Two kinds of lines:

    {"skill": "walk", "dataset", "question", "answers", "gold": [node], "distractors": [node]}
    {"skill": "points", "dataset", "lines": [node], "points": [text]}

A node is a few sentences of a paragraph; distractors come in the order of their BM25 score.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import bm25s

from examples.train_adapter.lines import Json, lines_of
from hwdag.building.extractive import self_containedness
from hwdag.text.sentences import sentences
from hwdag.text.words import content_words
from hwdag_lab.eval.text_metrics import normalised

WALKS = {
    "hotpotqa": 1.0,
    "hotpotqa_gold": 1.0,
    "musique": 1.0,
    "ircot_demos": 1.0,
    "2wikimultihopqa": 1.0,
    "squad": 0.3,
    "fairytaleqa": 0.12,
    "narrativeqa_summary": 0.08,
    "qasper": 0.2,
    "boolq": 0.12,
    "strategyqa": 0.1,
}
"""Share of the questions of each set that become training examples."""

MULTI_HOP = {"hotpotqa", "hotpotqa_gold", "musique", "ircot_demos", "2wikimultihopqa", "strategyqa"}
POINTS = ("fairytaleqa", "narrativeqa_summary", "squad", "hotpotqa", "qasper", "musique")
HELD_OUT = 0.1
DISTRACTORS = 8
MAX_ANSWER_WORDS = 24
NODE_WORDS = (15, 25, 25, 45)
"""Nodes may be sentences or chunks, so examples have nodes of several lengths."""

POINTS_PER_SET = 130

POINTS_RATIO = 0.3
"""Words of the points per word of the window."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Prepare all examples."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of <dataset>.jsonl files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sets", help="comma-separated; all that are known by default")
    parser.add_argument("--final", action="store_true", help="evaluation data: no training part")
    parser.add_argument(
        "--limit", type=int, default=100, help="held-out examples per set and skill"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    options.out.mkdir(parents=True, exist_ok=True)
    parts: dict[str, list[Json]] = {"train": [], "held_out": []}
    sets = {*WALKS, *POINTS} & set(options.sets.split(",") if options.sets else (*WALKS, *POINTS))
    for path in sorted(p for p in options.data.glob("*.jsonl") if p.stem in sets):
        documents = list(lines_of(path))
        for part, chosen in split(documents, options.final).items():
            rng = random.Random(f"{options.seed} {path.stem} {part}")
            share = WALKS.get(path.stem, 0.0) if part == "train" else 1.0
            found = {
                "walk": list(walks(chosen, share, rng)) if path.stem in WALKS else [],
                "points": list(windows(chosen, rng)) if path.stem in POINTS else [],
            }
            for skill, examples in found.items():
                rng.shuffle(examples)
                limit = {"walk": len(examples), "points": POINTS_PER_SET}[skill]
                kept = examples[: limit if part == "train" else options.limit]
                parts[part] += kept
                print(f"{path.stem:22}{part:10}{skill:8}{len(kept):6} of {len(examples)}")
    if options.final:
        parts = {"final": parts["held_out"]}
    for part, examples in parts.items():
        random.Random(options.seed).shuffle(examples)
        with (options.out / f"{part}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(e, ensure_ascii=False) + "\n" for e in examples)


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


# --- walks: sufficiency, answers, ranking


def walks(documents: Sequence[Json], share: float, rng: random.Random) -> Iterator[Json]:
    """One example per question whose evidence is known, for a share of all questions."""
    for document in documents:
        ranked = Ranking(document)
        for question in document["questions"]:
            if rng.random() < share and is_usable(question):
                example = walk(document, question, ranked, documents, rng)
                if example is not None:
                    yield example


def is_usable(question: Json) -> bool:
    """Whether the evidence is all text, and the answer is short and can be found in it."""
    return (
        1 <= len(question["evidence"]) <= 4
        and not question.get("has_float_evidence")
        and question["type"] != "unanswerable"
        and len(question["answers"][0].split()) <= MAX_ANSWER_WORDS
        and question["answers"][0] != "Maybe"
    )


class Ranking:
    """The paragraphs of a document by their BM25 score."""

    def __init__(self, document: Json) -> None:
        self.paragraphs = [p for p in document.get("paragraphs", ()) if content_words(p["text"])]
        self._index = bm25s.BM25(method="lucene", backend="numpy")
        if self.paragraphs:
            words = [content_words(p["title"] + " " + p["text"]) for p in self.paragraphs]
            self._index.index(words, show_progress=False)

    def of(self, question: str) -> list[Json]:
        """All paragraphs, the best first."""
        known = [w for w in content_words(question) if w in self._index.vocab_dict]
        if not known:
            return self.paragraphs
        scores = self._index.get_scores(known)
        return [self.paragraphs[i] for i in scores.argsort(kind="stable")[::-1]]


def walk(
    document: Json, question: Json, ranked: Ranking, others: Sequence[Json], rng: random.Random
) -> Json | None:
    """Gold nodes and distractors of a question; None where a document is too small."""
    by_id = {p["id"]: p for p in ranked.paragraphs}
    evidence = [by_id[i] for i in question["evidence"] if i in by_id]
    if not ranked.paragraphs or len(evidence) < len(question["evidence"]):
        return None
    multi_hop = document["dataset"] in MULTI_HOP or len(evidence) > 1
    titled = rng.random() < 0.5
    length = rng.choice(NODE_WORDS)
    clues = " ".join(
        [question["question"], *question["answers"], *question.get("evidence_text", ())]
    )
    gold_length = length if question.get("evidence_text") or not multi_hop else NODE_WORDS[-1]
    gold = [excerpt(p, clues, gold_length, titled) for p in evidence]
    candidates = [p for p in ranked.of(question["question"]) if p not in evidence]
    candidates += [
        rng.choice(pool) for _ in range(3) if (pool := rng.choice(others).get("paragraphs"))
    ]
    distractors: list[str] = []
    for paragraph in candidates:
        text = excerpt(paragraph, question["question"], length, titled)
        if text in gold or text in distractors:
            continue
        if not multi_hop and tells(text, question["answers"]):
            continue
        distractors.append(text)
    if len(distractors) < 2:
        return None
    return {
        "skill": "walk",
        "dataset": document["dataset"],
        "question": question["question"],
        "answers": question["answers"],
        "gold": gold,
        "distractors": distractors[:DISTRACTORS],
    }


def tells(text: str, answers: Sequence[str]) -> bool:
    """Whether a text holds one of the answers, so that it may be evidence as well."""
    padded = f" {normalised(text)} "
    return any(
        f" {normalised(a)} " in padded for a in answers if normalised(a) not in ("", "yes", "no")
    )


def excerpt(paragraph: Json, clues: str, max_words: int, titled: bool) -> str:
    """The sentence of a paragraph that shares most words with the clues, and its neighbours."""
    text = paragraph["text"]
    spans = sentences(text)
    wanted = set(content_words(clues))
    overlaps = [len(wanted & set(content_words(text[s.start : s.end]))) for s in spans]
    first = last = overlaps.index(max(overlaps))
    while True:
        wider = [(first - 1, last), (first, last + 1)]
        fitting = [
            (a, b)
            for a, b in wider
            if a >= 0
            and b < len(spans)
            and len(text[spans[a].start : spans[b].end].split()) <= max_words
        ]
        if not fitting:
            break
        first, last = max(fitting, key=lambda ends: sum(overlaps[ends[0] : ends[1] + 1]))
    cut = " ".join(text[spans[first].start : spans[last].end].split()[: 2 * max_words])
    title = paragraph["title"].strip()
    return f"{title} {cut}" if titled and title and not cut.startswith(title) else cut


# --- points


def windows(documents: Sequence[Json], rng: random.Random) -> Iterator[Json]:
    """Runs of paragraphs with the points that they should give."""
    for document in documents:
        paragraphs = list(document.get("paragraphs", ()))
        at = 0
        while at < len(paragraphs):
            limit, held, start = rng.randint(90, 280), 0, at
            while at < len(paragraphs) and (at == start or held < limit):
                held += len(paragraphs[at]["text"].split())
                at += 1
            example = window(document, paragraphs[start:at], rng)
            if example is not None:
                yield example


def window(document: Json, paragraphs: Sequence[Json], rng: random.Random) -> Json | None:
    """Lines (sentences or paragraphs) and points, in reading order."""
    cut = [(p, [p["text"][s.start : s.end] for s in sentences(p["text"])]) for p in paragraphs]
    fine = rng.random() < 0.6
    lines = [line for p, found in cut for line in (found if fine else [p["text"]])]
    total = sum(len(line.split()) for line in lines)
    if not 60 <= total <= 330:
        return None
    facts = statements(document["questions"], {p["id"] for p in paragraphs})
    seen = set(content_words(" ".join(lines)))
    points: list[str] = []
    budget = POINTS_RATIO * total
    for paragraph, found in cut:
        share = budget * len(paragraph["text"].split()) / total
        points += paragraph_points(found, facts.get(paragraph["id"], []), seen, share)
    if len(points) < 2:
        return None
    return {"skill": "points", "dataset": document["dataset"], "lines": lines, "points": points}


def paragraph_points(
    found: Sequence[str], facts: Sequence[str], seen: set[str], budget: float
) -> list[str]:
    """Statements made of questions first, then the sentences that can be understood alone."""
    picked: list[tuple[float, str]] = []
    spent = 0
    for fact in facts:
        words = content_words(fact)
        if words and sum(w in seen for w in words) / len(words) >= 0.9 and spent < budget:
            place = best_place(words, found)
            if all(overlap(words, content_words(other)) < 0.6 for _, other in picked):
                picked.append((place + 0.5, fact))
                spent += len(fact.split())
    order = sorted(range(len(found)), key=lambda i: (-self_containedness(found[i]), i))
    for i in order:
        text = compressed(found[i])
        is_good = stands_alone(text) and 5 <= len(text.split()) <= 32
        is_new = all(
            overlap(content_words(other), content_words(text)) < 0.5 for _, other in picked
        )
        if is_good and is_new and (not picked or spent + len(text.split()) <= budget):
            picked.append((float(i), text))
            spent += len(text.split())
    return [text for _, text in sorted(picked)]


def statements(questions: Sequence[Json], here: set[str]) -> dict[str, list[str]]:
    """Statements by paragraph: questions with their answers filled in."""
    found: dict[str, list[str]] = {}
    for question in questions:
        if len(question["evidence"]) == 1 and question["evidence"][0] in here:
            text = statement(question["question"], question["answers"][0])
            if text:
                found.setdefault(question["evidence"][0], []).append(text)
    return found


_SUBJECT = re.compile(
    r"(?:who|what|which)\s+((?!did\b|do\b|does\b|will\b|would\b|can\b|could\b|is\b|are\b|was\b|were\b|the\b|\w+s?\s+(?:did|do|does)\b)\w+ed\b.*)",
    re.I,
)
_WHO = re.compile(
    r"who\s+((?!did\b|do\b|does\b|will\b|would\b|can\b|could\b|is\b|are\b|was\b|were\b|else\b)\w+\s.*)",
    re.I,
)
_DID = re.compile(r"what did (.+?) do\b\s*(.*)", re.I)
_FELT = re.compile(r"how did (.+?) feel\b\s*(.*)", re.I)


def statement(question: str, answer: str) -> str:
    """ "Who came home late?" and "a farmer" as "A farmer came home late."; empty if unsure."""
    question, answer = question.strip().rstrip("?").strip(), answer.strip().rstrip(".").strip()
    if not answer or len(answer.split()) > 14 or answer.split()[0].lower() in _PRONOUNS:
        return ""
    text = ""
    if match := _DID.fullmatch(question):
        subject, rest = match.groups()
        if re.match(r"\w+(?:ed|t|w|id|ade|an|ve|k|d)\b", answer):
            text = f"{subject} {answer} {rest}"
    elif match := _FELT.fullmatch(question):
        text = f"{match[1]} felt {answer} {match[2]}"
    elif match := _WHO.fullmatch(question) or _SUBJECT.fullmatch(question):
        text = f"{answer} {match[1]}"
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + "." if len(text.split()) >= 5 else ""


_PRONOUNS = {"he", "she", "it", "they", "him", "her", "his", "their", "to", "by", "because", "that"}
_PARENTHESIS = re.compile(r"\s*(?:\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})")
_SPEECH = re.compile(r"[\"“”]|\b(?:I|me|my|you|your|thy|thou|said)\b|[$\\\\=|]", re.I)
_CONNECTIVE = re.compile(
    r"(?:however|moreover|furthermore|therefore|thus|finally|then|also|in addition|for example"
    r"|for instance|as a result|meanwhile|later|indeed|of course|in fact|nevertheless),\s+(?=\w)",
    re.I,
)


def compressed(sentence: str) -> str:
    """A sentence without brackets and without the connective that it begins with."""
    text = " ".join(_PARENTHESIS.sub("", _CONNECTIVE.sub("", sentence, count=1)).split())
    return text[:1].upper() + text[1:]


def stands_alone(sentence: str) -> bool:
    """Whether a sentence is understood without its neighbours: no speech, no first person."""
    return self_containedness(sentence) >= 0.99 and not _SPEECH.search(sentence)


def overlap(words: Sequence[str], others: Sequence[str]) -> float:
    """Share of words that are among others."""
    return sum(w in set(others) for w in words) / max(1, len(words))


def best_place(words: Sequence[str], found: Sequence[str]) -> int:
    """The sentence that shares most words."""
    overlaps = [overlap(words, content_words(text)) for text in found]
    return overlaps.index(max(overlaps))


if __name__ == "__main__":
    main()
