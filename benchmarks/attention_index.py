"""The keys of retrieval heads as an index: do they find what similarity does not?

    python benchmarks/attention_index.py --model PATH -o build/attention_index

The forward that reads a window for the edges also makes a key of every token. They are kept, and
rotated to where they would stand before a question (`PLACES`). A question is read alone, and its
queries meet the keys of all nodes and of its own prompt: the relevance of a node is its share of the
attention of the question's tokens, less that of "N/A", as a mean over heads. Heads, place and weights
are chosen on training questions; then development questions are asked. Goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
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
from hwdag.lm.attention import switched
from hwdag.lm.default import load_reader
from hwdag.lm.huggingface import HuggingFaceLM
from hwdag.lm.layout import ReplayLayout
from hwdag.search.similarity import Similarity, stretched
from hwdag.text.headings import Outline
from hwdag.text.prompts import Prompts
from hwdag_lab.eval.data import records_of
from hwdag_lab.eval.schema import Question, Record
from hwdag_lab.eval.statistics import paired_bootstrap

STORIES = "fairytaleqa"  # share one index; every other question has a document of its own
SETS = {  # documents, and questions of each
    "train": {STORIES: (6, 5), "hotpotqa": (30, 1)},
    "dev": {STORIES: (10, 12), "hotpotqa": (80, 1), "musique": (48, 1)},
}
BEFORE = "Please answer the following question based on the text above.\n\nQuestion: "
PLACES = ("near", "window", "same")
"""Every node ends directly before the question's prompt; its window does; every token stands there."""
TOPS = (1, 2, 4, 8, 16, 32)  # numbers of heads
SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # of attention
BARE: dict[str, Any] = {"scoring": Scoring(paragraph=0.0, references=0.0), "navigator": "none"}
Heads = Sequence[tuple[int, int]]
NAME = "hwdag_queries_and_keys"
_SEEN: dict[int, tuple[Tensor, Tensor]] = {}
_WANTED = set[int]()  # layers


class _Cut(Exception):
    """Ends a forward in the last layer that is wanted."""


def _attention(module: Any, query: Tensor, key: Tensor, *args: Any, **options: Any) -> Any:
    _SEEN[module.layer_idx] = query[0], key[0]
    if _SEEN.keys() >= _WANTED:
        raise _Cut
    return sdpa_attention_forward(module, query, key, *args, **options)


AttentionInterface.register(NAME, _attention)
AttentionMaskInterface.register(NAME, sdpa_mask)


def states(lm: HuggingFaceLM, ids: list[int], heads: Heads) -> dict[int, tuple[Tensor, Tensor]]:
    """Queries and rotated keys of the layers up to the last one of these heads, (heads, tokens, dim)."""
    _WANTED.clear()
    _WANTED.update(layer for layer, _ in heads)
    with switched(lm.model, NAME), torch.inference_mode(), suppress(_Cut):
        lm.model(torch.tensor([ids]), use_cache=False)
    return {layer: _SEEN.pop(layer) for layer in list(_SEEN)}


def rotated(lm: HuggingFaceLM, keys: Tensor, by: Tensor) -> Tensor:
    """Keys (heads, tokens, dim) as they would be so many positions later, (tokens,)."""
    cos, sin = lm.model.model.rotary_emb(keys.float(), by[None])
    one, two = keys.float().chunk(2, dim=-1)
    return (keys.float() * cos + torch.cat([-two, one], dim=-1) * sin).bfloat16()


class World:
    """The documents of a set in one index of leaves, and the questions about them."""

    def __init__(self, lm: HuggingFaceLM, split: str, name: str) -> None:
        count, each = SETS[split][name]
        self.is_shared = name == STORIES
        if self.is_shared:
            self.records = stories.stories(split, count)
        else:
            records = records_of([stories.DATA / split / f"{name}.jsonl"])
            random.Random(11).shuffle(records)
            self.records = [r for r in records if r.questions[0].evidence][:count]
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

    def scopes(self, record: Record) -> dict[str, Mask]:
        """The nodes that are searched."""
        own = {"own": self.documents == record.id}
        return own | ({"all stories": np.ones(len(self.nodes), bool)} if self.is_shared else {})


