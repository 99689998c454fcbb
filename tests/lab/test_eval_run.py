"""The run: resumable, nothing twice, errors counted, settings guarded; every system end to end."""

import json
import signal
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import evaluation_world as world
import numpy as np
import pytest
from scripted_scoring import ScoringLM

from hwdag.config import BuildConfig
from hwdag.errors import InputError, OutOfMemory, UnknownOption, WriterFailed
from hwdag.index import HWDAGIndex
from hwdag.lm.base import Replay, heads_of
from hwdag.lm.writers import CallableWriter
from hwdag.types import Usage
from hwdag_lab.eval.builds import INDEXES
from hwdag_lab.eval.data import pool_records
from hwdag_lab.eval.edges import shuffled
from hwdag_lab.eval.models import CachedReader, CachedWriter, open_calls
from hwdag_lab.eval.plan import Plan
from hwdag_lab.eval.records import (
    BUILDS,
    RECORDS,
    Build,
    Journal,
    Result,
    read_builds,
    read_lines,
    read_results,
)
from hwdag_lab.eval.run import CALLS, RunCounts, matched_budgets, run
from hwdag_lab.eval.schema import Question
from hwdag_lab.eval.settings import SETTINGS, read_settings
from hwdag_lab.eval.systems import BASELINES, VARIANTS, family, is_baseline, systems
from hwdag_lab.scripted import ScriptedLM, logprobs_after

SIMPLE = Plan(systems=("bm25@sentence",), budgets=(20, 40), limit=None, max_new_tokens=8)


@pytest.mark.slow
def test_a_run_killed_at_any_point_ends_as_if_it_had_not_been(tmp_path):
    whole, killed, log = tmp_path / "whole", tmp_path / "killed", tmp_path / "log.jsonl"
    uninterrupted = ScriptedLM(writes=True)
    run(world.records(), world.models(uninterrupted), world.KILLED_PLAN, whole)

    points = ["1", "3", "9", str(10**6)]  # in the first build, between two, while asking; never
    command = [sys.executable, world.__file__, str(killed), str(log), *points]
    ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert ended == [str(-signal.SIGKILL)] * 3 + ["0"]

    assert world.comparable(killed / RECORDS) == world.comparable(whole / RECORDS)
    assert world.comparable(killed / BUILDS) == world.comparable(whole / BUILDS)
    finished = log.read_text().splitlines()
    assert len(finished) == len(set(finished)) == uninterrupted.writes


def test_the_same_run_again_does_nothing(tmp_path):
    plan = replace(world.KILLED_PLAN, systems=("hwdag", "bm25@300", "memwalker"))
    assert run(world.records(), world.models(), plan, tmp_path) == RunCounts(0, 24, 0)
    before = (tmp_path / RECORDS).read_bytes(), (tmp_path / BUILDS).read_bytes()
    idle = ScriptedLM(writes=True)
    assert run(world.records(), world.models(idle), plan, tmp_path) == RunCounts(24, 0, 0)
    assert (idle.writes, idle.replays, idle.sessions) == (0, 0, [])
    assert ((tmp_path / RECORDS).read_bytes(), (tmp_path / BUILDS).read_bytes()) == before


@pytest.mark.parametrize("cut", [1, 25, 400])
def test_a_torn_last_line_is_cut_off_and_its_work_done_again(tmp_path, cut):
    run(world.records(), world.models(), SIMPLE, tmp_path)
    whole = world.comparable(tmp_path / RECORDS)
    content = (tmp_path / RECORDS).read_bytes()
    (tmp_path / RECORDS).write_bytes(content[:-cut])
    assert run(world.records(), world.models(), SIMPLE, tmp_path).added == 1
    assert world.comparable(tmp_path / RECORDS) == whole


def test_a_broken_line_inside_is_named(tmp_path):
    run(world.records(), world.models(), SIMPLE, tmp_path)
    with (tmp_path / RECORDS).open("a") as file:
        file.write("{nonsense\n")
    with pytest.raises(InputError, match=r"records\.jsonl:9"):
        run(world.records(), world.models(), SIMPLE, tmp_path)


