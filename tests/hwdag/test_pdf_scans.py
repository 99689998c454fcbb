"""Pages that are pictures: without OCR they are named, with it they are read in the order of a reader."""

import io
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pdf_world
import pypdfium2
import pytest
from pdf_world import HARBOUR, SCHOOL, WATERWORKS, wrapped
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from hwdag_files import converting, layout, ocr, read
from hwdag_files import pdf as pdf_module
from hwdag_files.pdf import pdf_content
from hwdag_files.read import read_documents
from hwdag_files.words import Word


def scan(data, degrees=0, dpi=120):
    """Return a PDF whose only page is a picture of the first page of another one, turned."""
    picture = pypdfium2.PdfDocument(data)[0].render(scale=dpi / 72).to_pil()
    picture = picture.convert("L").rotate(degrees, expand=True)
    size = [side * 72 / dpi for side in picture.size]
    canvas = Canvas(io.BytesIO(), pagesize=size, invariant=1)
    canvas.drawImage(ImageReader(picture), 0, 0, *size)
    return canvas.getpdfdata()


def test_without_ocr_the_note_names_the_extra(monkeypatch):
    monkeypatch.setattr(pdf_module, "has_ocr", lambda: False)
    content = pdf_content(scan(pdf_world.written(pdf_world.body())))
    assert content.text == ""
    assert content.notes == (
        "the pages hold no text: scanned, needs OCR: pip install 'hwdag[ocr]'",
    )


def test_recognised_lines_of_two_columns_are_read_column_by_column():
    def column(x, text):
        return [
            Word(line, x, x + 5.0 * len(line), 100 + 14.0 * i, 110 + 14.0 * i, 10.0)
            for i, line in enumerate(wrapped(text, 36))
        ]

    # why: RapidOCR gives them line by line over both
    lines = sorted([*column(60, WATERWORKS), *column(320, HARBOUR)], key=lambda word: word.bottom)
    page = layout.recognised_lines(lines, 800)
    [first, second] = layout.blocks_of(page, 10.0, ())
    assert (" ".join(first.lines), " ".join(second.lines)) == (WATERWORKS, HARBOUR)


def test_pages_that_ocr_reads_are_shown_one_by_one(monkeypatch):
    monkeypatch.setattr(pdf_module, "has_ocr", lambda: True)
    line = Word("The fee is 80 euros.", 60, 200, 100, 110, 10.0)
    found = ocr.Recognised([line], 800.0, 0.9)
    monkeypatch.setattr(ocr, "recognise", lambda image: found)
    shown = []
    content = pdf_content(pdf_world.scanned(), show=shown.append)
    assert "The fee is 80 euros." in content.text
    assert shown == [2, 2, 2]


def test_the_progress_of_the_process_that_reads_a_file_becomes_a_bar():
    script = "print('pages 2'); print('pages 2'); print('pages 2'); print('{}')"
    stages = []

    class Counting:
        @contextmanager
        def stage(self, name, total, unit):
            stages.append([name, total, unit, 0])

            def advance(amount=1):
                stages[-1][-1] += amount

            yield advance

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], **pipes) as child:
        assert converting._answer(child, b"x" * 99, Counting()) == b"{}\n"
    assert stages == [["reading by OCR", 2, "pages", 2]]


def test_lines_of_one_type_have_one_size_though_their_boxes_differ():
    sides = np.array([[0, 0, 90, 11], [0, 20, 90, 29], [0, 40, 90, 50], [0, 60, 90, 80]], float)
    sizes = [word.size for word in ocr._words(("One", "two", "three", "Large"), sides)]
    assert sizes == [10.5, 10.5, 10.5, 20]


@pytest.mark.slow
@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_a_scan_is_read_in_order_however_it_is_turned(degrees):
    pytest.importorskip("rapidocr")
    frames = [pdf_world.Frame(x, 500, 220, 250, leftPadding=0) for x in (57, 310)]
    story = [pdf_world.Paragraph(text, pdf_world.BODY) for text in (WATERWORKS, SCHOOL)]
    story.insert(1, pdf_world.FrameBreak())
    content = pdf_content(scan(pdf_world.built(story, frames=frames), degrees, dpi=200))
    assert content.text.replace("\n", " ") == f"{WATERWORKS}  {SCHOOL}"
    assert "page 1 read by OCR, mean confidence 0.9" in content.notes[0]


def photo(kind, turned=False, pages=1):
    data = pdf_world.written(pdf_world.body())
    picture = pypdfium2.PdfDocument(data)[0].render(scale=200 / 72).to_pil().convert("RGB")
    exif = picture.getexif()
    if turned:  # as a camera notes it that was held upright
        picture, exif[0x0112] = picture.rotate(90, expand=True), 6
    more = {"save_all": True, "append_images": [picture] * (pages - 1)} if pages > 1 else {}
    picture.save(buffer := io.BytesIO(), kind, exif=exif, **more)
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"), [("PNG", {}), ("JPEG", {"turned": True}), ("TIFF", {"pages": 2})]
)
def test_a_picture_that_is_named_is_read(tmp_path, kind, options):
    pytest.importorskip("rapidocr")
    path = tmp_path / f"page.{kind.lower()}"
    path.write_bytes(photo(kind, **options))
    [document] = read_documents([path])
    pages = options.get("pages", 1)
    assert document.text == "\n\n".join([WATERWORKS] * pages)
    assert len(document.page_starts) == pages


def test_without_ocr_a_picture_is_refused_with_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "has_ocr", lambda: False)
    (tmp_path / "page.png").write_bytes(photo("PNG"))
    [skipped] = read_documents([tmp_path / "page.png"])
    assert "a PNG image" in skipped.reason and "pip install 'hwdag[ocr]'" in skipped.reason
