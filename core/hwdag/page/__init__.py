"""Self-contained HTML pages, without server or network: an answer, its walk, and graphs.

Documents and questions are data. The page holds them as JSON, with every character that HTML would
act on escaped, and shows them as text only. A content security policy allows the page's own script
and loads nothing. Script and style are built from `web/`.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hwdag.version import __version__

_UNSAFE = str.maketrans({c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029\u007f"})
"""In JSON these only occur within strings, where escapes mean the same."""


HEAD = (
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="generator" content="hwdag">\n'
)
"""How every page begins; a file that begins so may be replaced by another page."""


def page(title: str, data: Mapping[str, Any]) -> str:
    """Return a self-contained page.

    Args:
        title: title of the window, and of a page that shows no question.
        data: JSON-able: `documents`, a list of {id, title, text, pages}, and any of `answer`
            (`Answer.to_dict()`), `walk` (`Retrieval.to_dict()`) and `graphs` (of `HWDAG.to_dict()`).
    """
    style, script = built_file("page.css"), built_file("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    text = json.dumps(
        {"title": title, "version": __version__, **data}, ensure_ascii=False, separators=(",", ":")
    )
    return (
        f'{HEAD}<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<div id="hwdag-page"></div>\n<noscript>This page needs JavaScript.</noscript>\n'
        f'<script type="application/json" id="hwdag-data">{text.translate(_UNSAFE)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def served_page() -> str:
    """Return the page of a server, which has script and style at `/page.js` and `/page.css`."""
    return (
        f'{HEAD}<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<title>hwdag</title>\n<link rel="stylesheet" href="/page.css">\n'
        '<link rel="icon" href="data:,">\n</head>\n<body>\n<div id="hwdag-live"></div>\n'
        "<noscript>This page needs JavaScript.</noscript>\n"
        '<script src="/page.js"></script>\n</body>\n</html>\n'
    )


def framed(text: str) -> str:
    """Return a page as a sandboxed frame for notebooks."""
    return (
        f'<iframe title="hwdag" srcdoc="{html.escape(text)}" sandbox="allow-scripts" width="100%" '
        'height="640" style="border:0"></iframe>'
    )


@cache
def built_file(name: str) -> str:
    """Return a file that `web/` builds, such as `page.js`."""
    return (Path(__file__).parent / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
