"""Train a scorer: a small network that ranks nodes by their worth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from examples.train_navigator.choices import Choice
from hwdag.arrays import Vectors
from hwdag.search.frontier import RERANK_CANDIDATES
from hwdag.search.navigator import FeatureRanker, inputs

HIDDEN = (32, 16)
DROPOUT = 0.1
EPOCHS = 12
BATCH = 64
RATE, DECAY = 2e-3, 1e-3


def fit_scorer(choices: Sequence[Choice], *, seed: int = 0) -> FeatureRanker:
    """Train on choices: a softmax over the nodes of each, weighed by the most that could be gained."""
    torch.manual_seed(seed)
    rows = np.concatenate([choice.features for choice in choices])
    mean, scale = rows.mean(axis=0), rows.std(axis=0) + 1e-3
    x, target, worth, seen = _padded(choices, mean, scale)
    sizes = (x.shape[-1], *HIDDEN, 1)
    linear = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    parts: list[nn.Module] = [linear[0]]
    for layer in linear[1:]:
        parts += [nn.ReLU(), nn.Dropout(DROPOUT), layer]
    network = nn.Sequential(*parts)
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    steps = EPOCHS * -(-len(choices) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(choices)).split(BATCH):
            scores = network(x[batch])[..., 0].masked_fill(~seen[batch], -torch.inf)
            log = scores.log_softmax(-1).masked_fill(~seen[batch], 0.0)
            loss = -((target[batch] * log).sum(-1) * worth[batch]).sum() / worth[batch].sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    layers = tuple((_array(layer.weight.T), _array(layer.bias)) for layer in linear)
    return FeatureRanker(mean, scale, layers)


def share_gained(scorer: FeatureRanker | None, choices: Sequence[Choice]) -> float:
    """Return the scorer's share of the possible gain at each choice; without a scorer, the first node's."""
    best = [0 if scorer is None else int(scorer(c.features).argmax()) for c in choices]
    gained = sum(float(c.gains[i]) for i, c in zip(best, choices, strict=True))
    return gained / sum(float(c.gains.max()) for c in choices)


def _padded(
    choices: Sequence[Choice], mean: Vectors, scale: Vectors
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs (n, nodes, 2 f), shares of the gain (n, nodes), the most of it (n,), the mask without padding."""
    x = np.zeros((len(choices), RERANK_CANDIDATES, 2 * len(mean)), np.float32)
    gains = np.zeros((len(choices), RERANK_CANDIDATES), np.float32)
    seen = np.zeros(gains.shape, bool)
    for i, choice in enumerate(choices):
        count = len(choice.gains)
        x[i, :count] = inputs(choice.features, mean, scale)
        gains[i, :count], seen[i, :count] = choice.gains, True
    shares = gains / gains.sum(axis=1, keepdims=True)
    arrays: tuple[Any, ...] = (x, shares, gains.max(axis=1), seen)
    return tuple(map(torch.from_numpy, arrays))  # type: ignore[return-value]


def _array(tensor: Tensor) -> Vectors:
    return np.ascontiguousarray(tensor.detach().numpy(), np.float32)
