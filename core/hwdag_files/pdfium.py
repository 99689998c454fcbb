"""The letters, lines and pictures of a PDF's page, as PDFium finds them.

PDFium gives each letter by a call of its own, so the calls are mapped over addresses of arrays, and
everything after them is computed on whole arrays. Sizes are in points, 1/72 inch.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any
from unicodedata import normalize

import numpy as np
import pypdfium2.raw as pdfium
from pypdfium2 import PdfDocument

from hwdag_files.drawings import drawing_of
from hwdag_files.letters import (
    BLANKS,
    UNKNOWN,
    Booleans,
    Boxes,
    Codes,
    Floats,
    Integers,
    Letters,
    text_of,
)
from hwdag_files.visibility import Ink, visibility_of

DESCENT = 0.21
"""Share of a letter's height below its baseline, for all fonts alike, so that lines are level."""

MAX_SLANT = 0.2
"""Slope of a line that counts as level; that of a scan may be a little askew."""

MOST_FIELDS = 1000  # of a page's form that are looked at
MOST_DOTS = 5000  # of a side of a page that is drawn
MOST_COPIES = 1000  # texts of a page that are drawn again, to be looked at
SAME_PLACE = 2.0  # points, between the sides of a text and of its copy

NO_CHARACTER = 0x110000
MATHEMATICAL = 0x1D400  # the first of the letters of formulas, as of "𝑉"
PLANCK = 0x210E  # the "ℎ" among them

