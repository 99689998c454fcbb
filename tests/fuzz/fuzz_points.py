"""Points from random replies, and headings from random texts."""

from __future__ import annotations

import atheris
from harness import fuzz, instrumented, some_text

with instrumented("hwdag.text"):
    from hwdag.text.headings import LONGEST_HEADING, headings, in_context
    from hwdag.text.points import parse_points

from hwdag.types import Span


def check(data: atheris.FuzzedDataProvider) -> None:
    """One text as a reply and as a document."""
    text = some_text(data)
    points = parse_points(text)
    assert len(points) <= len(text.splitlines())
    assert len(set(points)) == len(points)
    for point in points:
        assert point == " ".join(point.split())
        assert any(map(str.isalnum, point))
        point.encode()
    spans = [Span(i, len(text)) for i in range(0, len(text), 7)]
    found = headings(text, spans)
    assert len(found) == len(spans)
    for heading in set(found):
        assert heading in text
        assert len(heading) <= LONGEST_HEADING
        assert in_context(heading, text).endswith(text)


if __name__ == "__main__":
    fuzz(check)
