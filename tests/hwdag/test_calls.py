"""Finished model calls are never made again: interrupted, edited, limited and damaged builds."""

import itertools
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logged_models import Streaming, Writing, logged, reply_to
from store_world import load_all
from tiny import model, tokenizer
from worlds import random_sentences

from hwdag.building.levels import GraphBuilder
from hwdag.building.points import PROMPTS_AT_ONCE, replies
from hwdag.building.refresh import Refresh
from hwdag.building.report import LimitReached, Limits, Meter
from hwdag.config import BuildConfig
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import InputError, WriterFailed
from hwdag.lm.base import ConcurrentWriter, Metered, ReplayRequest, Writer
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.store.calls import (
    UNSOUND,
    CallCache,
    decode,
    encode,
    is_text,
    key_of,
    picks_of,
    replays_of,
    vectors_of,
)
from hwdag.store.sqlite import Header, Store
from hwdag.text.draft import Draft
from hwdag.text.prompts import Prompts, SummaryPrompt
from hwdag.threads import Lazy
from hwdag.trace.bars import Silent
from hwdag.types import Document, Span, Usage
from hwdag_lab.scripted import ScriptedLM

CONFIG = BuildConfig(chunk_tokens=40, window_tokens=330, method="hwdag")


def text_of(sentences, seed=0):
    return random_sentences(seed, sentences, words=(6, 13))


def prose(sentences, seed=0):
    return Document("doc", " ".join(text_of(sentences, seed)))


class Killed(BaseException):
    """A substitute for the end of the process: nothing may catch it."""


class Tape:
    """Every call of a model, once it is finished; a call that may not be made ends the build."""

    def __init__(self, at=None):
        self.made = []
        self.at = at

    def call(self, kind, content, make):
        if len(self.made) == self.at:
            raise Killed
        self.made.append((kind, *(getattr(part, "segments", part) for part in content)))
        return make()


class Batched(Writing):
    """One that says how many prompts it answers at a time, as a local model does."""

    concurrency = 3


class Renamed(Writing):
    name = "renamed"


BOTH = ["write", "replay"]
WRITERS = [None, Writing, Batched, Streaming]


def builder_of(tape, writer=None, config=CONFIG):
    asked = None if writer is None else writer(tape)
    reader, embedder = logged(ScriptedLM(replay_batch=2), tape), logged(HashingEmbedder(64), tape)
    return GraphBuilder(reader, asked, embedder, config.resolved("hwdag"), Prompts())


def built(document, tape, writer=None, cache=None, config=CONFIG):
    return builder_of(tape, writer, config).build(Draft(document), Silent(), cache)


def same(one, two):
    assert one.graph.nodes == two.graph.nodes
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(
            getattr(one.graph.raw, name), getattr(two.graph.raw, name), strict=True
        )
    np.testing.assert_array_equal(one.vectors, two.vectors)
    assert (one.replies, one.notes) == (two.replies, two.notes)


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_a_build_cut_off_at_any_call_continues_without_repeating_a_call(writer):
    """Each writer at every fourth call, and all of them together at every call."""
    document, whole = prose(110), Tape()
    expected = built(document, whole, writer)
    assert expected.graph.height >= 3
    for at in range(WRITERS.index(writer), len(whole.made), len(WRITERS)):
        cache, first, second = CallCache.open(), Tape(at), Tape()
        with pytest.raises(Killed):
            built(document, first, writer, cache)
        same(built(document, second, writer, cache), expected)
        assert sorted(first.made + second.made) == sorted(whole.made)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_finished_build_costs_nothing_again(writer):
    cache, calls = CallCache.open(), Tape()
    first = built(prose(60), calls, writer, cache)
    again = cache.fresh()
    nothing = Tape(at=0)
    same(builder_of(nothing, writer).build(Draft(prose(60)), Silent(), again), first)
    assert again.reused > 0
    assert len(again.kept) < again.reused  # embeddings are not kept


