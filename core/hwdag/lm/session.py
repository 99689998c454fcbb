"""One question's KV cache: every token passes through the model once, and probes are cropped.

The layout is `[head, first turn, question, node, node, ...]`, append-only (PECAN App. B).
A probe appends the answer slot in the same forward as the nodes, reads p_yes, and crops the slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from hwdag.arrays import Floats
from hwdag.config import HeadList
from hwdag.errors import InputError, ModelError, QuestionTooLong
from hwdag.lm.attention import SpanRequest, is_hybrid
from hwdag.lm.base import Reading
from hwdag.lm.caches import Checkpoint, new_cache
from hwdag.lm.decoding import whole_characters
from hwdag.lm.engine import Engine, Forward
from hwdag.lm.layout import SearchLayout
from hwdag.lm.tokens import Range
from hwdag.text.prompts import SearchPrompts
from hwdag.types import Span, Usage


class KVSession:
    """The growing cache of one question on one model; see `hwdag.lm.base.Session`."""

    def __init__(
        self,
        engine: Engine,
        question: str,
        *,
        prompts: SearchPrompts,
        heads: HeadList | None,
        max_new_tokens: int,
    ) -> None:
        self._engine = engine
        self._heads = heads
        self._layout = SearchLayout(engine.codec, engine.turns, question, prompts)
        self._cache = new_cache(engine.weights.config)
        self._is_hybrid = is_hybrid(engine.weights.config)
        self._pending = self._layout.opening  # encoded together with the first nodes
        self._nodes: list[tuple[str, int]] = []  # each appended text, and its start
        self.usage = Usage()
        answering = self._layout.answering_tokens + max_new_tokens
        self._capacity = engine.context_tokens - answering
        if self.room < 1:
            raise QuestionTooLong(
                f"question and prompts take {len(self._pending) + answering - max_new_tokens} tokens and "
                f"the answer may take {max_new_tokens}, but the context of {engine.name} holds "
                f"{engine.context_tokens}; shorten the question, lower max_new_tokens, or use a model with a "
                "longer context"
            )

    @property
    def cached_tokens(self) -> int:
        """Tokens in the cache."""
        return int(self._cache.get_seq_length())

    @property
    def room(self) -> int:
        """Node tokens that still fit into the context, with space kept for the answer."""
        return self._capacity - self.cached_tokens - len(self._pending)

    def cost(self, text: str) -> int:
        """Return tokens that appending `text` as a node would take."""
        return len(self._layout.node(text)[0])

    def read(self, texts: Sequence[str]) -> Reading:
        """Append nodes and probe the answer slot, in one forward; the slot is cropped again."""
        found = self._append(texts, is_probed=True)
        return self._reading(found.attention[:, 0], found.logits[-1])

    def append(self, texts: Sequence[str]) -> Floats:
        """Append nodes in one forward without a probe; return their attention as `read` does, (nodes,)."""
        attention = self._append(texts, is_probed=False).attention[:, 0]
        if not np.isfinite(attention).all():
            raise self._not_a_number(attention)
        return attention

    def score_only(self, texts: Sequence[str]) -> Floats:
        """Return attention of nodes as `append` does, without keeping them, (nodes,)."""
        if not self._is_hybrid:
            attention = self.append(texts)
            if texts:
                self._cache.crop(self._nodes[-len(texts)][1] - self.cached_tokens)
                del self._nodes[-len(texts) :]
            return attention
        if self._pending:
            self.append([])
        before = Checkpoint(self._cache)
        attention = self.append(texts)
        before.restore()
        del self._nodes[len(self._nodes) - len(texts) :]
        return attention

    def _append(self, texts: Sequence[str], *, is_probed: bool) -> Forward:
        """Append nodes, and the answer slot if they are probed; the slot is cropped."""
        ids, rows, starts = list(self._pending), list[Range](), list[int]()
        for text in texts:
            node, (start, end) = self._layout.node(text)
            starts.append(self.cached_tokens + len(ids))
            rows.append((len(ids) + start, len(ids) + end))
            ids += node
        request = SpanRequest(rows, [self._layout.question]) if rows else None
        if not is_probed:
            found = self._forward(ids, request)
        elif self._is_hybrid:
            found = self._append_then_probe(ids, request)
        else:
            found = self._forward([*ids, *self._layout.slot], request)
            self._cache.crop(-len(self._layout.slot))
        self._pending = []
        self._nodes += zip(texts, starts, strict=True)
        return found

    def _append_then_probe(self, ids: list[int], request: SpanRequest | None) -> Forward:
        """Append tokens, then read the slot from there: linear-attention layers keep no past."""
        found = self._forward(ids, request) if ids else None
        before = Checkpoint(self._cache)
        slot = self._forward(self._layout.slot, None)
        before.restore()
        return slot if found is None else replace(found, logits=slot.logits)

    def _reading(self, attention: Floats, logits: torch.Tensor) -> Reading:
        # P(Yes) / (P(Yes) + P(No)), each summed over the first tokens of its spellings
        yes, no = logits[self._layout.yes].logsumexp(0), logits[self._layout.no].logsumexp(0)
        reading = Reading(attention, float(torch.sigmoid(yes - no)))
        if not np.isfinite([*reading.attention, reading.p_yes]).all():
            raise self._not_a_number(reading)
        return reading

    def _not_a_number(self, seen: object) -> ModelError:
        return ModelError(
            f"{self._engine.name} in {self._engine.model.dtype} computed {seen}, which is not "
            "a number; half precision overflows in some models: load it with "
            'dtype="bfloat16" or "float32" (or OMP_THREAD_LIMIT allows fewer threads than torch '
            "uses: unset it)"
        )

    def decode(
        self, *, enough: bool, max_new_tokens: int, spans: Sequence[tuple[int, Span]] = ()
    ) -> KVDecoding:
        """Append the first reply and the second turn, and decode greedily from the same cache."""
        keys = list[Range]()
        for node, span in spans:
            text, origin = self._nodes[node]
            start, end = self._layout.part_of_node(text, span)
            keys.append((origin + start, origin + end))
        prompt = self._layout.until_answer(enough=enough)
        return KVDecoding(self, self._engine, prompt, max_new_tokens, keys)

    def extend(self, ids: list[int], keys: Sequence[Range] = ()) -> Forward:
        """Append tokens for good; attention is that of the last one to the ranges of `keys`."""
        new = [*self._pending, *ids]
        # the last row predicts, so it is the row whose attention explains the token
        request = SpanRequest([(len(new) - 1, len(new))], keys) if keys else None
        found = self._forward(new, request)
        self._pending = []
        return found

    def likelihoods(self, texts: Sequence[str], *, enough: bool, ask: str | None = None) -> Floats:
        """Return the mean log-probability per token of each text as the whole answer, (texts,).

        `ask` takes the place of the answer prompt.
        Runs one forward over the first reply and the second turn, and one per text on top; then restores
        the cache. Raises `InputError` for a blank text, or one that does not fit into the context.
        """
        prompt = [*self._pending, *self._layout.until_answer(enough=enough, ask=ask)]
        answers = [self._layout.answer(text) for text in texts]
        if not answers:
            return np.zeros(0)
        start = Checkpoint(self._cache)
        room = self._engine.context_tokens - self.cached_tokens - len(prompt)
        if (longest := max(map(len, answers))) > room:
            raise InputError(
                f"an answer of {longest} tokens was to be scored where {room} fit into the context "
                f"of {self._engine.name}; shorten it, or read fewer nodes"
            )
        first = self._forward(prompt, None).logits
        means = []
        for answer in answers:
            logits = first  # predicts the first token; the last token predicts nothing
            if before := answer[:-1]:
                asked = Checkpoint(self._cache)
                rest = self._forward(before, None, logit_rows=len(before)).logits
                asked.restore()
                logits = torch.cat([first, rest])
            means.append(logprobs(logits, answer).mean())
        start.restore()
        return np.array(means)

    def _forward(
        self, ids: list[int], request: SpanRequest | None, *, logit_rows: int = 1
    ) -> Forward:
        found = self._engine.forward(
            ids, self._cache, request=request, heads=self._heads, logit_rows=logit_rows
        )
        self.usage += found.cost
        return found


class KVDecoding:
    """Greedy decoding as an iterator of text pieces; stops at an end token or the length limit."""

    def __init__(
        self,
        session: KVSession,
        engine: Engine,
        prompt: list[int],
        max_new_tokens: int,
        keys: list[Range],
    ) -> None:
        self._session = session
        self._engine = engine
        self._keys = keys
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._attention = np.zeros(len(keys))
        self.is_cut = False
        self._pieces = self._run(prompt, max_new_tokens)

    def __iter__(self) -> Iterator[str]:
        return self._pieces

    @property
    def text(self) -> str:
        """The text decoded so far, stripped."""
        return self._engine.codec.decode(self._ids).strip()

    @property
    def attention(self) -> Floats:
        """Attention mass on each requested span, mean over the decoded tokens, (spans,)."""
        return self._attention / max(1, len(self._ids))

    @property
    def likelihood(self) -> float | None:
        """Mean log-probability per decoded token; None before the first."""
        return float(np.mean(self._logprobs)) if self._logprobs else None

    def _run(self, prompt: list[int], max_new_tokens: int) -> Iterator[str]:
        lengths = np.array([end - start for start, end in self._keys])

        def tokens() -> Iterator[int]:
            ids = prompt
            for _ in range(max_new_tokens):
                found = self._session.extend(ids, self._keys)
                token = int(found.logits[-1].argmax())
                if token in self._engine.end_tokens:
                    return
                self._ids.append(token)
                self._logprobs.append(float(logprobs(found.logits[-1:], [token])[0]))
                if self._keys:
                    self._attention += found.attention[0] * lengths
                yield token
                ids = [token]
            self.is_cut = True

        return whole_characters(tokens(), self._engine.codec.decode)


def logprobs(logits: torch.Tensor, ids: Sequence[int]) -> Floats:
    """Return the log-probability of each id under its row of float32 logits, (ids, vocabulary) -> (ids,)."""
    index = torch.tensor(ids, device=logits.device).unsqueeze(1)
    chosen = logits.gather(1, index).squeeze(1) - logits.logsumexp(1)
    found: Floats = chosen.double().cpu().numpy()
    return found
