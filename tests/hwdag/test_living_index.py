"""An index that changes: when each thread and process sees a change."""

import asyncio
import itertools
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from index_world import CONFIG, documents, index_of, models, opened
from processes import python, started
from worlds import all_questions_ended

from hwdag import BuildConfig, Document, HWDAGIndex, SearchConfig
from hwdag.building import commits as committing
from hwdag.building.points import PROMPTS_AT_ONCE
from hwdag.config import NEVER
from hwdag.embedding.hashing import HashingEmbedder
from hwdag.errors import (
    ContextTooSmall,
    EmptyIndex,
    IndexBusy,
    IndexMismatch,
    InputError,
    UnknownOption,
)
from hwdag.scope import Scope
from hwdag.store.database import build_lock
from hwdag.store.sqlite import Store
from hwdag.trace.bars import Silent
from hwdag_lab.scripted import ScriptedLM

BUDGET = SearchConfig(token_budget=120, confidence=NEVER)
ASKED = SearchConfig(token_budget=3000, confidence=0.5, patience=1000)  # read one by one
QUESTION = "Where is the silver dragon?"


def found(index, question=QUESTION, scope=None):
    """Everything about the nodes of a search but the cost."""
    retrieval = index.search(question, config=BUDGET, scope=scope)
    return [(s.node, s.attention, s.similarity, s.reference) for s in retrieval.steps]


def seen(index, scope=None):
    """Documents that a search which reads everything comes across."""
    everything = SearchConfig(token_budget=3000, confidence=NEVER)
    steps = index.search(QUESTION, config=everything, scope=scope).steps
    return {step.node.document_id for step in steps}


def close_to(one, two):
    assert [step[0] for step in one] == [step[0] for step in two]
    np.testing.assert_allclose([s[1:] for s in one], [s[1:] for s in two], atol=1e-9)


def test_a_changed_index_searches_like_a_fresh_one(tmp_path):
    """Insert, refresh and delete in turn, searching in between, against an index made anew."""
    index, current = index_of(documents(), path=tmp_path / "a.hwdag"), documents()
    edited = Document("doc1", "The silver dragon sleeps under the old bridge. " * 6, "Dragons")
    for change in ("search", "refresh", "delete", "insert"):
        if change == "refresh":
            index.refresh([edited])
            current = [doc for doc in current if doc.id != "doc1"] + [edited]
        elif change == "delete":
            index.delete("doc2")
            current = [doc for doc in current if doc.id != "doc2"]
        elif change == "insert":
            more = documents(2, seed=9, prefix="more")
            index.insert(more)
            current += more
        assert list(index.documents) == [doc.id for doc in current]
        close_to(found(index), found(index_of(current)))
        close_to(found(index), found(opened(tmp_path / "a.hwdag")))


def test_refresh_with_prune_leaves_exactly_what_was_given():
    index = index_of(documents())
    report = index.refresh(documents()[1:3], prune=True)
    assert report.unchanged == ["doc1", "doc2"]
    assert sorted(report.deleted) == ["doc0", "doc3"]
    assert list(index.documents) == ["doc1", "doc2"]
    assert seen(index) <= {"doc1", "doc2"}


def test_a_run_that_was_stopped_prunes_nothing():
    index = index_of(documents(), config=replace(CONFIG, method="hwdag"))
    report = index.refresh(documents(2, seed=5, prefix="new"), prune=True, max_tokens=1)
    assert report.stopped == "max_tokens"
    assert set(index.documents) >= {"doc0", "doc1", "doc2", "doc3"}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"year": 2001}, {"doc1"}),
        ({"year": {"gte": 2001, "lt": 2003}}, {"doc1", "doc2"}),
        ({"year": {"in": [2000, 2003]}}, {"doc0", "doc3"}),
        ({"or": [{"year": 2000}, {"not": {"year": {"lt": 2003}}}]}, {"doc0", "doc3"}),
        ({"language": "de"}, set()),
    ],
)
def test_only_documents_that_match_are_scored_and_shown(filters, expected):
    reader = ScriptedLM()
    index = index_of(documents(), reader=reader)
    assert seen(index, scope=Scope(filters=filters)) == expected
    shown = {text for session in reader.sessions for text in session.texts}
    hidden = {n.text for k, g in index.graphs.items() if k not in expected for n in g.nodes}
    assert not shown & hidden


