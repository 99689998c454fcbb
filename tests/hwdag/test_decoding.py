"""Pieces are whole characters, however a text is cut into tokens."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tiny import tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from hwdag.lm.decoding import whole_characters
from hwdag.lm.tokens import Codec


def metaspace():
    """Return a SentencePiece-like tokenizer: the first space goes, unknown characters are bytes."""
    words = ["\u2581", "\u2581the", "\u2581fox", "\u2581.", "ing", "狐"]
    vocabulary = {
        token: i for i, token in enumerate(["<s>", *(f"<0x{b:02X}>" for b in range(256)), *words])
    }
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    inner.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>")


BYTES, METASPACE = Codec(tokenizer()), Codec(metaspace())


def check_pieces(codec, tokens):
    pieces = list(whole_characters(tokens, codec.decode))
    assert "".join(pieces) == codec.decode(tokens)
    assert all(pieces)
    assert not any(piece.endswith("\ufffd") for piece in pieces[:-1])


@given(tokens=st.lists(st.integers(0, 399), max_size=24))
def test_pieces_join_to_the_text_even_if_bytes_are_invalid(tokens):
    check_pieces(BYTES, tokens)


@pytest.mark.parametrize("codec", [BYTES, METASPACE], ids=["bytes", "metaspace"])
@given(text=st.text(st.sampled_from("the fox. 狐🦊é\n"), max_size=16))
@example(text="the fox 🦊🦊狐")
def test_pieces_are_whole_characters_and_join_to_the_text(codec, text):
    check_pieces(codec, codec.encode(text))
    opened = [*codec.encode(text), *codec.tokenizer.all_special_ids[:1], *codec.encode(text)]
    check_pieces(codec, opened)  # a skipped token loses no space after it
