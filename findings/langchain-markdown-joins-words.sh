#!/usr/bin/env bash
# langchain-text-splitters 1.1.3 (2026-11-28)
# Expected: MarkdownHeaderTextSplitter divides a document at its headings and leaves the text as it
#   is (it may strip the ends of a section).
# Seen: from each line it deletes every character for which `str.isprintable()` is false: not only
#   control characters, but no-break spaces, the wide space of Chinese and Japanese, the non-joiner
#   of Persian, and tabs. Words and numbers on both sides are joined: "100 000" with no-break spaces
#   (the usual French form) and "1871<tab>12" become other numbers. Each line also loses its
#   indentation, in fenced code, too, so that Python code is no longer Python.
# Costs: wrong figures and words that no search finds in the stored chunks; the originals look right.
. "$(dirname "$0")/lib/setup.sh" langchain-text-splitters==1.1.3
python - <<'PY'
from langchain_text_splitters import MarkdownHeaderTextSplitter
from still import still

splitter = MarkdownHeaderTextSplitter([("#", "title")])
CASES = {
    "Il coûte 100\u00a0000\u00a0€.": "Il coûte 100000€.",
    "Year\tSum: 1871\t12": "YearSum: 187112",
    "東京\u3000大阪": "東京大阪",
    "می\u200cخواهم": "میخواهم",
    "```python\nif x:\n    y = 1\nz = 2\n```": "```python\nif x:\ny = 1\nz = 2\n```",
}
for text, expected in CASES.items():
    [chunk] = splitter.split_text(f"# Title\n\n{text}\n")
    still(chunk.page_content, expected, f"{text!r} becomes")
PY
