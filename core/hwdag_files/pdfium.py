"""The letters, lines and pictures of a PDF's page, as PDFium finds them.

PDFium gives each letter by a call of its own, so the calls are mapped over addresses of arrays, and
everything after them is computed on whole arrays. Sizes are in points, 1/72 inch.
"""

from __future__ import annotations

import ctypes
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium
from pypdfium2 import PdfDocument

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Integers = np.ndarray[tuple[int], np.dtype[np.int64]]
Booleans = np.ndarray[tuple[int], np.dtype[np.bool_]]
Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # x and y
Boxes = np.ndarray[tuple[int, int], np.dtype[np.float64]]
"""Rows of left, top, right and bottom, from the upper left corner of the page that a person sees."""

Matrix = tuple[float, float, float, float, float, float]

DESCENT = 0.21
"""Share of a letter's height below its baseline, for all fonts alike, so that lines are level."""

ASKEW = 0.2
"""Slope of a line that counts as level; that of a scan may be a little askew."""

LEVEL = 0.5  # points by which the ends of a level or upright line may differ
MOST_NESTED = 8  # forms within forms
MOST_SEGMENTS = 20_000  # lines of a page's drawings that are looked at

_BOLD = re.compile("bold|black|heavy|demi", re.I)
_HYPHENS = 2, 0xFFFE  # as PDFium writes a hyphen that ends a line


@dataclass(frozen=True, slots=True)
class Letters:
    """The letters of a page in the order of the file, seen so that they run from left to right."""

    text: str  # a character for each letter
    boxes: Boxes  # as high as the type's size
    size: Floats
    is_bold: Booleans
    style: Integers  # equal for letters of one font and size

    def __len__(self) -> int:
        return len(self.text)

    def only(self, chosen: Booleans | Integers) -> Letters:
        """Return some of the letters."""
        codes = np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), np.uint32)[chosen]
        text = codes.tobytes().decode("utf-32-le", "surrogatepass")
        return Letters(
            text,
            self.boxes[chosen],
            self.size[chosen],
            self.is_bold[chosen],
            self.style[chosen],
        )


@dataclass(frozen=True, slots=True)
class View:
    """A page turned so that some of its letters stand upright."""

    letters: Letters
    rules: Boxes  # horizontal and vertical lines
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """Lines between two points, as rows of x and y of both, and whether the page has pictures."""

    rules: Boxes
    has_pictures: bool


