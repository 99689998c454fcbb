"""Train a navigator: the question side of an embedder, and the scorer that chooses what to read.

    python -m examples.train_navigator.train --data train/hotpotqa.jsonl train/musique.jsonl \\
        --limit 400 --held-out 100 --minutes 5 -o navigator

First the adapter. Embeddings of the nodes stay as they are; rank 8 on the linear layers of the encoder's
last two layers, so that the layers below them are computed once. For every question the library's own walk
reads its first nodes, and after each of them the most similar node, by the best of all forms of the
question so far, should be gold and unread.

Then the scorer, on the choices of whole walks. A walk must not be guided by an adapter that knows its
question, so two more adapters are trained, each on one half of the documents, and guide the walks over
the other half.

The first `--held-out` questions of every file are not trained on: how often the next node is gold there,
and the scorer's share of the possible gain, are printed.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor

from examples.train_adapter import lora
from examples.train_navigator.choices import Choice, choices
from examples.train_navigator.choosing import fit_scorer, share_gained
from examples.train_navigator.states import Asked, Task, asked
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import load_embedder
from hwdag.embedding.sentence_transformer import SentenceTransformerEmbedder
from hwdag.search.navigator import embedded, pairs, write_card
from hwdag_lab.eval.data import pool_records, records_of, sample
from hwdag_lab.eval.schema import Record

PROJECTIONS = ("query", "key", "value", "dense")
RANK, ALPHA = 8, 16.0
TRAINED_LAYERS = 2
READS = 4
"""Reads after each of which the adapter learns what should be read next."""

ASKED_AGAIN = 2
"""Reads that a walk embeds the question with, and after which the scorer is trained: more cost a fifth of a search each, and find no more
(docs/results.md, "How many reads ask again")."""

TEMPERATURE = 0.05
BATCH = 8
"""Questions per step."""

JOINED, FEW_QUESTIONS = 10, 3
"""Number of records read as one, and of their questions, at most."""


def main() -> None:
    """Walk, train, judge, save."""
    options = _options()
    embedder = load_embedder(options.embedder)
    if not isinstance(embedder, SentenceTransformerEmbedder):
        raise SystemExit(f"{options.embedder} is not a sentence-transformers model")
    parts: tuple[list[Task], ...] = ([], [], [])  # two halves, and the held-out questions
    for path in options.data:
        for part, tasks in zip(parts, divided(path, options, embedder), strict=True):
            part += tasks
        questions = [sum(len(task.questions) for task in part) for part in parts]
        print(f"{path.stem}: so far {questions} questions in two halves and held out", flush=True)
    final = QuestionSide(embedder.model)
    first, second, held_out = (
        [final.below(one) for one in asked(part, embedder, READS)] for part in parts
    )
    print(f"before: {judged(final, held_out):.3f} of the next nodes are gold")
    fit(final, first + second, minutes=options.minutes, rate=options.rate)
    print(f"after:  {judged(final, held_out):.3f}")
    final.save(options.output, embedder)
    guides = [QuestionSide(embedder.model) for _ in range(2)]
    for guide, half in zip(guides, (second, first), strict=True):
        fit(guide, half, minutes=options.minutes, rate=options.rate)
    *halves, others = (
        chosen(part, side, embedder) for part, side in zip(parts, (*guides, final), strict=True)
    )
    scorer = fit_scorer([choice for half in halves for choice in half])
    before, after = share_gained(None, others), share_gained(scorer, others)
    print(f"the scorer gains {after:.3f} of what can be gained, the score {before:.3f}")
    scorer.save(options.output)


def divided(
    path: Path, options: argparse.Namespace, embedder: Embedder
) -> tuple[list[Task], list[Task], list[Task]]:
    """Return the chosen records of a file: two halves to train on, and those that are held out.

    Records with few questions are also read several as one, so that there are long documents.
    """
    records = records_of([path])
    kept = {record.id for record in sample(records, limit=options.held_out, seed=0)}
    found: tuple[list[Record], ...] = ([], [], [])
    for record in sample(records, limit=options.limit, seed=0):
        if any(question.evidence for question in record.questions):
            half = sha256(record.id.encode()).digest()[0] % 2
            found[2 if record.id in kept else half].append(record)
    for half in found[:2]:
        few = [record for record in half if len(record.questions) <= FEW_QUESTIONS]
        half += [joined(few[i : i + JOINED]) for i in range(0, len(few) - 1, JOINED)]
    first, second, held_out = ([Task.of(r, embedder) for r in some] for some in found)
    return first, second, held_out


def joined(records: Sequence[Record]) -> Record:
    """Records as one document."""
    return replace(pool_records(records)[0], pool=False)


def chosen(tasks: Sequence[Task], guide: QuestionSide, embedder: Embedder) -> list[Choice]:
    """Return the candidates of walks for these questions."""
    embed = partial(embedded, guide.model)
    return [
        choice
        for task in tasks
        for question in task.questions
        for choice in choices(
            task.world, question, embedder.embed_query(question.text), embed, ASKED_AGAIN
        )
    ]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A question, and the inputs of the first trained layer for its pairs."""

    asked: Asked
    hidden: Tensor  # (reads, tokens, width)
    others: tuple[Any, ...]
    options: dict[str, Any]
    mask: Tensor  # (reads, tokens)


