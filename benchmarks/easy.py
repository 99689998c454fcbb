"""How exactly does EASY cut a token sequence into sentences? Tables 4 and 5 of YOURA.

For every tokenizer: the share of sentences whose tokens read like the sentence (after white space is
cleaned up), the mean Levenshtein distance between the two, and that of the others alone (NZ), for
exact offsets and for Algorithm 1 of the paper. WordPiece changes letters and spaces, so there case
and white space are left out of every comparison; "text" compares the characters that the tokens
mean instead of their decoded text. Run:

    python benchmarks/easy.py ../shared/data/dev/qasper.jsonl ../shared/data/dev/hotpotqa.jsonl --limit 10

Tokenizers that are not installed are left out: those of the two embedded models, and the two of
tiktoken in the folder that `--tiktoken` names (by default the one that llama-index-core brings).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hwdag.text.sentences import sentences
from hwdag.types import Span
from hwdag_lab.eval.data import read_records
from hwdag_lab.methods.youra.easy import by_offsets, by_wiggling

BLOCK_CHARACTERS = 4000
"""Of a text that Algorithm 1 is run on: it encodes all that came before for every sentence."""


@dataclass(frozen=True)
class Tokenizer:
    """The inputs of EASY.

    `offsets` are the characters of the tokens of a text; texts are compared after `clean`.
    """

    name: str
    encode: Callable[[str], list[int]]
    decode: Callable[[Sequence[int]], str]
    offsets: Callable[[str], list[Span]]
    clean: Callable[[str], str]


@dataclass
class Tally:
    """Distances of one tokenizer and algorithm."""

    clean: Callable[[str], str]
    distances: list[int] = field(default_factory=list)

    def add(self, wanted: str, found: str) -> None:
        """Print one sentence and the text of its tokens."""
        wanted, found = self.clean(wanted), self.clean(found)
        self.distances.append(0 if wanted == found else levenshtein(wanted, found))

    def row(self) -> str:
        """Match rate in per cent, mean distance, mean distance of the unmatched."""
        found = np.array(self.distances)
        missed = found[found > 0]
        return f"{np.mean(found == 0):7.1%} {found.mean():7.2f} {missed.mean() if len(missed) else 0:7.2f}"


def main() -> None:
    """Print one line per data set, tokenizer and algorithm."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="+", help="JSONL with id and text")
    parser.add_argument("--limit", type=int, default=10, help="documents of each file")
    parser.add_argument("--tiktoken", type=Path, help="folder of tiktoken's files")
    options = parser.parse_args()
    found = list(tokenizers(options.tiktoken))
    print(f"{'data':22} {'tokenizer':14} {'algorithm':18} sentences  match    mean      NZ")
    for path in options.data:
        texts = [record.text for record in islice(read_records(path), options.limit)]
        for tokenizer in found:
            for algorithm, tally in measured(tokenizer, texts).items():
                count = len(tally.distances)
                print(f"{path.stem:22} {tokenizer.name:14} {algorithm:18} {count:9} {tally.row()}")


def measured(tokenizer: Tokenizer, texts: Sequence[str]) -> dict[str, Tally]:
    """Return both algorithms over some texts."""
    names = "offsets", "offsets, text", "Algorithm 1"
    tallies = {name: Tally(tokenizer.clean) for name in names}
    for text in (block for whole in texts for block in blocks(whole)):
        spans = sentences(text)
        wanted = [text[span.start : span.end] for span in spans]
        ids, offsets = tokenizer.encode(text), tokenizer.offsets(text)
        for sentence, (start, end) in zip(wanted, by_offsets(offsets, spans), strict=True):
            tallies["offsets"].add(sentence, tokenizer.decode(ids[start:end]))
            own = offsets[start:end]
            read = text[own[0].start : own[-1].end] if own else ""
            tallies["offsets, text"].add(sentence, read)
        starts = [0, *(span.start for span in spans[1:]), len(text)]
        parts = [text[a:b] for a, b in pairwise(starts)]
        ends = by_wiggling(
            ids, parts, encode=tokenizer.encode, decode=tokenizer.decode, clean=tokenizer.clean
        )
        for sentence, (start, end) in zip(wanted, pairwise([0, *ends]), strict=True):
            tallies["Algorithm 1"].add(sentence, tokenizer.decode(ids[start:end]))
    return tallies