class PageReader:
    """A page of a PDF, from its letters and drawings."""

    def __init__(self, pdf: PdfDocument, number: int) -> None:
        """Read the letters of a page, and of the fields and notes that are on it.

        Raises:
            PdfiumError: the page cannot be read.
        """
        self._page = pdf[number]
        is_drawn = pdfium.FPDFPage_Flatten(self._page.raw, pdfium.FLAT_NORMALDISPLAY)
        if is_drawn == pdfium.FLATTEN_SUCCESS:
            self._page.close()
            self._page = pdf[number]
        self._textpage = self._page.get_textpage()
        self._frame = self._page.get_bbox()
        self._turns = self._page.get_rotation() // 90
        self._read_letters()

    def _read_letters(self) -> None:
        text = self._textpage.raw
        count = pdfium.FPDFText_CountChars(text)
        address, letters = ctypes.cast(text, ctypes.c_void_p).value, range(count)
        codes = np.fromiter(map(_code, repeat(address), letters), np.uint32, count)
        owners = np.fromiter(
            (owner or 0 for owner in map(_owner, repeat(address), letters)), np.uint64, count
        )
        boxes = np.zeros((count, 4), np.float32)  # left, top, right, bottom
        places = range(boxes.ctypes.data, boxes.ctypes.data + boxes.nbytes, 16)
        deque(map(_loose_box, repeat(address), letters, places), maxlen=0)
        codes[np.isin(codes, _HYPHENS)] = ord("-")
        codes[codes < ord(" ")] = ord(" ")
        origins = np.zeros((count, 2))
        places = range(origins.ctypes.data, origins.ctypes.data + origins.nbytes, 16)
        above = range(origins.ctypes.data + 8, origins.ctypes.data + origins.nbytes + 8, 16)
        deque(map(_origin, repeat(address), letters, places, above), maxlen=0)
        # why: blanks and line breaks that PDFium adds belong to no object
        real = np.flatnonzero((owners > 0) & (codes < 0x110000))
        self._codes, self._boxes = codes[real], boxes[real].astype(np.float64)
        self._origins = origins[real]
        found, first, self._owner = np.unique(owners[real], return_index=True, return_inverse=True)
        self._matrices = np.zeros((len(found), 6))
        self._sizes = np.zeros(len(found))
        self._bold = np.zeros(len(found), bool)
        self._fonts = np.zeros(len(found), np.uint64)
        matrix, names = pdfium.FS_MATRIX(), dict[int, bool]()
        for at, (owner, letter) in enumerate(
            zip(found.tolist(), real[first].tolist(), strict=True)
        ):
            pdfium.FPDFText_GetMatrix(text, letter, matrix)
            self._matrices[at] = matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f
            self._sizes[at] = pdfium.FPDFText_GetFontSize(text, letter)
            self._fonts[at] = font = _font(owner) or 0
            if font not in names:
                names[font] = bool(_BOLD.search(_font_name(font)))
            self._bold[at] = names[font]
        # why: a font may be large in a small space, or the other way round
        self._sizes *= np.hypot(self._matrices[:, 2], self._matrices[:, 3])

    def views(self) -> Iterator[tuple[int, Booleans]]:
        """Yield the quarter turns in which letters stand upright, and which letters, most of them first."""
        right, up = self._matrices[:, 0], self._matrices[:, 1]
        along, across = np.maximum(abs(right), abs(up)), np.minimum(abs(right), abs(up))
        turns = np.where(abs(right) >= abs(up), np.where(right < 0, 2, 0), np.where(up < 0, 3, 1))
        turns[across >= ASKEW * along] = -1
        turn = turns[self._owner]
        counts = [(int((turn == quarter).sum()), quarter) for quarter in range(4)]
        # why the second: a page without letters is seen as it is shown
        for _, quarter in sorted(counts, key=lambda pair: (-pair[0], pair[1] != self._turns)):
            yield quarter, turn == quarter

    @property
    def text(self) -> str:
        """The letters alone."""
        return self._codes.tobytes().decode("utf-32-le", "surrogatepass")

    def in_order(self) -> str:
        """Return the text in the order of the file, with the blanks and line breaks of PDFium."""
        text = re.sub("-?[\x02\ufffe]", "-\n", str(self._textpage.get_text_range()))
        return text.replace("\r\n", "\n").replace("\r", "\n").strip()

    def view(self, quarter: int, chosen: Booleans, drawing: Drawing) -> View:
        """Turn the page by quarters, with some of its letters."""
        left, bottom, right, top = self._frame
        width, height = right - left, top - bottom
        boxes = _turned(self._boxes[:, [0, 3, 2, 1]], quarter, self._frame)
        start, baseline = _turned(self._origins[:, [0, 1, 0, 1]], quarter, self._frame).T[:2]
        sizes = self._sizes[self._owner]
        # why not the box itself: its height is another one in each font, and ink may go over its sides
        bottom = baseline + DESCENT * sizes
        x0, x1 = self._sides(start, np.maximum(start, boxes[:, 2]))
        boxes = np.stack([x0, bottom - sizes, x1, bottom], axis=1)
        _, style = np.unique(
            np.stack([self._fonts.astype(np.float64), self._sizes.round(1)]),
            axis=1,
            return_inverse=True,
        )
        letters = Letters(
            self.text, boxes, sizes, self._bold[self._owner], style.reshape(-1)[self._owner]
        )
        if quarter % 2:
            width, height = height, width
        return View(
            letters.only(chosen), _turned(drawing.rules, quarter, self._frame), width, height
        )

    def _sides(self, left: Floats, right: Floats) -> tuple[Floats, Floats]:
        """Return the sides of the letters, of which several may be drawn as one, such as "ffi"."""
        goes_on = np.diff(self._owner) == 0
        is_part = goes_on & (np.diff(left) == 0) & (np.diff(right) == 0)
        first = np.flatnonzero(np.concatenate([[True], ~is_part])[: len(left)])
        number = np.diff([*first, len(left)])
        width = np.repeat((right - left)[first] / number, number)
        left = left + width * (np.arange(len(left)) - np.repeat(first, number))
        right = left + width
        is_before = goes_on & (left[1:] > left[:-1])
        right[:-1] = np.where(is_before, np.minimum(right[:-1], left[1:]), right[:-1])
        return left, right

    def drawing(self, most_rules: int) -> Drawing:
        """Read the lines of the page's drawings; none if there are more than `most_rules`."""
        rules, has_pictures = list[tuple[float, float, float, float]](), False
        identity = 1.0, 0.0, 0.0, 1.0, 0.0, 0.0
        for kind, thing, matrix in _objects(self._page.raw, identity):
            has_pictures |= kind == pdfium.FPDF_PAGEOBJ_IMAGE
            if kind == pdfium.FPDF_PAGEOBJ_PATH and len(rules) <= most_rules:
                rules += _rules(thing, matrix)
        kept = rules if len(rules) <= most_rules else []
        return Drawing(np.array(kept, np.float64).reshape(-1, 4), has_pictures)

    def close(self) -> None:
        """Free what PDFium holds of the page."""
        self._textpage.close()
        self._page.close()


