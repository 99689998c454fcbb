#!/usr/bin/env bash
# llama-index-readers-file 0.6.0 (EpubReader), EbookLib 0.20, html2text 2025.4.15 (2026-11-29)
# Expected: the chapters of a book come in reading order, which is the spine of an EPUB file; the manifest
#   is a list of files in any order, and tools that pack books often sort it by name.
# Seen: `get_items` and `get_items_of_type` of EbookLib give the order of the manifest, and LlamaIndex's
#   reader (also behind SimpleDirectoryReader) joins the chapters so: 1, 10, 2. The navigation page, a
#   list of links, is read as a chapter, too.
# Costs: sections, answers that span chapters and "the last chapter" are wrong for books with ten chapters
#   or more; the text is complete, so nobody notices.
. "$(dirname "$0")/lib/setup.sh" llama-index-readers-file==0.6.0 llama-index-core==0.14.25 \
    EbookLib==0.20 html2text==2025.4.15
python - <<'PY'
import re
import zipfile
from pathlib import Path

from ebooklib import epub
from llama_index.readers.file import EpubReader
from still import still

NAMES = ["chapter1", "chapter2", "chapter10"]
TYPE = 'media-type="application/xhtml+xml"'
items = "".join(f'<item id="{name}" href="{name}.xhtml" {TYPE}/>' for name in sorted(NAMES))
spine = "".join(f'<itemref idref="{name}"/>' for name in NAMES)
PACKAGE = f"""<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:identifier id="id">b</dc:identifier>
<dc:title>Book</dc:title><dc:language>en</dc:language>
<meta property="dcterms:modified">2026-01-01T00:00:00Z</meta></metadata>
<manifest>{items}<item id="nav" href="nav.xhtml" {TYPE} properties="nav"/></manifest>
<spine>{spine}</spine></package>"""
CONTAINER = """<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="b.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
PAGE = """<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">
<head><title>Book</title></head><body>{}</body></html>"""
NAV = '<nav epub:type="toc"><ol><li><a href="chapter1.xhtml">Contents</a></li></ol></nav>'
with zipfile.ZipFile("book.epub", "w") as book:
    book.writestr("mimetype", "application/epub+zip")
    book.writestr("META-INF/container.xml", CONTAINER)
    book.writestr("b.opf", PACKAGE)
    book.writestr("nav.xhtml", PAGE.format(NAV))
    for name in NAMES:
        book.writestr(f"{name}.xhtml", PAGE.format(f"<p>Text of {name}.</p>"))
still([name for name, _ in epub.read_epub("book.epub").spine], NAMES, "the spine")
[document] = EpubReader().load_data(Path("book.epub"))
seen = re.findall(r"chapter\d+(?=\.)(?!\.xhtml)|Contents", document.text)
still(seen, ["chapter1", "chapter10", "chapter2", "Contents"], "order of the text")
PY
