"""The words of pages that are pictures, recognised by RapidOCR, which the extra `ocr` installs.

RapidOCR returns lines with their boxes, in an order that is wrong if a page has columns or is turned.
So the page is turned upright first, and the order comes from our layout, as for letters.
"""

from __future__ import annotations

from functools import cache
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

from hwdag_files.letters import Boxes
from hwdag_files.words import Word

DPI = 200  # dots to an inch of a page that is drawn for it
MIN_LENGTH_OVER_HEIGHT = (
    2.0  # shortest line, in heights, from which the direction of the page is derived
)
SAMPLES = 5  # lines that are read both ways up
ONE_SIZE = 0.75, 1.3  # of the usual height, between which lines have one size of type

Image = np.ndarray[tuple[int, int, int], np.dtype[np.uint8]]


class Recognised(NamedTuple):
    """The lines of a picture as words of a page, in points, and the mean confidence."""

    words: list[Word]
    height: float
    confidence: float


def recognise(image: Image, dpi: float = DPI) -> Recognised:
    """Read a picture of a page, however it is turned."""
    found = _read(image)
    if found.boxes is not None and _is_sideways(found.boxes):
        image = np.ascontiguousarray(np.rot90(image))
        found = _read(image)
    if found.boxes is not None and _is_upside_down(image, _sides(found.boxes)):
        image = np.ascontiguousarray(image[::-1, ::-1])
        found = _read(image)
    scale = 72 / dpi
    height = image.shape[0] * scale
    if found.boxes is None or not found.txts:
        return Recognised([], height, 0.0)
    words = _words(found.txts, _sides(found.boxes) * scale)
    return Recognised(words, height, mean(map(float, found.scores)))


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "critical"})


def _read(image: Image) -> Any:
    # why all three: RapidOCR keeps those of the call before
    return _engine()(image, use_det=True, use_cls=True, use_rec=True)


def _sides(boxes: Any) -> Boxes:
    """Return left, top, right and bottom of boxes that may be askew."""
    corners = np.array(boxes, np.float64)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def _is_sideways(boxes: Any) -> bool:
    """Return whether most of the long lines run up or down."""
    width, height = np.ptp(np.array(boxes, np.float64), axis=1).T
    return bool(
        (height > MIN_LENGTH_OVER_HEIGHT * width).sum()
        > (width > MIN_LENGTH_OVER_HEIGHT * height).sum()
    )


def _is_upside_down(image: Image, sides: Boxes) -> bool:
    """Return whether the longest lines read better the other way up.

    RapidOCR turns single lines by itself, so its scores do not depend on the direction of the page.
    """
    longest = np.argsort(sides[:, 0] - sides[:, 2])[:SAMPLES]
    better = 0
    for x0, y0, x1, y1 in sides[longest].round().astype(int).tolist():
        line = image[max(0, y0) : y1, max(0, x0) : x1]
        if line.size:
            better += _score(line[::-1, ::-1]) > _score(line)
    return 2 * better > len(longest)


def _score(line: Image) -> float:
    found = _engine()(np.ascontiguousarray(line), use_det=False, use_cls=False, use_rec=True)
    return float(mean(found.scores)) if found.scores else 0.0


def _words(texts: tuple[str, ...], sides: Boxes) -> list[Word]:
    """Return lines as words, with one size of type if their heights differ little."""
    usual = median((sides[:, 3] - sides[:, 1]).tolist())
    words = list[Word]()
    for text, (x0, y0, x1, y1) in zip(texts, sides.tolist(), strict=True):
        share = (y1 - y0) / usual
        size = usual if ONE_SIZE[0] < share < ONE_SIZE[1] else y1 - y0
        bottom = (y0 + y1 + size) / 2
        words.append(Word(text.strip(), x0, x1, bottom - size, bottom, size))
    return [word for word in words if word.text]
