#!/usr/bin/env bash
# tantivy 0.27.0, lancedb 0.40.0 (2026-11-28)
# Expected: the default tokenizer may leave out monstrous "words"; the limit is given as a length of
#   40, so ordinary words of every language are far below it.
# Seen: the limit counts bytes of UTF-8. A Russian word of 20 letters has 40 bytes, a Georgian or
#   Hindi one of 14 letters 42, so that "достопримечательности" (sights) is not indexed, while the
#   German "Wissenschaftskommunikationsforschung", which is longer, is. The same word in the question
#   is removed, too: no error, no results. Hashes (SHA-256: 64 digits) are never found either.
# Costs: long words are the rare, telling ones; a search for them finds nothing, and it looks like a
#   document that is not there. No example in Latin script shows it.
. "$(dirname "$0")/lib/setup.sh" tantivy==0.27.0 lancedb==0.40.0
python - <<'PY'
import lancedb, tantivy
from lancedb.index import FTS
from still import still

WORDS = {
    "Wissenschaftskommunikationsforschung": 1,  # 36 letters
    "достопримечательность": 0,  # 21
    "достопримечательный": 1,  # 19
    "მრავალფეროვნება": 0,  # 15
    "ხელისუფლების": 1,  # 12
    "d" * 64: 0,
}
schema = tantivy.SchemaBuilder()
schema.add_text_field("text", stored=True)
index = tantivy.Index(schema.build())
writer = index.writer()
for word in WORDS:
    writer.add_document(tantivy.Document(text=f"See {word} here"))
writer.commit()
index.reload()
table = lancedb.connect("lance").create_table("t", [{"text": f"See {word} here"} for word in WORDS])
table.create_index("text", config=FTS())
for word, expected in WORDS.items():
    hits = index.searcher().search(index.parse_query(word, ["text"]), 9).hits
    still(len(hits), expected, f"hits of tantivy for {word}")
    found = table.search(word, query_type="fts").limit(9).to_list()
    still(len(found), expected, f"hits of lancedb for {word}")
PY
