"""Threads for what would block an event loop."""

import os

import pytest
from processes import python

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
