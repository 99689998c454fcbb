"""Fonts that do not say which letters they have, and those of symbols."""

import io
import re

import pytest
from pypdf import PdfWriter
from pypdf.generic import NameObject
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from hwdag_files.content import UnreadableError
from hwdag_files.pdf import pdf_content

FERRY = "The ferry leaves at seven from the quay."
PLAIN = "A ticket costs 64 kroner, and children pay half of it. Dogs travel on the upper deck."


def page(unnamed, named=PLAIN):
    """Return a page with a text in a font that does not name its letters, and one in a font that does."""
    # why: its letters have numbers in the order in which they are used
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf", asciiReadable=False))
    canvas = Canvas(io.BytesIO(), invariant=1)
    for y, font, text in ((700, "Vera", unnamed), (650, "Times-Roman", named)):
        canvas.setFont(font, 11)
        canvas.drawString(72, y, text)
    return with_fonts(canvas, lambda font: font.pop("/ToUnicode", None))


def with_fonts(canvas, change):
    """Return a page whose fonts are changed."""
    writer = PdfWriter(clone_from=io.BytesIO(canvas.getpdfdata()))
    for font in writer.pages[0]["/Resources"]["/Font"].values():
        change(font.get_object())
    writer.write(buffer := io.BytesIO())
    return buffer.getvalue()


def test_letters_of_formulas_are_plain_ones_and_others_beyond_the_basic_plane_are_whole():
    signs = {"V": "𝑉", "h": "ℎ", "g": "𝐠", "1": "𝟏", "Q": "😀", "Z": "𠮷"}

    def rename(font):
        if names := font.get("/ToUnicode"):
            data = names.get_object().get_data()
            for plain, sign in signs.items():
                code = sign.encode("utf-16-be").hex().upper().encode()
                data = data.replace(b"<%04X>" % ord(plain), b"<%s>" % code)
            names.get_object().set_data(data)

    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf", asciiReadable=False))
    canvas = Canvas(io.BytesIO(), invariant=1)
    canvas.setFont("Vera", 11)
    canvas.drawString(72, 700, "So Vhigh must be 1 Q or Z.")
    content = pdf_content(with_fonts(canvas, rename))
    assert (content.text, content.notes) == ("So Vhigh must be 1 😀 or 𠮷.", ())


@pytest.mark.parametrize("moved", [3, 0])
def test_a_font_that_names_other_letters_than_it_shows_is_noted(moved):
    def rename(font):
        if names := font.get("/ToUnicode"):
            data = re.sub(
                rb"<00(6[1-9A-F]|7[0-9A])>",
                lambda code: b"<%04X>" % (97 + (int(code[1], 16) - 97 + moved) % 26),
                names.get_object().get_data(),
            )
            names.get_object().set_data(data)

    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf", asciiReadable=False))
    canvas = Canvas(io.BytesIO(), invariant=1)
    for number in range(6):
        canvas.setFont("Vera", 9)
        canvas.drawString(40, 700 - 20 * number, f"{number}. {FERRY} {PLAIN}"[:100])
    content = pdf_content(with_fonts(canvas, rename))
    assert ("ihuub" if moved else "ferry") in content.text
    assert any("no known words on page 1" in note for note in content.notes) == bool(moved)


def test_letters_that_no_font_names_are_left_out_with_a_note():
    content = pdf_content(page(FERRY))
    assert content.text == PLAIN
    assert content.notes == (
        f"left out {len(FERRY.replace(' ', ''))} letters that their fonts do not name, on page 1",
    )


def test_a_file_that_is_mostly_unreadable_is_refused_with_the_reason():
    with pytest.raises(UnreadableError, match=r"fonts do not say .* needs OCR"):
        pdf_content(page(FERRY, "Page 1"))


def test_the_signs_of_lists_of_a_font_of_symbols_are_those_of_lists():
    canvas = Canvas(io.BytesIO(), invariant=1)
    for i, item in enumerate(("Rope", "Buoys", "Oil")):
        canvas.setFont("Symbol", 11)
        canvas.drawString(72, 700 - 16 * i, "\u2022")
        canvas.setFont("Times-Roman", 11)
        canvas.drawString(90, 700 - 16 * i, item)
    assert pdf_content(canvas.getpdfdata()).text.split("\n\n") == ["• Rope", "• Buoys", "• Oil"]


@pytest.mark.parametrize(
    ("font", "letters", "signs"),
    [
        ("Wingdings-Regular", "noþýØ", "•☐☑☒•"),
        ("ABCDEF+Wingdings2", "yPR£", "•✓☑☐"),
        ("Webdings", "ac", "✓☐"),
        ("Wing", "no", "no"),
    ],
)
def test_letters_of_fonts_of_signs_are_the_signs(font, letters, signs):
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf", asciiReadable=False))
    canvas = Canvas(io.BytesIO(), invariant=1)
    for i, letter in enumerate(letters):
        canvas.setFont("Vera", 11)
        canvas.drawString(72, 700 - 30 * i, letter)
        canvas.setFont("Times-Roman", 11)
        canvas.drawString(90, 700 - 30 * i, f"Item {i}")

    def rename(found):
        if "/ToUnicode" in found:
            found[NameObject("/BaseFont")] = NameObject(f"/{font}")

    content = pdf_content(with_fonts(canvas, rename))
    assert content.text.split("\n\n") == [f"{sign} Item {i}" for i, sign in enumerate(signs)]


def test_a_blank_that_takes_no_space_parts_no_word():
    canvas = Canvas(io.BytesIO(), invariant=1)
    text = canvas.beginText(72, 700)
    text.setFont("Times-Roman", 11)
    for part, space in [("We de", 0), ("f", 0), (" ", -0.25 * 11), ("ine it.", 0)]:
        text.setCharSpace(space)
        text.textOut(part)
    canvas.drawText(text)
    assert pdf_content(canvas.getpdfdata()).text == "We define it."
