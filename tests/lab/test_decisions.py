"""Decisions by a writer: asked, read, asked again, and counted."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwdag.errors import QuestionTooLong
from hwdag.lm.writers import CallableWriter
from hwdag.store.calls import CallCache
from hwdag_lab.methods.decisions import Asker, Decision
from hwdag_lab.scripted import ScriptedLM


def number_of(reply: str) -> int | None:
    return int(reply) if reply.isdecimal() else None


def requests_for(count: int) -> list[Decision[int]]:
    return [Decision(f"request {i}", number_of, " again") for i in range(count)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=9), st.integers(1, 4), st.booleans())
def test_many_at_once_are_decided_as_one_by_one(usable_from, tries, is_build):
    """Decision i is answered with i from the `usable_from[i]`-th time on."""
    asked = [0] * len(usable_from)

    def reply(prompt: str) -> str:
        i = int(prompt.split()[1])
        asked[i] += 1
        assert prompt.endswith("again") == (asked[i] > 1)
        return str(i) if asked[i] >= usable_from[i] else "no idea"

    # with the calls of a build the same prompt is answered the same, so only a reminder helps
    calls = CallCache.open() if is_build else None
    asker = Asker(CallableWriter(reply), ScriptedLM(), calls=calls, tries=tries)
    made = min(tries, 2) if is_build else tries
    expected = [i if needed <= made else None for i, needed in enumerate(usable_from)]
    assert asker.decide(requests_for(len(usable_from)), limit=8) == expected
    assert asked == [min(needed, made) for needed in usable_from]
    sent = [min(needed, tries) if needed <= made else tries for needed in usable_from]
    assert asker.requests == sum(sent)
    assert asker.retries == sum(sent) - len(sent)
    assert asker.defaults == expected.count(None)


def test_a_prompt_and_its_reminder_fit_into_the_context_or_nothing_is_asked():
    reader = ScriptedLM(context_tokens=11, reply=lambda prompt: "7")
    asker = Asker(reader, reader)
    assert asker.room("request 0 again", limit=8) == 0
    assert asker.decide(requests_for(1), limit=8) == [7]
    assert asker.usage.tokens == 2 + 1
    with pytest.raises(QuestionTooLong):
        asker.decide(requests_for(1), limit=9)
    assert reader.writes == 1
