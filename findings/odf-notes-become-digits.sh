#!/usr/bin/env bash
# odfpy 1.4.1, odfdo 3.27.3 (2026-11-28)
# Expected: a footnote in a text document is apart from the sentence, or marked in it.
# Seen: odfpy's `teletype.extractText` and odfdo's `text_recursive` put the note's number and text
#   into the sentence, where the mark is, without a blank: "40" with note 1, "per month", and
#   "euro" is "401per month euro". odfdo's `get_formatted_text` is right ("40[1] euro").
# Costs: every figure with a footnote is another figure: 40 is 401.
. "$(dirname "$0")/lib/setup.sh" odfpy==1.4.1 odfdo==3.27.3
python - <<'PY'
import odfdo
from odf import teletype
from odf.opendocument import OpenDocumentText, load
from odf.text import Note, NoteBody, NoteCitation, P
from still import still

document = OpenDocumentText()
paragraph, note, body = P(text="The grant was 40"), Note(noteclass="footnote"), NoteBody()
body.addElement(P(text="per month"))
note.addElement(NoteCitation(text="1"))
note.addElement(body)
paragraph.addElement(note)
paragraph.addText(" euro")
document.text.addElement(paragraph)
document.save("a.odt")
still(teletype.extractText(load("a.odt").getElementsByType(P)[0]),
      "The grant was 401per month euro", "odfpy")
found = odfdo.Document("a.odt")
still(found.body.paragraphs[0].text_recursive, "The grant was 401. per month euro", "odfdo")
still(found.get_formatted_text().splitlines()[0], "The grant was 40[1] euro", "odfdo, formatted")
PY
