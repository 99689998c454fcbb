"""The reader of each kind of file that is parsed: from bytes to `Content`.

A reader may raise anything: `hwdag_files.converting` calls it in a process of its own. A library of the
extra `documents` is imported within the function, so that the error names a missing one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hwdag_files.content import Content
from hwdag_files.epub import epub_content
from hwdag_files.html import html_content
from hwdag_files.mail import mail_content, mailbox_content
from hwdag_files.markup import xml_content
from hwdag_files.notebook import notebook_content
from hwdag_files.odf import odp_content, ods_content, odt_content
from hwdag_files.records import records_content
from hwdag_files.rst import rst_content
from hwdag_files.rtf import rtf_content
from hwdag_files.slides import slides_content
from hwdag_files.subtitles import subtitles_content
from hwdag_files.word import word_content
from hwdag_files.workbook import workbook_content

READERS: Mapping[str, Callable[[bytes], Content]] = {
    **dict.fromkeys((".docm", ".docx", ".dotx"), word_content),
    ".epub": epub_content,
    ".ipynb": notebook_content,
    ".odp": odp_content,
    ".ods": ods_content,
    ".odt": odt_content,
    **dict.fromkeys((".potx", ".ppsx", ".pptm", ".pptx"), slides_content),
    **dict.fromkeys((".xlsm", ".xlsx", ".xltx"), workbook_content),
}
"""Readers by suffix. PDF, which has arguments of its own, is not among them."""

TEXT_READERS: Mapping[str, Callable[[bytes], Content]] = {
    **dict.fromkeys((".htm", ".html", ".xhtml"), html_content),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), records_content),
    ".eml": mail_content,
    ".mbox": mailbox_content,
    ".rst": rst_content,
    ".rtf": rtf_content,
    **dict.fromkeys((".srt", ".vtt"), subtitles_content),
    ".xml": xml_content,
}
"""Readers of texts with a structure, which are quick enough for the calling process if a file is small."""

PACKED_SUFFIXES = frozenset(READERS) - {".ipynb"}
"""Kinds that are zips: their unpacked size is checked first."""
