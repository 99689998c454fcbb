"""The losses of a batch of trees: one forward, four skills."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache

from examples.train_adapter.trees import Tree
from hwdag.config import HeadList
from hwdag.lm.attention import SpanRequest, capture
from hwdag.lm.caches import cache_option
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import verdict_tokens


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the losses; `margin` belongs to `pair` and `across`, `temperature` to `rank`.

    `enough`: cross-entropy of Yes against No at every probe, the two classes balanced per batch.
    `pair`: hinge on the difference of the Yes-No logits with and without the evidence.
    `across`: the same for every complete probe against every incomplete one of the batch, so that
    the logit has one level for all questions.
    `answer`, `points`: cross-entropy of the reply.
    `rank`: cross-entropy of each gold node against the distractors, by attention to the question.
    """

    enough: float = 0.7
    pair: float = 0.5
    across: float = 0.7
    answer: float = 2.0
    points: float = 1.0
    rank: float = 0.5
    margin: float = 2.0
    temperature: float = 0.5


class Objective:
    """The losses of batches for one model."""

    def __init__(self, lm: HuggingFaceLM, weights: Weights, heads: HeadList | None) -> None:
        self._lm, self._weights = lm, weights
        self._heads = lm.known_heads if heads is None else heads
        self._yes, self._no = verdict_tokens(lm.codec, lm.card.prompts)

    def __call__(self, trees: Sequence[Tree]) -> tuple[Tensor, dict[str, float]]:
        """Return the weighted loss of a batch, a mean over its trees, and its parts."""
        hidden, attention = self.forward(trees)
        model: Any = self._lm.model
        parts: dict[str, list[Tensor]] = {}
        margins: list[Tensor] = []
        for i, tree in enumerate(trees):
            # why: the vocabulary is large, so logits are made for the rows that need them alone
            rows = [row for row, _ in tree.probes] + [row for row, _ in tree.targets]
            logits = model.get_output_embeddings()(hidden[i, rows]).float()
            verdicts, replies = logits[: len(tree.probes)], logits[len(tree.probes) :]
            if tree.targets:
                parts.setdefault(replying(tree), []).append(self._reply(tree, replies))
            if tree.probes:
                margins.append(self._margin(verdicts))
            if tree.contests:
                parts.setdefault("rank", []).append(self._ranking(tree, attention[i]))
        sums = {name: torch.stack(values).sum() for name, values in parts.items()}
        means = {name: float(s.detach()) / len(parts[name]) for name, s in sums.items()}
        if margins:
            walks = [tree for tree in trees if tree.probes]
            found = verdict_losses(walks, margins, self._weights.margin)
            means |= {name: float(value.detach()) for name, value in found.items()}
            sums |= {name: value * len(walks) for name, value in found.items()}
        total = torch.stack([getattr(self._weights, name) * s for name, s in sums.items()]).sum()
        return total / len(trees), means

    def forward(self, trees: Sequence[Tree]) -> tuple[Tensor, list[Tensor]]:
        """Return last hidden states, (trees, tokens, width), and node-to-question attention per tree.

        The common beginning of all trees passes through the model once; its hidden states are left out.
        """
        model, device = self._lm.model, self._lm.model.device
        shared = shared_tokens(trees)
        longest = max(len(tree.ids) for tree in trees)
        ids = torch.zeros(len(trees), longest, dtype=torch.long)
        positions = torch.zeros(len(trees), longest, dtype=torch.long)
        # why: a row that sees nothing would turn into NaN, so padding sees itself
        mask = torch.eye(longest, dtype=torch.bool).repeat(len(trees), 1, 1)
        for i, tree in enumerate(trees):
            n = len(tree.ids)
            ids[i, :n] = torch.tensor(tree.ids)
            positions[i, :n] = torch.tensor(tree.positions)
            mask[i, :n, :n] = tree.visible()
        ids, positions, mask = ids.to(device), positions.to(device), mask.to(device)
        cache = DynamicCache()
        model.base_model(ids[:1, :shared], use_cache=True, **cache_option(model.base_model, cache))
        cache.batch_repeat_interleave(len(trees))
        requests = [
            SpanRequest(
                [(a - shared, b - shared) for a, b in tree.nodes] or [(0, 1)], [tree.question]
            )
            for tree in trees
        ]
        with capture(model, requests, self._heads) as captured:
            hidden = model.base_model(
                ids[:, shared:],
                attention_mask=mask[:, None, shared:],
                position_ids=positions[:, shared:],
                **cache_option(model.base_model, cache),
            ).last_hidden_state
        hidden = functional.pad(hidden, (0, 0, shared, 0))
        return hidden, [captured.mean(i)[:, 0] for i in range(len(trees))]

    def _reply(self, tree: Tree, logits: Tensor) -> Tensor:
        wanted = torch.tensor([token for _, token in tree.targets], device=logits.device)
        return functional.cross_entropy(logits, wanted)

    def _margin(self, logits: Tensor) -> Tensor:
        """Logit of p_yes, as sessions read it."""
        return logits[:, self._yes].logsumexp(-1) - logits[:, self._no].logsumexp(-1)

    def _ranking(self, tree: Tree, attention: Tensor) -> Tensor:
        """Return a node's relevance is position times attention, as the walk reads it."""
        ordinals = torch.tensor(tree.ordinals, device=attention.device)
        scores = (ordinals * attention).clamp_min(1e-9).log() / self._weights.temperature
        found = []
        for gold, others in tree.contests:
            rivals = scores[others].logsumexp(0)
            found += [torch.logaddexp(scores[g], rivals) - scores[g] for g in gold]
        return torch.stack(found).mean()


def replying(tree: Tree) -> str:
    """Return the name of the loss of a tree's reply."""
    return "points" if tree.skill == "points" else "answer"


def verdict_losses(
    trees: Sequence[Tree], margins: Sequence[Tensor], wanted: float
) -> dict[str, Tensor]:
    """`enough`, `pair` and `across` of the Yes-No logits at the probes of each tree."""
    yes, no, pairs = [], [], []
    for tree, margin in zip(trees, margins, strict=True):
        enough = torch.tensor([label for _, label in tree.probes], device=margin.device)
        yes.append(margin[enough])
        no.append(margin[~enough])
        if enough.any():
            pairs.append(hinge(yes[-1], no[-1], wanted))
    complete, incomplete = torch.cat(yes), torch.cat(no)
    if not pairs:
        return {"enough": functional.softplus(incomplete).mean() / 2}
    return {
        "enough": (functional.softplus(-complete).mean() + functional.softplus(incomplete).mean())
        / 2,
        "pair": torch.stack(pairs).mean(),
        "across": hinge(complete, incomplete, wanted),
    }


def hinge(complete: Tensor, incomplete: Tensor, margin: float) -> Tensor:
    """Return the mean over all pairs of the distance from a difference to the margin."""
    return functional.relu(margin - (complete[:, None] - incomplete[None, :])).mean()


def shared_tokens(trees: Sequence[Tree]) -> int:
    """Number of tokens that all trees begin with, before the first question or reply."""
    limit = min(tree.first_own for tree in trees)
    columns = zip(*(tree.ids[:limit] for tree in trees), strict=True)
    return next((i for i, column in enumerate(columns) if len(set(column)) > 1), limit)
