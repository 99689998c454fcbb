"""One question's KV cache: every token passes through the model once, probes are forgotten.

The layout is `[head, first turn, question, node, node, ...]`, only ever appended to (PECAN App. B).
A probe appends the answer slot in the same forward as the nodes, reads p_yes, and crops the slot.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import DynamicCache

from hwdag.arrays import Floats
from hwdag.config import HeadList
from hwdag.errors import InputError, ModelError, QuestionTooLong
from hwdag.lm.attention import SpanRequest
from hwdag.lm.base import Reading
from hwdag.lm.decoding import greedy, whole_characters
from hwdag.lm.tokens import Range
from hwdag.text.characters import one_line
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Span, Usage

if TYPE_CHECKING:
    from hwdag.lm.huggingface import HuggingFaceLM


class KVSession:
    """The growing cache of one question on one model; see `hwdag.lm.base.Session`."""

    def __init__(
        self,
        lm: HuggingFaceLM,
        question: str,
        *,
        prompts: SearchPrompts,
        heads: HeadList | None,
        max_new_tokens: int,
    ) -> None:
        self._lm = lm
        self._heads = heads
        # no config: sliding-window layers keep everything, so that they can be cropped
        self._cache = DynamicCache()
        self._usage = Usage()
        self._nodes: list[Range] = []  # absolute token range of each appended node's text
        self._node_texts: list[str] = []
        self._encoded: dict[str, tuple[list[int], Range]] = {}

        codec, turns = lm.codec, lm.turns
        before, between, after = prompts.cut()
        asked, parts = codec.encode_parts(before, question, between)
        self._question: Range = (len(turns.head) + parts[1][0], len(turns.head) + parts[1][1])
        self._pending = [*turns.head, *asked]  # encoded together with the first nodes
        self._slot = [*(codec.encode(after) if after else []), *turns.reply]
        self._second_turn = self._asking(prompts.answer)
        self._yes, self._no = lm.verdict_tokens(prompts)
        self._verdicts = prompts.yes[0], prompts.no[0]
        answering = len(self._slot) + len(self._second_turn) + 2 + max_new_tokens
        self._capacity = lm.context_tokens - answering
        if self.room < 1:
            raise QuestionTooLong(
                f"question and prompts take {len(self._pending)} tokens and the answer may take "
                f"{answering}, but the context of {lm.name} holds {lm.context_tokens}; shorten "
                "the question, lower max_new_tokens, or use a model with a longer context"
            )

    @property
    def usage(self) -> Usage:
        """Cost so far."""
        return self._usage

    @property
    def cached_tokens(self) -> int:
        """Tokens in the cache."""
        return int(self._cache.get_seq_length())

    @property
    def room(self) -> int:
        """Node tokens that still fit into the context, room for the answer kept free."""
        return self._capacity - self.cached_tokens - len(self._pending)

    def cost(self, text: str) -> int:
        """Tokens that appending `text` as a node would take."""
        return len(self._encode(text)[0])

    def read(self, texts: Sequence[str]) -> Reading:
        """Append nodes and probe the answer slot, in one forward; the slot is cropped again.

        Raises:
            ModelError: attention or p_yes are not finite.
        """
        ids, rows = list(self._pending), []
        for text in texts:
            node, (start, end) = self._encode(text)
            rows.append((len(ids) + start, len(ids) + end))
            ids += node
        cached = self.cached_tokens
        request = SpanRequest(rows=rows, keys=[self._question])
        logits, attention = self._forward([*ids, *self._slot], request if rows else None)
        self._cache.crop(-len(self._slot))
        self._pending = []
        self._nodes += [(cached + start, cached + end) for start, end in rows]
        self._node_texts += texts
        return self._sound(Reading(attention[:, 0], self._p_yes(logits)))

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> KVDecoding:
        """Append the first reply and the second turn, and decode greedily from the same cache."""
        keys = [self._token_range(node, span) for node, span in spans]
        return KVDecoding(self, self._until_answer(enough), max_new_tokens, keys)

    def likelihoods(self, texts: Sequence[str], *, enough: bool) -> Floats:
        """Mean log-probability per token of each text as the whole answer, (texts,).

        One forward over the first reply and the second turn, and one per text on top of it; then
        the cache is what it was. Texts are plain text, control tokens taken apart.

        Raises:
            InputError: a blank text, or one that does not fit into the context.
        """
        prompt, answers = self._until_answer(enough), [self._answer(text) for text in texts]
        if not answers:
            return np.zeros(0)
        known = self.cached_tokens
        room = self._lm.context_tokens - known - len(prompt)
        if (longest := max(map(len, answers))) > room:
            raise InputError(
                f"an answer of {longest} tokens was to be scored where {room} fit into the context "
                f"of {self._lm.name}; shorten it, or read fewer nodes"
            )
        first = self._logits(prompt, last=1)
        means = [self._mean_logprob(first, answer) for answer in answers]
        self._cache.crop(known - self.cached_tokens)
        return np.array(means)

    def note(self, prompt: str, *, max_new_tokens: int) -> str:
        """Decode the reply to `prompt` after a "No" in the first turn, and forget all of it."""
        known = self.cached_tokens
        ids = self._until(self._asking(prompt), enough=False)

        def step(new: list[int]) -> int:
            return int(self._forward(new, None)[0].argmax())

        room = self._lm.context_tokens - known - len(ids)
        limit, ends = min(max_new_tokens, room), self._lm.end_tokens
        tokens = list(greedy(step, ids, max_new_tokens=limit, end_tokens=ends))
        if passed := self.cached_tokens - known:
            self._cache.crop(-passed)
        return self._lm.codec.decode(tokens).strip()

    def _until_answer(self, enough: bool) -> list[int]:
        """All that stands between the cache and the answer."""
        return self._until(self._second_turn, enough=enough)

    def _until(self, second_turn: list[int], *, enough: bool) -> list[int]:
        """All that stands between the cache and the reply in the second turn."""
        verdict = self._lm.codec.encode(self._verdicts[0 if enough else 1])
        return [*self._pending, *self._slot, *verdict, *second_turn]

    def _asking(self, prompt: str) -> list[int]:
        """A second turn."""
        turns = self._lm.turns
        return [*turns.between, *self._lm.codec.encode(prompt), *turns.second_reply]

    def _answer(self, text: str) -> list[int]:
        """An answer given from outside; where there is no template, a space comes before it."""
        chat = bool(self._lm.codec.tokenizer.chat_template)
        ids = self._lm.codec.encode(text if chat else " " + text) if text.strip() else []
        if not ids:
            raise InputError(f"the text {text!r} has no tokens, so it has no likelihood")
        return ids

    def _mean_logprob(self, first: torch.Tensor, ids: list[int]) -> float:
        """Of one answer on top of the cache; `first` are the logits before it, (1, vocabulary)."""
        if len(ids) == 1:
            return float(logprobs(first, ids).mean())
        rest = self._logits(ids[:-1], last=len(ids) - 1)
        self._cache.crop(1 - len(ids))
        return float(logprobs(torch.cat([first, rest]), ids).mean())

    def _logits(self, ids: list[int], *, last: int) -> torch.Tensor:
        """Run new tokens on top of the cache: float32 logits, (last, vocabulary)."""
        began, cached = time.perf_counter(), self.cached_tokens
        logits = self._lm.logits([ids], last=last, cache=self._cache)[0]
        tflops = self._lm.tflops(len(ids), cached, logit_rows=last)
        self._usage += Usage(len(ids), tflops, time.perf_counter() - began)
        return logits

    def _encode(self, text: str) -> tuple[list[int], Range]:
        """A node as one bullet line: ids, and the token range of the text itself."""
        if text not in self._encoded:
            ids, parts = self._lm.codec.encode_parts("* ", one_line(text), "\n")
            self._encoded[text] = ids, parts[1]
        return self._encoded[text]

    def _token_range(self, node: int, span: Span) -> Range:
        """Where the characters `span` of an appended node's text stand in the cache."""
        text = one_line(self._node_texts[node])
        parts = "* " + text[: span.start], text[span.start : span.end], text[span.end :] + "\n"
        start, end = self._lm.codec.encode_parts(*parts)[1][1]
        origin = self._nodes[node][0] - self._encoded[self._node_texts[node]][1][0]
        return origin + start, origin + end

    def _sound(self, reading: Reading) -> Reading:
        """The reading itself. Raises `ModelError` where the model's numbers have overflowed."""
        if np.isfinite([*reading.attention, reading.p_yes]).all():
            return reading
        raise ModelError(
            f"{self._lm.name} in {self._lm.model.dtype} computed {reading}, which is not a number; "
            'half precision overflows in some models: load it with dtype="bfloat16" or "float32" (or '
            "OMP_THREAD_LIMIT allows fewer threads than torch uses: unset it)"
        )

    def _p_yes(self, logits: torch.Tensor) -> float:
        """P(Yes) / (P(Yes) + P(No)), each summed over the first tokens of its spellings."""
        yes, no = logits[self._yes].logsumexp(0), logits[self._no].logsumexp(0)
        return float(torch.sigmoid(yes - no))

    def _forward(self, ids: list[int], request: SpanRequest | None) -> tuple[torch.Tensor, Floats]:
        """Run new tokens on top of the cache: logits of the last one (float32), span attention."""
        began = time.perf_counter()
        cached = self.cached_tokens
        logits, attention = self._lm.forward(ids, self._cache, request, self._heads)
        tflops = self._lm.tflops(len(ids), cached, request=request, heads=self._heads)
        self._usage += Usage(len(ids), tflops, time.perf_counter() - began)
        return logits, attention


