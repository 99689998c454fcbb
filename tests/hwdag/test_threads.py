"""Threads for work that would block an event loop."""

import os
import sys
import threading
import time

import pytest
import torch
from processes import python

from hwdag import threads
from hwdag.threads import without_spinning

FORKED = """
    import asyncio, os
    from hwdag.threads import in_builder_thread, in_question_thread

    async def both():
        return await in_question_thread(lambda: 1) + await in_builder_thread(lambda: 2)

    assert asyncio.run(both()) == 3
    child = os.fork()
    if child:
        os._exit(bool(os.waitpid(child, 0)[1]))
    try:
        os._exit(asyncio.run(asyncio.wait_for(both(), 20)) != 3)
    except BaseException:
        os._exit(1)
    """


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    """The pools of the parent have none in the copy, where work would wait for ever."""
    python(FORKED)


IDLE = """
    import contextlib, sys, time, torch
    from hwdag.threads import without_spinning

    torch.set_num_threads(2)
    numbers = torch.ones(1 << 20)

    def used(context):
        with context:
            numbers.sum()
            seconds = 0.0
            for _ in range(20):
                numbers.sum()
                began = time.process_time()
                time.sleep(0.02)
                seconds += time.process_time() - began
        return seconds

    # why several times: other work on the machine can wake or hold up a thread
    print(min(used(without_spinning()) for _ in range(2)))
    print(max(used(contextlib.nullcontext()) for _ in range(3)))
    """


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="GNU's OpenMP")
def test_idle_threads_of_torch_take_no_processor(monkeypatch):
    for name in threads.SPINNING | {"OMP_NUM_THREADS"}:
        monkeypatch.delenv(name, raising=False)
    asleep, spinning = map(float, python(IDLE).stdout.split())
    assert asleep < 0.05
    assert spinning > 2 * asleep or len(os.sched_getaffinity(0)) == 1


def helpers():
    return [one for one in threading.enumerate() if one.name == "hwdag-team"]


@pytest.mark.skipif(sys.platform != "linux", reason="GNU's OpenMP")
def test_the_second_team_ends_after_the_last_block_and_changes_no_setting(monkeypatch):
    for name in threads.SPINNING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "KEPT_SECONDS", 0.05)
    before = torch.get_num_threads()
    with pytest.raises(KeyError), without_spinning():
        with without_spinning():
            assert len(helpers()) == 1
        assert len(helpers()) == 1
        raise KeyError
    with without_spinning():
        assert len(helpers()) == 1
    ends = time.monotonic() + 60
    while helpers() and time.monotonic() < ends:
        time.sleep(0.01)
    assert helpers() == []
    found = []
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert found == [torch.get_num_threads()] == [before]


def test_a_policy_of_the_user_takes_precedence(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    with without_spinning():
        assert threads._team(os.getpid())._users == 0


LIMITED = """
    import numpy
    from threadpoolctl import ThreadpoolController
    from hwdag.threads import one_blas_thread

    blas = ThreadpoolController().select(user_api="blas")

    def counts():
        return {one["num_threads"] for one in blas.info()}

    with blas.limit(limits=2):
        before = counts()
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        assert counts() <= {1}
        first.__exit__(None, None, None)  # threads end in any order
        assert counts() <= {1}
        second.__exit__(None, None, None)
        assert counts() == before
        try:
            with one_blas_thread():
                raise KeyError
        except KeyError:
            assert counts() == before
    """


def test_numpy_has_its_threads_back_after_the_last_block():
    python(LIMITED)  # why a process: searches of other tests may be under way in this one
