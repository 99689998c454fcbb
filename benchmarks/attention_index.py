"""The keys of the retrieval heads as an index: does their attention find what similarity does not?

    python benchmarks/attention_index.py --model PATH -o build/attention_index

The forward that reads a window for the edges also makes a key of every token. They are kept and
rotated to where they would stand before a question (`PLACES`). A question is read alone, and its
queries meet all keys of a collection: a node's relevance is its share of the attention, less that for
the question "N/A". Heads, place and weights are chosen on training questions; then development
questions are asked. Goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import stories
import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

import hwdag.search.find as find_module
from hwdag import BuildConfig, HWDAGIndex, Scoring, SearchConfig
from hwdag.arrays import Floats, Indices, Mask
from hwdag.building.levels import GraphBuilder
from hwdag.building.windows import windows_of
from hwdag.lm.attention import lock_of, switched
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import ReplayLayout
from hwdag.search.similarity import Similarity, stretched
from hwdag.text.headings import Outline
from hwdag.text.prompts import Prompts
from hwdag_lab.eval.data import records_of
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.statistics import paired_bootstrap

DATA = Path(os.environ.get("HWDAG_DATA", "../shared/data"))
SETS = {  # documents, questions of each
    "train": {"fairytaleqa": (6, 5), "hotpotqa": (30, 1)},
    "dev": {"fairytaleqa": (10, 8), "hotpotqa": (80, 1), "musique": (40, 1)},
}
BEFORE = "Please answer the following question based on the text above.\n\nQuestion: "
PLACES = ("near", "window", "same")
"""Every node ends directly before the question; its window does; every token stands there."""
SHARES, ROWS, TOKENS = ("nodes", "all"), ("question", "end"), ("sum", "mean")
"""Attention among the nodes, or also to the question's own prompt; of the question's tokens, or all to
the reply; summed over the tokens of a node, or averaged."""
TOPS = (1, 2, 4, 8, 16, 32)
SHARE_OF_ATTENTION = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
BUDGETS = (256, 512)
BARE = Scoring(paragraph=0.0, references=0.0)  # 0.3 BM25 + 0.7 cosine, and nothing else
Heads = Sequence[tuple[int, int]]
Masses = list[tuple[Tensor, Tensor]]
NAME = "hwdag_queries_and_keys"
_SEEN: dict[int, tuple[Tensor, Tensor]] = {}


def _attention(module: Any, query: Tensor, key: Tensor, *args: Any, **options: Any) -> Any:
    """The model's own attention; keeps queries and rotated keys of every layer, (heads, tokens, dim)."""
    _SEEN[module.layer_idx] = query[0], key[0]
    return sdpa_attention_forward(module, query, key, *args, **options)


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


def states(lm: HuggingFaceLM, ids: list[int]) -> list[tuple[Tensor, Tensor]]:
    """Queries and keys of all layers."""
    with lock_of(lm.model), switched(lm.model, NAME), torch.inference_mode():
        lm.model(torch.tensor([ids]), use_cache=False, logits_to_keep=1)
        return [_SEEN.pop(layer) for layer in sorted(_SEEN)]


def rotated(lm: HuggingFaceLM, keys: Tensor, by: Tensor) -> Tensor:
    """Keys (heads, tokens, dim) as they would be so many positions later, (tokens,)."""
    cos, sin = lm.model.model.rotary_emb(keys.float(), by[None])
    one, two = keys.float().chunk(2, dim=-1)
    return keys.float() * cos + torch.cat([-two, one], dim=-1) * sin


