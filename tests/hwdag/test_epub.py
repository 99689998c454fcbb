"""Electronic books, in the order of their spine."""

import io
import zipfile

import pytest

from hwdag_files.content import UnreadableError
from hwdag_files.epub import epub_content

pytest.importorskip("lxml")

OPF = "http://www.idpf.org/2007/opf"


def book(chapters, *, spine=None, prefix="", encrypted=(), folder="OEBPS/"):
    """Return an EPUB; `prefix` is that of the elements of its package."""
    p = f"{prefix}:" if prefix else ""
    names = sorted({*chapters, *(spine or ())})
    items = "".join(
        f'<{p}item id="i{i}" href="{name}" media-type="application/xhtml+xml"/>'
        for i, name in enumerate(names)
    )
    order = "".join(f'<{p}itemref idref="i{names.index(one)}"/>' for one in spine or names)
    declared = f'xmlns:{prefix}="{OPF}"' if prefix else f'xmlns="{OPF}"'
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            f'<rootfile full-path="{folder}book.opf"/></rootfiles></container>',
        )
        packed.writestr(
            f"{folder}book.opf",
            f'<{p}package {declared} xmlns:dc="http://purl.org/dc/elements/1.1/"><{p}metadata>'
            f"<dc:title>The harbour</dc:title></{p}metadata><{p}manifest>{items}</{p}manifest>"
            f"<{p}spine>{order}</{p}spine></{p}package>",
        )
        if encrypted:
            ciphers = "".join(f'<x:CipherReference URI="{folder}{one}"/>' for one in encrypted)
            packed.writestr(
                "META-INF/encryption.xml",
                f'<encryption xmlns:x="http://www.w3.org/2001/04/xmlenc#">{ciphers}</encryption>',
            )
        for name, body in chapters.items():
            page = f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>t</title></head><body>{body}</body></html>'
            packed.writestr(folder + name.replace("%20", " "), page)
    return buffer.getvalue()


@pytest.mark.parametrize("prefix", ["", "opf", "x"])
@pytest.mark.parametrize("folder", ["", "OEBPS/", "a/b/"])
def test_chapters_come_in_the_order_of_the_spine(prefix, folder):
    chapters = {"a%20b.xhtml": "<h1>Second</h1><p>It ends.</p>", "z.xhtml": "<h1>First</h1>"}
    spine = ["z.xhtml", "a%20b.xhtml"]
    found = epub_content(book(chapters, spine=spine, prefix=prefix, folder=folder))
    assert (found.title, found.notes) == ("The harbour", ())
    assert found.text == "# First\n\n# Second\n\nIt ends."


def test_a_chapter_is_read_as_a_page():
    body = "<p>It has 3 × 10<sup>4</sup> <s>stones</s>.</p><p hidden=''>NOT</p><table><tr><th>A</th><th>B</th></tr><tr><td>x</td><td>1</td></tr></table>"
    found = epub_content(book({"c.xhtml": body}))
    assert found.text == "It has 3 × 10⁴ ~~stones~~.\n\n| A, B\n| x, B: 1".replace(
        "| A, B\n", "| A, B\n"
    )
    assert found.notes == ("1 hidden passage left out",)


def test_missing_chapters_are_noted():
    found = epub_content(book({"a.xhtml": "<p>Here.</p>"}, spine=["a.xhtml", "b.xhtml"]))
    assert (found.text, found.notes) == ("Here.", ("1 of 2 chapters are missing in the file",))


@pytest.mark.parametrize(("locked", "is_read"), [("a.xhtml", False), ("font.otf", True)])
def test_encrypted_chapters_are_refused_and_fonts_are_not(locked, is_read):
    data = book({"a.xhtml": "<p>Here.</p>"}, encrypted=[locked])
    if is_read:
        assert epub_content(data).text == "Here."
    else:
        with pytest.raises(UnreadableError, match="1 of its 1 chapters are encrypted"):
            epub_content(data)


def test_a_book_without_text_is_refused():
    with pytest.raises(UnreadableError, match="no chapter in it has text"):
        epub_content(book({"a.xhtml": ""}))