class KVDecoding:
    """Greedy decoding as an iterator of text pieces; stops at an end token or the length limit."""

    def __init__(
        self, session: KVSession, prompt: list[int], max_new_tokens: int, keys: list[Range]
    ) -> None:
        self._session = session
        self._pieces = self._run(prompt, max_new_tokens, keys)
        self._ids: list[int] = []
        self._attention = np.zeros(len(keys))

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    @property
    def text(self) -> str:
        """What was decoded so far, stripped."""
        return self._session._lm.codec.decode(self._ids).strip()

    @property
    def attention(self) -> Floats:
        """Attention mass on each of the asked spans, mean over the decoded tokens, (spans,)."""
        return self._attention / max(1, len(self._ids))

    def _run(self, ids: list[int], max_new_tokens: int, keys: list[Range]) -> Iterator[str]:
        lm = self._session._lm
        lengths = np.array([end - start for start, end in keys])
        seen = np.zeros(len(keys))

        def step(ids: list[int]) -> int:
            nonlocal seen
            # the last row predicts, so it is the row whose attention explains the token
            request = SpanRequest([(len(ids) - 1, len(ids))], keys) if keys else None
            logits, attention = self._session._forward(ids, request)
            seen = attention[0] if keys else seen
            return int(logits.argmax())

        def kept() -> Iterator[int]:
            self._session._pending = []  # it is the beginning of ids
            ends = lm.end_tokens
            for token in greedy(step, ids, max_new_tokens=max_new_tokens, end_tokens=ends):
                self._ids.append(token)
                self._attention += seen * lengths
                yield token

        return whole_characters(kept(), lm.codec.decode)


def logprobs(logits: torch.Tensor, ids: Sequence[int]) -> Floats:
    """Log-probability of each id under its row of float32 logits, (ids, vocabulary) -> (ids,)."""
    index = torch.tensor(ids, device=logits.device).unsqueeze(1)
    chosen = logits.gather(1, index).squeeze(1) - logits.logsumexp(1)
    found: Floats = chosen.double().cpu().numpy()
    return found
