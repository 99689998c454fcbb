"""The drawings of a PDF's page: its lines, and the rectangles and pictures that lie below or over letters."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium

from hwdag_files.letters import Boxes, Colours, Integers

Matrix = tuple[float, float, float, float, float, float]
Point = tuple[float, float]
Rule = tuple[float, float, float, float]  # from a point to a point, or a box
Colour = tuple[float, float, float]

LEVEL_TOLERANCE = 0.5  # points by which the ends of a horizontal or vertical line may differ
MIN_OPAQUE_ALPHA = 250  # of 255
MOST_CLIPS = 20  # clips around a surface, one within the other
MOST_NESTED = 8  # forms within forms
MOST_RULES = 4000  # lines of a drawing in which tables are looked for; a map may have any number
MOST_SEGMENTS = 20_000  # lines of a path that are looked at
MOST_SURFACES = 1000  # surfaces with which letters are compared

PICTURE, UNKNOWN = (-1.0, -1.0, -1.0), (-2.0, -2.0, -2.0)
"""The colour of pictures and other surfaces whose colour at a place is unknown."""

_IDENTITY = 1.0, 0.0, 0.0, 1.0, 0.0, 0.0


@dataclass(frozen=True, slots=True)
class Drawing:
    """The drawings of a page, in the order in which they are drawn over each other."""

    rules: Boxes  # x and y of both ends of horizontal and vertical lines; none if they are too many
    surfaces: Boxes  # left, bottom, right and top of each filled area
    colours: Colours  # of the surfaces
    orders: Integers  # of the surfaces
    letters: dict[int, int]  # the order of each text, by its address

    @property
    def has_pictures(self) -> bool:
        """Whether a picture is on the page."""
        return bool((self.colours[:, 0] == PICTURE[0]).any())


def drawing_of(page: Any) -> Drawing:
    """Read the drawings of an open page of PDFium."""
    rules, letters = list[Rule](), dict[int, int]()
    surfaces = list[tuple[Rule, Colour, int]]()
    for order, (kind, thing, matrix) in enumerate(_objects(page)):
        colour: Colour | None = PICTURE if kind == pdfium.FPDF_PAGEOBJ_IMAGE else UNKNOWN
        if kind == pdfium.FPDF_PAGEOBJ_TEXT:
            letters[ctypes.cast(thing, ctypes.c_void_p).value or 0] = order
            continue
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            is_filled, lines = _read_path(thing, matrix)
            if len(rules) <= MOST_RULES:
                rules += lines
            colour = _surface_colour(thing, lines) if is_filled else None
        if colour and len(surfaces) < MOST_SURFACES:
            surfaces.append((_bounds(thing, matrix), colour, order))
    boxes, colours, orders = zip(*surfaces, strict=True) if surfaces else ((), (), ())
    return Drawing(
        np.array(rules if len(rules) <= MOST_RULES else [], np.float64).reshape(-1, 4),
        np.array(boxes, np.float64).reshape(-1, 4),
        np.array(colours, np.float64).reshape(-1, 3),
        np.array(orders, np.int64),
        letters,
    )


def _objects(page: Any) -> Iterator[tuple[int, Any, Matrix]]:
    """Yield kind, object and coordinate system of everything that a page draws, also within its forms."""
    for at in range(pdfium.FPDFPage_CountObjects(page)):
        yield from _within(pdfium.FPDFPage_GetObject(page, at), _IDENTITY, 0)


def _within(thing: Any, matrix: Matrix, depth: int) -> Iterator[tuple[int, Any, Matrix]]:
    kind = pdfium.FPDFPageObj_GetType(thing)
    if kind != pdfium.FPDF_PAGEOBJ_FORM:
        yield kind, thing, matrix
    elif depth < MOST_NESTED:
        matrix = _after(_own_matrix(thing), matrix)
        for at in range(pdfium.FPDFFormObj_CountObjects(thing)):
            yield from _within(pdfium.FPDFFormObj_GetObject(thing, at), matrix, depth + 1)


def _own_matrix(thing: Any) -> Matrix:
    own = pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetMatrix(thing, own)
    return own.a, own.b, own.c, own.d, own.e, own.f


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


def _moved(point: Point, matrix: Matrix) -> Point:
    (x, y), (a, b, c, d, e, f) = point, matrix
    return a * x + c * y + e, b * x + d * y + f


def _around(points: Sequence[Point]) -> Rule:
    x, y = zip(*points, strict=True)
    return min(x), min(y), max(x), max(y)


def _bounds(thing: Any, matrix: Matrix) -> Rule:
    """Return the box of an object, as far as it is not clipped."""
    sides = [ctypes.c_float() for _ in range(4)]
    pdfium.FPDFPageObj_GetBounds(thing, *sides)
    x0, y0, x1, y1 = (side.value for side in sides)
    for left, bottom, right, top in _clips(thing):
        x0, y0, x1, y1 = max(x0, left), max(y0, bottom), min(x1, right), min(y1, top)
    if x0 >= x1 or y0 >= y1:
        return 0.0, 0.0, 0.0, 0.0
    return _around([_moved((x, y), matrix) for x in (x0, x1) for y in (y0, y1)])


def _clips(thing: Any) -> Iterator[Rule]:
    clip = pdfium.FPDFPageObj_GetClipPath(thing)
    for number in range(min(MOST_CLIPS, pdfium.FPDFClipPath_CountPaths(clip))) if clip else ():
        points = list[Point]()
        x, y = ctypes.c_float(), ctypes.c_float()
        count = pdfium.FPDFClipPath_CountPathSegments(clip, number)
        for at in range(min(MOST_SEGMENTS, count)):
            segment = pdfium.FPDFClipPath_GetPathSegment(clip, number, at)
            if pdfium.FPDFPathSegment_GetPoint(segment, x, y):
                points.append((x.value, y.value))
        if points:
            yield _around(points)


def _read_path(path: Any, matrix: Matrix) -> tuple[bool, list[Rule]]:
    """Return whether a path is filled, and its level and upright lines; no lines if nothing is drawn."""
    fills, strokes = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDFPath_GetDrawMode(path, fills, strokes)
    is_drawn = fills.value or strokes.value
    matrix = _after(_own_matrix(path), matrix)
    return bool(fills.value), list(_lines(path, matrix)) if is_drawn else []


def _lines(path: Any, matrix: Matrix) -> Iterator[Rule]:
    x, y, start, at = ctypes.c_float(), ctypes.c_float(), (0.0, 0.0), (0.0, 0.0)
    for number in range(min(MOST_SEGMENTS, pdfium.FPDFPath_CountSegments(path))):
        segment = pdfium.FPDFPath_GetPathSegment(path, number)
        pdfium.FPDFPathSegment_GetPoint(segment, x, y)
        point = _moved((x.value, y.value), matrix)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        if kind == pdfium.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == pdfium.FPDF_SEGMENT_LINETO and _is_level(at, point):
            yield *at, *point
        at = point
        if pdfium.FPDFPathSegment_GetClose(segment):
            if at != start and _is_level(at, start):
                yield *at, *start
            at = start


def _is_level(one: Point, other: Point) -> bool:
    return min(abs(one[0] - other[0]), abs(one[1] - other[1])) < LEVEL_TOLERANCE


def _surface_colour(path: Any, lines: Sequence[Rule]) -> Colour:
    """Return the colour of an opaque rectangle; `UNKNOWN` for any other path that is filled."""
    red, green, blue, opacity = (ctypes.c_uint() for _ in range(4))
    is_known = pdfium.FPDFPageObj_GetFillColor(path, red, green, blue, opacity)
    is_opaque = opacity.value >= MIN_OPAQUE_ALPHA and not pdfium.FPDFPageObj_HasTransparency(path)
    if is_known and is_opaque and _is_rectangle(path, lines):
        return float(red.value), float(green.value), float(blue.value)
    return UNKNOWN


def _is_rectangle(path: Any, lines: Sequence[Rule]) -> bool:
    if not 3 <= len(lines) <= 4 or pdfium.FPDFPath_CountSegments(path) > 5:
        return False
    ends = [(x, y) for rule in lines for x, y in (rule[:2], rule[2:])]
    x0, y0, x1, y1 = _around(ends)
    corners = ((x0, y0), (x0, y1), (x1, y0), (x1, y1))
    return all(any(_is_near(corner, end) for end in ends) for corner in corners)


def _is_near(one: Point, other: Point) -> bool:
    return abs(one[0] - other[0]) < LEVEL_TOLERANCE and abs(one[1] - other[1]) < LEVEL_TOLERANCE