def test_what_is_filtered_out_does_not_show_in_anybodys_scores():
    few = [doc for doc in documents() if doc.metadata["year"] <= 2001]
    close_to(
        found(index_of(documents()), scope=Scope(filters={"year": {"lte": 2001}})),
        found(index_of(few)),
    )


def test_filters_and_document_ids_hold_together():
    index = index_of(documents())
    scope = Scope(["doc0", "doc1"], {"year": {"gte": 2001}})
    assert seen(index, scope=scope) == {"doc1"}


def test_a_second_index_on_the_file_sees_every_change_at_once(tmp_path):
    path = tmp_path / "a.hwdag"
    one = index_of(documents(2), path=path)
    two = opened(path)
    assert seen(two) == {"doc0", "doc1"}
    one.insert(documents(3, seed=3, prefix="new"))
    assert seen(two) == {"doc0", "doc1", "new0", "new1", "new2"}
    two.delete("doc0")
    assert "doc0" not in seen(one)
    assert len(one) == len(two) == 4


class Disturbed(ScriptedLM):
    """Something happens before the n-th forward over nodes."""

    def __init__(self, at, event):
        super().__init__()
        self.at, self.event = at, event

    def session(self, question, **options):
        session = super().session(question, **options)
        session.read = self._disturbed(session.read)
        return session

    def _disturbed(self, forward):
        def disturbed(texts):
            self.at -= 1
            if self.at == 0:
                self.event()
            return forward(texts)

        return disturbed


@pytest.mark.parametrize("was_asked", [False, True])
def test_a_walk_whose_documents_are_deleted_under_it_begins_anew(tmp_path, was_asked):
    """Even if the nodes are known from the same question before."""
    path = tmp_path / "a.hwdag"
    index_of(documents(), path=path).close()
    other = opened(path)
    reader = Disturbed(0, lambda: [other.delete(key) for key in ("doc0", "doc2", "doc3")])
    index = HWDAGIndex.load(path, reader=reader, embedder=HashingEmbedder())
    if was_asked:
        index.search(QUESTION, config=ASKED)
    reader.at = 2
    retrieval = index.search(QUESTION, config=ASKED)
    assert {step.node.document_id for step in retrieval.steps} == {"doc1"}
    assert retrieval.sources.keys() == {"doc1"}


def test_answers_cite_the_version_that_was_walked(tmp_path):
    """A document that is replaced between the walk and the answer."""
    path = tmp_path / "a.hwdag"
    index = index_of(documents(1), path=path)
    stream = index.stream(QUESTION, config=BUDGET)
    old = index.documents["doc0"].text
    opened(path).refresh([Document("doc0", "Something else entirely.")])
    for citation in stream.answer.citations:
        assert citation.text == old[citation.span.start : citation.span.end]


def test_two_indexes_do_not_build_into_one_file_at_once(tmp_path, monkeypatch):
    path = tmp_path / "a.hwdag"
    index_of(documents(1), path=path)
    with build_lock(path, 30), pytest.raises(IndexBusy):
        monkeypatch.setattr("hwdag.index.WAIT_SECONDS", 0.05)
        opened(path).insert(documents(1, seed=4, prefix="late"))


def test_asynchronous_twins_work_inside_a_running_loop(tmp_path):
    async def run():
        index = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder(), config=CONFIG)
        await index.ainsert(documents(2))
        await index.arefresh(documents(3))
        await index.arefresh(documents(3)[1:], prune=True)
        await index.adelete("doc2")
        searched = await asyncio.gather(*(index.asearch(QUESTION, config=BUDGET) for _ in range(4)))
        pieces = [piece async for piece in index.astream(QUESTION, config=BUDGET)]
        return index, searched, pieces, await index.aanswer(QUESTION, config=BUDGET)

    index, searched, pieces, answer = asyncio.run(run())
    assert list(index.documents) == ["doc1"]
    assert {r.steps for r in searched} == {index.search(QUESTION, config=BUDGET).steps}
    assert "".join(pieces).strip() == answer.text


