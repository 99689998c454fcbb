"""Who says "enough": p_yes as the papers have it, controllers on the same signals as their fit."""

import dataclasses
import re
from types import SimpleNamespace

import evaluation_world as world
import numpy as np
import pytest
from tiny import model, tokenizer
from worlds import corpus_of, random_graph, random_vectors

from hwdag.cli.main import main
from hwdag.config import BuildConfig, SearchConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError
from hwdag.index import HWDAGIndex
from hwdag.lm.controller import FEATURES, Controller
from hwdag.lm.heads import HeadFile
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.search.progress import ProgressControl, Visit, signals
from hwdag.search.walk import walk
from hwdag.text.prompts import SearchPrompts
from hwdag.trace.provenance import provenance
from hwdag.trace.render import step_line, stop_line
from hwdag.types import Document, Span
from hwdag_lab.eval.data import write_records
from hwdag_lab.heads.calibration import calibrate
from hwdag_lab.heads.observations import Trail, observe, trail_of
from hwdag_lab.scripted import ScriptedLM

SIGHTED = Controller(
    FEATURES,
    (0.0, 0.0, -3.0, 0.5, 1.0),
    (1.0, 1.0, 1.0, 0.5, 0.5),
    (0.3, 0.2, 0.1, 0.1, 1.5),
    -0.5,
    "scripted",
)


def two_hops(count, questions=2):
    """Records whose questions need a second sentence, which they do not name."""
    rng, records = np.random.default_rng(0), []
    for record in world.records(count, questions=questions):
        places = [match.span() for match in re.finditer(r"[^.]+\.", record.text)]
        asked = []
        for question in record.questions:
            other = Span(*places[rng.integers(questions, len(places))])
            gold = (*question.sentences, other)
            asked.append(dataclasses.replace(question, evidence=gold, sentences=gold))
        records.append(dataclasses.replace(record, questions=tuple(asked)))
    return records


class Calibrated(ScriptedLM):
    """A scripted model that has controllers."""

    def __init__(self, controllers, **options):
        super().__init__(**options)
        self.controllers = controllers


def searched(lm, config, seed=0, **options):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, chunks=12, levels=3)
    vectors, query = random_vectors(rng, len(graph)), random_vectors(rng, 1)[0]
    return walk(
        corpus_of([graph], [vectors]),
        "Which dragon guards the silver bridge?",
        reader=lm,
        embedder=HashingEmbedder(),
        config=config,
        prompts=SearchPrompts(),
        query_vector=query,
        **options,
    )


def readings(retrieval):
    return [step.p_yes for step in retrieval.steps if step.p_yes is not None]


def stopping_point(told, confidence, patience):
    """Number of readings until `patience` of them were above the confidence; None for never."""
    above = [i + 1 for i, value in enumerate(told) if value > confidence]
    return above[patience - 1] if len(above) >= patience else None


@pytest.mark.parametrize("seed", range(6))
def test_p_yes_ends_the_walk_where_it_would_have_gone_on(seed):
    rng = np.random.default_rng(seed)
    script, confidence, patience = rng.random(40), 0.6, 1 + seed % 3
    options = {"token_budget": 250, "stride": 1, "confidence": confidence, "patience": patience}
    whole = searched(ScriptedLM(p_yes=script), SearchConfig(progress="budget", **options), seed)
    found = searched(ScriptedLM(p_yes=script), SearchConfig(progress="p_yes", **options), seed)
    end = stopping_point(readings(whole.retrieval), confidence, patience)
    steps = found.retrieval.steps
    assert steps == whole.retrieval.steps[: len(steps)]
    assert (found.retrieval.stop == "sufficient") == (end is not None)
    assert len(readings(found.retrieval)) == (end or len(readings(whole.retrieval)))
    assert found.says_yes is bool(found.retrieval.p_yes > confidence)
    assert found.retrieval.notes == ()
    assert all(step.p_enough is None for step in steps)
    assert "p_enough" not in provenance(steps[-1], found.retrieval)
    assert whole.says_yes
    assert whole.retrieval.notes == ("p_yes is shown but does not stop the walk",)


