#!/usr/bin/env bash
# minify-html 0.18.1, markdownify 1.2.3, html2text 2025.4.15, beautifulsoup4 4.15.0 (2026-11-28)
# Expected: HTML without the end tags that the standard makes optional (</p>, </li>, </td>, </tr>) is
#   the same document; minify-html leaves them out for that reason, as many static sites do.
# Seen: of such a page markdownify makes a table of empty columns and rows inside rows, html2text puts
#   all cells into one line, and BeautifulSoup with "html.parser", on which many loaders rest, gives
#   every cell and every paragraph all that follows it: the first of four cells is "187112187214".
#   lxml, html5lib and browsers read the page as it was.
# Costs: numbers that are joined with the next ones, and text that is indexed once for every
#   paragraph before it. The page looks right, and the same site before minification is read well.
. "$(dirname "$0")/lib/setup.sh" minify-html==0.18.1 markdownify==1.2.3 html2text==2025.4.15 \
    beautifulsoup4==4.15.0 lxml==6.1.3
python - <<'PY'
import html2text
import markdownify
import minify_html
from bs4 import BeautifulSoup
from still import still

page = """<html><body><p>First.</p><p>Second.</p><table>
<tr><td>1871</td><td>12</td></tr>
<tr><td>1872</td><td>14</td></tr></table></body></html>"""
small = minify_html.minify(page)


def texts(parser: str, tag: str) -> list[str]:
    return [found.get_text() for found in BeautifulSoup(small, parser).find_all(tag)]


still(texts("lxml", "td"), ["1871", "12", "1872", "14"], "cells by lxml")
still(texts("html.parser", "td"), ["187112187214", "12187214", "187214", "14"], "by html.parser")
still(texts("html.parser", "p")[0], "First.Second.187112187214", "first paragraph")
still("1871|12|1872|14" in html2text.html2text(small).replace(" ", ""), True, "html2text joins rows")
markdown = markdownify.markdownify(small)
still("| 1871 | 12 |" in markdownify.markdownify(page), True, "markdownify reads the page as it was")
still("1871 | 12" in markdown or "1871| 12" in markdown, False, f"the small one: {markdown!r}")
PY
