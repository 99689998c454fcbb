"""What the harnesses share: where hwdag is, and texts out of the bytes that a fuzzer makes.

Run one for as long as you like, for example: `python tests/fuzz/fuzz_text.py -max_total_time=60`.
Options are libFuzzer's; a folder as the first argument keeps the corpus.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import atheris

ROOT = Path(__file__).parents[2]
for folder in ("core", "tests"):
    sys.path.insert(0, str(ROOT / folder))

from hostile import ATTACKS, CONTROL_TOKENS, LINE_BREAKS  # noqa: E402

PIECES = (
    *CONTROL_TOKENS,
    *LINE_BREAKS,
    *"aB1.!?。“”()[]{}#*-|`=:<>&;/\"'\t \u200b\u200d\u202e\u0301\ufeff\0😀猫ก",
    *(
        "\ud800",
        "\udc00",
        "\r\n",
        "\n\n",
        "# ",
        "* ",
        "1. ",
        "(1) ",
        "```\n",
        "...",
        "Dr. ",
        "word ",
    ),
    *("<p>", "</p>", "<a href='", "<pre>", "<td>", "<script>", "</script>", "<!--", "-->", "<!"),
    *(
        "<![CDATA[",
        "<?",
        "&#",
        "&#x1b;",
        "&amp;",
        "<title>",
        "<think>",
        "</think>",
        "summary point",
    ),
    *("{question}", "{information}", "{language}", "Passage 1:\n", "====\n"),
    *(text[:60] for text in ATTACKS.values()),
)
"""What a random text is made of, besides random characters."""


def some_text(data: atheris.FuzzedDataProvider) -> str:
    """Known pieces and random characters, in turn, some of it repeated."""
    parts = []
    for _ in range(data.ConsumeIntInRange(0, 24)):
        if data.ConsumeBool():
            piece = PIECES[data.ConsumeIntInRange(0, len(PIECES) - 1)]
        else:
            piece = data.ConsumeUnicode(data.ConsumeIntInRange(0, 8))
        parts.append(piece * (1 << data.ConsumeIntInRange(0, 2)))
    return "".join(parts)


def fuzz(check: Callable[[atheris.FuzzedDataProvider], None]) -> None:
    """Give `check` one random input after the other; whatever it raises is a finding."""

    def once(raw: bytes) -> None:
        check(atheris.FuzzedDataProvider(raw))

    # why: by default inputs begin with a few bytes and grow slowly, which make hardly any text
    options = ["-len_control=0", "-max_len=1024", "-rss_limit_mb=4096", "-timeout=10"]
    atheris.Setup([sys.argv[0], *options, *sys.argv[1:]], once)
    atheris.Fuzz()


def instrumented(*packages: str) -> atheris.instrument_imports:
    """A context whose imports of these packages report what they reach."""
    return atheris.instrument_imports(include=list(packages))