def test_systems_budgets_and_questions_may_be_added(tmp_path):
    plan = replace(SIMPLE, limit=2)
    assert run(world.records(), world.models(), plan, tmp_path) == RunCounts(0, 4, 0)
    wider = replace(plan, systems=("dense@100", *plan.systems), budgets=(40, 60), limit=3)
    # 2 systems x 2 budgets x 3 questions, of which 2 questions at 40 tokens are there
    assert run(world.records(), world.models(), wider, tmp_path) == RunCounts(2, 10, 0)
    settings = read_settings(tmp_path)
    assert settings["budgets"] == [20, 40, 60]
    assert set(settings["systems"]) == {"bm25@sentence", "dense@100"}
    assert settings["limit"] == 3


def test_other_settings_are_refused_with_what_differs(tmp_path):
    run(world.records(), world.models(), SIMPLE, tmp_path)
    before = (tmp_path / SETTINGS).read_bytes()

    def refused(message, *, data=None, lm=None, plan=SIMPLE):
        with pytest.raises(InputError, match=message):
            run(data or world.records(), world.models(lm), plan, tmp_path)
        assert (tmp_path / SETTINGS).read_bytes() == before

    refused("seed", plan=replace(SIMPLE, seed=1))
    refused("max_new_tokens", plan=replace(SIMPLE, max_new_tokens=9))
    refused(r"models\.reader", lm=ScriptedLM(name="other"))
    refused(r"data\.towns", data=world.records(3))


def test_another_head_list_is_another_run(tmp_path):
    plan = replace(SIMPLE, systems=("hwdag",))
    run(world.records(1), world.models(), plan, tmp_path)
    with pytest.raises(InputError, match="heads"):
        run(world.records(1), world.models(heads="0123"), plan, tmp_path)
    run(world.records(1), world.models(heads="0123"), plan, tmp_path / "other")
    names = [{path.name for path in (tmp_path / at / INDEXES).iterdir()} for at in ("", "other")]
    assert names[0].isdisjoint(names[1])


def test_another_definition_of_a_system_is_refused(tmp_path, monkeypatch):
    plan = replace(SIMPLE, systems=("hwdag",))
    run(world.records(), world.models(), plan, tmp_path)
    other = replace(VARIANTS["hwdag"], build=BuildConfig(chunk_tokens=77))
    monkeypatch.setitem(VARIANTS, "hwdag", other)
    with pytest.raises(InputError, match="chunk_tokens"):
        run(world.records(), world.models(), plan, tmp_path)


def test_an_hwdag_error_is_a_result_that_scores_zero(tmp_path):
    lm = ScriptedLM(context_tokens=150)
    long = replace(world.record(7).questions[0], id="long", text="Where? " * 100)
    record = replace(world.record(0), questions=(*world.record(0).questions, long))
    assert run([record], world.models(lm), SIMPLE, tmp_path) == RunCounts(0, 6, 2)
    failed = [r for r in read_results(tmp_path).values() if r.error is not None]
    assert {r.question for r in failed} == {"long"}
    for result in failed:
        assert result.error.startswith("QuestionTooLong: ")
        assert result.prediction is None
        assert {"f1", "em", "rouge_l", "bleu4", "sentence_recall"} <= result.metrics.keys()
        assert set(result.metrics.values()) == {0.0}
    assert run([record], world.models(lm), SIMPLE, tmp_path).added == 0
    again = replace(SIMPLE, retry_errors=True)
    assert run([record], world.models(lm), again, tmp_path) == RunCounts(4, 2, 2)


def test_an_error_of_a_build_is_reported_once_per_question(tmp_path):
    class Broken(ScriptedLM):
        attempts = 0

        def write(self, prompts, *, max_new_tokens):
            self.attempts += 1
            raise WriterFailed("no ink")

    lm = Broken(writes=True)
    plan = replace(SIMPLE, systems=("hwdag-garlic",))
    assert run(world.records(1), world.models(lm), plan, tmp_path) == RunCounts(0, 4, 4)
    assert {r.error for r in read_results(tmp_path).values()} == {"WriterFailed: no ink"}
    assert lm.attempts == 1
    assert read_builds(tmp_path) == {}


