#!/usr/bin/env bash
# langchain-text-splitters 1.1.3 (2026-11-28)
# Expected: with `add_start_index=True` a chunk is found at its `start_index` in the text.
# Seen: the search for a chunk begins at the end of the previous one less `chunk_overlap`, whatever
#   that counts. If lengths are tokens, as by `from_huggingface_tokenizer` and
#   `from_tiktoken_encoder`, the overlap is taken as so many characters. The search begins after the
#   start of the chunk and gives -1 for every second chunk, or, if the text repeats itself as minutes
#   and contracts do, the place of the same words further on: here the second chunk, which shares a
#   sentence with the first one, is said to begin after the end of that.
# Costs: citations that point at another clause with the same words, or at -1, which Python takes
#   for the end of the text; nothing fails.
. "$(dirname "$0")/lib/setup.sh" langchain-text-splitters==1.1.3
python - <<'PY'
from langchain_text_splitters import RecursiveCharacterTextSplitter
from still import still

splitter = RecursiveCharacterTextSplitter(
    chunk_size=40, chunk_overlap=15, length_function=lambda t: len(t.split()), add_start_index=True
)
same = [f"The tenant pays the costs that article {n % 3} names." for n in range(60)]
numbered = [f"{n}. {clause}" for n, clause in enumerate(same)]
chunks = splitter.create_documents([" ".join(numbered)])
missing = [chunk.metadata["start_index"] for chunk in chunks].count(-1)
still((len(chunks), missing), (24, 12), "chunks of numbered clauses, and how many begin at -1")

first, second, *_ = splitter.create_documents([" ".join(same)])
shared = "2 names. The tenant pays the costs that article 0 names. The tenant pays the"
still((shared in first.page_content, shared in second.page_content), (True, True), "shared words")
gap = second.metadata["start_index"] - len(first.page_content)
still(gap, 68, "characters said to lie between the two chunks that share words")
PY
