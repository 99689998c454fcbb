"""PDFs that look like those people have: a few kilobytes each, made by reportlab, the same every time."""

import io
import itertools
import textwrap

from PIL import Image, ImageDraw
from pypdf import PdfWriter
from pypdf.generic import NameObject, StreamObject
from reportlab.lib import colors
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Frame, FrameBreak, Paragraph, Spacer, Table
from reportlab.platypus.doctemplate import BaseDocTemplate, NextPageTemplate, PageTemplate

BODY = ParagraphStyle("body", fontName="Times-Roman", fontSize=10, leading=12, spaceAfter=6)
JUSTIFIED = ParagraphStyle("justified", BODY, alignment=TA_JUSTIFY)
INDENTED = ParagraphStyle("indented", JUSTIFIED, firstLineIndent=12, spaceAfter=0)
TITLE = ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=18, leading=22, spaceAfter=12)
HEADING = ParagraphStyle(
    "h", fontName="Helvetica-Bold", fontSize=13, leading=16, spaceAfter=4, spaceBefore=8
)
CAPTION = ParagraphStyle("caption", fontName="Times-Italic", fontSize=8, leading=10, spaceAfter=6)

WATERWORKS = (
    "The waterworks of Hamar were built in 1902 by Henrik Aas, an engineer from Lillehammer, "
    "after a fire had destroyed half of the harbour. The town council paid for the pumps with a "
    "loan that was repaid within eleven years, which nobody had thought possible."
)
HARBOUR = (
    "The harbour was deepened twice. In 1911 the dredger Fridtjof removed the sandbank before the "
    "northern pier, and in 1934 the basin was widened so that steamers of eight hundred tons could "
    "turn in it. Both works were led by Ingrid Moe."
)
SCHOOL = (
    "The school at the lake had ninety pupils in its first year. Its headmaster, Olav Bakke, "
    "taught botany and kept a garden of four hundred plants, among them a cedar that still stands."
)
RAILWAY = (
    "The railway reached the town on 12 May 1880. The line to Elverum was closed to passengers in "
    "1986, but freight trains with timber use it to this day, mostly at night."
)
STAFF = [
    ["Town", "2020", "2021", "2022"],
    ["Hamar", "512", "530", "541"],
    ["Gjøvik", "298", "301", "287"],
    ["Lillehammer", "377", "365", "390"],
]


def built(flowables, *, on_page=lambda canvas, document: None, frames=None, **options):
    """Lay out paragraphs and tables over as many pages as they take."""
    buffer = io.BytesIO()
    document = BaseDocTemplate(buffer, pagesize=A4, invariant=1, **options)
    frames = frames or [Frame(25 * mm, 25 * mm, 160 * mm, 240 * mm, id="one")]
    document.addPageTemplates([PageTemplate("page", frames, onPage=on_page)])
    document.build(flowables)
    return buffer.getvalue()


def two_columns():
    """Return a title over the page, then two columns on it and on the next page."""
    width, gap = 76 * mm, 8 * mm
    left, right = 25 * mm, 25 * mm + width + gap

    def columns(bottom, height):
        return [
            Frame(x, bottom, width, height, leftPadding=0, rightPadding=0) for x in (left, right)
        ]

    buffer = io.BytesIO()
    document = BaseDocTemplate(buffer, pagesize=A4, invariant=1)
    top = Frame(25 * mm, 235 * mm, 160 * mm, 35 * mm, leftPadding=0)
    document.addPageTemplates(
        [
            PageTemplate("first", [top, *columns(25 * mm, 205 * mm)]),
            PageTemplate("later", columns(25 * mm, 240 * mm)),
        ]
    )
    story = [
        Paragraph("Towns at the lake", TITLE),
        Paragraph("A study of four works and who built them", BODY),
        NextPageTemplate("later"),
        FrameBreak(),
    ]
    for number, (name, text) in enumerate(zip(NAMES, TEXTS, strict=True), 1):
        story += [Paragraph(f"{number} {name}", HEADING)]
        story += [Paragraph(paragraph, INDENTED) for paragraph in paragraphs(text, 5)]
    document.build(story)
    return buffer.getvalue()


NAMES = ["Waterworks", "Harbour", "School", "Railway"]
TEXTS = [WATERWORKS, HARBOUR, SCHOOL, RAILWAY]
FILLER = [
    "Letters of the time praise the quality of the work and complain about its price.",
    "A drawing of it hangs in the town hall, beside the portrait of the mayor.",
    "What it cost is not known, because the accounts were lost in the fire of 1940.",
    "Visitors came from as far as Trondheim to see it, and newspapers wrote about them.",
]


def ruled_table():
    """Return a table with lines between its cells, between two paragraphs."""
    grid = Table(STAFF, style=[("GRID", (0, 0), (-1, -1), 0.5, colors.black)])
    return built(
        [
            Paragraph("Staff of the libraries", TITLE),
            Paragraph(WATERWORKS, BODY),
            Paragraph("Table 1: Employees by town and year.", CAPTION),
            grid,
            Spacer(1, 8),
            Paragraph(HARBOUR, BODY),
        ],
        title="Library report 2022",
    )