@pytest.mark.parametrize("system", ["hwdag-garlic", "full-context"])
def test_a_machine_without_memory_ends_a_run_and_scores_no_zeros(tmp_path, system, monkeypatch):
    """In a build or an answer: the score would be one of the machine."""

    def fail(*given, **options):
        raise OutOfMemory("no memory left")

    plan = replace(SIMPLE, systems=(system,))
    with monkeypatch.context() as patched, pytest.raises(OutOfMemory):
        for name in ("write", "session"):
            patched.setattr(ScriptedLM, name, fail)
        run(world.records(1), world.models(ScriptedLM(writes=True)), plan, tmp_path)
    assert not read_results(tmp_path)
    counts = run(world.records(1), world.models(ScriptedLM(writes=True)), plan, tmp_path)
    assert counts.added > 0 == counts.errors


def test_any_other_exception_ends_a_run_that_can_continue(tmp_path):
    class Flawed(ScriptedLM):
        def session(self, question, **options):
            if "painter" in question:
                raise ZeroDivisionError
            return super().session(question, **options)

    with pytest.raises(ZeroDivisionError):
        run(world.records(), world.models(Flawed()), SIMPLE, tmp_path)
    assert 0 < len(read_results(tmp_path)) < 8
    counts = run(world.records(), world.models(ScriptedLM()), SIMPLE, tmp_path)
    assert counts.kept + counts.added == 8


def test_answers_can_be_left_out_and_asked_for_later(tmp_path):
    plan = replace(SIMPLE, answers=False)
    run(world.records(), world.models(), plan, tmp_path)
    for result in read_results(tmp_path).values():
        assert (result.prediction, result.answer, result.answered) == (None, None, False)
        assert "sentence_recall" in result.metrics
        assert "f1" not in result.metrics
    some = replace(SIMPLE, budgets=(40,))
    assert run(world.records(), world.models(), some, tmp_path) == RunCounts(0, 4, 0)
    for result in read_results(tmp_path).values():
        assert result.answered == (result.budget == 40) == ("f1" in result.metrics)
    assert run(world.records(), world.models(), plan, tmp_path).added == 0  # more is enough


def test_what_reads_everything_is_asked_once_per_question(tmp_path):
    plan = replace(SIMPLE, systems=("full-context", "truncate-middle"))
    run(world.records(), world.models(), plan, tmp_path)
    budgets = [r.budget for r in read_results(tmp_path).values() if r.system == "full-context"]
    assert budgets == [None] * 4


def test_costs_are_those_of_search_and_of_the_rest(tmp_path):
    lm = ScriptedLM()
    run(world.records(1, questions=1), world.models(lm), SIMPLE, tmp_path)
    (first, second) = read_results(tmp_path).values()
    for result, session in zip((first, second), lm.sessions, strict=True):
        assert result.search.tokens == 0  # BM25 asks no model
        assert result.answer.tokens == session.usage.tokens > result.context_tokens > 0
        assert result.context_tokens <= result.budget
    assert first.nodes < second.nodes


def test_the_most_probable_option_is_chosen_and_nothing_is_decoded(tmp_path):
    text = world.record(0).text
    options = ("Zanzibar with many spices", "Arden0 near the old river", "Nowhere")
    question = Question("mc", "Where?", (options[1],), options=options, label=1)
    record = replace(world.record(0), questions=(question,))
    plan = replace(SIMPLE, systems=("full-context",))
    lm = ScriptedLM()
    run([record], world.models(lm), plan, tmp_path)
    (result,) = read_results(tmp_path).values()
    likely = [logprobs_after(f"Where?\n{text}", option).mean() for option in options]
    assert likely[1] == max(likely)
    assert result.metrics == {"accuracy": 1.0}
    assert result.prediction == options[1]
    assert result.likelihood == pytest.approx(likely[1] - np.log(np.exp(likely).sum()))
    assert result.answer.tokens == lm.sessions[0].usage.tokens