def _plain(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of PDFium that takes and returns addresses as numbers, which is faster."""
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    return ctypes.CFUNCTYPE(result, *arguments)(address)


_pointer = ctypes.c_void_p
_loose_box = _plain(pdfium.FPDFText_GetLooseCharBox, ctypes.c_int, _pointer, ctypes.c_int, _pointer)
_origin = _plain(
    pdfium.FPDFText_GetCharOrigin, ctypes.c_int, _pointer, ctypes.c_int, _pointer, _pointer
)
_code = _plain(pdfium.FPDFText_GetUnicode, ctypes.c_uint, _pointer, ctypes.c_int)
_owner = _plain(pdfium.FPDFText_GetTextObject, _pointer, _pointer, ctypes.c_int)
_font = _plain(pdfium.FPDFTextObj_GetFont, _pointer, _pointer)
_name_of = _plain(
    pdfium.FPDFFont_GetBaseFontName, ctypes.c_size_t, _pointer, ctypes.c_char_p, ctypes.c_size_t
)


def _font_name(font: int) -> str:
    buffer = ctypes.create_string_buffer(256)
    return buffer.value.decode("latin-1") if font and _name_of(font, buffer, 256) <= 256 else ""


def _objects(page: Any, matrix: Matrix) -> Iterator[tuple[int, Any, Matrix]]:
    """Yield the kind, the object and the space of all that a page draws, that of its forms included."""
    for at in range(pdfium.FPDFPage_CountObjects(page)):
        yield from _within(pdfium.FPDFPage_GetObject(page, at), matrix, 0)


def _within(thing: Any, matrix: Matrix, depth: int) -> Iterator[tuple[int, Any, Matrix]]:
    kind = pdfium.FPDFPageObj_GetType(thing)
    if kind == pdfium.FPDF_PAGEOBJ_TEXT:
        return
    own = pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetMatrix(thing, own)
    matrix = _after((own.a, own.b, own.c, own.d, own.e, own.f), matrix)
    if kind != pdfium.FPDF_PAGEOBJ_FORM:
        yield kind, thing, matrix
    elif depth < MOST_NESTED:
        for at in range(pdfium.FPDFFormObj_CountObjects(thing)):
            yield from _within(pdfium.FPDFFormObj_GetObject(thing, at), matrix, depth + 1)


def _after(first: Matrix, then: Matrix) -> Matrix:
    a, b, c, d, e, f = first
    p, q, r, s, x, y = then
    return (
        a * p + b * r,
        a * q + b * s,
        c * p + d * r,
        c * q + d * s,
        e * p + f * r + x,
        e * q + f * s + y,
    )


def _rules(path: Any, matrix: Matrix) -> Iterator[tuple[float, float, float, float]]:
    """Yield the level and upright lines of a path, each from a point to a point."""
    fills, strokes = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, fills, strokes)
    if not fills.value and not strokes.value:
        return
    a, b, c, d, e, f = matrix
    x, y, start, at = ctypes.c_float(), ctypes.c_float(), (0.0, 0.0), (0.0, 0.0)
    for number in range(min(MOST_SEGMENTS, pdfium.FPDFPath_CountSegments(path))):
        segment = pdfium.FPDFPath_GetPathSegment(path, number)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        point = a * x.value + c * y.value + e, b * x.value + d * y.value + f
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO and _is_level(at, point):
            yield *at, *point
        at = point
        if pdfium.FPDFPathSegment_GetClose(segment):
            if _is_level(at, start):
                yield *at, *start
            at = start


def _is_level(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return min(abs(one[0] - other[0]), abs(one[1] - other[1])) < LEVEL


def _turned(boxes: Boxes, quarter: int, frame: tuple[float, float, float, float]) -> Boxes:
    """Turn boxes (x and y of two corners) clockwise, within the frame of the page."""
    left, bottom, right, top = frame
    x, y = boxes[:, [0, 2]], boxes[:, [1, 3]]
    across, down = (
        (x - left, top - y),
        (y - bottom, x - left),
        (right - x, y - bottom),
        (top - y, right - x),
    )[quarter]
    return np.stack([across.min(1), down.min(1), across.max(1), down.max(1)], axis=1)