@pytest.mark.slow
def test_batches_of_a_resumed_build_are_those_of_an_uninterrupted_one():
    """Padding makes rounding depend on the company of a window, so the company must not change."""
    config = BuildConfig(chunk_tokens=60, window_tokens=800, method="hwdag")
    document, seen = prose(40), []

    class Spy(HuggingFaceLM):
        at = None

        def replay(self, requests, *, heads):
            if len(seen) == self.at:
                raise Killed
            seen.append([request.segments for request in requests])
            return super().replay(requests, heads=heads)

    lm = Spy(model(max_position_embeddings=1024), tokenizer())
    lm.batched, lm.replay_batch = True, 3
    builder = GraphBuilder(lm, None, HashingEmbedder(), config.resolved("hwdag"), Prompts())
    expected = builder.build(Draft(document), Silent())
    whole, cache = list(seen), CallCache.open()
    seen.clear()
    lm.at = len(whole) // 2
    with pytest.raises(Killed):
        builder.build(Draft(document), Silent(), cache)
    lm.at = None
    same(builder.build(Draft(document), Silent(), cache), expected)
    assert seen == whole


def test_equal_windows_are_asked_about_once():
    config = replace(CONFIG, leaves="chunks")
    tape = Tape()
    result = built(Document("doc", "The same dragon again. " * 400), tape, Writing, config=config)
    assert len(result.graph.at_level(2)) > 3
    prompts = [prompt for kind, *prompts in tape.made if kind == "write" for prompt in prompts]
    assert len(prompts) == len(set(prompts))


def windows_of(tape):
    return [segments for kind, *several in tape.made if kind == "replay" for segments in several]


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("writer", [None, Streaming])
def test_an_edited_document_pays_for_windows_whose_text_changed(writer):
    """A sentence more in the middle of 10,000 words: at most three windows of a level."""
    config = BuildConfig(chunk_tokens=40, window_tokens=1400, method="hwdag")
    sentences = text_of(1000)
    cache, first = CallCache.open(), Tape()
    built(Document("doc", " ".join(sentences)), first, writer, cache, config)
    for at in (480, 520):
        edited = [*sentences[:at], "The umbrella of the new dragon is yellow.", *sentences[at:]]
        document, again = Document("doc", " ".join(edited)), Tape()
        result = built(document, again, writer, cache, config)
        assert len(windows_of(again)) <= 3 * (result.graph.height - 1)
        assert len(windows_of(again)) < len(windows_of(first)) / 3
    same(result, built(document, Tape(), writer, None, config))


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        (lambda builder, tape: {"reader": logged(ScriptedLM(name="other"), tape)}, ["replay"]),
        (lambda builder, tape: {"writer": Renamed(tape)}, ["write"]),
        (lambda builder, tape: {"prompts": Prompts(SummaryPrompt("{information}"))}, BOTH),
        (lambda builder, tape: {"config": replace(builder.config, language="German")}, BOTH),
        (lambda builder, tape: {"config": replace(builder.config, window_tokens=400)}, ["write"]),
        (lambda builder, tape: {"config": replace(builder.config, edge_heads="all")}, ["replay"]),
    ],
)
def test_other_models_prompts_and_settings_are_other_calls(change, kinds):
    cache, tape, fresh = CallCache.open(), Tape(), Tape()
    built(prose(30), Tape(), Writing, cache)
    changed, expected = (
        replace(builder, **change(builder, of))
        for of in (tape, fresh)
        for builder in [builder_of(of, Writing)]
    )
    same(
        changed.build(Draft(prose(30)), Silent(), cache), expected.build(Draft(prose(30)), Silent())
    )
    for kind in kinds:
        one, two = ([call for call in of.made if call[0] == kind] for of in (tape, fresh))
        assert one == two != []


class Damaging(CallCache):
    """Gives back something else than was put."""

    def get(self, key):
        value = super().get(key)
        return None if value is None else self.damage(value)


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: b"",
        lambda value: value[:-1],
        lambda value: value[1:],
        lambda value: b"[]",
        lambda value: b'["x"]',
        lambda value: b"[0, 0]",
        lambda value: b"[true]",
        lambda value: b"[999999]",
        lambda value: b"3",
        lambda value: b"[" * 100_000,
        lambda value: encode({"vectors": np.zeros((1, 2))}),
        lambda value: encode({"attention": np.zeros((1, 1)), "more": np.zeros(1)}),
        lambda value: encode(dict.fromkeys(REPLAY, np.zeros(1))),
    ],
)
@pytest.mark.parametrize("writer", [None, Writing])
def test_what_is_no_result_counts_as_missing(damage, writer):
    cache, document = Damaging.open(), prose(30)
    cache.damage = damage
    first = built(document, Tape(), writer, cache)
    same(built(document, Tape(), writer, cache), first)


