"""Electronic books to text."""

from __future__ import annotations

import io
from typing import Any

from hwdag_files.content import Content


def epub_content(data: bytes) -> Content:
    """Read an EPUB."""
    from markitdown import StreamInfo
    from markitdown.converters import EpubConverter

    # why not the class MarkItDown: it reads a package that is none of its kind as any other zip
    unescaped = {"escape_asterisks": False, "escape_underscores": False}
    converter: Any = EpubConverter
    found = converter().convert(io.BytesIO(data), StreamInfo(extension=".epub"), **unescaped)
    return Content(found.markdown, found.title or "")
