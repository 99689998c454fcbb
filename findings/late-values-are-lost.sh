#!/usr/bin/env bash
# polars 2.1.0 (with fastexcel 0.21.0, its default engine for Excel), duckdb 2.0.0 (2026-11-28)
# Expected: a reader that meets a new key, or a value of another type, after the rows from which it
#   guessed the types widens the column, as pyarrow does, or fails.
# Seen: of JSON Lines polars and DuckDB drop a key that their sample (100 rows, 20,480 rows) did not
#   have; where the sample had integers, DuckDB rounds 0.5 to 0 and 1.5 to 2 (text is an error there,
#   and polars refuses a fraction). Of an Excel sheet polars turns text after 1,000 rows of numbers
#   into null. No warning for any of these.
# Costs: sources, notes and labels that only some records have are gone after load and save; scores
#   are rounded from row 20,481 on; codes such as "A-17" or "<5" count as gaps. Small files are read
#   well, so tests pass.
. "$(dirname "$0")/lib/setup.sh" polars==2.1.0 duckdb==2.0.0 fastexcel==0.21.0 openpyxl==3.1.5
python - <<'PY'
import json

import duckdb
import openpyxl
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

book = openpyxl.Workbook()
for row in (["id", "code"], *([n, n] for n in range(1200)), [1200, "A-17"], [1201, "<5"]):
    book.active.append(row)
book.save("a.xlsx")
still(polars.read_excel("a.xlsx")["code"][-3:].to_list(), [1199, None, None], "Excel by polars")
other = polars.read_excel("a.xlsx", engine="openpyxl")["code"][-3:].to_list()
still(other, ["1199", "A-17", "<5"], 'by engine="openpyxl"')
PY
