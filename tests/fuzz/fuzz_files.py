"""Text, Markdown, HTML, PDF and JSONL files of random bytes."""

from __future__ import annotations

import io

import atheris
from harness import fuzz, instrumented, some_text

with instrumented("hwdag.text", "hwdag_lab.eval", "bs4", "html", "_markupbase"):
    import bs4  # noqa: F401, I001 # which hwdag would import later
    from hwdag_lab.eval.schema import parse_record
    from hwdag_lab.eval.fields import MalformedRecord, decoded
    from hwdag.text.content import UnreadableError, plain_content
    from hwdag.text.converting import parse

from pypdf import PdfWriter

SUFFIXES = (".txt", ".md", ".html", ".html", ".html", ".pdf")


def a_pdf() -> bytes:
    """A PDF of one empty page."""
    writer, buffer = PdfWriter(), io.BytesIO()
    writer.add_blank_page(100, 100)
    writer.write(buffer)
    return buffer.getvalue()


PDF = a_pdf()


def contents(data: atheris.FuzzedDataProvider, suffix: str) -> bytes:
    """Of a file: random bytes, or a text, or a PDF with a few bytes changed."""
    if suffix == ".pdf":
        page = bytearray(PDF)
        for _ in range(data.ConsumeIntInRange(0, 12)):
            page[data.ConsumeIntInRange(0, len(page) - 1)] = data.ConsumeIntInRange(0, 255)
        return bytes(page)
    if data.ConsumeBool():
        return data.ConsumeBytes(400)
    return some_text(data).encode("utf-8", "replace")


def check(data: atheris.FuzzedDataProvider) -> None:
    """One file of every kind, and one line of JSON."""
    suffix = SUFFIXES[data.ConsumeIntInRange(0, len(SUFFIXES) - 1)]
    raw = contents(data, suffix)
    try:
        found = parse(raw, suffix) if suffix in (".html", ".pdf") else plain_content(raw)
    except UnreadableError as error:
        assert str(error)
    else:
        found.text.encode()
        found.title.encode()
        assert all(found.notes)
    try:
        parse_record(decoded(data.ConsumeBytes(200)))
    except MalformedRecord as error:
        assert str(error)


if __name__ == "__main__":
    fuzz(check)
