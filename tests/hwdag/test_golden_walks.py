"""Golden walks: walks and answers over the town, twenty documents and three of them, as they were recorded.

A change that should keep every walk is checked by this. After one that should not,

    python tests/hwdag/test_golden_walks.py

records all walks again and prints which of them changed; the commit names the cause.
"""

import json
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from math import isclose
from pathlib import Path

import pytest

from hwdag import BuildConfig, Document, HWDAGIndex, SearchConfig
from hwdag.config import NEVER
from hwdag.lm.default import load_reader
from hwdag_lab.scripted import ScriptedLM, summary

pytestmark = pytest.mark.model

TESTS = Path(__file__).parent
RECORDED = TESTS / "golden" / "walks.json"
RELATIVE, ABSOLUTE = 1e-4, 1e-5


@dataclass(frozen=True)
class Mode:
    """How to build, how to search, and how many questions to ask of each world."""

    build: BuildConfig = field(default_factory=BuildConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    town: int = 2
    twenty: int = 2
    three: int = 0
    is_written: bool = False  # the points, by `written`


EVIDENCE = SearchConfig(token_budget=120)
BUDGET = SearchConfig(method="hwdag", token_budget=120, confidence=NEVER, navigator="none")
ENOUGH = SearchConfig(token_budget=200, confidence=0.99)
ATTENTION = BuildConfig(method="hwdag")
WRITTEN = BuildConfig(method="garlic", chunk_tokens=40, window_tokens=300)
GARLIC = SearchConfig(method="garlic", token_budget=1024)
PECAN = SearchConfig(method="pecan", token_budget=400, confidence=0.98)

MODES = {
    "evidence": Mode(search=EVIDENCE, town=1),
    "p_yes": Mode(search=ENOUGH, town=1, twenty=1),
    "attention": Mode(ATTENTION, BUDGET, twenty=0),
    "attention, p_yes": Mode(ATTENTION, replace(ENOUGH, navigator="none"), town=1, twenty=0),
    "attention, written": Mode(WRITTEN, BUDGET, town=0, twenty=0, three=1, is_written=True),
    "garlic": Mode(ATTENTION, GARLIC, town=1, twenty=0),
    "garlic, written": Mode(WRITTEN, GARLIC, town=0, twenty=0, three=1, is_written=True),
    "pecan": Mode(ATTENTION, PECAN, town=1, twenty=0),
}
"""Every option of the walks is here. Written points are those of the papers, other ones are picked."""

TOWN = (
    "Who owned the quarry that the harbour's stone came from?",
    "What became of the mill whose owner helped the fishermen after the storm?",
    "Whom did the engineer of the harbour marry?",
)
TWENTY = (
    "Where does the bell of the first ferry hang?",
    "Who gave a collection to the house whose owner ran the slate company?",
    "In which city is the diary of the explorer who used a chronometer from Tolland?",
)
WALKS = [
    (name, world, question)
    for name, mode in MODES.items()
    for world, questions in (
        ("town", TOWN[: mode.town]),
        ("twenty", TWENTY[: mode.twenty]),
        ("three", TWENTY[: mode.three]),
    )
    for question in questions
]


def test_every_recorded_walk_is_walked():
    assert recorded().keys() == {" / ".join(walk) for walk in WALKS}


@pytest.mark.parametrize("walk", WALKS, ids=" / ".join)
def test_a_walk_is_as_it_was_recorded(walk):
    assert list(differences(recorded()[" / ".join(walk)], walked(*walk))) == []


def test_without_points_a_search_walks_as_an_answer_does_and_reads_nothing():
    mode, question = MODES["evidence"], TWENTY[0]
    found = walk_of(index_of("twenty", mode).search(question, config=mode.search))
    read = {"relevance": None, "p_yes": None}
    asked = recorded()[f"evidence / twenty / {question}"]
    steps = [step | read for step in asked["steps"]]
    assert list(differences(asked["stop"], found["stop"])) == []
    assert list(differences(steps, found["steps"])) == []


@cache
def recorded():
    return json.loads(RECORDED.read_text("utf-8"))


def walked(name, world, question):
    """Return a walk with its answer as JSON-able values."""
    mode = MODES[name]
    index = index_of(world, mode)
    answer = index.answer(question, config=mode.search)
    cited = [[one.document_id, one.span.start, one.span.end] for one in answer.citations]
    weights = [one.weight for one in answer.citations]
    said = {"answer": answer.text, "likelihood": answer.likelihood}
    return walk_of(answer.retrieval) | said | {"citations": cited, "weights": weights}


def walk_of(walk):
    steps = [step_of(step) for step in walk.steps]
    return {"steps": steps, "stop": walk.stop, "tokens": walk.context_tokens}


def step_of(step):
    parts = ("attention", "similarity", "reference", "relevance", "p_yes")
    values = {name: getattr(step, name) for name in parts}
    return {"node": step.node.id, "initial": step.initial} | values


def index_of(world, mode):
    return built(world, mode.build, mode.is_written)


@cache
def built(world, config, is_written):
    writer = ScriptedLM(reply=written) if is_written else None
    return HWDAGIndex.from_documents(
        documents_of(world), reader=load_reader(dtype="float32"), config=config, writer=writer
    )


def written(prompt):
    """Return the first words of every second sentence."""
    bullets = summary(prompt).splitlines()[::2]
    return "\n".join(" ".join(bullet.split()[:12]) for bullet in bullets)


def documents_of(world):
    if world == "town":
        files = sorted((TESTS.parents[1] / "examples" / "town").glob("*.md"))
        return [Document(file.stem, file.read_text("utf-8")) for file in files]
    texts = (TESTS / "golden" / "twenty.md").read_text("utf-8").split("\n---\n")
    count = 3 if world == "three" else 20
    return [Document(f"{i:02}", text) for i, text in enumerate(texts[:count])]


def differences(one, other, path=""):
    """Yield the places at which two JSON values differ; numbers may differ by a rounding of float32."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{path}[{i}]")
    elif not same(one, other):
        yield f"{path}: {one!r} was recorded, now it is {other!r}"


def same(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(one) is type(other) and one == other


def record():
    """Write all walks as they are now, and say which of them differ from the old ones."""
    old = recorded() if RECORDED.exists() else {}
    new = {" / ".join(walk): walked(*walk) for walk in WALKS}
    for key in sorted(old.keys() | new.keys()):
        if found := list(differences(old.get(key, {}), new.get(key, {}))):
            sys.stdout.write("\n    ".join([key, *found]) + "\n")
    walks = (f"{json.dumps(key)}: {as_json(walk)}" for key, walk in new.items())
    RECORDED.write_text("{\n" + ",\n".join(walks) + "\n}\n", "utf-8")


def as_json(walk):
    """Return a walk with a step a line, so that a change of one is seen."""
    steps = ",\n".join(f"  {json.dumps(rounded(step))}" for step in walk["steps"])
    rest = json.dumps(rounded({key: walk[key] for key in walk if key != "steps"}))
    return f'{{"steps": [\n{steps}\n], {rest[1:]}'


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


if __name__ == "__main__":
    record()
