"""Text to token ids: untrusted text as plain text, a template's text with control tokens."""

from __future__ import annotations

import copy
import hashlib
import re
import threading
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from hwdag.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Range = tuple[int, int]
"""Positions of tokens, the end excluded."""


_BRACKETED = re.compile(r"<\S+>|\[\S+\]")


class Codec:
    """Encodes untrusted text without ever producing a control token.

    A call of a tokenizer changes its settings, such as truncation, for all threads. So a codec works
    with a copy, unless the tokenizer `is_own`: nobody else uses it. Raises `ModelError` for a tokenizer
    without the interface of transformers.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, *, is_own: bool = False) -> None:
        if not hasattr(tokenizer, "is_fast"):  # as that of mistral-common
            raise ModelError(
                f"hwdag needs the offsets and added tokens of a tokenizer, which {type(tokenizer).__name__} "
                "does not have; pass one of the library tokenizers, such as "
                "AutoTokenizer.from_pretrained(name, mistral_format=False)"
            )
        self.tokenizer = tokenizer if is_own else copy.deepcopy(tokenizer)
        self._tokenizing = threading.Lock()

    @cached_property
    def _control(self) -> dict[int, str]:
        """Ids that only a template may produce: special tokens, and added ones such as `<tool_call>`.

        Other added tokens are text, such as Gemma's runs of spaces and newlines.
        """
        added = {
            i: token.content
            for i, token in self.tokenizer.added_tokens_decoder.items()
            if token.special or _BRACKETED.fullmatch(token.content)
        }
        special = dict(
            zip(self.tokenizer.all_special_ids, self.tokenizer.all_special_tokens, strict=True)
        )
        return {i: text for i, text in (added | special).items() if i != self._unknown}

    @cached_property
    def _unknown(self) -> int | None:
        """The id for unknown text, which is no control token; None if it has another role too."""
        tokenizer = self.tokenizer
        roles = (
            tokenizer.bos_token_id,
            tokenizer.eos_token_id,
            tokenizer.sep_token_id,
            tokenizer.cls_token_id,
            tokenizer.mask_token_id,
        )
        return None if tokenizer.unk_token_id in roles else tokenizer.unk_token_id

    @cached_property
    def _control_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(set(self._control.values()), key=len, reverse=True)
        return re.compile("|".join(re.escape(token) for token in longest_first if token) or r"(?!)")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the size of the vocabulary and the ids of a text in many scripts."""
        ids = [len(self.tokenizer), *self.encode(_PROBE)]
        return hashlib.sha256(repr(ids).encode()).hexdigest()

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text."""
        if not texts:
            return []
        if not self.tokenizer.is_fast:
            return [len(self.encode(text)) for text in texts]
        batch = self._tokenized(list(texts), split=True, offsets=False)["input_ids"]
        return [
            len(ids) if self._control.keys().isdisjoint(ids) else len(self.encode(text))
            for text, ids in zip(texts, batch, strict=True)
        ]

    def count_parts(self, texts: Sequence[Sequence[str]]) -> list[int]:
        """Return the number of tokens of each text given in parts, as for `encode_parts`."""
        if not self.tokenizer.is_fast:
            return [len(self.encode_parts(*parts)[0]) for parts in texts]
        return self.count(["".join(parts) for parts in texts])

    def encode(self, text: str) -> list[int]:
        """Return the token ids of plain text."""
        return self.encode_with_offsets(text)[0] if text else []

    def encode_parts(self, *parts: str) -> tuple[list[int], list[Range]]:
        """Return the ids of the concatenated parts and the token range of each; ranges cover all ids.

        Parts are encoded together; a token across a border belongs to the part that contains its middle.
        """
        if not self.tokenizer.is_fast:  # no offsets: encode one by one
            pieces = list(map(self.encode, parts))
            ends = list(accumulate(map(len, pieces)))
            return [i for piece in pieces for i in piece], list(zip([0, *ends], ends, strict=False))
        ids, offsets = self.encode_with_offsets("".join(parts))
        borders = list(accumulate(map(len, parts)))
        ranges, token = [], 0
        for border in borders:
            start = token
            while token < len(ids) and sum(offsets[token]) < 2 * border:
                token += 1
            ranges.append((start, token))
        ranges[-1] = (ranges[-1][0], len(ids))
        return ids, ranges

    def control(self, text: str) -> list[int]:
        """Return the token ids of a template's text, including control tokens."""
        return self._call(text, split=False)[0]

    def begins_word(self, token: int) -> bool:
        """Return whether a token begins a word in lower case; in a script without cases, any letter does."""
        text, is_marked = self._text_of(token)
        first = text[:1]
        return first.isalpha() and not first.isupper() and (is_marked or not first.islower())

    def goes_on_with_word(self, token: int) -> bool:
        """Return whether a token joins letters to the word before it, as "s" and "_votes" do.

        None does in a script without cases.
        """
        text, is_marked = self._text_of(token)
        return not is_marked and any(sign.islower() or sign.isupper() for sign in text)

    def _text_of(self, token: int) -> tuple[str, bool]:
        """Return the text of a token without its leading space, and whether it has one."""
        piece = str(self.tokenizer.convert_ids_to_tokens(token))
        is_marked = piece.startswith(("Ġ", "▁", " "))  # byte-level BPE, SentencePiece
        return self.decode([token]).strip(), is_marked

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without control tokens."""
        text = self.tokenizer.decode(  # clean-up could change earlier parts of a growing text
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text if isinstance(text, str) else "".join(text)

    @cached_property
    def opening(self) -> list[int]:
        """The tokens that the tokenizer puts before a text: a BOS token, or nothing."""
        with self._tokenizing:
            ids = self.tokenizer("", **_QUIET)["input_ids"]
        eos = self.tokenizer.eos_token_id
        return [i for i in ids if i != eos or eos == self.tokenizer.bos_token_id]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[Range]]:
        """Return token ids and the characters of each; no offsets if the tokenizer has none."""
        ids, offsets = self._call(text, split=True)
        if self._control.keys().isdisjoint(ids):
            return ids, offsets
        # The tokenizer also matches added tokens that are not "special": split their spellings.
        cuts = {0, len(text)} | {m.start() + 1 for m in self._control_pattern.finditer(text)}
        while True:
            ids, offsets = [], []
            for start, end in pairwise(sorted(cuts)):  # one piece at a time
                piece, spans = self._call(text[start:end], split=True)
                ids += piece
                offsets += [(a + start, b + start) for a, b in spans]
            found = [at for at, i in enumerate(ids) if i in self._control]
            if not found:
                return ids, offsets
            # A tokenizer that normalises text accepts more spellings; the offsets locate them.
            more = {start + 1 for start, _ in (offsets[at] for at in found if offsets)} - cuts
            if not more:
                tokens = sorted({self._control[ids[at]] for at in found})
                raise ModelError(
                    f"the tokenizer {type(self.tokenizer).__name__} turns plain text into the control "
                    f"tokens {', '.join(map(repr, tokens))}; use a tokenizer that honours "
                    "split_special_tokens"
                )
            cuts |= more

    def _call(self, text: str, *, split: bool) -> tuple[list[int], list[Range]]:
        fast = self.tokenizer.is_fast
        encoded = self._tokenized(text, split=split, offsets=fast)
        return list(encoded["input_ids"]), list(encoded["offset_mapping"]) if fast else []

    def _tokenized(self, text: str | list[str], *, split: bool, offsets: bool) -> Any:
        with self._tokenizing:
            return self.tokenizer(
                text,
                add_special_tokens=False,
                split_special_tokens=split,
                return_offsets_mapping=offsets,
                **_QUIET,
            )


_PROBE = (
    "The harbour's 1,871 stones (Brightwater & Elm Hill) weren't re-counted: 3.14159 %!\n\n"
    "\tdef count(x): return {'a': [x**2, x != 0x7F]}  # <b>HTML</b> https://example.org/a_b?c=d\n"
    "Straßenüberquerung, naïve façade, piñata; Übergrößenträger. ΑΒΓ αβγ. Быстрая лиса. "
    "これは文です。东西南北。한국어 문장. नमस्ते दुनिया। مرحبا بالعالم שלום עולם ภาษาไทย 🙂👍🏽 ﬁ № ½"
)
"""A text that distinguishes tokenizers: words, numbers, code, white space and scripts."""

_QUIET = {"verbose": False, "return_attention_mask": False}
"""No warning about texts longer than the context: documents are."""