def test_asynchronous_twins_do_not_block_the_loop():
    """The loop runs while a search waits, since the loop itself lets the search end."""

    async def run():
        released = threading.Event()
        reader = Disturbed(1, lambda: released.wait(30))
        index = index_of(documents(1), reader=reader)
        searching = asyncio.create_task(index.asearch(QUESTION, config=ASKED))
        while reader.at > 0:
            await asyncio.sleep(0)
        assert not searching.done()
        released.set()
        return await searching

    assert asyncio.run(run()).steps


def test_threads_that_search_see_whole_states_only_while_one_inserts(tmp_path):
    """Every result is that of one of the states that the index went through."""
    path, docs = tmp_path / "a.hwdag", documents(6)
    states = [found(index_of(docs[:n])) for n in range(1, len(docs) + 1)]
    index = index_of(docs[:1], path=path)
    done = threading.Event()

    def search():
        results = []
        while not done.is_set():
            results.append(found(index))
        return [*results, found(index)]

    with ThreadPoolExecutor(8) as pool:
        searching = [pool.submit(search) for _ in range(8)]
        for doc in docs[1:]:
            index.insert([doc])
        done.set()
        results = [future.result() for future in searching]
    for mine in results:
        at = 0
        for result in mine:
            at = next(i for i in range(at, len(states)) if _same(result, states[i]))
        assert at == len(states) - 1


def _same(one, two):
    return [s[0] for s in one] == [s[0] for s in two] and np.allclose(
        [s[1:] for s in one], [s[1:] for s in two], atol=1e-5
    )


SEARCHER = """
    import json, sys
    from hwdag import HWDAGIndex, SearchConfig
    from hwdag.embedding.hashing import HashingEmbedder
    from hwdag_lab.scripted import ScriptedLM

    index = HWDAGIndex.load(sys.argv[1], reader=ScriptedLM(), embedder=HashingEmbedder())
    config = SearchConfig(token_budget=120, confidence=1.0)
    print("ready", flush=True)
    results = []
    while True:
        last = len(index.documents) == int(sys.argv[2])
        steps = index.search(sys.argv[3], config=config).steps
        results.append([[s.node.id, s.node.text, s.score] for s in steps])
        if last:
            break
    print(json.dumps(results))
"""


def test_processes_that_search_see_whole_states_only_while_one_inserts(tmp_path):
    path, docs = tmp_path / "a.hwdag", documents(5)
    states = []
    for n in range(1, len(docs) + 1):
        steps = index_of(docs[:n]).search(QUESTION, config=BUDGET).steps
        states.append([(s.node.id, s.node.text, s.score) for s in steps])
    index = index_of(docs[:1], path=path)
    searchers = [started(SEARCHER, path, len(docs), QUESTION) for _ in range(2)]
    for searcher in searchers:
        assert searcher.stdout.readline() == "ready\n"
    for doc in docs[1:]:
        index.insert([doc])
    for searcher in searchers:
        output, _ = searcher.communicate(timeout=120)
        assert searcher.returncode == 0
        results, at = json.loads(output), 0
        for result in results:
            at = next(i for i in range(at, len(states)) if _alike(result, states[i]))
        assert at == len(states) - 1


def _alike(one, two):
    return [tuple(s[:2]) for s in one] == [s[:2] for s in two] and np.allclose(
        [s[2] for s in one], [s[2] for s in two], atol=1e-5
    )


def test_processes_that_insert_take_turns(tmp_path):
    """Two writers at once: each waits for the other, and nothing of either is lost."""
    path = tmp_path / "a.hwdag"
    index_of(documents(1), path=path).close()
    script = """
        import sys
        from hwdag import Document, HWDAGIndex
        from hwdag.embedding.hashing import HashingEmbedder
        from hwdag_lab.scripted import ScriptedLM

        index = HWDAGIndex.load(sys.argv[1], reader=ScriptedLM(), embedder=HashingEmbedder())
        for i in range(3):
            text = f"The {sys.argv[2]} wrote sentence {i}. It is about rivers and castles. " * 5
            index.insert([Document(f"{sys.argv[2]}{i}", text)])
    """
    with started(script, path, "first") as one, started(script, path, "second") as two:
        pass
    assert (one.returncode, two.returncode) == (0, 0)
    names = {f"{name}{i}" for name in ("first", "second") for i in range(3)}
    assert set(opened(path).documents) == names | {"doc0"}


