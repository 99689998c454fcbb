"""Presentations to text."""

from __future__ import annotations

import io
import re
from typing import Any

from hwdag_files.content import Content

_SLIDE_NUMBER = re.compile(r"<!-- Slide number: \d+ -->\n*")
_SLIDE_LINES = re.compile(r"(?m)^(?![|#!<*-]).+(?:\n(?![|#!<*-]).+)+")


def slides_content(data: bytes) -> Content:
    """Read a presentation: titles are headings, the lines of a slide are items of a list."""
    from markitdown import StreamInfo
    from markitdown.converters import PptxConverter

    # why not the class MarkItDown: it reads a package that is none of its kind as any other zip
    unescaped = {"escape_asterisks": False, "escape_underscores": False}
    converter: Any = PptxConverter
    found = converter().convert(io.BytesIO(data), StreamInfo(extension=".pptx"), **unescaped)
    text = _SLIDE_NUMBER.sub("", found.markdown)
    # why: paragraphs of a slide have no marks, and seldom a full stop
    text = _SLIDE_LINES.sub(lambda lines: "- " + lines[0].replace("\n", "\n- "), text)
    return Content(text, found.title or "")