class QuestionSide:
    """A copy of an encoder whose last layers are trained; the layers below never change."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = copy.deepcopy(model)
        self._encoder = self.model.transformers_model
        first = len(self._encoder.encoder.layer) - TRAINED_LAYERS
        lora.add(
            self._encoder,
            rank=RANK,
            alpha=ALPHA,
            first_layer=first,
            seed=0,
            projections=PROJECTIONS,
        )
        self._layers = self._encoder.encoder.layer[first:]

    @property
    def trained(self) -> list[torch.nn.Parameter]:
        """The parameters to train."""
        return list(lora.parameters(self._encoder).values())

    def below(self, one: Asked) -> Prepared:
        """Return the output below the trained layers for a question and the nodes read for it."""
        found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

        def note(layer: Any, inputs: tuple[Any, ...], options: dict[str, Any]) -> None:
            found.append((inputs, options))

        hook = self._layers[0].register_forward_pre_hook(note, with_kwargs=True)
        encoded = pairs(self.model, one.text, one.texts)
        with torch.no_grad():
            self.model(dict(encoded))
        hook.remove()
        inputs, options = found[0]
        # why: the mask may be passed by its place or by its name
        hidden, *others = inputs if inputs else (options.pop("hidden_states"),)
        return Prepared(one, hidden, tuple(others), options, encoded["attention_mask"])

    def embed(self, prepared: Prepared) -> Tensor:
        """Return the unit vectors of question and reads, (reads, dimension)."""
        hidden = prepared.hidden
        for layer in self._layers:
            made = layer(hidden, *prepared.others, **prepared.options)
            hidden = made[0] if isinstance(made, tuple) else made
        features = {"token_embeddings": hidden, "attention_mask": prepared.mask}
        for module in list(self.model)[1:]:
            features = module(features)
        return torch.nn.functional.normalize(features["sentence_embedding"])

    def save(self, folder: Path, embedder: SentenceTransformerEmbedder) -> None:
        """Write the folder for `SearchConfig(navigator=folder)`."""
        base = embedder.name
        lora.save(self._encoder, folder, rank=RANK, alpha=ALPHA, base=base, projections=PROJECTIONS)
        write_card(folder, reads=ASKED_AGAIN, embedder=embedder)


def fit(side: QuestionSide, train: Sequence[Prepared], *, minutes: float, rate: float) -> None:
    """Train for some minutes of processor time, with a rate that falls to 0 by then."""
    optimizer = torch.optim.AdamW(side.trained, lr=rate, weight_decay=0.01)
    order, began, steps, mean = random.Random(0), time.process_time(), 0, 0.0
    while (share := (time.process_time() - began) / (60 * minutes)) < 1:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (steps + 1) / 20) * (1 - share)
        chosen = order.sample(train, min(BATCH, len(train)))
        loss = torch.stack([loss_of(side, one) for one in chosen]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(side.trained, 1.0)
        optimizer.step()
        mean = 0.95 * mean + 0.05 * loss.item() if steps else loss.item()
        steps += 1
        if steps % 20 == 0:
            print(f"{share:4.0%} {steps * BATCH} questions, loss {mean:.3f}", flush=True)


def loss_of(side: QuestionSide, one: Prepared) -> Tensor:
    """-log of the share that gold nodes have of the softmax over unread ones, weighed by gain."""
    losses = [
        state.gain * (likeness.logsumexp(0) - likeness[torch.as_tensor(state.next)].logsumexp(0))
        for state, likeness in zip(one.asked.states, _likeness(side, one), strict=True)
    ]
    return torch.stack(losses).mean()


@torch.no_grad()
def judged(side: QuestionSide, questions: Sequence[Prepared]) -> float:
    """Return the share of the states after which the most similar unread node is gold."""
    hits = [
        int(likeness.argmax()) in state.next
        for one in questions
        for state, likeness in zip(one.asked.states, _likeness(side, one), strict=True)
    ]
    return sum(hits) / len(hits)


def _likeness(side: QuestionSide, prepared: Prepared) -> list[Tensor]:
    """Per state, how similar each unread leaf is to the best form of the question so far, (leaves,)."""
    one = prepared.asked
    forms = torch.cat([torch.as_tensor(one.vector)[None], side.embed(prepared)])
    likeness = forms @ torch.as_tensor(one.vectors).T / TEMPERATURE  # (1 + reads, leaves)
    rows = []
    for state in one.states:
        best = likeness[: 1 + state.reads].amax(0)
        rows.append(best.index_fill(0, torch.as_tensor(one.read[: state.reads]), -math.inf))
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--embedder", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--limit", type=int, default=400, help="questions of each file")
    parser.add_argument("--held-out", type=int, default=100, help="of these, not trained on")
    parser.add_argument("--minutes", type=float, default=5.0, help="of processor time")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write")
    return parser.parse_args()


if __name__ == "__main__":
    main()
