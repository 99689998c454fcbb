"""Is all the evidence read? The context of an answerer, compared with LlamaIndex's chunks of 256 tokens.

    python benchmarks/own_evidence.py --documents examples/own_documents examples/more_documents --budget 512

For every question of a folder that the files answer: the place of each evidence is the shortest run of
sentences of its file that has all its words; it is read if the shown text covers it. Evidence of several
places is a list. All ways of reading have the same files, embedder, titles and tokens, counted by the same
tokenizer: sentences alone, sentences with their neighbours (`hwdag.answers.passages`), and chunks of
LlamaIndex's `SentenceSplitter`, by similarity, each after its title.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from own_documents import FOLLOW_UP, NEAR_MISS, UNANSWERABLE, documents, rows_of
from own_documents import places_of as evidence_of

from hwdag import HWDAGIndex, SearchConfig
from hwdag.answers.passages import grown
from hwdag.text.neighbours import joined, without
from hwdag.text.sentences import sentences
from hwdag.text.words import words
from hwdag.types import Document, Span, Step
from hwdag_lab.eval.statistics import bootstrap

CHUNK_TOKENS = 256
MOST_SENTENCES = 6  # of a place

Read = Mapping[str, Sequence[Span]]
"""The shown spans of each document."""


def main() -> None:
    """Print the share of questions whose evidence was read, by folder and kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=Path, nargs="+", required=True)
    parser.add_argument("--budget", type=int, default=512)
    options = parser.parse_args()
    rows = [row for folder in options.documents for row in read_of(folder, options.budget)]
    names = [name for name in rows[0] if name not in ("set", "kind")]
    groups = [(key, row[key]) for key in ("set", "kind") for row in rows]
    print(f"| | n | {' | '.join(names)} |\n{'|---' * (2 + len(names))}|")
    for key, value in [*dict.fromkeys(groups), ("", "")]:
        own = [row for row in rows if not key or row[key] == value]
        means = (f"{np.mean([row[name] for row in own]):.2f}" for name in names)
        print(f"| {value or 'all'} | {len(own)} | {' | '.join(means)} |")
    ours, theirs = "with neighbours", "chunks"
    print(f"{ours} - {theirs}: {bootstrap([row[ours] - row[theirs] for row in rows])}")


def read_of(folder: Path, budget: int) -> Iterator[dict]:
    """Return for each question of a folder whether all its evidence was read, by way of reading."""
    read = {document.id: document for document in documents(folder)}
    with HWDAGIndex.from_documents(read.values(), method="evidence") as index:
        chunks = Chunks(index, read)
        for row in rows_of(folder / "questions.jsonl"):
            if row["kind"] in (UNANSWERABLE, NEAR_MISS, FOLLOW_UP):
                continue
            places = list(places_of(row, read))
            if not places:
                print(f"{row['id']}: no place has all words of the evidence")
                continue
            found = index.search(row["question"], config=SearchConfig(token_budget=budget))
            ways = {
                "sentences": shown(found.context),
                "with neighbours": shown(grown(found)[0]),
                "chunks": chunks.read(row["question"], budget),
            }
            held = {name: float(covers(places, way, read)) for name, way in ways.items()}
            yield {"set": folder.name, "kind": row["kind"], **held}


def places_of(row: dict, read: Mapping[str, Document]) -> Iterator[tuple[str, Span]]:
    """Return the span of each evidence of a question; none for one that is not found."""
    for file, said in evidence_of(row):
        [document] = [one for one in read.values() if Path(one.id).name == file]
        if (place := place_of(document.text, said)) is None:
            return
        yield document.id, place


def place_of(text: str, said: str) -> Span | None:
    """Return the shortest run of sentences that has all words of a text, the first of several."""
    wanted = Counter(words(said))
    parts = sentences(text)
    held = [Counter(words(text[part.start : part.end])) for part in parts]
    for length in range(1, MOST_SENTENCES + 1):
        for first in range(len(parts) - length + 1):
            if wanted <= sum(held[first : first + length], Counter()):
                return Span(parts[first].start, parts[first + length - 1].end)
    return None


def shown(steps: Sequence[Step]) -> Read:
    """Return the slices of documents that steps show."""
    found: dict[str, list[Span]] = {}
    for step in steps:
        found.setdefault(step.node.document_id, []).extend(step.node.sources)
    return found


def covers(
    places: Sequence[tuple[str, Span]], read: Read, documents: Mapping[str, Document]
) -> bool:
    """Return whether every place was read, but for blanks."""
    return all(
        not without(documents[key].text, [place], joined(documents[key].text, read.get(key, ())))
        for key, place in places
    )


class Chunks:
    """LlamaIndex's chunks with the embedder and the tokenizer of an index."""

    def __init__(self, index: HWDAGIndex, read: Mapping[str, Document]) -> None:
        from llama_index.core.node_parser import SentenceSplitter

        self._index, self._places, self._texts = index, list[tuple[str, Span]](), list[str]()
        splitter = SentenceSplitter(chunk_size=CHUNK_TOKENS, chunk_overlap=20)
        for document in read.values():
            after = 0
            for text in splitter.split_text(document.text):
                start = document.text.find(text, after)
                start = document.text.index(text) if start < 0 else start
                after = start + 1
                self._places.append((document.id, Span(start, start + len(text))))
                self._texts.append(f"{document.title}\n{text}" if document.title else text)
        self._vectors = np.asarray(index.embedder.embed(self._texts))
        self._costs = index.reader.count_tokens(self._texts)

    def read(self, question: str, budget: int) -> Read:
        """Return the most similar chunks that fit into the budget."""
        vector = np.asarray(self._index.embedder.embed_query(question))
        scores = self._vectors @ vector / np.linalg.norm(self._vectors, axis=1)
        found: dict[str, list[Span]] = {}
        for at in np.argsort(-scores, kind="stable").tolist():
            if self._costs[at] <= budget:
                budget -= self._costs[at]
                key, span = self._places[at]
                found.setdefault(key, []).append(span)
        return found


if __name__ == "__main__":
    main()
