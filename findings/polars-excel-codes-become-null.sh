#!/usr/bin/env bash
# polars 2.1.0 with fastexcel 0.21.0 (its default engine), openpyxl 3.1.5 (2026-11-28)
# Expected: a column of an Excel file that is numbers at first and has text later is read as text,
#   or refused.
# Seen: the type is decided by the first 1,000 rows; later texts become null, without a warning.
#   A row that has
#   nothing else disappears. pandas, and polars by engine="openpyxl", keep them.
# Costs: codes such as "A-17", "n/a (see note)" or "<5" are gone from long tables, and a count of
#   nulls taken for gaps in the source; a test with 999 rows passes.
. "$(dirname "$0")/lib/setup.sh" polars==2.1.0 fastexcel==0.21.0 openpyxl==3.1.5
python - <<'PY'
import openpyxl
import polars
from still import still

book = openpyxl.Workbook()
for row in (["id", "code"], *([n, n] for n in range(1200)), [1200, "A-17"], [1201, "<5"]):
    book.active.append(row)
book.save("a.xlsx")
still(polars.read_excel("a.xlsx")["code"][-3:].to_list(), [1199, None, None], "by default")
other = polars.read_excel("a.xlsx", engine="openpyxl")["code"][-3:].to_list()
still(other, ["1199", "A-17", "<5"], 'by engine="openpyxl"')
PY
