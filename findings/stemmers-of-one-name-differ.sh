#!/usr/bin/env bash
# PyStemmer 3.1.0 and 2.2.0.3, py-rust-stemmers 0.1.8, bm25s 0.3.16 (2026-11-29)
# Expected: the stemmer "english" (or "dutch") is one algorithm, so texts that one program stemmed are
#   found by the stems of another program, or of the next release.
# Seen: Snowball 3 changed its algorithms under their old names. PyStemmer 2 and py-rust-stemmers (of
#   fastembed's BM25) still have the former ones: "added" was "ad" and is "add", "international" was
#   "intern" and is "internat", "dutch" is another algorithm altogether. No index records which one it is.
# Costs: after an upgrade, or with a question stemmed by another service, words of the text itself have a
#   score of 0, for as long as the index is not built anew, and nothing says so.
. "$(dirname "$0")/lib/setup.sh" PyStemmer==3.1.0 py-rust-stemmers==0.1.8 bm25s==0.3.16
install --target old --no-deps PyStemmer==2.2.0.3
cat >build.py <<'PY'
import bm25s, Stemmer

TEXTS = ["A harbour of international rank.", "A stone.", "A bridge.", "It was added later.", "A mill."]
tokens = bm25s.tokenize(TEXTS, stemmer=Stemmer.Stemmer("english"), show_progress=False)
index = bm25s.BM25()
index.index(tokens, show_progress=False)
index.save("saved")
PY
PYTHONPATH=old python build.py
python - <<'PY'
import bm25s, py_rust_stemmers, Stemmer
from still import still

index = bm25s.BM25.load("saved")
scores = {}
for word in ("international", "added", "bridge"):
    asked = bm25s.tokenize([word], stemmer=Stemmer.Stemmer("english"), show_progress=False)
    found, best = index.retrieve(asked, k=1, show_progress=False)
    scores[word] = bool(best[0, 0] > 0)
still(scores, {"international": False, "added": False, "bridge": True}, "found after the upgrade")
for language, words, former, today in (
    ("english", ["evening", "paste", "university"], ["even", "past", "univers"],
     ["evening", "paste", "universiti"]),
    ("dutch", ["huizen", "kippen", "mogelijkheden"], ["huiz", "kipp", "mogelijk"],
     ["huis", "kip", "molijk"]),
    ("german", ["lehrerinnen", "buecher"], ["lehrerinn", "buech"], ["lehr", "buch"]),
):
    rust = py_rust_stemmers.SnowballStemmer(language)
    still([rust.stem_word(word) for word in words], former, f"{language} by py-rust-stemmers")
    still(Stemmer.Stemmer(language).stemWords(words), today, f"{language} by PyStemmer 3")
PY
