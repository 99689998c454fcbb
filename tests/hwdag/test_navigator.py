"""Questions that are asked again with the nodes read: similarity, files, and the second hop."""

import json
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest
from worlds import corpus_of, question_of, random_graph, random_vectors

from examples.train_navigator.choices import choices, gains
from examples.train_navigator.states import Task, asked
from hwdag.config import BuildConfig, Scoring, SearchConfig
from hwdag.corpus.similarity import Similarity
from hwdag.corpus.view import View
from hwdag.embedding.default import default_embedder
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, ModelNotFound
from hwdag.index import HWDAGIndex
from hwdag.scope import Scope
from hwdag.search.frontier import Frontier
from hwdag.search.navigator import CARD, SHIPPED, Navigator, _adapted, embedded, navigator_of
from hwdag.types import Document
from hwdag_lab.eval.data import write_records
from hwdag_lab.eval.schema import parse_record
from hwdag_lab.scripted import ScriptedLM

QUESTION = "Which dragon guards the silver bridge?"
PARAGRAPHS = {
    "p0": "Clara Holm built the harbour of Brightwater in 1871.",
    "p1": "Clara Holm was born in Elm Hill.",
    "p2": "The ferry of Oakport was replaced by a bridge.",
}


def record(name, paragraphs):
    return parse_record(
        {
            "id": name,
            "dataset": "towns",
            "text": "\n\n".join(paragraphs.values()),
            "paragraphs": [{"id": key, "text": text} for key, text in paragraphs.items()],
            "questions": [
                {
                    "id": name,
                    "question": "Where was the builder of the harbour of Brightwater born?",
                    "answers": ["Elm Hill"],
                    "evidence": ["p0", "p1"],
                }
            ],
        }
    )


RECORD = record("towns", PARAGRAPHS)


