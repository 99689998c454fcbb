"""How transformers' own `generate` is asked."""

from __future__ import annotations

from collections.abc import Collection

from transformers import GenerationConfig


def plainly_greedy(
    max_new_tokens: int, end_tokens: Collection[int], pad_token: int
) -> GenerationConfig:
    """The likeliest token every time, as all decoding here.

    What is not said is taken from the checkpoint's own settings, penalties and all.
    """
    return GenerationConfig(  # type: ignore[no-untyped-call]
        max_new_tokens=max_new_tokens,
        do_sample=False,
        num_beams=1,
        repetition_penalty=1.0,
        no_repeat_ngram_size=0,
        min_length=0,
        eos_token_id=sorted(end_tokens) or None,
        pad_token_id=pad_token,
    )