REQUEST = ReplayRequest(
    "A", ("ab", "c"), "B", ("p", "q"), ((Span(0, 1), Span(1, 2)), (Span(0, 1),))
)
REPLAY = {
    "attention": np.arange(6.0).reshape(2, 3),
    "unit_tokens": np.array([1, 1, 2]),
    "unit_segment": np.array([0, 0, 1]),
}


@pytest.mark.parametrize(
    "change",
    [
        {"attention": np.ones((3, 3))},
        {"attention": np.ones((2, 3), np.float32)},
        {"attention": np.full((2, 3), np.nan)},
        {"attention": -np.ones((2, 3))},
        {"unit_tokens": np.array([1, 1])},
        {"unit_tokens": np.array([1.0, 1.0, 2.0])},
        {"unit_segment": np.array([0, 1, 1])},
        {"unit_segment": np.array([0, 0, 7])},
    ],
)
def test_a_stored_replay_that_does_not_fit_its_request_is_ignored(change):
    fits = replays_of([REQUEST])
    assert fits(decode(encode(REPLAY)), 0)
    assert not fits(decode(encode(REPLAY | change)), 0)


@pytest.mark.parametrize("value", [[], [2, 0], [0, 0], [3], [-1], [True], [1.0], "x", None, {}])
def test_stored_picks_that_do_not_fit_their_call_are_ignored(value):
    assert picks_of([3])([0, 2], 0)
    assert not picks_of([3])(value, 0)
    assert picks_of([0])([], 0)


@given(
    st.text(st.characters())
    | st.lists(st.integers())
    | st.dictionaries(
        st.text("abcdef", min_size=1, max_size=300),
        st.lists(st.floats(width=32), max_size=9).map(lambda one: np.array(one, np.float32)),
    )
)
def test_results_come_back_to_the_last_bit(result):
    back = decode(encode(result))
    if not isinstance(result, dict):
        assert back == result
        return
    assert back.keys() == result.keys()
    for name, array in result.items():
        np.testing.assert_array_equal(back[name], array, strict=True)


def spoiled(result):
    """Return cached values with some bytes changed."""
    value = encode(result)
    cut = st.tuples(st.integers(0, len(value)), st.integers(0, 16), st.binary(max_size=8))
    return cut.map(lambda c: value[: c[0]] + c[2] + value[c[0] + c[1] :])


@given(
    st.binary()
    | st.binary(max_size=200).map(lambda rest: bytes([9] + [0] * 7) + rest)
    | st.sampled_from(["reply", [0, 2], REPLAY, {"vectors": np.ones((3, 4), "f4")}]).flatmap(
        spoiled
    )
)
def test_any_bytes_are_a_valid_entry_or_ignored(value):
    for fits in (is_text, picks_of([3]), replays_of([REQUEST]), vectors_of([3], 4)):
        with suppress(*UNSOUND):
            fits(decode(value), 0)


def test_stored_vectors_that_do_not_fit_their_call_are_ignored():
    vectors = np.ones((3, 4), np.float32)
    assert vectors_of([3], 4)({"vectors": vectors}, 0)
    for other in (vectors[:2], vectors[:, :2], vectors.astype(float), vectors * np.nan):
        assert not vectors_of([3], 4)({"vectors": other}, 0)


JSON = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=6
)


@pytest.mark.slow
@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=3))
def test_keys_are_equal_only_for_equal_calls(one, two):
    assert (key_of("a", *one) == key_of("a", *two)) == (one == two)
    assert key_of("a", *one) != key_of("b", *one)


def test_a_writer_of_batches_gets_prompts_of_similar_lengths_together():
    tape, cache = Tape(at=2), CallCache.open()
    prompts = ["a " * length for length in (3, 9, 1, 7, 5, 2, 8)]
    asked = [[prompts[i] for i in batch] for batch in ([1, 6, 3], [4, 0, 5], [2])]
    with pytest.raises(Killed):
        replies(Batched(tape), prompts, cache, limit=20)
    assert [list(given) for _, *given in tape.made] == asked[:2]
    rest = Tape()
    found = replies(Batched(rest), prompts, cache, limit=20)
    assert [list(given) for _, *given in rest.made] == asked[2:]
    assert found == list(map(reply_to, prompts))