_PRIVATE = 0xF000  # before the number of a sign in its font
_SIGNS = {
    "wingdings": {0x6F: "☐", 0x71: "☐", 0x72: "☐", 0x78: "☒", 0xA8: "☐", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"},
    "wingdings2": {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0xA3: "☐"},
    "wingdings3": {},
    "webdings": {0x61: "✓", 0x63: "☐", 0x72: "✗"},
}  # fmt: skip
"""Boxes and ticks by their number in fonts whose letters are signs; others are read as dots of lists."""

_BOLD = re.compile("bold|black|heavy|demi", re.I)
_SIMPLE_MODES = pdfium.FPDF_TEXTRENDERMODE_FILL, pdfium.FPDF_TEXTRENDERMODE_STROKE
_BREAKS = np.array([9, 10, 13], np.uint32)  # tabs and ends of lines
_HYPHENS = 2, 0xFFFE  # as PDFium writes a hyphen that ends a line


def drawn(pdf: PdfDocument, number: int, dpi: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Draw a page as it is shown: rows of dots with blue, green and red."""
    page = pdf[number]
    try:
        scale = min(dpi, MOST_DOTS / max(page.get_size()) * 72) / 72
        return np.asarray(page.render(scale=scale).to_numpy())
    finally:
        page.close()


@dataclass(frozen=True, slots=True)
class View:
    """A page turned so that some of its letters are upright."""

    letters: Letters
    rules: Boxes  # horizontal and vertical lines
    checks: list[tuple[bool, Boxes]]  # check boxes and radio buttons: whether set, and the sides
    width: float
    height: float


class PageReader:
    """A page of a PDF, from its letters and drawings."""

    def __init__(self, pdf: PdfDocument, number: int) -> None:
        """Read the letters of a page, and of the fields and notes that are on it.

        Raises:
            PdfiumError: the page cannot be read.
        """
        self._page = pdf[number]
        self._checks = list(_checks(pdf, self._page.raw)) if pdf.formenv else []
        is_drawn = pdfium.FPDFPage_Flatten(self._page.raw, pdfium.FLAT_NORMALDISPLAY)
        if is_drawn == pdfium.FLATTEN_SUCCESS:
            self._page.close()
            self._page = pdf[number]
        self._textpage = self._page.get_textpage()
        self._frame = self._page.get_bbox()
        self._turns = self._page.get_rotation() // 90
        self.drawing = drawing_of(self._page.raw)
        self._read_letters()
        self._visibility = visibility_of(self._ink(), self.drawing, self._frame)

    def _read_letters(self) -> None:
        text = self._textpage.raw
        count = pdfium.FPDFText_CountChars(text)
        address, letters = ctypes.cast(text, ctypes.c_void_p).value, range(count)
        codes = _joined(_codes_of(text, count))
        owners = np.fromiter(map(_owner, repeat(address), letters), np.uint64, count)
        boxes = np.zeros((count, 4), np.float32)  # left, top, right, bottom
        places = range(boxes.ctypes.data, boxes.ctypes.data + boxes.nbytes, 16)
        deque(map(_loose_box, repeat(address), letters, places), maxlen=0)
        origins = np.zeros((count, 2))
        places = range(origins.ctypes.data, origins.ctypes.data + origins.nbytes, 16)
        above = range(origins.ctypes.data + 8, origins.ctypes.data + origins.nbytes + 8, 16)
        deque(map(_origin, repeat(address), letters, places, above), maxlen=0)
        # why: blanks and line breaks that PDFium adds belong to no object
        real = np.flatnonzero((owners > 0) & (codes < NO_CHARACTER))
        self._all_codes, self._real = codes, real
        self.codes, self._boxes = codes[real], boxes[real].astype(np.float64)
        self._origins = origins[real]
        found, first, self._owner = np.unique(owners[real], return_index=True, return_inverse=True)
        signs = dict[int, dict[int, str]]()
        self._matrices = np.zeros((len(found), 6))
        self._sizes = np.zeros(len(found))
        self._bold = np.zeros(len(found), bool)
        self._fonts = np.zeros(len(found), np.uint64)
        self._colours = np.zeros((len(found), 4))
        self._modes = np.zeros(len(found), np.int64)
        self._orders = np.zeros(len(found), np.int64)
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
                plain = re.sub(r".*\+|[ -]|regular", "", _font_name(font).lower())
                signs |= {font: _SIGNS[plain]} if plain in _SIGNS else {}
            self._bold[at] = names[font]
            self._modes[at] = mode = _mode(owner)
            self._colours[at] = _colour(owner, mode)
            self._orders[at] = self.drawing.letters.get(owner, 0)
        self._look_at_copies(found)
        for font, named in signs.items():
            self._read_signs(self._fonts[self._owner] == font, named)
        is_unknown = self._unknown(real)
        self.unknown = int(is_unknown.sum())
        self.codes[np.isin(self.codes, _HYPHENS)] = ord("-")
        self.codes[self.codes < ord(" ")] = ord(" ")
        self.codes[is_unknown] = UNKNOWN
        # why: a font may be large in a small space, or the other way round
        self._sizes *= np.hypot(self._matrices[:, 2], self._matrices[:, 3])

    def _read_signs(self, chosen: Booleans, named: Mapping[int, str]) -> None:
        """Replace the letters of a font of signs by the signs."""
        for code in np.unique(self.codes[chosen]).tolist():
            number = code - _PRIVATE if _PRIVATE < code < _PRIVATE + 0x100 else code
            if ord(" ") < number < 0x100:
                self.codes[chosen & (self.codes == code)] = ord(named.get(number, "•"))

    def _unknown(self, letters: Integers) -> Booleans:
        """Return a mask of the letters that their font does not name.

        PDFium gives the number of a letter in its font then, which may be that of another character.
        """
        is_control = (self.codes < ord(" ")) & ~np.isin(self.codes, _BREAKS)
        found: Booleans = is_control | (self.codes == UNKNOWN)
        if not found.any():
            return found
        text = self._textpage.raw
        fonts = self._fonts[self._owner]
        is_suspect = np.isin(fonts, fonts[found])
        for at in np.flatnonzero(is_suspect).tolist():
            found[at] = pdfium.FPDFText_HasUnicodeMapError(text, int(letters[at])) == 1
        return np.where(self.codes == UNKNOWN, True, found & is_suspect)

    def _look_at_copies(self, owners: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> None:
        """Take the look of a text from a copy printed over it: PDFium returns only the letters of the first."""
        others = sorted(
            set(self.drawing.letters) - set(owners.tolist()), key=self.drawing.letters.__getitem__
        )
        if not others or not len(owners):
            return
        places = np.array([_place(owner) for owner in owners.tolist()])
        for other in others[:MOST_COPIES]:
            is_below = abs(places - _place(other)).max(axis=1) < SAME_PLACE
            mode = _mode(other)
            if mode != pdfium.FPDF_TEXTRENDERMODE_INVISIBLE:
                self._modes[is_below] = mode
                self._colours[is_below] = _colour(other, mode)
                self._orders[is_below] = self.drawing.letters[other]

    def _ink(self) -> Ink:
        x0, top, x1, bottom = self._boxes.T
        is_blank = np.isin(self.codes, BLANKS)
        ends = is_blank[1:] | is_blank[:-1] | (np.diff(self._owner) != 0)
        return Ink(
            np.stack([(x0 + x1) / 2, (top + bottom) / 2], axis=1),
            self._sizes[self._owner],
            self._colours[self._owner, :3],
            self._colours[self._owner, 3],
            self._modes[self._owner] != pdfium.FPDF_TEXTRENDERMODE_INVISIBLE,
            self._orders[self._owner],
            np.cumsum(np.append(0, ends)) if len(is_blank) else np.zeros(0, np.int64),
        )

    def left_out(self, is_read: Booleans) -> Counter[str]:
        """Count the letters that a person does not see, by the reason, and turned ones that are not read."""
        inked = ~np.isin(self.codes, BLANKS)
        found = Counter(
            {
                f"letters {why}": int((inked & which).sum())
                for why, which in self._visibility.unseen.items()
            }
        )
        hidden = found.total()
        found["letters that their fonts do not name"] = self.unknown
        found["letters that are turned"] = int((inked & ~is_read).sum()) - hidden
        return +found

    def views(self) -> Iterator[tuple[int, Booleans]]:
        """Yield the quarter turns in which letters are upright, and these letters, the most frequent first."""
        right, up = self._matrices[:, 0], self._matrices[:, 1]
        along, across = np.maximum(abs(right), abs(up)), np.minimum(abs(right), abs(up))
        turns = np.where(abs(right) >= abs(up), np.where(right < 0, 2, 0), np.where(up < 0, 3, 1))
        turns[across >= MAX_SLANT * along] = -1
        turn = turns[self._owner]
        for letters in self._visibility.unseen.values():
            turn[letters] = -1
        counts = [(int((turn == quarter).sum()), quarter) for quarter in range(4)]
        # why the second: a page without letters is seen as it is shown
        for _, quarter in sorted(counts, key=lambda pair: (-pair[0], pair[1] != self._turns)):
            yield quarter, turn == quarter

    def in_order(self) -> str:
        """Return the text in the order of the file, with the blanks and line breaks of PDFium."""
        is_read = self._all_codes < NO_CHARACTER
        for letters in self._visibility.unseen.values():
            is_read[self._real[letters]] = False
        text = re.sub("-?[\x02\ufffe]", "-\n", text_of(self._all_codes[is_read]))
        text = re.sub("[\0-\x08\x0b\x0c\x0e-\x1f\ufffd]", "", text)
        return text.replace("\r\n", "\n").replace("\r", "\n").strip()

    def view(self, quarter: int, chosen: Booleans) -> View:
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
            self.codes,
            boxes,
            sizes,
            self._bold[self._owner],
            style.reshape(-1)[self._owner],
            self._visibility.contrast,
        )
        if quarter % 2:
            width, height = height, width
        return View(
            letters.only(chosen),
            _turned(self.drawing.rules, quarter, self._frame),
            [(is_set, _turned(box, quarter, self._frame)) for is_set, box in self._checks],
            width,
            height,
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

    def close(self) -> None:
        """Free the memory that PDFium holds for the page."""
        self._textpage.close()
        self._page.close()


def _checks(pdf: PdfDocument, page: Any) -> Iterator[tuple[bool, Boxes]]:
    """Yield the check boxes and radio buttons of a page: whether they are set, and two corners."""
    kinds = pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON
    for number in range(min(MOST_FIELDS, pdfium.FPDFPage_GetAnnotCount(page))):
        field = pdfium.FPDFPage_GetAnnot(page, number)
        if pdfium.FPDFAnnot_GetFormFieldType(pdf.formenv, field) in kinds:
            box = pdfium.FS_RECTF()
            pdfium.FPDFAnnot_GetRect(field, box)
            corners = np.array([[box.left, box.bottom, box.right, box.top]], np.float64)
            yield bool(pdfium.FPDFAnnot_IsChecked(pdf.formenv, field)), corners
        pdfium.FPDFPage_CloseAnnot(field)


def _codes_of(text: Any, count: int) -> Codes:
    """Return the characters of an open page of text."""
    address = ctypes.cast(text, ctypes.c_void_p).value
    units = np.zeros(count + 1, np.uint16)
    written = _units(address, 0, count, units.ctypes.data)
    units = units[:count]
    # why not always: a character may have two units, and one without a number has none
    if written == count + 1 and not ((units >= 0xD800) & (units < 0xE000)).any():
        return units.astype(np.uint32)
    return np.fromiter(map(_code, repeat(address), range(count)), np.uint32, count)


def _joined(codes: Codes) -> Codes:
    """Return the codes with halves of characters joined, and letters of formulas as plain ones."""
    halves = np.flatnonzero((codes[:-1] >> 10 == 0xD800 >> 10) & (codes[1:] >> 10 == 0xDC00 >> 10))
    codes[halves] = 0x10000 + ((codes[halves] & 0x3FF) << 10) + (codes[halves + 1] & 0x3FF)
    codes[halves + 1] = NO_CHARACTER
    for code in np.unique(codes[(codes == PLANCK) | (codes >> 10 == MATHEMATICAL >> 10)]).tolist():
        codes[codes == code] = ord(normalize("NFKC", chr(code))[:1])
    return codes


def _plain(function: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of PDFium that takes and returns addresses as numbers, which is faster."""
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    return ctypes.CFUNCTYPE(result, *arguments)(address)


_pointer = ctypes.c_void_p
_loose_box = _plain(pdfium.FPDFText_GetLooseCharBox, ctypes.c_int, _pointer, ctypes.c_int, _pointer)
_origin = _plain(
    pdfium.FPDFText_GetCharOrigin, ctypes.c_int, _pointer, ctypes.c_int, _pointer, _pointer
)
_units = _plain(
    pdfium.FPDFText_GetText, ctypes.c_int, _pointer, ctypes.c_int, ctypes.c_int, _pointer
)
_code = _plain(pdfium.FPDFText_GetUnicode, ctypes.c_uint, _pointer, ctypes.c_int)
_owner = _plain(pdfium.FPDFText_GetTextObject, ctypes.c_size_t, _pointer, ctypes.c_int)
_mode = _plain(pdfium.FPDFTextObj_GetTextRenderMode, ctypes.c_int, _pointer)
_font = _plain(pdfium.FPDFTextObj_GetFont, _pointer, _pointer)
_name_of = _plain(
    pdfium.FPDFFont_GetBaseFontName, ctypes.c_size_t, _pointer, ctypes.c_char_p, ctypes.c_size_t
)


def _colour(text: int, mode: int) -> tuple[float, float, float, float]:
    """Return red, green, blue and opacity of a text, below 0 if they are not known."""
    red, green, blue, opacity = (ctypes.c_uint() for _ in range(4))
    is_stroked = mode == pdfium.FPDF_TEXTRENDERMODE_STROKE
    get = pdfium.FPDFPageObj_GetStrokeColor if is_stroked else pdfium.FPDFPageObj_GetFillColor
    thing = ctypes.cast(text, pdfium.FPDF_PAGEOBJECT)
    if mode in _SIMPLE_MODES and get(thing, red, green, blue, opacity):
        return red.value, green.value, blue.value, opacity.value
    return -1, -1, -1, 255


def _place(text: int) -> list[float]:
    sides = [ctypes.c_float() for _ in range(4)]
    pdfium.FPDFPageObj_GetBounds(ctypes.cast(text, pdfium.FPDF_PAGEOBJECT), *sides)
    return [side.value for side in sides]


def _font_name(font: int) -> str:
    buffer = ctypes.create_string_buffer(256)
    return buffer.value.decode("latin-1") if font and _name_of(font, buffer, 256) <= 256 else ""


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