def test_ablations_walk_one_graph_that_is_built_once(tmp_path):
    lm = ScriptedLM(writes=True)
    names = ("hwdag", "hwdag-no-stop", "hwdag-no-attention")
    run(world.records(1), world.models(lm), replace(SIMPLE, systems=names), tmp_path)
    assert {build.build for build in read_builds(tmp_path).values()} == {"hwdag"}
    (index,) = (tmp_path / INDEXES).iterdir()
    written = lm.writes
    more = replace(SIMPLE, systems=("hwdag-no-navigator",))
    run(world.records(1), world.models(lm), more, tmp_path)
    assert list((tmp_path / INDEXES).iterdir()) == [index]
    assert lm.writes == written


@pytest.mark.slow
def test_points_of_several_records_are_written_together(tmp_path):
    """And once, and the results are those of records that come alone."""
    plan = replace(SIMPLE, systems=("hwdag", "hwdag-no-attention", "hwdag-shuffled-edges"))
    asked = []

    class Batches(ScriptedLM):
        concurrency = 4

        def write(self, prompts, *, max_new_tokens):
            asked.append(len(prompts))
            return super().write(prompts, max_new_tokens=max_new_tokens)

    def results(name, records):
        run(records, world.models(Batches(writes=True)), plan, tmp_path / name)
        assert sum(build.nodes > 8 for build in read_builds(tmp_path / name).values()) == 2 * len(
            records
        )
        return world.comparable(tmp_path / name / RECORDS)

    records = world.records(6)
    together = results("together", records)
    assert asked == [4, 2]  # the last batch has no more
    asked.clear()
    assert sorted(together) == sorted(x for one in records for x in results(one.id, [one]))
    assert asked == [1] * 6


def test_another_writer_writes_and_the_reader_answers(tmp_path):
    reader, writer = ScriptedLM(), ScriptedLM(name="writer")
    plan = replace(SIMPLE, systems=("hwdag", "memwalker"))
    run(world.records(1), world.models(reader, writer=writer), plan, tmp_path)
    assert reader.writes == 0 < writer.writes
    assert not writer.sessions
    builds = {build.build: build.usage.tokens for build in read_builds(tmp_path).values()}
    searches = sum(r.search.tokens for r in read_results(tmp_path).values() if r.system[0] == "m")
    # the cost of a repeated prompt is charged as well
    assert sum(builds.values()) + searches >= reader.usage.tokens + writer.usage.tokens
    assert read_settings(tmp_path)["models"]["writer"] == "writer"


@pytest.mark.slow
@pytest.mark.parametrize(
    "system", [*VARIANTS, "bm25", "dense", "bm25+title", "dense+title", *BASELINES]
)
def test_every_system_runs(tmp_path, system):
    lm = ScoringLM(writes=system not in ("hwdag-garlic-no-graph", "hwdag-garlic", "memwalker"))
    plan = replace(SIMPLE, systems=(system,), budgets=(20, 150))  # one sentence, or everything
    counts = run(world.records(1), world.models(lm), plan, tmp_path)
    assert counts.errors == 0
    results = list(read_results(tmp_path).values())
    assert len(results) == counts.added > 0
    for result in results:
        assert result.budget is None or result.context_tokens <= result.budget
        assert 0 <= result.metrics["sentence_recall"] <= 1
        assert result.prediction or result.budget == 20
        is_decoded = bool(result.prediction) and system != "graphreader"
        assert (result.likelihood is not None) == is_decoded
    assert read_builds(tmp_path)


def test_flags_of_the_table_are_those_of_the_retrievers():
    for name, baseline in BASELINES.items():
        assert baseline.make(world.models()).bounded == baseline.bounded
        assert baseline.make(world.models()).name == name


def test_names_select_systems():
    assert [s.name for s in systems(["bm25", "hwdag", "bm25@100"])] == [
        "bm25@300",
        "bm25@100",
        "bm25@sentence",
        "hwdag",
    ]
    assert [s.name for s in systems(["dense+title"])][-1] == "dense@sentence+title"
    assert family("bm25@sentence+title") == "bm25"
    assert family("evidence-p-yes") == "evidence"
    assert family("truncate-middle") == "truncate-middle"
    assert is_baseline("raptor-tree")
    assert not is_baseline("hwdag-garlic") and not is_baseline("evidence")
    with pytest.raises(UnknownOption, match="'colbert'"):
        systems(["colbert"])
    with pytest.raises(InputError, match="system"):
        systems([])


