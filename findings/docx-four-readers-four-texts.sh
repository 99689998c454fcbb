#!/usr/bin/env bash
# python-docx 1.2.0, mammoth 1.13.0, docx2python 3.7.1, docx2txt 0.9 (2026-11-28)
# Expected: four readers of Word files agree on the words of a paragraph.
# Seen: one paragraph with what Word writes every day: a caption's number (w:fldSimple), a no-break
#   hyphen between years, a filled-in form field (w:sdt), a tracked insertion. No reader keeps all of it:
#   python-docx drops the number, the form field and the insertion; mammoth the number; docx2python
#   and docx2txt drop the hyphen, so that 1914-1918 becomes the number 19141918.
# Costs: "Figure  shows" in place of "Figure 3 shows", figures of a contract's form left empty, years
#   joined to one number. Only mammoth reports the loss, in `messages`.
. "$(dirname "$0")/lib/setup.sh" python-docx==1.2.0 mammoth==1.13.0 docx2python==3.7.1 docx2txt==0.9
python - <<'PY'
import docx
import docx2txt
import mammoth
from docx.oxml import parse_xml
from docx2python import docx2python
from still import still

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def run(content: str) -> str:
    return f"<w:r>{content}</w:r>"


def text(words: str) -> str:
    return f'<w:t xml:space="preserve">{words}</w:t>'


document = docx.Document()
paragraph = document.add_paragraph()._p
for element in (
    run(text("Figure ")),
    f'<w:fldSimple w:instr=" SEQ Figure ">{run(text("3"))}</w:fldSimple>',
    run(text(" shows 1914") + "<w:noBreakHyphen/>" + text("1918; rent ")),
    f"<w:sdt><w:sdtContent>{run(text('700'))}</w:sdtContent></w:sdt>",
    f'<w:ins w:id="1" w:author="A">{run(text(" euro"))}</w:ins>',
):
    paragraph.append(parse_xml(element.replace(">", f" {W}>", 1)))
document.save("a.docx")
still(docx.Document("a.docx").paragraphs[0].text, "Figure  shows 1914-1918; rent ", "python-docx")
still(mammoth.extract_raw_text("a.docx").value.strip(),
      "Figure  shows 1914\u20111918; rent 700 euro", "mammoth")
still(docx2python("a.docx").text.strip(), "Figure 3 shows 19141918; rent 700 euro", "docx2python")
still(docx2txt.process("a.docx").strip(), "Figure 3 shows 19141918; rent 700 euro", "docx2txt")
PY
