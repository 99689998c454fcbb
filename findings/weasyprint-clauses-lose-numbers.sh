#!/usr/bin/env bash
# weasyprint 70.0, pypdf 7.1.1, pypdfium2 5.15.2, pdfplumber 0.11.10 (2026-11-28)
# Expected: of a numbered list in a PDF the text has each number before its clause.
# Seen: WeasyPrint draws all numbers of a page after all of its text. pypdf and PDFium follow the
#   drawing, so the clauses come without numbers, and "1. 2. 3." at the end of the page. pdfplumber,
#   which goes by position, and pypdf with extraction_mode="layout" have them in their places.
# Needs Pango (Debian: libpango-1.0-0 libpangoft2-1.0-0 libharfbuzz-subset0).
# Costs: no question about "clause 2" can be answered, and a citation of it cannot be checked;
#   contracts and laws are the usual use. The page looks right.
. "$(dirname "$0")/lib/setup.sh" weasyprint==70.0 pypdf==7.1.1 pypdfium2==5.15.2 pdfplumber==0.11.10
python - <<'PY'
import pdfplumber
import pypdf
import pypdfium2
import weasyprint
from still import still

HTML = "<p>Lease</p><ol><li>The tenant pays.</li><li>The owner repairs.</li></ol><p>Signed.</p>"
weasyprint.HTML(string=HTML).write_pdf("a.pdf")
late = ["Lease", "The tenant pays.", "The owner repairs.", "Signed.", "1.", "2."]
page = pypdf.PdfReader("a.pdf").pages[0]


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


still(" ".join(lines(page.extract_text())), " ".join(late), "pypdf")
still(" ".join(lines(pypdfium2.PdfDocument("a.pdf")[0].get_textpage().get_text_range())),
      " ".join(late), "PDFium")
right = ["Lease", "1. The tenant pays.", "2. The owner repairs.", "Signed."]
still(lines(pdfplumber.open("a.pdf").pages[0].extract_text()), right, "pdfplumber")
PY
