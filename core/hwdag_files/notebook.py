"""Notebooks to text."""

from __future__ import annotations

import json
import re

from hwdag_files.content import Content

_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # colours of printed text


def notebook_content(data: bytes) -> Content:
    """Read the cells of a notebook; code and its printed output become blocks of code."""
    notebook = json.loads(data.decode("utf-8-sig"))
    parts = list[str]()
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```\n{source}\n```")
        for output in cell.get("outputs", []):
            shown = output.get("data", {})
            is_image = any(kind.startswith("image/") for kind in shown)
            text = "".join(output.get("text", "" if is_image else shown.get("text/plain", "")))
            if text := _TERMINAL.sub("", text).strip("\r\n"):
                parts.append(f"```\n{text}\n```")
    title = notebook.get("metadata", {}).get("title")
    return Content("\n\n".join(parts), title if isinstance(title, str) else "")
