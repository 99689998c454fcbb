"""Measure a model as a reader on texts that this program makes: a card in minutes.

Short lives of invented people, five sentences each. Does the model write points that condense and copy
nothing? Does its p_yes separate sentences that hold an answer from as many that do not? Does the attention
of a paraphrase meet the sentence that it was made of, with all heads or with the best ones?
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hwdag.building.levels import GraphBuilder
from hwdag.config import BuildConfig, HeadList, Heads
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.lm.base import ReplayRequest
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.model_file import ModelFile
from hwdag.text.draft import Draft
from hwdag.text.prompts import Prompts
from hwdag.trace.bars import Reporter, Silent
from hwdag.types import Document, Span
from hwdag_lab.heads import Example, detect_heads

LIVES_PER_TEXT = 8
TEXTS = 2  # that points are written of
QUESTIONS = 24
HEADS = 8

WRITES, JUDGES, ATTENDS = 0.6, 0.75, 0.5
"""The least share of usable points, AUC of p_yes, and share of paraphrases that meet their sentence."""

CONDENSES = 2.5  # tokens of the text per token of its points, at least

_FIRST = [
    "Marta",
    "Jonas",
    "Elin",
    "Tomas",
    "Petra",
    "Anton",
    "Klara",
    "Viktor",
    "Nadia",
    "Oskar",
    "Lena",
    "Emil",
]
_LAST = [
    "Lindqvist",
    "Okafor",
    "Brandt",
    "Sorel",
    "Haugen",
    "Petrov",
    "Castell",
    "Ibarra",
    "Novak",
    "Ferrer",
    "Dahl",
    "Ricci",
]
_FACTS = (
    ("trade", ("repairs clocks", "bakes bread", "binds books", "tunes pianos", "cuts glass")),
    ("animal", ("two goats", "an old donkey", "a blind cat", "seven geese", "a grey parrot")),
    ("town", ("Osterby", "Valmara", "Kilbrae", "Tornholm", "Redwick")),
    ("instrument", ("the cello", "a tin whistle", "the accordion", "a small harp", "the trumpet")),
    (
        "debt",
        ("a lame horse", "ninety crowns", "a broken boat", "a silver watch", "some seed corn"),
    ),
)
_SENTENCES = (
    "{name} {trade} in a narrow shop near the river.",
    "Behind the house {name} keeps {animal}, which the neighbours complain about.",
    "As a child {name} lived in {town}, where the fair is held every spring.",
    "In the evenings {name} plays {instrument} for whoever happens to pass.",
    "The miller still owes {name} {debt} from the winter of the flood.",
)
_PARAPHRASES = (
    "For a living {name} {trade}.",
    "{name} has {animal} at home.",
    "{name} comes from {town}.",
    "{name} makes music on {instrument}.",
    "{name} never got {debt} back.",
)
_QUESTIONS = (
    "What does {name} do for a living?",
    "Which animal does {name} keep?",
    "Where did {name} live as a child?",
    "What does {name} play in the evenings?",
    "What does the miller owe {name}?",
)


@dataclass(frozen=True, slots=True)
class Life:
    """Five sentences about one person, with a paraphrase and a question for each."""

    sentences: tuple[str, ...]
    paraphrases: tuple[str, ...]
    questions: tuple[str, ...]


def lives(seed: int, count: int) -> list[Life]:
    """Invent people; no two of them have the same name."""
    chance = random.Random(seed)
    names = chance.sample([f"{first} {last}" for first in _FIRST for last in _LAST], count)
    found = []
    for name in names:
        facts = {key: chance.choice(values) for key, values in _FACTS} | {"name": name}
        filled = (
            tuple(text.format(**facts) for text in texts)
            for texts in (_SENTENCES, _PARAPHRASES, _QUESTIONS)
        )
        found.append(Life(*filled))
    return found


@dataclass(frozen=True, slots=True)
class Probe:
    """The measurements of a model.

    Attributes:
        points: usable points and written ones.
        condensed: tokens of the texts per token of their points.
        auc: of p_yes, for evidence with the answer against evidence without.
        confidence: the p_yes that parts them best.
        met: share of paraphrases whose heaviest edge meets their sentence.
        heads: the heads that they were read with; empty for all.
        seconds: that it took in the model.
    """

    points: tuple[int, int]
    condensed: float
    auc: float
    confidence: float
    met: float
    heads: HeadList
    seconds: float

    def model_file(self, lm: HuggingFaceLM) -> ModelFile:
        """Return the file of the model, with the card that follows."""
        usable, written = self.points
        share = usable / max(1, written)
        source = (
            f"hwdag probe: {usable} of {written} points usable, {self.condensed:.1f} tokens in one; "
            f"AUC of p_yes {self.auc:.2f}; {self.met:.0%} of paraphrases meet their sentence"
        )
        return ModelFile.of(
            lm.name,
            lm.engine.weights.config,
            source=source,
            writes=share >= WRITES and self.condensed >= CONDENSES,
            judges=self.auc >= JUDGES,
            attends=self.met >= ATTENDS,
            confidence=round(self.confidence, 3),
            window_tokens=lm.card.window_tokens,
            heads=self.heads,
        )


def probe(lm: HuggingFaceLM, *, reporter: Reporter | None = None, seed: int = 0) -> Probe:
    """Measure a model: some thousand tokens are read, and a few hundred written."""
    before, shown = lm.usage, reporter or Silent()
    with shown.stage("probe", 4, "part") as advance:
        points, condensed = written_points(lm, seed)
        advance(1)
        auc, confidence = judged(lm, seed)
        advance(1)
        met = attended(lm, "all", seed)
        heads: HeadList = ()
        advance(1)
        best = best_heads(lm, seed)
        if (with_best := attended(lm, best, seed)) > met:
            met, heads = with_best, best
        advance(1)
    seconds = (lm.usage - before).seconds
    return Probe(points, condensed, auc, confidence, met, heads, seconds)


def written_points(lm: HuggingFaceLM, seed: int) -> tuple[tuple[int, int], float]:
    """Have points written; returns (usable, written) ones, and tokens of text per token of them."""
    config = BuildConfig("hwdag", edge_heads="all").resolved("hwdag")
    builder = GraphBuilder(lm, lm, HashingEmbedder(), config, Prompts())
    usable = lost = below = above = 0
    for number in range(TEXTS):
        people = lives(seed + number, LIVES_PER_TEXT)
        text = "\n\n".join(" ".join(life.sentences) for life in people)
        built = builder.build(Draft(Document(f"text-{number}", text)), Silent())
        made = [node for node in built.graph.nodes if node.level == 2]
        written = [node for node in made if node.origin == "generated"]
        usable += len(written)
        lost += built.replies.refused + built.replies.fallbacks
        below += sum(node.tokens for node in built.graph.nodes if node.level == 1)
        above += sum(node.tokens for node in written)
    return (usable, usable + lost), below / above if above else 0.0


def judged(lm: HuggingFaceLM, seed: int) -> tuple[float, float]:
    """Return the AUC of p_yes after sentences that hold an answer, or as many that do not; the best border."""
    chance, values = random.Random(seed), list[tuple[float, bool]]()
    for number in range(QUESTIONS):
        life, *others = lives(seed + 100 + number, 3)
        which = number % len(life.questions)
        rest = [s for s in life.sentences if s != life.sentences[which]][:3]
        spare = [other.sentences[which] for other in others]
        for answered in (True, False):
            nodes = [*rest, life.sentences[which] if answered else spare[0], spare[1]]
            chance.shuffle(nodes)
            session = lm.session(
                life.questions[which], prompts=lm.card.prompts, heads="all", max_new_tokens=8
            )
            values.append((session.read(nodes).p_yes, answered))
    return area(values), border(values)


def area(values: Sequence[tuple[float, bool]]) -> float:
    """Return area under the ROC curve: how often a value with the answer is above one without."""
    yes, no = (np.array([v for v, answered in values if answered is a]) for a in (True, False))
    above = (yes[:, None] > no).mean() + (yes[:, None] == no).mean() / 2
    return float(above)


def border(values: Sequence[tuple[float, bool]]) -> float:
    """Return the value above which most is right: the middle between two neighbours."""
    found = sorted(v for v, _ in values)
    middles = [(a + b) / 2 for a, b in pairwise(found)]
    right = [sum((v > middle) is answered for v, answered in values) for middle in middles]
    return float(middles[int(np.argmax(right))])


def attended(lm: HuggingFaceLM, heads: Heads, seed: int) -> float:
    """Return how often the sentence that a paraphrase attends to most is its origin."""
    hits = list[bool]()
    for number in range(TEXTS):
        people = lives(seed + 200 + number, LIVES_PER_TEXT // 2)
        sentences = [sentence for life in people for sentence in life.sentences]
        points = [point for life in people for point in life.paraphrases]
        order = random.Random(number).sample(range(len(points)), len(points))
        request = ReplayRequest(
            "Summarize the following text.\n\n",
            tuple(sentences),
            "\n\nWrite summary points.",
            tuple(points[i] for i in order),
            tuple((Span(0, len(sentence)),) for sentence in sentences),
            ("", *[" "] * (len(sentences) - 1)),
        )
        [replayed] = lm.replay([request], heads=heads)
        hits += [int(row.argmax()) == i for row, i in zip(replayed.attention, order, strict=True)]
    return float(np.mean(hits))


def best_heads(lm: HuggingFaceLM, seed: int) -> HeadList:
    """Return the heads whose attention to questions ranks sentences with the answer first."""
    examples = []
    for number in range(QUESTIONS):
        people = lives(seed + 300 + number, 3)
        which = number % len(people[0].questions)
        passages = tuple(s for life in people for s in life.sentences)
        examples.append(Example(people[0].questions[which], passages, (which,)))
    found = detect_heads(lm, examples, criterion="core")
    return tuple(pair for pair, _ in found.ranked()[:HEADS])


def known_file(lm: HuggingFaceLM, measured: Probe) -> ModelFile:
    """Return the file of a probe, asked in the turns of the card that the model had."""
    turns = 2 if lm.card.prompts.second_turn else 1
    return replace(measured.model_file(lm), turns=turns)