@dataclass
class Keys:
    """Kept keys of the nodes of some documents: for every place and layer (kv heads, tokens, dim)."""

    nodes: Indices  # their indices, ascending
    owner: Tensor  # of each token, a place among the nodes
    keys: dict[str, list[Tensor]]

    @classmethod
    def of(cls, lm: HuggingFaceLM, world: World, records: Sequence[Record], places: Any) -> Keys:
        """Read the windows as a build cuts them, and keep the keys of their nodes."""
        config = BuildConfig("hwdag").resolved("hwdag")
        plan = GraphBuilder(lm, lm, world.index.embedder, config, Prompts()).plan
        owners, kept = list[Tensor](), {place: list[list[Tensor]]() for place in places}
        for record in records:
            indices = np.flatnonzero(world.documents == record.id)
            level = [world.nodes[i] for i in indices]
            for ranges, window in windows_of(level, Outline(record.text, record.title), plan, lm):
                layout = ReplayLayout(lm.codec, lm.turns, window.request(["-"]))
                units = list(zip(layout.units, layout.segments, strict=True))
                at = torch.cat([torch.arange(a, b) for (a, b), _ in units])
                owner = torch.cat([torch.full((b - a,), segment) for (a, b), segment in units])
                ends = [
                    max((b for (_, b), one in units if one == i), default=0)
                    for i in range(len(ranges))
                ]
                end, anchor = layout.units[-1][1], len(lm.turns.head)  # of a question's prompt
                target = {
                    "near": anchor + at - torch.tensor(ends)[owner],
                    "window": anchor + at - end,
                    "same": torch.full_like(at, anchor - 1),
                }
                made = states(lm, layout.ids[:end])
                for place in places:
                    by = target[place] - at
                    kept[place].append([rotated(lm, k[:, at], by).bfloat16() for _, k in made])
                owners.append(torch.tensor(indices)[owner + ranges.start])
        nodes, owner = torch.cat(owners).unique(return_inverse=True)
        keys = {
            place: [torch.cat(several, dim=1) for several in zip(*windows, strict=True)]
            for place, windows in kept.items()
        }
        return cls(nodes.numpy(), owner, keys)

    @property
    def lengths(self) -> Floats:
        """Tokens of each node."""
        return np.bincount(self.owner).astype(float)

    def masses(self, place: str, asked: Asked, heads: Heads) -> Masses:
        """By head, logarithms of what the softmax adds up: every node, (rows, nodes), the prompt, (rows,)."""
        found: Masses = []
        for layer, head in heads:
            query, own = asked.states[layer]
            group = query.shape[0] // own.shape[0]
            q = query[head, asked.first :].float() * query.shape[-1] ** -0.5
            scores = q @ self.keys[place][layer][head // group].float().T
            peak = scores.max(dim=1, keepdim=True).values
            sums = torch.zeros(len(q), len(self.nodes))
            sums.index_add_(1, self.owner, (scores - peak).exp_())
            prompt = q @ own[head // group].float().T
            prompt += torch.full_like(prompt, -torch.inf).triu(asked.first + 1)
            found.append((sums.log_() + peak, prompt.logsumexp(1)))
        return found


class Asked:
    """A question, read alone; its rows are the tokens from `first` on."""

    def __init__(self, lm: HuggingFaceLM, question: str) -> None:
        ids, ranges = lm.codec.encode_parts(BEFORE, question)
        self.first = len(lm.turns.head) + ranges[1][0]
        self.words = ranges[1][1] - ranges[1][0]
        self.states = states(lm, [*lm.turns.head, *ids, *lm.turns.reply])


def relevance(
    asked: Masses, null: Masses, words: tuple[int, int], seen: Mask
) -> dict[tuple[str, str], Floats]:
    """Attention by share and rows, less that of the null question, (heads, seen nodes) each."""
    found: dict[tuple[str, str], list[Tensor]] = {kind: [] for kind in product(SHARES, ROWS)}
    among = torch.tensor(seen)
    for two, share in product(zip(asked, null, strict=True), SHARES):
        weights = []
        for mass, prompt in two:
            total = mass[:, among].logsumexp(1)
            total = total if share == "nodes" else torch.logaddexp(total, prompt)
            weights.append((mass[:, among] - total[:, None]).exp())
        asks, nothing = (w[:count].mean(0) for w, count in zip(weights, words, strict=True))
        found[share, "question"].append(asks - nothing)
        found[share, "end"].append(weights[0].mean(0) - weights[1].mean(0))
    return {kind: torch.stack(several).numpy() for kind, several in found.items()}


class World:
    """The documents of a set in one index of leaves, and the questions about them."""

    def __init__(self, lm: HuggingFaceLM, split: str, name: str) -> None:
        count, each = SETS[split][name]
        if name == "fairytaleqa":
            self.records = stories.stories(split, count)
        else:
            self.records = records_of([DATA / split / f"{name}.jsonl"])
            random.Random(11).shuffle(self.records)
            self.records = [r for r in self.records if r.questions[0].evidence][:count]
        self.asked: list[tuple[Record, Question]] = []
        for record in self.records:
            fits = [q for q in record.questions if q.evidence]
            random.Random(2).shuffle(fits)
            self.asked += [(record, q) for q in fits[:each]]
        documents = [record.whole for record in self.records]
        self.index = HWDAGIndex.from_documents(documents, method="evidence", reader=lm)
        corpus = self.index._snapshots.current()
        self.nodes = corpus.fetch(range(len(corpus)))
        self.documents = np.array([node.document_id for node in self.nodes])
        # stories share one index; each of the other questions has documents of its own
        self.is_shared = name == "fairytaleqa"

    def scopes(self, record: Record) -> dict[str, Mask]:
        """The nodes that are searched."""
        own = {"own": self.documents == record.id}
        return own | ({"shared": np.ones(len(self.nodes), bool)} if self.is_shared else {})


class Mixed(Similarity):
    """Similarity, and a share of what the attention index says."""

    attention: Any = None
    share = 0.0

    @property
    def _of_question(self) -> Floats:
        found = super()._of_question
        if self.share == 0:
            return found
        own, told = (stretched(values, self._keep) for values in (found, self.attention))
        return np.where(self._keep, (1 - self.share) * own + self.share * told, 0.0)


find_module.Similarity = Mixed  # type: ignore[misc]


@dataclass
class Case:
    """A question asked of some nodes, with their relevance by place, share and rows."""

    world: World
    record: Record
    question: Question
    key: str
    nodes: Indices
    lengths: Floats
    relevance: dict[str, Floats]

    def attention(self, kind: str, heads: Sequence[int]) -> Floats:
        """The relevance of these nodes as a mean over heads, at least 0, (nodes,)."""
        which, tokens = kind.rsplit("/", 1)
        mean = np.maximum(self.relevance[which][heads].mean(0), 0.0)
        return mean / self.lengths if tokens == "mean" else mean

    def found(self, is_default: bool, share: float, attention: Floats) -> list[float]:
        """Touched and half at each budget, by `evidence` or by the bare similarity, with this share."""
        Mixed.share, Mixed.attention = share, np.zeros(len(self.world.nodes))
        Mixed.attention[self.nodes] = attention
        scope, scores = np.isin(np.arange(len(self.world.nodes)), self.nodes), list[float]()
        for budget in BUDGETS:
            bare = {} if is_default else {"scoring": BARE, "navigator": "none"}
            plan = SearchConfig("evidence", budget, **bare).plan("evidence")
            scores += stories.scores_of(self.world.index, plan, self.record, self.question, scope)
        return scores

    @property
    def is_gold(self) -> Mask:
        """Nodes inside gold paragraphs, (nodes,)."""
        of_record = [self.world.nodes[i] for i in self.nodes]
        gold = self.question.evidence
        return np.array(
            [
                n.document_id == self.record.id and any(n.sources[0].overlap(span) for span in gold)
                for n in of_record
            ]
        )


def cases(
    lm: HuggingFaceLM, split: str, places: Sequence[str], heads: Heads, done: Set[str]
) -> Iterator[Case]:
    """All questions of a split but those that are done."""
    null = Asked(lm, "N/A")
    for name in SETS[split]:
        world = World(lm, split, name)
        for records in [world.records] if world.is_shared else [[r] for r in world.records]:
            asked = [(r, q) for r, q in world.asked if r in records]
            if all(f"{scope}/{q.id}" in done for r, q in asked for scope in world.scopes(r)):
                continue
            keys = Keys.of(lm, world, records, places)
            nothing = {place: keys.masses(place, null, heads) for place in places}
            for record, question in asked:
                one = Asked(lm, question.text)
                masses = {place: keys.masses(place, one, heads) for place in places}
                for scope, allowed in world.scopes(record).items():
                    seen = allowed[keys.nodes]
                    found = {
                        f"{place}/{share}/{rows}": values
                        for place in places
                        for (share, rows), values in relevance(
                            masses[place], nothing[place], (one.words, null.words), seen
                        ).items()
                    }
                    key = f"{scope}/{question.id}"
                    at, lengths = keys.nodes[seen], keys.lengths[seen]
                    yield Case(world, record, question, key, at, lengths, found)


def average_precision(scores: Floats, is_gold: Mask) -> Floats:
    """Average precision of every row of scores, (heads, nodes) -> (heads,)."""
    hits = is_gold[np.argsort(-scores, axis=1, kind="stable")]
    precision = hits.cumsum(1) / np.arange(1, hits.shape[1] + 1)
    return np.asarray((precision * hits).sum(1) / is_gold.sum())


def chosen(lm: HuggingFaceLM) -> dict[str, Any]:
    """Heads, kind and shares by training questions: heads of either half are judged on the other."""
    every = [(i, j) for i in range(lm.engine.shape.layers) for j in range(lm.engine.shape.heads)]
    asked = list(cases(lm, "train", PLACES, every, set()))
    side = [int(blake2b(c.question.id.encode()).hexdigest(), 16) % 2 for c in asked]
    gold = [case.is_gold for case in asked]
    best: tuple[float, Any] = (0.0, None)
    for which, tokens in product(asked[0].relevance, TOKENS):
        kind = f"{which}/{tokens}"
        alone = np.array(
            [
                average_precision(c.relevance[which] / (c.lengths if tokens == "mean" else 1.0), g)
                for c, g in zip(asked, gold, strict=True)
            ]
        )
        orders = [np.argsort(-alone[np.array(side) != s].mean(0), kind="stable") for s in (0, 1)]
        scores = {
            top: np.mean(
                [
                    average_precision(c.attention(kind, orders[s][:top])[None], g)
                    for c, g, s in zip(asked, gold, side, strict=True)
                ]
            )
            for top in (*TOPS, len(every))
        }
        print(kind, " ".join(f"{top} {score:.3f}" for top, score in scores.items()), flush=True)
        top = max(TOPS, key=scores.__getitem__)
        if scores[top] > best[0]:
            final = np.argsort(-alone.mean(0), kind="stable")[:top]
            best = scores[top], (kind, [o[:top] for o in orders], [every[i] for i in final])
    kind, halves, heads = best[1]
    shares = {}
    for is_default in (False, True):
        means = {}
        for share in SHARE_OF_ATTENTION:
            rows = [
                c.found(is_default, share, c.attention(kind, halves[s]))
                for c, s in zip(asked, side, strict=True)
            ]
            means[share] = float(np.mean(rows))
            name = "evidence" if is_default else "similarity"
            print(name, share, np.mean(rows, axis=0).round(3), flush=True)
        shares[str(is_default)] = max([s for s in means if 0 < s < 1], key=means.__getitem__)
    return {"kind": kind, "heads": heads, "shares": shares}


def main() -> None:
    """Choose, ask, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="hub name or path of the reader")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the results")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    lm = load_reader(options.model, dtype="bfloat16")
    choice, path = options.output / "choice.json", options.output / "dev.jsonl"
    if not choice.exists():
        choice.write_text(json.dumps(chosen(lm)))
    made = json.loads(choice.read_text())
    print(made)
    done = {row["key"] for row in stories.rows_of(path)}
    for case in cases(lm, "dev", [made["kind"].split("/")[0]], made["heads"], done):
        attention = case.attention(made["kind"], list(range(len(made["heads"]))))
        rows = {
            "similarity": (False, 0.0),
            "attention": (False, 1.0),
            "both": (False, made["shares"]["False"]),
            "evidence": (True, 0.0),
            "evidence, both": (True, made["shares"]["True"]),
        }
        line = {"key": case.key, "dataset": case.record.dataset, "document": case.record.id}
        line |= {name: case.found(*row, attention) for name, row in rows.items()}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
    print(table(stories.rows_of(path)))


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Touched / half at both budgets by set and scope, and what attention adds."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(f"{line['dataset']}, {line['key'].split('/')[0]}", []).append(line)
    own = [line for line in lines if line["key"].startswith("own/")]
    out = []
    for name, several in (groups | {"all, own": own}).items():
        out.append(f"{name}: {len(several)} questions")
        rows = {row: np.array([line[row] for line in several]) for row in list(several[0])[3:]}
        documents = [line["document"] for line in several]
        for row, scores in rows.items():
            base = rows["evidence" if row.startswith("evidence") else "similarity"]
            less = [
                str(paired_bootstrap(a, b, groups=documents))
                for a, b in zip(scores.T, base.T, strict=True)
            ]
            out.append(f"  {row:15} {scores.mean(0).round(3)} {'' if scores is base else less}")
    return "\n".join(out)


if __name__ == "__main__":
    with torch.no_grad():
        main()
