"""Windows of text with the Information Points that they should give.

Points cover the window: one or two of every paragraph, sentences about the same subject joined,
names in the place of leading pronouns, no two that say the same, at most half of them copies. Where
people wrote a summary, its sentences are the points.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from examples.train_adapter.lines import Json
from hwdag.building import extractive
from hwdag.text.sentences import sentences
from hwdag.text.words import content_words
from hwdag_lab.eval.text_metrics import normalised

SMALL, LARGE, SHARE_LARGE = (90, 300), (350, 680), 0.4
"""Words of a window."""

COVERED, RATIO, LONGEST = 0.7, 0.33, 40
"""Share of the paragraphs that have a point, words of points per word, words of a point."""

COPIED, FEWEST, CONDENSED, MOST_WORDS = 0.5, 3, 0.5, 720
"""Share of points that may be copies; of a summary: its fewest points, words per word of the text,
words of the text."""

_PRONOUN = re.compile(r"(?:(?:He|She)\s+(?=[a-z])|It\s+(?=(?:is|was|has|had)\b))")
_ALSO = re.compile(r"(?:also|then|later)\s+", re.I)


def windows(documents: Sequence[Json], rng: random.Random) -> Iterator[Json]:
    """Runs of paragraphs with their points."""
    for document in documents:
        paragraphs = [p for p in document.get("paragraphs", ()) if len(p["text"].split()) > 8]
        at = 0
        while at < len(paragraphs):
            limit = rng.randint(*(LARGE if rng.random() < SHARE_LARGE else SMALL))
            held, start = 0, at
            while at < len(paragraphs) and (
                at == start or held + len(paragraphs[at]["text"].split()) < limit + 40
            ):
                held += len(paragraphs[at]["text"].split())
                at += 1
            example = window(document, paragraphs[start:at], rng)
            if example is not None:
                yield example


def window(document: Json, paragraphs: Sequence[Json], rng: random.Random) -> Json | None:
    """Lines (sentences or paragraphs) and points, in reading order; None if too few are covered."""
    cut = [(p, [p["text"][s.start : s.end] for s in sentences(p["text"])]) for p in paragraphs]
    fine, titled = rng.random() < 0.6, rng.random() < 0.5
    lines = []
    for p, found in cut:
        name = p["title"].strip()
        parts = list(found if fine else [p["text"]])
        lines += [f"{name} {parts[0]}" if titled and name else parts[0], *parts[1:]]
    total = sum(len(line.split()) for line in lines)
    if not 70 <= total <= 720:
        return None
    facts = statements(document["questions"], {p["id"] for p in paragraphs})
    seen, covered = set(content_words(" ".join(lines))), 0
    points: list[str] = []
    for p, found in cut:
        budget = RATIO * len(p["text"].split()) + 6
        new = of_paragraph(p["title"].strip(), found, facts.get(p["id"], []), seen, budget, points)
        covered += bool(new)
        points += new
    if len(points) < 2 or covered < COVERED * len(paragraphs) or copied(points, lines) > COPIED:
        return None
    return example_of(document, lines, points, running=not fine)


def summarised(documents: Sequence[Json]) -> Iterator[Json]:
    """Texts that people summarised whole, in sentences that are no copies."""
    for document in documents:
        lines = [line for line in document["text"].splitlines() if line.strip()]
        points = [bullet for bullet in document["bullets"] if bullet.strip()]
        words = sum(len(line.split()) for line in lines)
        short = sum(len(point.split()) for point in points) <= CONDENSED * words
        if document.get("query_focused") or words > MOST_WORDS or len(points) < FEWEST or not short:
            continue
        if not copied(points, lines):
            yield example_of(document, lines, points, running=True)


def example_of(
    document: Json, lines: Sequence[str], points: Sequence[str], *, running: bool
) -> Json:
    """Lines as running text, or one bullet each, and the points of both."""
    skill = {"skill": "points", "dataset": document["dataset"]}
    return {**skill, "lines": list(lines), "running": running, "points": list(points)}


def copied(points: Sequence[str], lines: Sequence[str]) -> float:
    """Return the share of points that are in the text word for word."""
    text = f" {normalised(' '.join(lines))} "
    return sum(f" {normalised(point)} " in text for point in points) / len(points)


def of_paragraph(
    title: str,
    found: Sequence[str],
    facts: Sequence[str],
    seen: set[str],
    budget: float,
    others: Sequence[str],
) -> list[str]:
    """Return the points of one paragraph that no other point says."""
    subject = re.sub(r" \([^()]*\)$", "", title)
    named = subject and found and found[0].startswith(subject)
    listed: list[tuple[float, float, str]] = []  # preference, place, text
    for i, sentence in enumerate(found):
        text = compressed(sentence)
        if named and i and (match := _PRONOUN.match(text)):
            text = f"{subject} {_ALSO.sub('', text[match.end() :], count=1)}"
        if stands_alone(text) and 5 <= len(text.split()) <= 34:
            listed.append((1.5 if i == 0 else 1.0, float(i), text))
    for fact in facts:
        overlaps = [overlap(content_words(fact), content_words(text)) for text in found]
        listed.append((0.9, overlaps.index(max(overlaps)) + 0.5, fact))
    picked: list[tuple[float, str]] = []
    spent = 0
    for _, place, text in sorted(listed, key=lambda x: (-x[0], x[1])):
        words = content_words(text)
        length = len(text.split())
        rivals = [content_words(t) for t in (*others, *(t for _, t in picked))]
        is_new = all(overlap(words, r) < 0.6 and overlap(r, words) < 0.75 for r in rivals)
        is_said = bool(words) and sum(w in seen for w in words) >= 0.95 * len(words)
        if is_said and is_new and (not picked or spent + length <= budget):
            picked.append((place, text))
            spent += length
    return joined([text for _, text in sorted(picked)], subject if named else "")


def joined(points: Sequence[str], subject: str) -> list[str]:
    """Neighbours that begin with the same subject as one point."""
    found: list[str] = []
    for text in points:
        if found:
            same = (
                subject
                if subject and found[-1].startswith(subject + " ")
                else common_subject(found[-1], text)
            )
            if same and text.startswith(same + " ") and len((found[-1] + text).split()) <= LONGEST:
                rest = text[len(same) :].strip()
                found[-1] = f"{found[-1].rstrip('.')} and {rest}"
                continue
        found.append(text)
    return found


def common_subject(one: str, other: str) -> str:
    """Return the name or "the noun" that both begin with; empty if none."""
    pattern = r"((?:The|A|An) [a-z]+|(?:[A-Z][\w'-]+ ?){1,4})(?= (?:is|was|has|had|[a-z]+(?:ed|s)|went|came|took|made|saw|told|gave)\b)"
    a, b = re.match(pattern, one), re.match(pattern, other)
    return a[1].strip() if a and b and a[1].strip() == b[1].strip() else ""


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
    """Return a sentence without brackets and without the connective that it begins with."""
    text = " ".join(_PARENTHESIS.sub("", _CONNECTIVE.sub("", sentence, count=1)).split())
    return text[:1].upper() + text[1:]


def stands_alone(sentence: str) -> bool:
    """Return whether a sentence is understood without its neighbours: no speech, no first person."""
    return extractive.stands_alone(sentence) and not _SPEECH.search(sentence)


def overlap(words: Sequence[str], others: Sequence[str]) -> float:
    """Share of words that are among others."""
    return sum(w in set(others) for w in words) / max(1, len(words))
