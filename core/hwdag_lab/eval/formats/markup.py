"""Plain text of articles and stories that may be HTML."""

from __future__ import annotations

import codecs
import re

from hwdag.text.content import UnreadableError
from hwdag.text.html import html_content
from hwdag_lab.eval.fields import MalformedRecord

_ELEMENT = re.compile(r"<(?:html|body|div|p|br|pre|h[1-6])\b[^<>]*>", re.IGNORECASE)


def plain_text(text: str) -> str:
    """The visible text if there are HTML elements, otherwise the text; line breaks are line feeds.

    Raises:
        MalformedRecord: the HTML cannot be parsed.
    """
    if not _ELEMENT.search(text):
        return text.replace("\r\n", "\n").replace("\r", "\n").strip()
    try:
        # why: the mark outdoes any other encoding that the markup declares
        return html_content(codecs.BOM_UTF8 + text.encode()).text
    except UnreadableError as error:
        raise MalformedRecord(f"the article is {error}") from error