def test_a_concurrent_writer_gets_many_prompts_at_once():
    tape = Tape()
    writer = Streaming(tape)
    assert isinstance(writer, ConcurrentWriter)
    assert not isinstance(Writing(tape), ConcurrentWriter)
    builder = replace(builder_of(tape), writer=writer)
    result = builder.build(Draft(prose(60)), Silent())
    one_by_one = built(prose(60), Tape(), Writing)
    same(result, one_by_one)
    assert len(writer.given[0]) > PROMPTS_AT_ONCE
    assert writer.closed == len(writer.given)


def test_replies_that_arrived_before_a_failure_are_kept():
    tape, cache = Tape(), CallCache.open()
    failing = replace(builder_of(tape), writer=Streaming(tape, fail_after=3))
    with pytest.raises(WriterFailed, match="ConnectionError"):
        failing.build(Draft(prose(60)), Silent(), cache)
    assert len(tape.made) == 3
    whole, rest = Tape(), Tape()
    expected = built(prose(60), whole, Streaming)
    same(built(prose(60), rest, Streaming, cache), expected)
    assert sorted(tape.made + rest.made) == sorted(whole.made)


class Breaking(Writing):
    concurrency = 8

    def __init__(self, answers):
        super().__init__(Tape())
        self.answers = answers

    def replies(self, prompts, *, max_new_tokens):
        yield from self.answers


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([(0, "* a"), (0, "* b")], "0"),
        ([(0, None)], "NoneType"),
        ([(-1, "* a")], "-1"),
        ([(99, "* a")], "99"),
        ([(0, "* a")], "reply"),
        ([], "reply"),
    ],
)
def test_a_concurrent_writer_that_breaks_its_contract_is_named(answers, message):
    builder = replace(builder_of(Tape()), writer=Breaking(answers))
    with pytest.raises(WriterFailed, match=message):
        builder.build(Draft(prose(30)), Silent())


@pytest.fixture
def ticking(monkeypatch):
    """A second passes whenever a run looks at the time."""
    clock = SimpleNamespace(monotonic=partial(next, itertools.count(1.0)))
    for module in ("report", "commits"):
        monkeypatch.setattr(f"hwdag.building.{module}.time", clock)


LIMITS = [Limits(max_tokens=1), Limits(max_tokens=400), Limits(max_seconds=2.0)]


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.usefixtures("ticking")
def test_limited_runs_add_up_to_one_without_limits(limits, writer):
    whole, cache, made = Tape(), CallCache.open(), []
    expected = built(prose(90), whole, writer)
    for runs in itertools.count(1):
        tape = Tape()
        builder = builder_of(tape, writer)
        meter = Meter(builder.reader, builder.writer, limits)
        try:
            cache.before_call = meter.before_call
            result = builder.build(Draft(prose(90)), Silent(), cache)
            break
        except LimitReached as reached:
            assert runs < len(whole.made)
            if isinstance(builder.writer, Streaming):
                assert builder.writer.closed == len(builder.writer.given)
            assert reached.limit == ("max_tokens" if limits.max_tokens else "max_seconds")
        finally:
            assert tape.made, "a run without a call would never end"
            made += tape.made
    assert runs > 2
    same(result, expected)
    assert sorted(made) == sorted(whole.made)


def test_a_run_that_just_fits_is_not_stopped():
    builder = builder_of(Tape())
    builder.build(Draft(prose(20)), Silent())
    total = builder.reader.usage.tokens
    meter = Meter(builder.reader, None, Limits(max_tokens=total + 1))
    calls = CallCache.open()
    calls.before_call = meter.before_call
    builder.build(Draft(prose(20)), Silent(), calls)
    assert meter.reading == Usage(total)


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"max_seconds": -1.0}, {"max_tokens": -3}])
def test_limits_are_positive(options):
    with pytest.raises(InputError):
        Limits(**options)


