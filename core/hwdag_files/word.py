"""Word documents to text."""

from __future__ import annotations

import io

from hwdag_files.content import Content
from hwdag_files.html import page_text


def word_content(data: bytes) -> Content:
    """Read a Word document; headings and list items are marked as in Markdown."""
    from bs4 import BeautifulSoup
    from mammoth import convert_to_html, html
    from markitdown.converter_utils.docx.pre_process import pre_process_docx

    found = convert_to_html(
        pre_process_docx(io.BytesIO(data)),  # the formulas as LaTeX
        convert_image=lambda image: [html.text(image.alt_text or "")],
        style_map="p[style-name='Title'] => p.title:fresh",
    )
    page = BeautifulSoup(found.value, "html.parser")
    title = page.find("p", class_="title")
    for table in page.find_all("table"):
        if table.tr and not table.th:  # why: few documents mark the header of a table
            for cell in table.tr.find_all("td", recursive=False):
                cell.name = "th"
    return Content(page_text(page), title.get_text(" ", strip=True) if title else "")
