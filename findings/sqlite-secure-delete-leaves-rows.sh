#!/usr/bin/env bash
# SQLite 3.54.1 (apsw 3.54.1.0) (2026-11-28)
# Expected: with PRAGMA secure_delete=ON deleted content is overwritten with zeros, as documented, so
#   no deleted row is left in the file.
# Seen: when rows are inserted in another order than that of their keys, SQLite moves some from page
#   to page. The copies that they leave in the unused part of the old page belong to no row, and a
#   later deletion overwrites the new place only. Of 1,500 deleted rows about ten are in the file,
#   some whole. VACUUM removes them.
# Costs: a person's text that was erased on request is found by `strings`; the setting was on, and
#   a test with rows in order of their keys finds nothing.
. "$(dirname "$0")/lib/setup.sh" apsw==3.54.1.0
python - <<'PY'
import random
import re
from pathlib import Path

import apsw
from still import still

random.seed(0)
database = apsw.Connection("a.db")
database.execute("pragma secure_delete = on")
database.execute("create table letters(id integer primary key, text)")
ids = random.sample(range(3000), 3000)
with database:
    for i in ids:
        database.execute("insert into letters values (?, ?)", (i, f"<{i:04d}>" * random.randint(6, 60)))
deleted = set(ids[:1500])
with database:
    database.executemany("delete from letters where id = ?", [(i,) for i in deleted])


def left() -> int:
    found = {int(number) for number in re.findall(rb"<(\d{4})>", Path("a.db").read_bytes())}
    return len(found & deleted)


still(left() > 0, True, f"deleted rows of which text is left ({left()} of 1500)")
database.execute("vacuum")
still(left(), 0, "after VACUUM")
PY