def test_a_path_that_holds_an_index_is_no_path_for_a_new_one(tmp_path):
    index_of(documents(1), path=tmp_path / "a.hwdag").close()
    with pytest.raises(InputError, match="exists"):
        HWDAGIndex(path=tmp_path / "a.hwdag")


def test_builds_that_begin_at_once_on_a_new_path_take_turns(tmp_path):
    path = tmp_path / "a.hwdag"
    with ThreadPoolExecutor(4) as pool:
        built = [
            pool.submit(index_of, documents(2, seed=i, prefix=f"p{i}-"), path=path)
            for i in range(4)
        ]
        assert {len(future.result().report.built) for future in built} == {2}
    assert len(opened(path)) == 8


def test_a_file_that_appears_after_the_check_for_it_is_used(tmp_path, monkeypatch):
    path = tmp_path / "a.hwdag"

    def look(_):
        monkeypatch.undo()
        index_of(documents(1, prefix="other"), path=path).close()
        return False  # as it was before

    monkeypatch.setattr("hwdag.index.holds_something", look)
    # why not what a search finds: of two equal texts it shows one
    assert set(index_of(documents(1), path=path).documents) == {"other0", "doc0"}


def test_a_file_that_was_made_meanwhile_with_another_config_is_refused(tmp_path):
    path = tmp_path / "a.hwdag"
    index = HWDAGIndex(reader=ScriptedLM(), embedder=HashingEmbedder(), config=CONFIG, path=path)
    index_of(documents(1), config=replace(CONFIG, chunk_tokens=40), path=path).close()
    with pytest.raises(IndexMismatch):
        index.insert(documents(1))


def test_what_cannot_be_built_makes_no_file(tmp_path):
    small = BuildConfig("hwdag", chunk_tokens=300, window_tokens=320)
    with pytest.raises(ContextTooSmall):
        index_of(documents(1), config=small, path=tmp_path / "a.hwdag")
    assert not (tmp_path / "a.hwdag").exists()


@pytest.mark.parametrize("blank", [" \n", "\ufeff", "\u200b \u200d\u2060"])
def test_a_document_that_became_blank_is_gone(blank):
    index = index_of(documents(2))
    report = index.refresh([Document("doc0", blank)])
    assert report.deleted == ["doc0"]
    assert [name for name, _ in report.skipped] == ["doc0"]
    assert seen(index) == {"doc1"}


def test_to_prune_forgets_what_was_begun_and_never_finished(tmp_path):
    path = tmp_path / "a.hwdag"
    index = index_of(documents(1), path=path, reader=ScriptedLM(writes=True))
    secret = Document("secret", "The unmentionable word stands here. " * 60)
    assert index.refresh([secret], max_tokens=1).stopped
    assert b"unmentionable" in path.read_bytes()
    index.refresh(documents(1), prune=True)
    assert b"unmentionable" not in path.read_bytes()


def test_a_document_that_is_deleted_while_it_is_built_leaves_nothing(tmp_path):
    path = tmp_path / "a.hwdag"
    asked = []

    def reply(prompt):
        asked.append(prompt)
        if len(asked) == 2 * PROMPTS_AT_ONCE:
            with opened(path) as second:
                second.delete("secret")
        return "* The unmentionable word."

    reader = ScriptedLM(writes=True, reply=reply)
    text = " ".join(f"The unmentionable word {i} stands here in line {i}." for i in range(200))
    index_of(documents(1), path=path).close()
    index = HWDAGIndex.load(path, reader=reader, embedder=HashingEmbedder())
    report = index.insert([Document("secret", text)])
    assert report.built == []
    assert any("deleted while it was being built" in note for note in report.notes)
    assert b"unmentionable" not in path.read_bytes()
    assert list(index.documents) == ["doc0"]


SHORT = [Document(f"note{i}", f"The silver dragon number {i} sleeps.") for i in range(7)]


@pytest.fixture
def commits(monkeypatch):
    """Numbers of documents that were committed together."""
    made, put_all = [], Store.put_all
    monkeypatch.setattr(
        Store, "put_all", lambda self, group: made.append(len(group)) or put_all(self, group)
    )
    monkeypatch.setattr(committing, "GROUP_SECONDS", 60)
    return made


