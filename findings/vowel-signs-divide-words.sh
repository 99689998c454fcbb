#!/usr/bin/env bash
# bm25s 0.3.16, FTS5 of SQLite 3.51 (apsw 3.51.1.0), scikit-learn 1.8.0 (2026-11-28)
# Expected: "केला" (banana) is a word; a search for it does not find "किला" (fort) or "काला" (black).
# Seen: vowel signs of Hindi, Tamil, Bengali, Thai ... are marks (Mn, Mc), which neither the
#   tokenizer unicode61 of FTS5 nor Python's `\w` takes as part of a word. FTS5 keeps the consonants
#   alone: the three words above are one phrase, with one score. bm25s and scikit-learn then drop
#   every piece of one letter, and with those nearly all of the text: of nine Hindi words they keep
#   four pieces, and the question "किताब" (book) has no word at all, so that bm25s returns the first
#   documents of the corpus with score 0.
# Costs: search in the languages of more than a billion people is wrong or empty, without an error;
#   Latin letters with accents and Cyrillic, with which one tests, work.
. "$(dirname "$0")/lib/setup.sh" bm25s==0.3.16 scikit-learn==1.8.0 apsw==3.51.1.0 numpy==2.4.6
python - <<'PY'
import apsw, bm25s
from sklearn.feature_extraction.text import TfidfVectorizer
from still import still

FORT, BANANA, BLACK = "पुराना किला शहर में है", "केला एक फल है", "काला घोड़ा"
database = apsw.Connection(":memory:")
database.execute("create virtual table t using fts5(text)")
database.executemany("insert into t values (?)", [(FORT,), (BANANA,), (BLACK,)])
rows = database.execute("select text from t where t match ? order by rowid", ('"केला"',)).fetchall()
still([text for (text,) in rows], [FORT, BANANA, BLACK], "FTS5 finds for banana")

tokens = bm25s.tokenize([FORT, BANANA], return_ids=False, show_progress=False)
still(tokens, [["शहर"], ["एक", "फल"]], "bm25s keeps of two sentences")
vectorizer = TfidfVectorizer().fit([FORT, BANANA])
still(sorted(vectorizer.vocabulary_), ["एक", "फल", "शहर"], "scikit-learn keeps of them")
still(bm25s.tokenize(["किताब"], return_ids=False, show_progress=False), [[]], "bm25s keeps of book")
PY