class Keys:
    """Kept keys of the nodes of some documents, by place and layer, (kv heads, tokens, dim)."""

    def __init__(
        self, lm: HuggingFaceLM, world: World, records: Any, places: Sequence[str], heads: Heads
    ) -> None:
        config = BuildConfig("hwdag").resolved("hwdag")
        plan = GraphBuilder(lm, lm, world.index.embedder, config, Prompts()).plan
        owners, kept = list[Tensor](), dict[tuple[str, int], list[Tensor]]()
        anchor = len(lm.turns.head)  # where a question's prompt begins
        for record in records:
            indices = torch.tensor(np.flatnonzero(world.documents == record.id))
            level = [world.nodes[i] for i in indices]
            for nodes, window in windows_of(level, Outline(record.text, record.title), plan, lm):
                layout = ReplayLayout(lm.codec, lm.turns, window.request(["-"]))
                last = dict(zip(layout.segments, layout.units, strict=True))
                tokens = [
                    (at, segment, last[segment][1])
                    for unit, segment in zip(layout.units, layout.segments, strict=True)
                    for at in range(*unit)
                ]
                at, owner, ends = torch.tensor(tokens).T
                end = layout.units[-1][1]
                made = states(lm, layout.ids[:end], heads)
                moved = {"near": anchor - ends, "window": anchor - end + 0 * at}
                moved["same"] = anchor - 1 - at
                for place in places:
                    for layer in {layer for layer, _ in heads}:
                        keys = rotated(lm, made[layer][1][:, at], moved[place])
                        kept.setdefault((place, layer), []).append(keys)
                owners.append(indices[owner + nodes.start])
        found, self.owner = torch.cat(owners).unique(return_inverse=True)
        self.nodes: Indices = found.numpy()
        self.keys = {which: torch.cat(several, dim=1) for which, several in kept.items()}

    def shares(
        self, lm: HuggingFaceLM, question: str, places: Sequence[str], heads: Heads, scopes: Any
    ) -> dict[tuple[str, str], Floats]:
        """Attention of a question to the nodes, by scope and place, (heads, nodes of the scope)."""
        ids, (before, asked) = lm.codec.encode_parts(BEFORE, question)
        first = len(lm.turns.head)
        rows = torch.arange(first + before[1], first + asked[1])
        made, found = states(lm, [*lm.turns.head, *ids], heads), dict[Any, list[Floats]]()
        for place in places:
            for layer, head in heads:
                query, own = made[layer]
                group = head // (query.shape[0] // own.shape[0])
                q = query[head, rows].float() * query.shape[-1] ** -0.5
                scores = q @ self.keys[place, layer][group].float().T
                peak = scores.max(dim=1, keepdim=True).values
                sums = torch.zeros(len(q), len(self.nodes))
                sums.index_add_(1, self.owner, (scores - peak).exp_())
                prompt = q @ own[group].float().T
                prompt += torch.full_like(prompt, -torch.inf).triu(int(rows[0]) + 1)
                masses = sums.log_() + peak, prompt.logsumexp(1, keepdim=True)
                for name, scope in scopes.items():
                    seen = masses[0][:, scope[self.nodes]]
                    share = torch.cat([seen, masses[1]], 1).softmax(1)[:, :-1].mean(0)
                    found.setdefault((name, place), []).append(share.numpy())
        return {which: np.array(several) for which, several in found.items()}


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
    """A question asked of some nodes, and their relevance by place, (heads, nodes)."""

    world: World
    record: Record
    question: Question
    scope: str
    nodes: Indices
    relevance: dict[str, Floats]

    def found(self, row: str, share: float, relevance: Floats) -> list[float]:
        """Touched and half at 256 and 512 tokens with this share of relevance, (nodes,)."""
        Mixed.share, Mixed.attention = share, np.zeros(len(self.world.nodes))
        Mixed.attention[self.nodes] = np.maximum(relevance, 0.0)
        allowed, scores = self.world.scopes(self.record)[self.scope], list[float]()
        for budget in (256, 512):
            config = SearchConfig("evidence", budget, **({} if row == "evidence" else BARE))
            plan = config.plan("evidence")
            scores += stories.scores_of(self.world.index, plan, self.record, self.question, allowed)
        return scores

    def precision(self, relevance: Floats) -> Floats:
        """Average precision of nodes in gold paragraphs, (rows, nodes) -> (rows,)."""
        gold = {self.record.id: self.question.evidence}
        nodes = [self.world.nodes[i] for i in self.nodes]
        is_gold = [
            any(n.sources[0].overlap(span) for span in gold.get(n.document_id, ())) for n in nodes
        ]
        hits = np.array(is_gold)[np.argsort(-relevance, axis=1, kind="stable")]
        precision = hits.cumsum(1) / np.arange(1, len(nodes) + 1)
        return np.asarray((precision * hits).sum(1) / hits[0].sum())