def test_short_documents_are_committed_in_groups_and_each_change_is_on_disk(
    tmp_path, commits, monkeypatch
):
    monkeypatch.setattr(committing, "GROUP_BYTES", 35_000)
    path = tmp_path / "a.hwdag"
    with index_of([], path=path, config=BuildConfig(method="evidence")) as index:
        report = index.insert([*SHORT, replace(SHORT[-1])])  # the last one twice
        assert (commits, len(report.built), len(report.unchanged)) == ([3, 3, 1], 7, 1)
        index.insert([Document("last", "The dragon wakes.")])
        with opened(path) as other:
            assert list(other.documents) == [one.id for one in SHORT] + ["last"]


def test_what_was_finished_before_an_error_is_on_disk_and_in_the_progress(tmp_path, commits):
    class Counting(Silent):
        done = 0

        @contextmanager
        def stage(self, name, total, unit):
            yield lambda amount=1: name == "documents" and self.advance(amount)

        def advance(self, amount):
            Counting.done += amount

    def failing():
        yield from SHORT
        assert Counting.done == 0  # nothing of them is on disk
        raise OSError("the folder is gone")

    path = tmp_path / "a.hwdag"
    with index_of([], path=path, config=BuildConfig(method="evidence")) as index:
        with pytest.raises(OSError, match="folder"):
            index.insert(failing(), show_progress=Counting())
        with opened(path) as other:
            assert (commits, len(other), Counting.done) == ([7], 7, 7)


def test_builds_that_wait_for_each_other_leave_searches_their_threads():
    async def run():
        released = threading.Event()

        def reply(prompt):
            assert released.wait(60)
            return "* A point."

        slow = HWDAGIndex(
            reader=ScriptedLM(writes=True, reply=reply),
            embedder=HashingEmbedder(),
            config=CONFIG,
        )
        quick = index_of(documents(1))
        building = [
            asyncio.create_task(slow.ainsert(documents(1, seed=i, prefix=f"p{i}-")))
            for i in range(40)
        ]
        found = await quick.asearch(QUESTION, config=BUDGET)
        released.set()
        await asyncio.gather(*building)
        return found, slow

    found, slow = asyncio.run(run())
    assert found.steps
    assert len(slow) == 40


