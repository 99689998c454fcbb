#!/usr/bin/env bash
# trafilatura 2.3.1, html2text 2025.4.15, markdownify 1.2.3, inscriptis 2.7.6, html-to-markdown 3.21.2
# (2026-11-29)
# Expected: the items of a list have the numbers that a browser shows: 4 and 7 for `start="4"` and
#   `value="7"`, letters for `type="a"`, 2 and 1 for `reversed`. Statutes and rules are written so.
# Seen: none of the five programs that turn pages into text for models gives these numbers. Two do not
#   know `start`, four do not know `value`, none knows `type` and `reversed`. They count 1, 2, 3 instead.
# Costs: "rule 7" is quoted as rule 5 or 2, "under (b)" is under 2, the winner is second, and the wrong
#   number looks as sure as a right one.
. "$(dirname "$0")/lib/setup.sh" trafilatura==2.3.1 html2text==2025.4.15 markdownify==1.2.3 \
    inscriptis==2.7.6 html-to-markdown==3.21.2
python - <<'PY'
import re

import html2text
import html_to_markdown
import inscriptis
import markdownify
import trafilatura
from still import still

PAGE = """<html><body><article><h1>Rules</h1>
<p>The council decided in March on these rules for all visitors of the pool and of the park around it.</p>
<ol start="4"><li>Dogs stay outside.</li><li value="7">Balls are forbidden.</li></ol>
<p>That holds for dogs</p><ol type="a"><li>on a lead,</li><li>of any size.</li></ol>
<p>The races were won by</p><ol reversed><li>Clara Holm,</li><li>Ada Sorensen.</li></ol>
</article></body></html>"""
NUMBER = r"(\w+)[.)]\s+(?:Dogs|Balls|on a|of any|Clara|Ada)"
TEXTS = {
    "trafilatura": (trafilatura.extract(PAGE, output_format="markdown"), "12 12 12"),
    "html2text": (html2text.html2text(PAGE), "45 12 12"),
    "markdownify": (markdownify.markdownify(PAGE), "45 12 12"),
    "html-to-markdown": (html_to_markdown.convert(PAGE).content, "45 12 12"),
    "inscriptis": (inscriptis.get_text(PAGE), "17 12 12"),
}
for name, (text, seen) in TEXTS.items():
    found = re.findall(NUMBER, text)
    still(found, list(seen.replace(" ", "")), f"numbers by {name}, where a browser shows 4 7 a b 2 1")
PY
