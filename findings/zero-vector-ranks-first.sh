#!/usr/bin/env bash
# model2vec 0.10.0, duckdb 2.0.0, sqlite-vec 0.1.9 (2026-11-28)
# Expected: a text of which the model knows no word is a bad match for every question.
# Seen: model2vec gives it the vector 0 without a warning. Its cosine is NaN in DuckDB and NULL in
#   sqlite-vec. DuckDB sorts NaN above every number, SQLite sorts NULL below every number, so
#   `ORDER BY array_cosine_similarity(...) DESC` and `ORDER BY vec_distance_cosine(...)` both begin
#   with that text, whatever is asked. The mirrored spelling of each (DuckDB's distance ascending)
#   puts it last, and so does the index of sqlite-vec.
# Costs: one passage in a foreign script, or of digits, is the first hit of every search.
. "$(dirname "$0")/lib/setup.sh" model2vec==0.10.0 duckdb==2.0.0 sqlite-vec==0.1.9 apsw tokenizers==0.23.3
python - <<'PY'
import apsw, duckdb, numpy as np, sqlite_vec
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers
from still import still

words = ["[UNK]", "[PAD]", "river", "bridge", "harbour", "year", "the", "of"]
tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
vectors = np.random.default_rng(0).normal(size=(len(words), 4)).astype("float32")
model = StaticModel(vectors, tokenizer)
texts = ["the river", "the bridge of the harbour", "გემი ნავსადგურში"]
embedded = model.encode(texts)
question = model.encode(["the bridge"])[0]
still(embedded[2].tolist(), [0.0] * 4, "model2vec's vector of unknown words")

duck = duckdb.connect()
duck.execute("create table t(id int, v float[4])")
duck.executemany("insert into t values (?, ?)", [(i, v.tolist()) for i, v in enumerate(embedded)])
first = "select id from t order by {} limit 1"
for order, expected in (("array_cosine_similarity(v, ?::float[4]) desc", 2),
                        ("array_cosine_distance(v, ?::float[4])", 1)):
    found = duck.execute(first.format(order), [question.tolist()]).fetchone()[0]
    still(found, expected, f"DuckDB's first by {order}")

lite = apsw.Connection(":memory:")
lite.enable_load_extension(True)
lite.load_extension(sqlite_vec.loadable_path())
lite.execute("create virtual table t using vec0(v float[4] distance_metric=cosine)")
for i, v in enumerate(embedded):
    lite.execute("insert into t(rowid, v) values (?, ?)", (i, v.tobytes()))
by_scan = "select rowid from t order by vec_distance_cosine(v, ?) limit 1"
by_index = "select rowid from t where v match ? and k = 1"
still(lite.execute(by_scan, (question.tobytes(),)).fetchone()[0], 2, "SQLite's first by a scan")
still(lite.execute(by_index, (question.tobytes(),)).fetchone()[0], 1, "SQLite's first by vec0")
PY