def cases(
    lm: HuggingFaceLM, split: str, places: Sequence[str], heads: Heads, done: Set[tuple[str, str]]
) -> Iterator[Case]:
    """Questions of a split, and the scopes in which they are asked, but those that are done."""
    for name in SETS[split]:
        world = World(lm, split, name)
        for records in [world.records] if world.is_shared else [[r] for r in world.records]:
            asked = [(r, q) for r, q in world.asked if r in records]
            if all((scope, q.id) in done for r, q in asked for scope in world.scopes(r)):
                continue
            keys = Keys(lm, world, records, places, heads)
            for record, question in asked:
                scopes = world.scopes(record)
                one, null = (
                    keys.shares(lm, text, places, heads, scopes) for text in (question.text, "N/A")
                )
                for scope in [scope for scope in scopes if (scope, question.id) not in done]:
                    found = {place: one[scope, place] - null[scope, place] for place in places}
                    nodes = keys.nodes[scopes[scope][keys.nodes]]
                    yield Case(world, record, question, scope, nodes, found)


def chosen(lm: HuggingFaceLM) -> dict[str, Any]:
    """Place, heads and shares by training questions: heads of either half are judged on the other."""
    every = [(i, j) for i in range(lm.engine.shape.layers) for j in range(lm.engine.shape.heads)]
    asked = list(cases(lm, "train", PLACES, every, set()))
    sides = [int(blake2b(c.question.id.encode()).hexdigest(), 16) % 2 for c in asked]
    both, tried = list(zip(asked, sides, strict=True)), list[Any]()
    for place in PLACES:
        alone = np.array([case.precision(case.relevance[place]) for case in asked])
        halves = [alone[np.array(sides) != side].mean(0) for side in (0, 1)]
        for top in (*TOPS, len(every)):
            best = [np.argsort(-one, kind="stable")[:top] for one in (*halves, alone.mean(0))]
            means = [case.relevance[place][best[side]].mean(0) for case, side in both]
            score = np.mean([c.precision(m[None]) for c, m in zip(asked, means, strict=True)])
            print(f"{place}, {top} heads: average precision {score:.4f}", flush=True)
            tried.append((score, place, [every[i] for i in best[2]], means))
    _, place, heads, means = max(tried, key=lambda one: float(one[0]))
    choice = {"place": place, "heads": heads}
    for row in ("similarity", "evidence"):
        scores = {
            share: np.mean(
                [c.found(row, share, m) for c, m in zip(asked, means, strict=True)], axis=0
            )
            for share in SHARES
        }
        print(row, {share: score.round(3).tolist() for share, score in scores.items()}, flush=True)
        choice[row] = max(SHARES[1:-1], key=lambda share: float(scores[share].mean()))
    return choice


def main() -> None:
    """Choose, ask, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="hub name or path of the reader")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the results")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    lm = load_reader(options.model, dtype="bfloat16")
    file, path = options.output / "choice.json", options.output / "dev.jsonl"
    if not file.exists():
        file.write_text(json.dumps(chosen(lm)))
    choice = json.loads(file.read_text())
    done = {(row["scope"], row["id"]) for row in stories.rows_of(path)}
    for case in cases(lm, "dev", [choice["place"]], choice["heads"], done):
        mean = case.relevance[choice["place"]].mean(0)
        line: dict[str, Any] = {
            "id": case.question.id,
            "scope": case.scope,
            "document": case.record.id,
        }
        for row, shares in (
            ("similarity", (0.0, choice["similarity"], 1.0)),
            ("evidence", (0.0, choice["evidence"])),
        ):
            line |= {f"{row}, {share}": case.found(row, share, mean) for share in shares}
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(line | {"set": case.record.dataset}) + "\n")
    print(choice, table(stories.rows_of(path)), sep="\n")


def table(lines: Sequence[dict[str, Any]]) -> str:
    """Touched and half at both budgets by set, and what a share of attention adds, paired."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        for name in (line["set"], "all sets") if line["scope"] == "own" else (line["scope"],):
            groups.setdefault(name, []).append(line)
    out = []
    for name, several in groups.items():
        out.append(f"{name}: {len(several)} questions")
        documents = [line["document"] for line in several]
        for row in [row for row in several[0] if ", " in row]:
            base = row.split(",")[0] + ", 0.0"
            scores, bases = (np.array([line[r] for line in several]).T for r in (row, base))
            less = [
                paired_bootstrap(*two, groups=documents) for two in zip(scores, bases, strict=True)
            ]
            out.append(f"  {row:15} {scores.mean(1).round(3)} {'; '.join(map(str, less))}")
    return "\n".join(out)


if __name__ == "__main__":
    with torch.no_grad():
        main()