def open_table():
    """Return the same table without lines, and one that has lines above and below its header only."""
    lines = [
        ("LINEABOVE", (0, 0), (-1, 0), 0.8, colors.black),
        ("LINEBELOW", (0, 0), (-1, 0), 0.5, colors.black),
        ("LINEBELOW", (0, -1), (-1, -1), 0.8, colors.black),
    ]
    visits = [
        ["Museum", "Visitors", "Open since"],
        ["Mjøsmuseet", "12,400", "1906"],
        ["Glass Hall", "8,150", "1998"],
        ["Railway Museum", "31,020", "1896"],
    ]
    return built(
        [
            Paragraph("Staff of the libraries", TITLE),
            Paragraph(WATERWORKS, BODY),
            Paragraph("Table 1: Employees by town and year.", CAPTION),
            Table(STAFF, colWidths=[90, 50, 50, 50]),
            Spacer(1, 12),
            Paragraph(HARBOUR, BODY),
            Paragraph("Table 2: Museums of the region.", CAPTION),
            Table(visits, colWidths=[110, 70, 70], style=lines),
            Spacer(1, 8),
            Paragraph(SCHOOL, BODY),
        ]
    )


def running_headers():
    """Return four pages with a header, a footer, a number, and a sentence that continues on the next page."""

    def on_page(canvas, document):
        canvas.setFont("Helvetica", 8)
        canvas.drawString(25 * mm, 282 * mm, "Annual Report of the Municipality")
        canvas.drawRightString(185 * mm, 282 * mm, f"Chapter {(document.page + 1) // 2}")
        canvas.drawString(25 * mm, 12 * mm, "Hamar kommune - confidential")
        canvas.drawRightString(185 * mm, 12 * mm, f"Page {document.page} of 4")

    story = [Paragraph("Annual Report", TITLE)]
    for number, (name, text) in enumerate(zip(NAMES, TEXTS, strict=True), 1):
        story += [Paragraph(f"{number}. {name}", HEADING)]
        story += [Paragraph(paragraph, JUSTIFIED) for paragraph in paragraphs(text, 13)]
    return built(story, on_page=on_page, title="untitled")


def outlined():
    """Return headings in the type of the text, marked by the outline alone; a title in the metadata."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4, invariant=1)
    canvas.setTitle("Works of a Town")
    for number, (name, text) in enumerate(zip(NAMES, TEXTS, strict=True)):
        canvas.bookmarkPage(f"p{number}")
        canvas.addOutlineEntry(name, f"p{number}", 0)
        canvas.setFont("Times-Roman", 11)
        canvas.drawString(72, 760, name)
        y = 740
        for line in wrapped(text):
            canvas.drawString(72, y, line)
            y -= 13
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def written(*pages, font="Times-Roman"):
    """Return pages of lines at chosen places: height, text, and size if not 11."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4, invariant=1)
    for lines in pages:
        for y, text, *size in lines:
            canvas.setFont(font, *size or [11])
            canvas.drawString(72, y, text)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def body(y=740):
    """Lines of a text, from this height down."""
    return [(y - 14 * i, line) for i, line in enumerate(wrapped(WATERWORKS))]


def ledger(*, repeat=0, style=(), rows=100, above="Ledger"):
    """Return a table of numbers over three pages, up to 2 cm from their edges."""
    data = [
        [f"2021-{1 + i // 28:02d}-{1 + i % 28:02d}", f"{10000 + 37 * i}", f"{i * 173 % 9000}.07"]
        for i in range(rows)
    ]
    table = Table(
        [["Date", "Voucher", "Amount"], *data],
        colWidths=[120] * 3,
        repeatRows=repeat,
        style=style,
    )
    frames = [Frame(20 * mm, 20 * mm, 170 * mm, 257 * mm, id="one")]
    return built([Paragraph(above, TITLE), table], frames=frames)


def turned(degrees, *, shown=False, stamp="", lines=()):
    """Upright lines and others turned; or, as it is `shown`, a page that is turned as a whole."""
    buffer = io.BytesIO()
    # why: reportlab gives a page that is shown turned the other format
    size = A4[::-1] if shown and degrees % 180 else A4
    canvas = Canvas(buffer, pagesize=size, invariant=1)
    if shown:
        canvas.setPageRotation(degrees)
    canvas.setFont("Times-Roman", 11)
    for y, line in body():
        canvas.drawString(72, y, line)
    canvas.translate(300, 400)
    canvas.rotate(0 if shown else degrees)
    for i, line in enumerate(lines):
        canvas.drawString(0, -14 * i, line)
    canvas.setFont("Helvetica-Bold", 60)
    canvas.drawString(0, 0, stamp)
    canvas.save()
    return buffer.getvalue()