def test_definitions_tell_variants_apart():
    found = {s.name: json.dumps(s.definition, sort_keys=True) for s in systems(VARIANTS)}
    assert len(set(found.values())) == len(found)


def test_a_result_survives_json(tmp_path):
    result = Result(
        "hwdag",
        None,
        "d",
        "doc",
        "q",
        "bridge",
        "why?",
        ("a", "b"),
        True,
        prediction="c \ud800",
        metrics={"f1": 0.5},
        p_yes=(0.25,),
        search=Usage(3, 0.5, 1.5),
        answer=Usage(1, 0.25, 0.5),
        notes=("one",),
    )
    bare = replace(result, question="p", answer=None)
    with Journal(tmp_path / RECORDS) as journal:
        journal.append(result)
        journal.append(bare)
    assert list(read_results(tmp_path).values()) == [result, bare]
    assert result.total == Usage(4, 0.75, 2.0)


def test_a_journal_keeps_whole_lines(tmp_path):
    path = tmp_path / "lines.jsonl"
    one, other = (Build("b", "towns", name, 1, 1, 0, 0, Usage()) for name in ("ü \ud800", "d"))
    with Journal(path) as journal:
        journal.append(one)
    path.write_bytes(path.read_bytes() * 2)
    path.write_bytes(path.read_bytes()[:-1])  # complete, but its end is not there
    assert read_lines(path, Build) == [one]
    with Journal(path) as journal:
        journal.append(other)
    assert read_lines(path, Build) == [one, other]


def test_remembered_calls_are_not_made_again_but_charged(tmp_path):
    def counted(lm):
        with open_calls(tmp_path / CALLS) as calls:
            writer = CachedReader(lm, calls)
            replies = writer.write(["* One. Two.", "* Three.", "* One. Two."], max_new_tokens=9)
            return replies, writer.usage

    first, second = ScriptedLM(), ScriptedLM()
    replies, usage = counted(first)
    assert counted(second) == (replies, usage)
    assert (first.writes, second.writes) == (2, 0)
    plain = ScriptedLM()
    assert replies == plain.write(["* One. Two.", "* Three.", "* One. Two."], max_new_tokens=9)
    assert usage.tokens == pytest.approx(plain.usage.tokens, abs=2)  # shares of a batch are rounded

    with open_calls(tmp_path / CALLS) as calls:
        cut = CachedReader(second, calls).write(["* One. Two."], max_new_tokens=1)
    assert (cut, second.writes) == (["*"], 1)  # another limit is another call


def test_what_a_model_knows_of_its_heads_is_known_with_its_writing_remembered(tmp_path):
    lm = ScriptedLM()
    with open_calls(tmp_path / CALLS) as calls:
        assert heads_of(CachedReader(lm, calls), "auto") == "auto"
        lm.known_heads = ((0, 1),)
        assert heads_of(CachedReader(lm, calls), "auto") == ((0, 1),)


def test_a_writer_that_breaks_its_contract_is_reported(tmp_path):
    class Short(ScriptedLM):
        def write(self, prompts, *, max_new_tokens):
            return []

    with open_calls(tmp_path / CALLS) as calls:
        with pytest.raises(WriterFailed, match=r"\b0\b"):
            CachedReader(Short(), calls).write(["a"], max_new_tokens=1)
        echo = CachedWriter(CallableWriter(str.upper, name="echo"), calls)
        assert echo.write(["a"], max_new_tokens=1) == ["A"]
        assert (echo.name, echo.usage) == ("echo", Usage())


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    with (
        open_calls(tmp_path / CALLS),
        pytest.raises(InputError, match="folder"),
    ):
        run(world.records(), world.models(), SIMPLE, tmp_path)
    assert not (tmp_path / RECORDS).exists()
    assert run(world.records(), world.models(), SIMPLE, tmp_path).added == 8


