"""Where the units and points of a replayed window stand among its tokens."""

from __future__ import annotations

import numpy as np

from hwdag.arrays import Floats
from hwdag.lm.attention import SpanRequest
from hwdag.lm.base import Replay, ReplayRequest
from hwdag.lm.tokens import Codec, Range
from hwdag.text.characters import one_line


class Layout:
    """Token ids of one replayed window, and where its units and points stand."""

    def __init__(
        self, codec: Codec, head: list[int], reply: list[int], request: ReplayRequest
    ) -> None:
        self.ids = [*head, *codec.encode(request.before)]
        self.units: list[Range] = []
        self.segments: list[int] = []
        self.points: list[Range] = []
        for i, (segment, spans) in enumerate(zip(request.segments, request.units, strict=True)):
            borders = [border for span in spans for border in (span.start, span.end)]
            cuts = zip([0, *borders], [*borders, len(segment)], strict=True)
            text = one_line(segment)
            parts = self._append(codec, ["* ", *(text[a:b] for a, b in cuts), "\n"])
            self.units += parts[2:-1:2]
            self.segments += [i] * len(spans)
        self.ids += [*codec.encode(request.after), *reply]
        for point in request.points:
            self.points.append(self._append(codec, ["* ", one_line(point), "\n"])[1])

    def _append(self, codec: Codec, parts: list[str]) -> list[Range]:
        origin = len(self.ids)
        ids, ranges = codec.encode_parts(*parts)
        self.ids += ids
        return [(origin + start, origin + end) for start, end in ranges]

    def request(self, pad: int) -> SpanRequest:
        """What to capture, `pad` tokens further to the right."""
        rows, keys = (
            [(start + pad, end + pad) for start, end in spans]
            for spans in (self.points, self.units)
        )
        return SpanRequest(rows, keys)

    def replay(self, attention: Floats) -> Replay:
        """The captured means with what is needed to combine them."""
        lengths = np.array([end - start for start, end in self.units], dtype=np.int64)
        return Replay(attention, lengths, np.array(self.segments, dtype=np.int64))
