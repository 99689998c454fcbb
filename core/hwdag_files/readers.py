"""The reader of each kind of file that is parsed: from bytes to `Content`.

A reader may raise anything: `hwdag_files.converting` calls it in a process of its own. A library of the
extra `documents` is imported within the function, so that a missing one is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hwdag_files.content import Content
from hwdag_files.epub import epub_content
from hwdag_files.notebook import notebook_content
from hwdag_files.sheets import workbook_content
from hwdag_files.slides import slides_content
from hwdag_files.word import word_content

READERS: Mapping[str, Callable[[bytes], Content]] = {
    ".docx": word_content,
    ".epub": epub_content,
    ".ipynb": notebook_content,
    ".pptx": slides_content,
    ".xlsx": workbook_content,
}
"""Readers by suffix. PDF and HTML, which have arguments or limits of their own, are not among them."""

PACKED_SUFFIXES = frozenset({".docx", ".epub", ".pptx", ".xlsx"})
"""Kinds that are zips: their unpacked size is checked first."""