class Counting(Writing):
    """A remote writer that reports its cost."""

    usage = Usage()

    def write(self, prompts, *, max_new_tokens):
        self.usage += Usage(100 * len(prompts), 0.0, 1.0)
        return super().write(prompts, max_new_tokens=max_new_tokens)


def test_tokens_of_writer_and_reader_are_counted_separately():
    builder = builder_of(Tape(), Counting)
    assert isinstance(builder.writer, Writer)
    assert isinstance(builder.writer, Metered)
    meter = Meter(builder.reader, builder.writer, Limits())
    builder.build(Draft(prose(30)), Silent())
    asked = [p for kind, *prompts in builder.writer.log.made if kind == "write" for p in prompts]
    assert meter.writing.tokens == 100 * len(asked)
    assert meter.reading == builder.reader.usage
    both = Meter(builder.reader, builder.reader, Limits())
    builder.reader.write(["* A."], max_new_tokens=4)
    assert both.writing == Usage()
    assert both.reading.tokens > 0


def store_of(builder, path=None):
    embedder = builder.embedder
    header = Header(builder.reader.name, embedder.name, embedder.dimension, asdict(builder.config))
    return Store.create(path, header)


def inserted(store, documents, builder, *, replace=True, limits=None):
    run = Refresh(Lazy(lambda: builder), store, Silent(), replace=replace, limits=limits)
    return run.run(documents)


def alike(one, two):
    """Two stores hold the same documents, in any order."""
    entries = [{e.document.id: e for e in load_all(store)} for store in (one, two)]
    assert entries[0].keys() == entries[1].keys()
    for key, entry in entries[0].items():
        other = entries[1][key]
        assert entry.document == other.document
        assert entry.graph.nodes == other.graph.nodes
        np.testing.assert_array_equal(entry.graph.raw.data, other.graph.raw.data)
        np.testing.assert_array_equal(entry.vectors, other.vectors)


def corpus(count=4):
    return [Document(f"doc{i}", prose(12 + 3 * i, seed=i).text) for i in range(count)]


def asked(tape):
    """Calls of a language model; leaves are embedded before the points here."""
    return [call for call in tape.made if call[0] != "embed"]


def test_limited_insertions_add_up_and_report_the_rest():
    whole, made, pending = Tape(), [], []
    expected = store_of(builder_of(whole))
    inserted(expected, corpus(), builder_of(whole))
    store = store_of(builder_of(whole))
    for _ in whole.made:
        tape = Tape()
        report = inserted(store, corpus(), builder_of(tape), limits=Limits(max_tokens=100))
        made += asked(tape)
        if not report.stopped:
            break
        pending.append(report.pending)
        assert report.pending == len(corpus()) - len(report.built) - len(report.unchanged)
        assert "max_tokens" in str(report)
    assert (report.stopped, report.pending) == (None, 0)
    assert len(pending) >= 3
    assert pending == sorted(pending, reverse=True)
    assert sorted(made) == sorted(asked(whole))
    alike(store, expected)


@pytest.mark.usefixtures("ticking")
def test_documents_are_taken_as_they_are_needed():
    taken = []

    def stream():
        for document in corpus():
            taken.append(document.id)
            yield document

    builder = builder_of(Tape())
    store = store_of(builder)
    report = inserted(store, stream(), builder, limits=Limits(max_seconds=1.0))
    assert (report.stopped, report.pending) == ("max_seconds", None)
    assert "max_seconds" in str(report)
    assert taken == ["doc0"]


def test_only_changed_parts_of_a_replaced_document_are_embedded():
    tape = Tape()
    builder = builder_of(tape)
    store = store_of(builder)
    before = text_of(40)
    after = [*before[:20], "The umbrella of the new dragon is yellow.", *before[20:]]
    inserted(store, [Document("doc", " ".join(before))], builder)
    tape.made.clear()
    report = inserted(store, [Document("doc", " ".join(after))], builder)
    assert report.reused > 0
    last = tape.made[-1]
    assert last[0] == "embed"
    assert len(last) < len(store.load("doc").graph) / 2
    fresh = store_of(builder)
    inserted(fresh, [Document("doc", " ".join(after))], builder)
    alike(store, fresh)