def blocks(text: str) -> Iterator[str]:
    """Yield a text in parts that end with sentences."""
    start = 0
    spans = sentences(text)
    for span, after in pairwise([*spans, Span(len(text), len(text))]):
        if span.end - start >= BLOCK_CHARACTERS or after.start == len(text):
            yield text[start : after.start]
            start = after.start


def spaced(text: str) -> str:
    """Strip white space, and replace runs of it by one space."""
    return " ".join(text.split())


def bare(text: str) -> str:
    """Remove white space and case."""
    return "".join(text.split()).casefold()


def levenshtein(one: str, two: str) -> int:
    """Least number of characters to insert, remove or replace."""
    previous = np.arange(len(two) + 1)
    letters, steps = np.array(list(two)), np.arange(len(two) + 1)
    for i, char in enumerate(one, start=1):
        replaced = previous[:-1] + (letters != char if len(two) else 0)
        best = np.append(i, np.minimum(replaced, previous[1:] + 1))
        # insertions: the smallest of all to the left, one more for each step
        previous = np.minimum.accumulate(best - steps) + steps
    return int(previous[-1])


def tokenizers(folder: Path | None) -> Iterator[Tokenizer]:
    """Return the tokenizers that are available without a network."""
    yield from transformers_tokenizers()
    yield from tiktoken_tokenizers(folder)


def transformers_tokenizers() -> Iterator[Tokenizer]:
    """SmolLM2's byte-level BPE and MiniLM's WordPiece."""
    from transformers import AutoTokenizer

    from hwdag.embedding.default import embedded_model_folder
    from hwdag.lm.default import converted, embedded_gguf

    gguf, minilm = embedded_gguf(), embedded_model_folder()
    folders = {"SmolLM2 BPE": gguf and converted(gguf), "MiniLM pieces": minilm}
    for name, folder in folders.items():
        if folder is not None:
            tokenizer = AutoTokenizer.from_pretrained(folder)
            yield of_transformers(name, tokenizer, bare if folder == minilm else spaced)


def of_transformers(name: str, tokenizer: Any, clean: Callable[[str], str]) -> Tokenizer:
    """Return one with offsets."""

    def called(text: str) -> Any:
        return tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)

    return Tokenizer(
        name,
        lambda text: list(called(text)["input_ids"]),
        lambda ids: str(tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)),
        lambda text: [Span(*pair) for pair in called(text)["offset_mapping"]],
        clean,
    )


def tiktoken_tokenizers(folder: Path | None) -> Iterator[Tokenizer]:
    """OpenAI's two, from files on disk."""
    spec = importlib.util.find_spec("llama_index.core")
    if folder is None and spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "_static" / "tiktoken_cache"
    if importlib.util.find_spec("tiktoken") is None or folder is None or not folder.is_dir():
        return
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    import tiktoken

    for name in ("cl100k_base", "o200k_base"):
        yield of_tiktoken(name, tiktoken.get_encoding(name))


def of_tiktoken(name: str, encoding: Any) -> Tokenizer:
    """Return one without offsets of its own: they follow from the bytes of the tokens."""

    def encode(text: str) -> list[int]:
        return list(encoding.encode_ordinary(text))

    def offsets(text: str) -> list[Span]:
        character = [i for i, char in enumerate(text) for _ in char.encode("utf-8", "replace")]
        found, at = [], 0
        for token in encode(text):
            size = len(encoding.decode_single_token_bytes(token))
            found.append(Span(character[at], character[at + size - 1] + 1))
            at += size
        return found

    return Tokenizer(name, encode, lambda ids: str(encoding.decode(list(ids))), offsets, spaced)


if __name__ == "__main__":
    main()
