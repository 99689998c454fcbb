#!/usr/bin/env bash
# polars 2.1.0, duckdb 2.0.0 (2026-11-28)
# Expected: a reader of JSON Lines that meets a new key or a value of another type after its sample
#   widens the column, as pyarrow does, or fails.
# Seen: polars and DuckDB drop a key of which their sample (100 rows, 20,480 rows) had none: no
#   column, no warning. In a nested object DuckDB refuses the same key, polars drops it. Where the
#   sample had integers, DuckDB rounds a later 0.5 to 0 and 1.5 to 2 (text at the same place is an
#   error, and polars refuses all of these).
# Costs: sources, labels or notes that only some records have are gone after a load and a save;
#   scores are rounded from row 20,481 on. Small test files show nothing.
. "$(dirname "$0")/lib/setup.sh" polars==2.1.0 duckdb==2.0.0
python - <<'PY'
import json

import duckdb
import polars
from still import still

ROWS = 30_000


def written(name: str, early: dict, *late: dict) -> str:
    with open(name, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in [early] * ROWS + list(late))
    return name


new_key = written("key.jsonl", {"text": "a"}, {"text": "b", "source": "court"})
still(polars.read_ndjson(new_key).columns, ["text"], "columns by polars")
still(duckdb.sql(f"from read_json('{new_key}')").columns, ["text"], "columns by DuckDB")
nested = written("nested.jsonl", {"meta": {"page": 1}}, {"meta": {"page": 2, "note": "torn"}})
still(polars.read_ndjson(nested)["meta"][-1], {"page": 2}, "nested object by polars")
score = written("score.jsonl", {"score": 1}, {"score": 0.5}, {"score": 1.5}, {"score": 2.5})
values = duckdb.sql(f"select score from read_json('{score}') offset {ROWS}").fetchall()
still([value for (value,) in values], [0, 2, 2], "0.5, 1.5 and 2.5 by DuckDB")
PY
