#!/usr/bin/env bash
# pypdfium2 5.15.2, pypdf 7.1.1, fpdf2 2.8.9 (2026-11-28)
# Expected: turning a page (/Rotate, as every viewer's button does) leaves its text as it is.
# Seen: of a page turned by 90 degrees PDFium gives the lines from the last to the first; by 0, 180
#   and 270 they are in order. pypdf, which made the turn, keeps the order for all four, and boxes
#   of PDFium stay those of the page before the turn.
# Costs: landscape tables and scans turned upright by somebody read backwards: answers follow
#   their questions, headings come last. Tests with a page upside down pass.
. "$(dirname "$0")/lib/setup.sh" pypdfium2==5.15.2 pypdf==7.1.1 fpdf2==2.8.9
python - <<'PY'
import pypdf
import pypdfium2
from fpdf import FPDF
from still import still

LINES = ["Heading", "First line.", "Second line.", "Last line."]
pdf = FPDF()
pdf.add_page()
pdf.set_font("helvetica")
for number, line in enumerate(LINES):
    pdf.text(20, 30 + 6 * number, line)
pdf.output("a.pdf")
for angle in (0, 90, 180, 270):
    writer = pypdf.PdfWriter()
    writer.append("a.pdf")
    writer.pages[0].rotate(angle)
    writer.write("turned.pdf")
    text = pypdfium2.PdfDocument("turned.pdf")[0].get_textpage().get_text_range()
    expected = LINES[::-1] if angle == 90 else LINES
    still(text.splitlines(), expected, f"PDFium's lines of a page turned by {angle}")
    still(pypdf.PdfReader("turned.pdf").pages[0].extract_text().splitlines(), LINES, "pypdf's")
PY
