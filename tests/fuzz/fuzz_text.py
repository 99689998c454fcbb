"""Sentences, chunks, leaves, words, characters and prompts from random texts."""

from __future__ import annotations

import atheris
from harness import fuzz, instrumented, some_text

with instrumented("hwdag.text"):
    from hwdag.text.characters import disarmed, one_line, visible, without_surrogates
    from hwdag.text.chunking import chunk, leaves
    from hwdag.text.prompts import SearchPrompts, SummaryPrompt
    from hwdag.text.sentences import sentences
    from hwdag.text.words import content_words, words
    from hwdag_lab.methods.longllmlingua import whole_words

from worlds import assert_partition

from hwdag.errors import InputError
from hwdag.types import Span


def count_tokens(texts: list[str]) -> list[int]:
    """A token for two characters that are not blank."""
    return [(sum(not c.isspace() for c in text) + 1) // 2 for text in texts]


def check(data: atheris.FuzzedDataProvider) -> None:
    """One text through everything."""
    limit, text = data.ConsumeIntInRange(1, 64), some_text(data)
    assert_partition(text, sentences(text))
    for cut in (chunk, leaves):
        spans = cut(text, count_tokens=count_tokens, limit=limit)
        assert_partition(text, spans)
        counts = count_tokens([text[s.start : s.end] for s in spans])
        assert cut is leaves or max(counts, default=0) <= limit
    assert len(one_line(text)) == len(text)
    assert len(one_line(text).splitlines()) <= 1
    assert len(without_surrogates(text)[0]) == len(text)
    assert visible(visible(text)) == visible(text)
    assert disarmed(disarmed(text)) == disarmed(text)
    found = words(text)
    assert words(" ".join(found)) == found
    assert len(content_words(text)) <= len(found)
    step = max(1, limit // 8)
    tokens = [Span(i, min(i + step, len(text))) for i in range(0, len(text), step)]
    assert_partition(text, whole_words.words(text, tokens))
    try:
        before, after = SummaryPrompt(text + "{information}").cut(text)
        assert before.startswith(text.partition("{language}")[0])
        assert after == ""
        SearchPrompts(opening=text + "{question}{information}")
    except InputError:
        assert "{" in text


if __name__ == "__main__":
    fuzz(check)