def test_the_questions_are_those_of_the_seed(tmp_path):
    def asked(seed, folder):
        plan = replace(SIMPLE, limit=4, seed=seed)
        run(world.records(6), world.models(), plan, folder)
        return {key[3:] for key in read_results(folder)}

    one, same, other = (
        asked(seed, tmp_path / name) for seed, name in ((1, "a"), (1, "b"), (2, "c"))
    )
    assert one == same != other
    assert len(one) == len(other) == 4


def test_bad_plans_are_reported():
    with pytest.raises(InputError, match="budgets"):
        replace(SIMPLE, budgets=(0,))
    with pytest.raises(InputError, match="budgets"):
        replace(SIMPLE, budgets=())


def test_a_folder_without_a_run_is_reported(tmp_path):
    with pytest.raises(InputError, match="folder"):
        read_settings(Path(tmp_path))


def test_points_of_a_writer_are_no_evidence(tmp_path):
    """A writer that says nothing about the document earns nothing from the text it was shown."""
    writer = CallableWriter(lambda prompt: "Some people were born somewhere.", name="vague")
    record = world.long_record(0)
    plan = replace(SIMPLE, systems=("gem-rag-graph",), budgets=(8,), answers=False)
    run([record], world.models(ScriptedLM(), writer=writer), plan, tmp_path)
    (result, *_) = read_results(tmp_path).values()
    assert result.error is None
    assert result.nodes > 0
    assert result.metrics["paragraph_touched"] == result.metrics["paragraph_half"] == 0
    assert result.metrics["evidence_precision"] == 0
    assert result.metrics["written_half"] > 0


def test_pecan_has_a_confidence_per_data_set():
    """PECAN App. E; the longer version of a set has that of the set, others GARLIC's."""
    (pecan,) = systems(["hwdag-pecan"])
    told = {
        name: pecan.config(100, name).confidence
        for name in ("narrativeqa", "qasper", "hotpotqa_long", "musique", "squad")
    }
    own = pecan.search.confidence
    assert told == {
        "narrativeqa": 0.5,
        "qasper": 0.98,
        "hotpotqa_long": 0.5,
        "musique": 0.55,
        "squad": own,
    }


def test_the_ablations_of_the_papers_leave_one_part_out_of_their_settings():
    """Everything but the part is as in `hwdag-garlic`."""
    (garlic,) = systems(["hwdag-garlic"])
    changed = {
        "hwdag-garlic-no-graph": {"window_tokens"},
        "hwdag-garlic-no-progress": {"confidence"},
        "hwdag-garlic-no-attention": {"scoring"},
        "hwdag-garlic-no-embedding": {"scoring"},
    }
    for system in systems(changed):
        pairs = ((garlic.graph, system.graph), (garlic.search, system.search))
        different = {
            f.name for a, b in pairs for f in fields(a) if getattr(a, f.name) != getattr(b, f.name)
        }
        assert different <= changed[system.name]
        assert different & {"confidence", "scoring"} or system.tree


def test_every_system_is_also_asked_at_what_the_walk_read_when_it_stopped(tmp_path):
    """The walk says "enough" after its first node; the others get as many tokens on average."""
    lm = ScriptedLM(p_yes=lambda question, texts: 0.9)
    plan = Plan(
        systems=("evidence-p-yes", "bm25@sentence", "full-context"),
        budgets=(60,),
        limit=None,
        answers=False,
        match="evidence-p-yes",
    )
    counts = run(world.records(), world.models(lm), plan, tmp_path)
    results = list(read_results(tmp_path).values())
    read = [r.context_tokens for r in results if r.system == "evidence-p-yes"]
    mean = round(sum(read) / len(read))
    assert mean < 60
    assert {r.budget for r in results if r.system == "bm25@sentence"} == {60, mean}
    assert {r.budget for r in results if r.system == "evidence-p-yes"} == {60}
    assert counts == RunCounts(0, 16, 0)
    assert run(world.records(), world.models(lm), plan, tmp_path) == RunCounts(16, 0, 0)
    with pytest.raises(InputError, match="'dense'"):
        run(world.records(), world.models(lm), replace(plan, match="dense"), tmp_path / "other")