def hebrew(text):
    """Return a line of Hebrew, with its last letter at the left as it is printed."""
    signs = sorted(set(text))
    codes = {sign: chr(65 + i) for i, sign in enumerate(signs)}
    drawn = "".join(codes[sign] for sign in reversed(text))
    writer = PdfWriter(clone_from=io.BytesIO(written([(700, drawn, 12)])))
    names = "".join(f"<{65 + i:02x}> <{ord(sign):04x}>\n" for i, sign in enumerate(signs))
    stream = StreamObject()
    stream.set_data(
        f"1 begincodespacerange <00> <ff> endcodespacerange\n"
        f"{len(signs)} beginbfchar\n{names}endbfchar".encode()
    )
    for font in writer.pages[0]["/Resources"]["/Font"].values():
        font.get_object()[NameObject("/ToUnicode")] = writer._add_object(stream)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def paragraphs(text, number):
    """Return a number of paragraphs that begin alike."""
    return [f"{text} {filler}" for filler in itertools.islice(itertools.cycle(FILLER), number)]


def wrapped(text, width=80):
    return textwrap.wrap(text, width)


def scanned():
    """Return a page that is a picture, after a page of text; a third page is a picture too."""
    picture = Image.new("L", (300, 420), 255)
    ImageDraw.Draw(picture).text((30, 40), "The waterworks of Hamar", fill=0)
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4, invariant=1)
    canvas.setFont("Times-Roman", 11)
    for i, line in enumerate(wrapped(WATERWORKS)):
        canvas.drawString(72, 760 - 13 * i, line)
    canvas.showPage()
    for _ in range(2):
        canvas.drawImage(ImageReader(picture), 0, 0, *A4)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def captions():
    """Figures with captions between paragraphs; one has words inside."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4, invariant=1)

    def paragraph(text, top, style=BODY):
        made = Paragraph(text, style)
        _, height = made.wrap(160 * mm, 100 * mm)
        made.drawOn(canvas, 25 * mm, top - height)
        return top - height

    top = paragraph("Pictures of the works", 270 * mm, TITLE) - 20
    top = paragraph(WATERWORKS, top) - 10
    canvas.rect(40 * mm, top - 60 * mm, 120 * mm, 60 * mm)
    for i, (name, height) in enumerate((("1902", 20), ("1911", 35), ("1934", 50))):
        canvas.rect((50 + 30 * i) * mm, top - 58 * mm, 15 * mm, height * mm, fill=1)
        canvas.setFont("Helvetica", 7)
        canvas.drawString((52 + 30 * i) * mm, top - 64 * mm, name)
    top -= 66 * mm
    top = paragraph("Figure 1. Water pumped per day, in thousand litres.", top, CAPTION) - 10
    paragraph(HARBOUR, top)
    canvas.save()
    return buffer.getvalue()


def rotated():
    """Return a page that is shown turned, with its text along the longer side, after an upright one."""
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4, invariant=1)
    canvas.setFont("Times-Roman", 11)
    for i, line in enumerate(wrapped(WATERWORKS)):
        canvas.drawString(72, 760 - 13 * i, line)
    canvas.showPage()
    canvas.setPageRotation(90)
    canvas.translate(A4[0], 0)
    canvas.rotate(90)
    canvas.setFont("Times-Roman", 11)
    for i, line in enumerate(wrapped(HARBOUR, 100)):
        canvas.drawString(72, 500 - 13 * i, line)
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def german():
    """Words divided at the ends of lines, umlauts, dates with ordinals."""
    lines = [
        "Die Wasserwerke der Stadt wurden am 1. Mai 1902 von Dr. Jürgen Müller er-",
        "öffnet. Sie versorgten z. B. die Brauerei und das Krankenhaus. Die Grund-",
        "steinlegung war am 24. Dezember 1899 gewesen, als der Magistrat das Nord-",
        "Süd-Gleis beschloß. Im 19. Jahrhundert gab es nur Brunnen.",
    ]
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=A4, invariant=1)
    canvas.setTitle("Die Wasserwerke")
    canvas.setFont("Helvetica-Bold", 14)
    canvas.drawString(72, 780, "Geschichte der Wasserwerke")
    canvas.setFont("Times-Roman", 11)
    for i, line in enumerate(lines):
        canvas.drawString(72, 750 - 13 * i, line)
    canvas.save()
    return buffer.getvalue()


def encrypted(password=""):
    """Text under an owner's password, readable with this one."""
    lock = StandardEncryption(password, ownerPassword="owner", canPrint=0)
    return built([Paragraph("Sealed", TITLE), Paragraph(SCHOOL, BODY)], encrypt=lock)


PDFS = {
    "two columns": two_columns,
    "ruled table": ruled_table,
    "open tables": open_table,
    "running headers": running_headers,
    "outline": outlined,
    "scanned": scanned,
    "captions": captions,
    "rotated": rotated,
    "German": german,
    "encrypted": encrypted,
}