def test_a_file_whose_first_write_was_killed_is_filled(tmp_path):
    """Pages are in the file already, and the journal says that there were none."""
    path = tmp_path / "a.hwdag"
    script = """
        import os, signal, sqlite3, sys
        connection = sqlite3.connect(sys.argv[1], isolation_level=None)
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE header (name TEXT)")
        connection.executemany("INSERT INTO header VALUES (?)", [("x" * 900,)] * 500)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    python(script, path, ends=-signal.SIGKILL)
    assert path.stat().st_size > 0
    assert path.with_name("a.hwdag-journal").exists()
    assert seen(index_of(documents(1), path=path)) == {"doc0"}


@pytest.mark.parametrize("twin", ["asearch", "aanswer", "astream"])
def test_a_question_that_nobody_waits_for_ends_at_its_next_step(twin):
    index = index_of(documents())
    began, go, seen = threading.Event(), threading.Event(), []

    def on_step(step):
        seen.append(step)
        began.set()
        go.wait(30)

    async def run():
        asked = getattr(index, twin)(QUESTION, config=ASKED, on_step=on_step)
        task = asyncio.ensure_future(anext(asked) if twin == "astream" else asked)
        assert await asyncio.to_thread(began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await all_questions_ended()

    asyncio.run(run())
    assert len(seen) == 1


def test_a_stopped_question_is_answered_with_nothing():
    stop = threading.Event()
    stop.set()
    answer = index_of(documents(1)).answer(QUESTION, stop=stop)
    assert (answer.text, answer.citations, answer.retrieval.stop) == ("", (), "stopped")


def test_a_search_that_takes_too_long_is_reported():
    assert index_of(documents(1)).search(QUESTION, max_seconds=1e-9).stop == "time"
    with pytest.raises(InputError, match="max_seconds"):
        index_of(documents(1)).search(QUESTION, max_seconds=0)


def test_a_clock_that_steps_moves_no_limit_and_no_lock(tmp_path, monkeypatch):
    """Each look at the clock is three years from the last, forwards or backwards."""
    path, now, looks = tmp_path / "a.hwdag", time.time(), itertools.count()
    for clock in ("time.time", "tqdm.std.time"):  # that of the bars
        monkeypatch.setattr(clock, lambda: now + 1e8 * (next(looks) % 3 - 1))
    index = index_of(documents(), path=path, max_seconds=600, show_progress=True)
    assert not index.report.stopped
    assert index.search(QUESTION, max_seconds=600).stop != "time"
    assert index.answer(QUESTION, max_seconds=600).text
    assert index.refresh(documents(seed=3), max_seconds=600).stopped is None
    began = time.monotonic()
    with build_lock(path, 1), pytest.raises(IndexBusy), build_lock(path, 0.2):
        pass
    assert time.monotonic() - began < 30
    assert next(looks) > 2  # the bars at least look at it


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("in_memory", [False, True])
def test_a_fork_during_a_build_waits_for_nothing(tmp_path, in_memory):
    path = tmp_path / "a.hwdag"
    script = """
        import os, signal, sys, threading
        from index_world import documents, index_of
        from hwdag.errors import IndexFileError
        from hwdag_lab.scripted import ScriptedLM

        asked, released = threading.Event(), threading.Event()

        def reply(prompt):
            asked.set()
            assert released.wait(60)
            return "* A point."

        path = sys.argv[1] or None
        index = index_of([], path=path, reader=ScriptedLM(writes=True, reply=reply))
        building = threading.Thread(target=index.insert, args=[documents(1)])
        building.start()
        assert asked.wait(60)
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            for use in (index.insert, index.refresh, lambda _: index.search("Where?")):
                try:
                    use(documents(1))
                except IndexFileError as error:
                    assert "load" in str(error), error
                else:
                    os._exit(1)
            index.close()
            os._exit(7)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        released.set()
        building.join()
        assert list(index.documents) == ["doc0"]
        sys.exit(status)
    """
    python(script, "" if in_memory else path, ends=7)


TWO_PARAGRAPHS = (
    "# Harbour\n\nClara built the harbour. It has a silver lamp.\n\n"
    "The bridge burned down. Nobody mourned it.\n"
)


def test_passages_are_whole_paragraphs_in_the_order_of_the_walk_each_once():
    index = index_of([Document("a", TWO_PARAGRAPHS)], config=BuildConfig())
    config = SearchConfig(token_budget=3000, confidence=NEVER)
    nodes = index.search("Who built the harbour?", config=config)
    found = index.search("Who built the harbour?", config=config, returns="passages")
    paragraphs = [
        "# Harbour\n\nClara built the harbour. It has a silver lamp.",
        "The bridge burned down. Nobody mourned it.",
    ]
    assert len(nodes.steps) > 2
    assert sorted(step.node.text for step in found.steps) == sorted(paragraphs)
    order = [
        next(i for i, text in enumerate(paragraphs) if s.node.text in text) for s in nodes.steps
    ]
    assert [paragraphs.index(step.node.text) for step in found.steps] == list(dict.fromkeys(order))
    for step in found.steps:
        [span] = step.node.sources
        assert TWO_PARAGRAPHS[span.start : span.end] == step.node.text
        assert step.node.id == f"a@{span.start}-{span.end}"
    sources = index.search("Who built the harbour?", config=config, returns="sources")
    for step, read in zip(sources.steps, nodes.steps, strict=True):
        assert step.node.text.split("\n") == [
            line for s in read.node.sources for line in TWO_PARAGRAPHS[s.start : s.end].split("\n")
        ]
    with pytest.raises(UnknownOption, match="returns"):
        index.search("Who?", returns="pages")


def test_a_node_that_is_alone_has_the_score_of_a_best_one():
    text = "The silver dragon guards the bridge."
    for some in ([text], [text, text]):
        named = [Document(f"d{i}", one) for i, one in enumerate(some)]
        index = index_of(named, config=BuildConfig(method="evidence"), embedder=HashingEmbedder())
        assert index.search(QUESTION).steps[0].score == pytest.approx(1, abs=0.01)


def test_an_index_finds_the_file_that_somebody_else_creates(tmp_path):
    path = tmp_path / "town.hwdag"
    early, another = (HWDAGIndex(**models(path=path, config=CONFIG)) for _ in range(2))
    assert len(early) == len(another) == 0
    with pytest.raises(EmptyIndex):
        early.search(QUESTION)
    index_of(documents(2), path=path).close()
    assert early.search(QUESTION).steps
    assert len(another) == len(another.graphs) == 2