def test_an_edit_that_is_taken_back_leaves_no_call(tmp_path):
    """It was begun, cut off, and reverted; the calls of the stored version stay."""
    document = Document("doc", "Bagpipes are loud. " * 30)
    builder, path = builder_of(Tape(), Writing), tmp_path / "a.hwdag"
    with store_of(builder, path) as store:
        inserted(store, [document], builder)
        with pytest.raises(Killed):
            edited = Document("doc", document.text + "Xylophones are louder. " * 60)
            inserted(store, [edited], builder_of(Tape(at=3), Writing))
        assert b"Xylophones" in path.read_bytes()
        assert inserted(store, [document], builder).unchanged == ["doc"]
        assert b"Xylophones" not in path.read_bytes()
        again = inserted(
            store, [replace(document, metadata={"year": 1})], builder_of(Tape(), Writing)
        )
        assert again.reused > 0


def test_an_unfinished_document_that_is_deleted_leaves_no_call(tmp_path):
    builder, path = builder_of(Tape(at=3), Writing), tmp_path / "a.hwdag"
    with store_of(builder, path) as store:
        with pytest.raises(Killed):
            inserted(store, [Document("doc", "Xylophones are loud. " + prose(90).text)], builder)
        assert b"Xylophones" in path.read_bytes()
        assert store.delete("doc")
        assert b"Xylophones" not in path.read_bytes()


@pytest.mark.parametrize("metadata", [{"when": object()}, {1: "x"}, {"in": [{None: 1}]}])
def test_a_document_that_cannot_be_stored_costs_no_call(metadata):
    tape = Tape()
    builder = builder_of(tape)
    with pytest.raises(InputError, match="metadata"):
        inserted(store_of(builder), [Document("doc", "A text.", "", metadata)], builder)
    assert tape.made == []


def test_the_checks_of_an_insertion():
    builder = builder_of(Tape())
    store = store_of(builder)
    report = inserted(store, [Document("a", "One."), Document("b", " \n"), "A bare text."], builder)
    assert report.skipped == [("b", "empty or only white space")]
    assert len(report.built) == len(store) == 2
    again = inserted(store, [Document("a", "One."), Document("a", "One.")], builder)
    assert (again.built, again.unchanged) == ([], ["a", "a"])
    assert again.usage.tokens == 0
    with pytest.raises(InputError, match="refresh"):
        inserted(store, [Document("a", "Two.")], builder, replace=False)
    with pytest.raises(InputError, match="'c'"):
        inserted(store, [Document("c", "One."), Document("c", "Two.")], builder)
    assert inserted(store, [Document("a", "Two.")], builder).built == ["a"]
    blank = inserted(store, [Document("a", "")], builder)
    assert [name for name, _ in blank.skipped] == ["a"]
    assert blank.deleted == ["a"]
    assert store.number_of("a") is None
    with pytest.raises(InputError, match="int"):
        inserted(store, [3], builder)
    assert (
        inserted(store, ["half \ud800 a pair"], builder)
        .notes[0]
        .endswith("1 lone surrogates replaced")
    )


def test_the_report_lists_counts_above_zero():
    builder = builder_of(Tape(), Counting)
    store = store_of(builder)
    report = inserted(store, corpus(2), builder)
    assert "writer" in str(report) and "stopped" not in str(report)
    changed = inserted(store, [replace(corpus(2)[0], metadata={"year": 1})], builder)
    assert f": {changed.reused}" in str(changed)


def test_a_cache_in_a_file_of_its_own(tmp_path):
    path, key = tmp_path / "calls.sqlite", key_of("write", "model", "Why?", {"b": 1, "a": [2]})
    assert key == key_of("write", "model", "Why?", {"a": [2], "b": 1})
    with CallCache.open(path) as calls:
        assert calls.get(key) is None
        calls.put_all({key: b"Because it is unmentionable."})
    with CallCache.open(path) as calls:
        assert calls.get(key) == b"Because it is unmentionable."
        calls.forget()
        assert calls.get(key) is None
    assert b"unmentionable" not in path.read_bytes()


def test_a_file_of_something_else_is_no_cache(tmp_path):
    path = tmp_path / "a.hwdag"
    store_of(builder_of(Tape()), path).close()
    with pytest.raises(InputError):
        CallCache.open(path)
