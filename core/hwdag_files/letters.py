"""The letters of a PDF's page as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
Integers = np.ndarray[tuple[int], np.dtype[np.int64]]
Booleans = np.ndarray[tuple[int], np.dtype[np.bool_]]
Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # x and y
Boxes = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # two corners
Colours = np.ndarray[tuple[int, int], np.dtype[np.float64]]  # red, green and blue up to 255
Codes = np.ndarray[tuple[int], np.dtype[np.uint32]]

UNKNOWN = 0xFFFD
"""The character for a letter that its font does not name."""

BLANKS = np.array([code for code in range(0x3001) if chr(code).isspace()], np.uint32)


@dataclass(frozen=True, slots=True)
class Letters:
    """The letters of a page in the order of the file, seen so that they run from left to right."""

    codes: Codes
    boxes: Boxes  # sides from the page's upper left corner; as high as the type
    size: Floats
    is_bold: Booleans
    style: Integers  # equal for letters of one font and size
    contrast: Floats  # with the colour below them, up to 255

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def text(self) -> str:
        """A character for each letter."""
        return text_of(self.codes)

    @property
    def is_blank(self) -> Booleans:
        """Which letters are blanks."""
        return np.isin(self.codes, BLANKS)

    def only(self, chosen: Booleans | Integers) -> Letters:
        """Return some of the letters."""
        return Letters(
            self.codes[chosen],
            self.boxes[chosen],
            self.size[chosen],
            self.is_bold[chosen],
            self.style[chosen],
            self.contrast[chosen],
        )


def text_of(codes: Codes) -> str:
    """Return the text of characters by their numbers."""
    return codes.tobytes().decode("utf-32-le", "surrogatepass")