def test_a_walk_that_uses_its_budget_up_is_matched_by_nothing():
    used = Result("hwdag", 100, "d", "doc", "q", "", "?", ("a",), False, context_tokens=99)
    assert matched_budgets([used], "hwdag", (100,)) == {}
    stopped = replace(used, question="r", context_tokens=50)
    assert matched_budgets([used, stopped], "hwdag", (100,)) == {"d": [74]}


def test_an_oracle_reads_the_gold_sentences_in_document_order(tmp_path):
    record = world.record(0)
    first, second = (question.sentences[0] for question in record.questions)
    both = replace(record.questions[0], sentences=(first, second), evidence=(first, second))
    record = replace(record, questions=(both, record.questions[1]))
    plan = Plan(systems=("oracle",), budgets=(20, 60), limit=None, answers=False)
    run([record], world.models(ScriptedLM()), plan, tmp_path)
    recall = {
        (r.question, r.budget): r.metrics["sentence_recall"]
        for r in read_results(tmp_path).values()
    }
    assert recall == {("q0.0", 20): 0.5, ("q0.0", 60): 1, ("q0.1", 20): 1, ("q0.1", 60): 1}
    precise = [r.metrics["evidence_precision"] for r in read_results(tmp_path).values()]
    assert set(precise) == {1.0}


def test_other_edges_are_made_of_the_same_attention(tmp_path):
    """Three points over a window of three sentences; the second has two units."""
    attention = np.array([[1.0, 2.0, 4.0, 8.0], [0.0, 0.0, 1.0, 0.0], [3.0, 3.0, 3.0, 3.0]])
    replay = Replay(attention, np.array([1, 1, 3, 2]), np.array([0, 1, 1, 2]))
    means = np.array([[1, 3.5, 8], [0, 0.75, 0], [3, 3, 3]])
    mixed = shuffled(replay, np.random.default_rng(1), np.zeros((3, 3), bool))
    assert (np.sort(mixed.attention[:, [0, 1, 3]]) == np.sort(means)).all()
    assert (mixed.attention[:, 1] == mixed.attention[:, 2]).all()
    own = np.eye(3, dtype=bool)
    kept = shuffled(replay, np.random.default_rng(1), own)
    assert (kept.attention[:, [0, 1, 3]][own] == means[own]).all()

    names = ("hwdag", "hwdag-shuffled-edges", "hwdag-uniform-edges")
    plan = Plan(systems=names, budgets=(40,), limit=None, answers=False)
    run([world.long_record(0)], world.models(), plan, tmp_path)
    rows = {}
    for path in (tmp_path / INDEXES).iterdir():
        with HWDAGIndex.load(path) as index:
            (graph,) = index.graphs.values()
            rows[path.name] = [w for i in graph.at_level(2) for w in graph.children(i)[1]]
    assert len(rows) == 3
    sizes = {tuple(np.round(sorted(row), 9)) for row in rows.values()}
    assert len(sizes) == 2  # shuffled edges have the weights of the real ones, uniform ones do not


def test_a_pool_is_one_index_of_many_documents_that_several_sets_ask_about(tmp_path):
    """Two data sets of two documents; each is asked over the passages of both, built once."""
    asked = [*world.passages(0, dataset="a"), *world.passages(2, dataset="b")]
    names = ("evidence", "bm25@sentence", "raptor-collapsed", "oracle")
    plan = Plan(systems=names, budgets=(60,), limit=None, answers=False)
    counts = run(pool_records(asked), world.models(ScriptedLM()), plan, tmp_path)
    assert counts == RunCounts(0, 4 * 8, 0)
    results = list(read_results(tmp_path).values())
    assert {r.dataset for r in results} == {"a_pool", "b_pool"}
    assert sorted(build.build for build in read_builds(tmp_path).values()) == sorted(names)
    for result in results:
        assert result.metrics.keys() >= {"recall_at_2", "recall_at_5", "paragraph_touched"}
        if result.system == "oracle":
            assert result.metrics["paragraph_half"] == result.metrics["recall_at_2"] == 1
        if result.system in ("evidence", "bm25@sentence"):  # names are in one passage only
            assert result.metrics["recall_at_5"] == 1
