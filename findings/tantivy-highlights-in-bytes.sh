#!/usr/bin/env bash
# tantivy 0.27.0 (2026-11-28)
# Expected: `Snippet.highlighted()` gives the ranges to mark in `Snippet.fragment()`; both are
#   Python's, so `fragment[range.start:range.end]` is the word that was found.
# Seen: ranges count bytes of UTF-8. Each letter that is not ASCII before the word moves the mark to
#   the right; in Cyrillic it is beyond the end, and the slice is empty. `to_html()` is right, so a
#   test of the page passes while stored positions are wrong.
# Costs: citations and highlights that point at other words, by a few letters in French or German
#   (easily overlooked), far off elsewhere.
. "$(dirname "$0")/lib/setup.sh" tantivy==0.27.0
python - <<'PY'
import tantivy
from still import still

builder = tantivy.SchemaBuilder()
builder.add_text_field("text", stored=True)
schema = builder.build()
index = tantivy.Index(schema)
writer = index.writer()
writer.add_document(tantivy.Document(text="Le café de l'hôtel à Orléans ferme en hiver pour un mois"))
writer.add_document(tantivy.Document(text="Мост через реку построили в городе Тверь"))
writer.commit()
index.reload()
searcher = index.searcher()
for word, expected in (("hiver", "r pou"), ("тверь", "")):
    query = index.parse_query(word, ["text"])
    snippets = tantivy.SnippetGenerator.create(searcher, query, schema, "text")
    [(_, address)] = searcher.search(query, 1).hits
    snippet = snippets.snippet_from_doc(searcher.doc(address))
    [mark] = snippet.highlighted()
    still(snippet.fragment()[mark.start : mark.end], expected, f"what is marked for {word}")
    still(f"<b>{word}</b>" in snippet.to_html().lower(), True, f"to_html() marks {word}")
PY
