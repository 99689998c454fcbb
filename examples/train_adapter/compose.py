"""Questions made by rule from the beginnings of encyclopaedic paragraphs: comparisons, and two hops.

Multi-hop sets have few comparisons and few chains through a work and its maker. Their first
sentences say when people were born, what nationality they have, when a film came out and who
directed it; a rule makes questions of that whose answers and evidence are known.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from examples.train_adapter.lines import Json
from hwdag.text.sentences import sentences

MONTHS = "January February March April May June July August September October November December"
_MONTH = {name: i for i, name in enumerate(MONTHS.split(), start=1)}
_DATE = rf"(?:(?:{MONTHS.replace(' ', '|')}) \d{{1,2}}, \d{{4}}|\d{{1,2}} (?:{MONTHS.replace(' ', '|')}) \d{{4}}|\d{{4}})"
_BORN = re.compile(rf"\bborn\b[^()]{{0,40}}?({_DATE})")
_LIFE = re.compile(rf"\(\D{{0,40}}({_DATE})[^()–-]{{0,40}}[–-][^()\d]{{0,30}}({_DATE})")
_NATION = re.compile(r"\b(?:is|was) an? (?:retired |former )?([A-Z][a-z]+(?:an|ish|ese|ch|ic|i))\b")
_FILM = re.compile(r"\b(?:is|was) an? (\d{4})\b[^.]{0,60}?\b(?:film|movie)\b")
_MAKERS = (
    ("director", "film", re.compile(r"\bdirected by ((?:[A-Z][\w.'-]+ ?){2,3})")),
    ("performer", "song", re.compile(r"\b(?:song|single) by [^,.]{0,40}?((?:[A-Z][\w.'-]+ ?){2,3})")),
    ("performer", "album", re.compile(r"\balbum by [^,.]{0,40}?((?:[A-Z][\w.'-]+ ?){2,3})")),
    ("author", "book", re.compile(r"\b(?:novel|book)\b[^.]{0,20} by [^,.]{0,30}?((?:[A-Z][\w.'-]+ ?){2,3})")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of the first sentences of a paragraph; None if they have none."""

    id: str
    name: str
    sentence: str
    born: str | None
    died: str | None
    nation: str | None
    released: str | None
    makers: tuple[tuple[str, str, str], ...]  # role, kind of work, name


def facts(paragraph: Json) -> Facts | None:
    """Return the facts of a titled paragraph."""
    name, text = paragraph["title"].strip(), paragraph["text"]
    spans = sentences(text)
    if not name or not spans:
        return None
    first = text[: spans[0].end]
    life, born, nation = _LIFE.search(first), _BORN.search(first), _NATION.search(first)
    film = _FILM.search(first)
    makers = [
        (role, kind, match[1].strip())
        for role, kind, pattern in _MAKERS
        if (match := pattern.search(first))
    ]
    is_person = bool(life or born)
    return Facts(
        paragraph["id"],
        re.sub(r" \([^()]*\)$", "", name),
        first,
        life[1] if life else born[1] if born else None,
        life[2] if life else None,
        nation[1] if nation and is_person else None,
        film[1] if film else None,
        tuple(makers),
    )


def day(date: str) -> tuple[int, int, int]:
    """Return a date for comparison; a bare year is its beginning."""
    words = date.replace(",", "").split()
    month = next((_MONTH[w] for w in words if w in _MONTH), 0)
    numbers = [int(w) for w in words if w.isdigit()]
    return max(numbers), month, min(numbers) if len(numbers) > 1 else 0


def composed(paragraphs: Sequence[Json], rng: random.Random) -> Iterator[Json]:
    """Questions about some paragraphs, in the form of the data; in a random order."""
    known = [found for p in paragraphs if (found := facts(p))]
    made = [*comparisons(known, rng), *chains(known, rng)]
    rng.shuffle(made)
    yield from made


FIRST = {
    "born": ("Who was born first, {}?", "Who is older, {}?", "Who was born earlier, {}?"),
    "died": ("Who died first, {}?", "Who died earlier, {}?"),
    "released": ("Which film came out first, {}?", "Which film was released earlier, {}?"),
}
LATER = {
    "born": ("Who was born later, {}?", "Who is younger, {}?"),
    "died": ("Who died later, {}?", "Who lived to a later date, {}?"),
    "released": ("Which film was released more recently, {}?", "Which film came out later, {}?"),
}
SAME = (
    "Are {} and {} of the same nationality?",
    "Do {} and {} have the same nationality?",
    "Are {} and {} from the same country?",
)


def comparisons(known: Sequence[Facts], rng: random.Random) -> Iterator[Json]:
    """Who was born, who died, which film came out first; the same nationality?"""
    for pair in combinations(known, 2):
        a, b = rng.sample(pair, 2)
        for which in FIRST:
            dates = {f: date for f in (a, b) if (date := getattr(f, which))}
            if len({day(date)[0] for date in dates.values()}) == 2:
                earlier, later = sorted(dates, key=lambda f: day(dates[f]))
                asked, winner = rng.choice(((FIRST, earlier), (LATER, later)))
                question = rng.choice(asked[which]).format(f"{a.name} or {b.name}")
                yield made(question, winner.name, "comparison", a, b)
        if a.nation and b.nation:
            same = "Yes" if a.nation == b.nation else "No"
            yield made(rng.choice(SAME).format(a.name, b.name), same, "comparison", a, b)


def chains(known: Sequence[Facts], rng: random.Random) -> Iterator[Json]:
    """Through a work to its maker, and two works compared by their makers."""
    people = {f.name: f for f in known if f.born}
    pairs = [
        (work, role, kind, people[name])
        for work in known
        for role, kind, name in work.makers
        if name in people and people[name] is not work
    ]
    for work, role, kind, maker in pairs:
        what = f"the {role} of {kind} {work.name}"
        if maker.born:
            yield made(f"When was {what} born?", maker.born, "chain", work, maker)
        if maker.died:
            yield made(f"When did {what} die?", maker.died, "chain", work, maker)
        if maker.nation:
            yield made(f"What nationality is {what}?", maker.nation, "chain", work, maker)
    for (a, role, kind, x), (b, _, other, y) in combinations(pairs, 2):
        if kind == other and x.born and y.born and day(x.born)[0] != day(y.born)[0]:
            order, pick = rng.choice((("first", min), ("later", max)))
            winner, _ = pick(((a, x.born), (b, y.born)), key=lambda one: day(one[1]))
            question = f"Which {kind} has the {role} who was born {order}, {a.name} or {b.name}?"
            yield made(question, winner.name, "chain", a, x, b, y)


def made(question: str, answer: str, kind: str, *about: Facts) -> Json:
    """Return a question in the form of the data."""
    return {
        "dataset": f"composed_{kind}",
        "question": question,
        "answers": [answer],
        "evidence": list(dict.fromkeys(f.id for f in about)),
        "evidence_text": [f.sentence for f in about],
        "type": kind,
    }


def steps(question: Json) -> Iterator[Json]:
    """Yield the single steps of a decomposed question, with the answers of the steps before filled in."""
    answers: list[str] = []
    for step in question.get("decomposition", ()):
        text = step["question"]
        for number, answer in enumerate(answers, start=1):
            text = text.replace(f"#{number}", answer)
        answers.append(step["answer"])
        if " >> " in text:
            subject, relation = text.split(" >> ", 1)
            text = f"{subject}: {relation}?"
        yield {
            "dataset": "steps",
            "question": text if text.endswith("?") else text + "?",
            "answers": [step["answer"]],
            "evidence": [step["evidence"]],
            "type": "step",
        }