@pytest.mark.parametrize("seed", range(4))
def test_a_controller_ends_the_walk_by_its_own_probability(seed):
    lm = Calibrated({"calibrated": SIGHTED})
    options = {"token_budget": 250, "confidence": 0.85, "patience": 1 + seed % 2}
    whole = searched(lm, SearchConfig(progress="budget", stride=1, **options), seed).retrieval
    found = searched(lm, SearchConfig(progress="calibrated", **options), seed)
    visits = [Visit.of(step) for step in whole.steps]
    told = [
        SIGHTED.probability(signals(visits[: i + 1]))
        for i, visit in enumerate(visits)
        if visit.p_yes is not None
    ]
    end = stopping_point(told, 0.85, options["patience"])
    seen = [step.p_enough for step in found.retrieval.steps if step.p_yes is not None]
    assert end is not None
    assert found.retrieval.stop == "sufficient"
    assert seen == told[:end]  # the very same numbers
    assert found.says_yes
    assert found.retrieval.notes == ("the controller 'calibrated' says what is enough",)


def test_a_controller_stops_where_p_yes_would_not_and_goes_on_where_it_would():
    options = {"token_budget": 250}
    never = Calibrated({"calibrated": SIGHTED}, p_yes=[0.4])
    assert searched(never, SearchConfig(progress="p_yes", **options)).retrieval.stop == "exhausted"
    found = searched(never, SearchConfig(progress="calibrated", **options))
    assert found.retrieval.stop == "sufficient"

    always = Calibrated({"calibrated": dataclasses.replace(SIGHTED, bias=-9.0)}, p_yes=[0.9])
    assert len(readings(searched(always, SearchConfig(progress="p_yes", **options)).retrieval)) == 1
    found = searched(always, SearchConfig(progress="calibrated", **options))
    assert found.retrieval.stop == "exhausted"
    assert not found.says_yes


def test_a_controller_that_is_there_has_no_say_by_default():
    lm = Calibrated({"calibrated": SIGHTED}, p_yes=[0.99])
    found = searched(lm, SearchConfig()).retrieval
    assert found.notes == ("p_yes is shown but does not stop the walk",)
    assert all(step.p_enough is None for step in found.steps)


def test_head_mass_alone_is_a_controller_too():
    alone = Controller(("head_mass",), (0.0,), (1.0,), (1.0,), 0.0, "scripted")
    lm = Calibrated({"head_mass": alone})
    found = searched(lm, SearchConfig(progress="head_mass", confidence=0.2)).retrieval
    for count, step in enumerate(found.steps, 1):
        masses = [s.relevance / s.position for s in found.steps[:count]]
        mass = max(sum(sorted(masses)[-2:]), 1e-6)
        if step.p_yes is not None:
            assert step.p_enough == pytest.approx(mass / (1 + mass))


def test_with_a_stride_the_controller_is_asked_where_p_yes_is_read():
    lm = Calibrated({"calibrated": dataclasses.replace(SIGHTED, bias=-9.0)})
    config = SearchConfig(progress="calibrated", stride=3, token_budget=250)
    steps = searched(lm, config).retrieval.steps
    assert [s.p_enough is None for s in steps] == [s.p_yes is None for s in steps]
    assert any(s.p_enough is None for s in steps[:-1])


def test_the_probability_is_shown_while_the_walk_goes_on():
    shown = []
    lm = Calibrated({"calibrated": SIGHTED})
    found = searched(lm, SearchConfig(progress="calibrated"), on_step=shown.append).retrieval
    assert tuple(shown) == found.steps
    last = found.steps[-1]
    assert f"[{last.p_enough:.3f} enough]" in step_line(last)
    assert provenance(last, found)["p_enough"] == last.p_enough
    assert "the controller 'calibrated' says what is enough" in stop_line(found)


def test_without_a_controller_of_the_reader_the_command_is_named():
    config = SearchConfig(progress="calibrated")
    with pytest.raises(
        InputError, match=r"fitted for scripted, and its head file has none; make it"
    ):
        searched(ScriptedLM(), config)
    with pytest.raises(InputError, match="hwdag heads calibrate --model scripted --data"):
        searched(Calibrated({"head_mass": SIGHTED}), config)
    other = dataclasses.replace(SIGHTED, reader="a/model+adapter")
    with pytest.raises(InputError, match=r"has one for a/model\+adapter"):
        searched(Calibrated({"calibrated": other}), config)


def test_other_heads_than_those_of_the_fit_are_refused():
    with pytest.raises(InputError, match="progress='calibrated' was fitted"):
        SearchConfig(progress="calibrated", heads="all")
    with pytest.raises(InputError, match='heads must be "auto"'):
        SearchConfig.garlic(progress="calibrated")


