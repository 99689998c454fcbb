#!/usr/bin/env bash
# EbookLib 0.20 (2026-11-28)
# Expected: `book.get_items_of_type(ITEM_DOCUMENT)`, which every example uses to read a book, gives
#   its chapters in the order in which they are read.
# Seen: it gives them in the order of the manifest, a list of files whose order means nothing in the
#   format; the reading order is the spine, which `get_items()` does not look at. Here the book
#   begins with its last chapter. Writers that list files by name put chapter 10 before chapter 2.
# Costs: passages that run from the end of one chapter into another, and answers about what happens
#   first; with most books manifest and spine agree, so it is seen late.
. "$(dirname "$0")/lib/setup.sh" EbookLib==0.20
python - <<'PY'
from ebooklib import ITEM_DOCUMENT, epub
from still import still

book = epub.EpubBook()
book.set_identifier("a")
book.set_title("A book")
chapters = [epub.EpubHtml(title=f"{n}", file_name=f"{n}.xhtml", uid=f"id{n}", content=f"<p>{n}</p>")
            for n in range(1, 12)]
for chapter in sorted(chapters, key=lambda chapter: chapter.file_name):
    book.add_item(chapter)
book.add_item(epub.EpubNcx())
book.spine = chapters
epub.write_epub("a.epub", book)
read = epub.read_epub("a.epub")
items = [item.get_name() for item in read.get_items_of_type(ITEM_DOCUMENT)]
spine = [read.get_item_with_id(uid).get_name() for uid, _ in read.spine]
still(items[:4], ["1.xhtml", "10.xhtml", "11.xhtml", "2.xhtml"], "get_items_of_type")
still(spine[:4], ["1.xhtml", "2.xhtml", "3.xhtml", "4.xhtml"], "the spine")
PY