def world(seed, count=2):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, chunks=8, levels=3)
    corpus = corpus_of([graph], [random_vectors(rng, len(graph))])
    return corpus, random_vectors(rng, count)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_most_similar_form_of_a_question_counts(share):
    corpus, vectors = world(0, count=3)
    scoring = Scoring(bm25_weight=share, paragraph_weight=0.0)
    found = Similarity(View.of(corpus), question_of(QUESTION).asked_words, vectors[0], scoring)
    found.add(vectors[1:])
    cosine = np.max([corpus.similarity(vector) for vector in vectors], axis=0)
    words = Similarity(
        View.of(corpus), question_of(QUESTION).asked_words, np.zeros_like(vectors[0]), scoring
    ).values
    low, high = cosine.min(), cosine.max()
    mixed = (1 - share) * (cosine - low) / (high - low) + words if share else cosine
    np.testing.assert_allclose(found.values, mixed, rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_another_similarity_midway_is_as_if_it_had_been_there_before(seed):
    corpus, vectors = world(seed)
    scoring, rng = Scoring(), np.random.default_rng(seed)
    before, after = (
        Similarity(View.of(corpus), question_of(QUESTION).asked_words, v, scoring).values
        for v in vectors
    )
    changed = Frontier.of(View.of(corpus), question_of(QUESTION), before, scoring)
    expected = Frontier.of(View.of(corpus), question_of(QUESTION), after, scoring)
    nodes = corpus.fetch(range(len(corpus)))
    read = rng.permutation(len(corpus))[:4].tolist()
    for at, index in enumerate(read):
        if at == 2:
            changed.set_similarity(after)
        relevance = float(rng.random())
        for frontier in (changed, expected):
            frontier.visit(index, nodes[index])
            frontier.pass_on(index, relevance)

    def costs(some):
        return [1] * len(some)

    assert changed.best(costs, 50) == expected.best(costs, 50)
    assert changed.ranking(9).tolist() == expected.ranking(9).tolist()
    assert changed.parts(0) == expected.parts(0)


def scorer_of(task, embedder, side):
    """Return a scorer of the choices of one walk, which it has learned."""
    from examples.train_navigator.choosing import fit_scorer, share_gained

    question = task.questions[0]
    vector = embedder.embed_query(question.text)

    def embed(text, read):
        return embedded(side.model, text, read)

    found = choices(task.world, question, vector, embed, reads=2)
    assert [len(choice.gains) for choice in found] == [3, 2]
    scorer = fit_scorer(found * 40)
    assert share_gained(scorer, found) == 1.0
    return scorer


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a navigator that changes nothing yet, and one step of training after it."""
    # why here: it loads what training needs
    import torch

    from examples.train_navigator.train import QuestionSide, loss_of

    folder = tmp_path_factory.mktemp("navigator")
    embedder = default_embedder()
    side = QuestionSide(embedder.model)
    side.save(folder / "plain", embedder)
    task = Task.of(RECORD, embedder)
    (one,) = map(side.below, asked([task], embedder, reads=2))
    optimizer = torch.optim.SGD(side.trained, lr=0.1)
    losses = []
    for _ in range(3):
        loss = loss_of(side, one)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[2] < losses[0]
    side.save(folder / "trained", embedder)
    scorer = scorer_of(task, embedder, side)
    for name in ("plain", "trained"):
        scorer.save(folder / name)
    # the trained model is the one that asks, also if texts of several lengths are padded
    expected = side.embed(one).detach().numpy()
    found = Navigator.load(folder / "trained", embedder).embed(one.asked.text, one.asked.texts)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    return folder


@pytest.mark.model
def test_states_reward_the_node_that_should_be_read_next():
    task = Task.of(RECORD, default_embedder())
    (one,) = asked([task], default_embedder(), reads=2)
    assert one.texts[0] == PARAGRAPHS["p0"]
    assert one.read[0] == 0
    assert (one.states[0].reads, one.states[0].next.tolist(), one.states[0].gain) == (1, [1], 2.0)
    for read, gained in (([], [2, 2, 0]), ([0], [0, 2, 0]), ([0, 1], [0, 0, 0])):
        found = gains(task.world, task.questions[0], read, np.arange(3))
        assert found.tolist() == gained


def test_records_are_divided_and_read_together_as_well(tmp_path):
    from examples.train_navigator.train import divided

    records = [
        record(
            f"towns {i}", {key: text.replace("1871", str(i)) for key, text in PARAGRAPHS.items()}
        )
        for i in range(24)
    ]
    write_records(tmp_path / "towns.jsonl", records)
    options = Namespace(limit=20, held_out=3)
    parts = divided(tmp_path / "towns.jsonl", options, HashingEmbedder())
    texts = [[len(task.questions) for task in part] for part in parts]
    assert texts[2] == [1] * 3
    for counts in texts[:2]:
        singles, together = counts.count(1), [count for count in counts if count > 1]
        assert singles > 1 and sum(together) in (singles, singles - 1)
    assert sum(part.count(1) for part in texts) == 20
    for task in parts[0]:
        for question in task.questions:
            places = [node.sources[0] for node in task.world.nodes]
            gold = [sum(span.overlap(place) > 0 for place in places) for span in question.evidence]
            assert gold == [1, 1]


@pytest.mark.model
def test_a_saved_navigator_asks_as_the_trained_model_does(trained):
    embedder = default_embedder()
    question, texts = RECORD.questions[0].text, list(PARAGRAPHS.values())
    plain = Navigator.load(trained / "plain", embedder).embed(question, texts)
    joined = embedder.embed([f"{question} [SEP] {text}" for text in texts])
    assert plain.shape == joined.shape and plain.dtype == np.float32
    assert (plain * joined).sum(1).min() > 0.98  # the second text is marked as one, that is all
    moved = Navigator.load(trained / "trained", embedder).embed(question, texts)
    assert 0 < np.abs(moved - plain).max() < 0.5
    assert Navigator.load(trained / "plain", embedder).embed(question, []).shape == (0, 384)
    sizes = [file.stat().st_size for file in (trained / "trained").iterdir()]
    assert sum(sizes) < 1_500_000


@pytest.mark.model
def test_a_navigator_of_another_embedder_is_refused(trained, tmp_path):
    embedder = default_embedder()
    with pytest.raises(InputError, match="'hashing-256'"):
        Navigator.load(trained / "plain", HashingEmbedder())
    with pytest.raises(ModelNotFound, match="navigator"):
        Navigator.load(tmp_path, embedder)
    card = json.loads((trained / "plain" / CARD).read_text("utf-8"))
    for changed, message in (
        (card | {"fingerprint": "0"}, "embedder"),
        (card | {"reads": 0}, "reads"),
        ([], "card"),
    ):
        (tmp_path / CARD).write_text(json.dumps(changed), "utf-8")
        with pytest.raises(InputError, match=message):
            Navigator.load(tmp_path, embedder)


@pytest.mark.model
def test_a_walk_with_a_navigator_reads_another_similarity(trained):
    index = HWDAGIndex(reader=ScriptedLM(), config=BuildConfig())
    index.insert([Document("towns", RECORD.text)])
    question = RECORD.questions[0].text
    config = SearchConfig(token_budget=60, navigator="none")
    alone = index.search(question, config=config)
    folder = str(trained / "trained")
    asked_again = index.search(question, config=replace(config, navigator=folder))
    similarities = [
        {step.node.id: step.similarity for step in found.steps} for found in (alone, asked_again)
    ]
    assert similarities[0] != similarities[1]


@pytest.mark.model
def test_the_scorer_chooses_what_a_walk_reads(trained):
    index = HWDAGIndex(reader=ScriptedLM(), config=BuildConfig())
    index.insert([Document("towns", RECORD.text)])
    question = RECORD.questions[0].text
    found = index.search(question, config=SearchConfig(navigator=str(trained / "plain")))
    assert [step.node.text for step in found.steps][:2] == [PARAGRAPHS["p0"], PARAGRAPHS["p1"]]


@pytest.mark.model
def test_nobody_may_see_anything_and_the_walk_ends_at_once(trained):
    index = HWDAGIndex(reader=ScriptedLM(), config=BuildConfig())
    index.insert([Document("towns", RECORD.text, metadata={"town": "a"})])
    config = SearchConfig(navigator=str(trained / "plain"))
    found = index.search("Who?", config=config, scope=Scope(filters={"town": "b"}))
    assert found.steps == ()


@pytest.mark.model
def test_the_shipped_navigator_is_used_with_its_embedder_only():
    embedder = default_embedder()

    def named(where=embedder, **options):
        return navigator_of(SearchConfig(**options).plan(), where)

    assert named() is named(navigator="default") is named(method="hwdag")
    assert named(scoring=Scoring(references=0.0)) is None
    assert named(HashingEmbedder()) is named(navigator="none") is named(method="garlic") is None
    with pytest.raises(InputError, match="'hashing-256'"):
        named(HashingEmbedder(), navigator="default")


@pytest.mark.model
def test_a_navigator_adds_little_memory_to_its_embedder():
    embedder = default_embedder()
    known = {id(weight) for weight in embedder.model.parameters()}
    own = [w for w in _adapted(SHIPPED, embedder).parameters() if id(w) not in known]
    assert 0 < sum(w.numel() for w in own) < sum(w.numel() for w in embedder.model.parameters()) / 5


@pytest.mark.model
def test_the_navigator_asks_without_torch_as_it_does_in_torch():
    embedder, texts = default_embedder(), ["Clara Holm built it.", "word " * 300, "", "\U0001f642"]
    light = Navigator.load(SHIPPED, embedder).embed("Who built the harbour?", texts)
    in_torch = embedded(_adapted(SHIPPED, embedder), "Who built the harbour?", texts)
    assert light.dtype == np.float32
    assert np.allclose(light, in_torch, atol=1e-5)
    assert not np.allclose(light, embedder.embed(texts), atol=0.1)