def test_what_was_fitted_steers_with_the_same_numbers(tmp_path):
    """From data to controller to walk: every probability is that of the fit's own features."""

    def p_yes(question, texts):
        return 0.2 + 0.6 / (1 + len(texts))  # falls, whatever was read

    models = world.models(ScriptedLM(p_yes=p_yes))
    records, file = two_hops(5), tmp_path / "walks.jsonl"
    trails = observe(records, models, file, token_budget=100, settings={})
    fitted = calibrate(trails, reader="scripted").controllers
    lm = Calibrated(fitted, p_yes=p_yes)
    config = SearchConfig(progress="calibrated", token_budget=100)
    for record in records[:2]:
        document = Document(record.id, record.text, record.title)
        index = HWDAGIndex.from_documents([document], reader=lm, embedder=HashingEmbedder())
        for question in record.questions:
            found = index.search(question.text, config=config)
            [trail] = [one for one in trails if one.key == (record.dataset, question.id)]
            assert trail_of(found, record, question).visits == trail.visits[: len(found.steps)]
            for count in trail.readings[: len(found.steps)]:
                expected = fitted["calibrated"].probability(signals(trail.visits[:count]))
                assert found.steps[count - 1].p_enough == expected


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A tiny model on disk, and the head list of two of its heads."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    inner = model(vocab_size=len(tokenizer()))
    inner.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    heads = HeadFile.of(str(folder), inner.config, ((1, 2), (2, 5)), source="by hand")
    heads.save(folder / "heads.json")
    return folder


@pytest.mark.slow
def test_the_command_fits_and_its_file_steers(checkpoint, tmp_path, capsys):
    data, output, plot = tmp_path / "towns.jsonl", tmp_path / "fitted.json", tmp_path / "curves.png"
    write_records(data, two_hops(3))
    command = ["heads", "calibrate", "--model", str(checkpoint), "--data", str(data), "--quiet"]
    command += ["--embedder", "hashing-64", "--budget", "700", "--points", "extractive"]
    assert main([*command, "-o", str(output)]) == 2
    assert "no retrieval heads are known for" in capsys.readouterr().err

    command += ["--heads", str(checkpoint / "heads.json"), "-o", str(output)]
    assert main([*command, "--plot", str(plot)]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("6 questions, 3 documents, ")
    assert plot.read_bytes().startswith(b"\x89PNG")
    first = output.read_bytes()
    assert main(command) == 0  # nothing is walked again
    assert capsys.readouterr().out == printed
    assert output.read_bytes() == first

    lm = HuggingFaceLM.from_pretrained(str(checkpoint), dtype="float32", heads=output)
    assert set(lm.controllers) == {"head_mass", "calibrated"}
    assert lm.controllers["calibrated"].source == "6 questions of towns, 700 tokens"
    index = HWDAGIndex.from_documents(
        ["The dragon sleeps. The bridge is silver. The king is old."],
        reader=lm,
        embedder=HashingEmbedder(),
        config=BuildConfig(points="extractive"),
    )
    found = index.search("Who sleeps?", config=SearchConfig(progress="calibrated"))
    visits = [Visit.of(step) for step in found.steps]
    for i, step in enumerate(found.steps, 1):
        assert step.p_enough == lm.controllers["calibrated"].probability(signals(visits[:i]))


def test_a_reader_without_a_head_file_has_no_controllers():
    lm = HuggingFaceLM(model(), tokenizer())
    assert lm.controllers == {}


def test_a_trail_needs_nothing_of_a_retrieval_but_its_steps():
    record = world.record(0, questions=1)
    step = SimpleNamespace(
        position=2,
        relevance=0.5,
        similarity=1.0,
        p_yes=0.3,
        node=SimpleNamespace(
            tokens=4,
            origin="chunk",
            document_id=record.id,
            sources=record.questions[0].sentences,
        ),
    )
    found = trail_of(SimpleNamespace(steps=(step,)), record, record.questions[0])
    assert found == Trail("towns", "doc0", "q0.0", (Visit(2, 0.5, 1.0, 0.3, 4),), (True,))


def test_without_a_confidence_the_one_of_the_reader_counts():
    def is_enough(p_yes, config):
        progress = ProgressControl(config, lm)
        progress.take(SimpleNamespace(p_yes=p_yes, p_enough=None))
        return progress.reason == "sufficient"

    lm = ScriptedLM()
    asked = SearchConfig(progress="p_yes")
    assert is_enough(0.6, asked) and not is_enough(0.4, asked)
    lm.confidence = 0.9
    assert is_enough(0.95, asked) and not is_enough(0.85, asked)
    assert is_enough(0.4, SearchConfig(progress="p_yes", confidence=0.3))
    assert is_enough(0.6, SearchConfig.garlic())
