"""The invisible letters of a PDF's page: without ink, covered, in the colour of the page, or outside it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwdag_files.drawings import PICTURE, UNKNOWN, Drawing
from hwdag_files.letters import Booleans, Colours, Floats, Integers, Points

MAX_FAINT_CONTRAST = 12.0
"""Contrast with the colour below them, of 255, at which letters are not seen."""

MAX_TINY_SIZE = (
    1.5  # points, type that nobody reads, on a page whose usual type is three times as large
)
COPY_DISTANCE = 0.5  # of a letter's size, the distance of two that are at one place

SECOND_LAYER = 0.3
"""Share of a scan's letters at the place of visible ones, from which all of them are a second layer."""


@dataclass(frozen=True, slots=True)
class Ink:
    """How each letter of a page is drawn."""

    middles: Points
    size: Floats
    colour: Colours  # below 0 if it is not known
    opacity: Floats  # up to 255
    has_ink: Booleans
    order: Integers  # among all that is drawn
    word: Integers  # numbers of words, from 0; a blank is one of its own


@dataclass(frozen=True, slots=True)
class Visibility:
    """The invisible letters of a page, by the reason, and the contrast of the others."""

    unseen: dict[str, Booleans]
    contrast: Floats  # between a letter and the colour below it, up to 255


def visibility_of(
    ink: Ink, drawing: Drawing, frame: tuple[float, float, float, float]
) -> Visibility:
    """Find the letters that a person does not see.

    Letters that a program for OCR put over a scan, or under it, are seen in its picture.
    """
    left, bottom, right, top = frame
    x, y = ink.middles.T
    within = (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
    # why not single letters: a person knows a word by the part that is seen
    outside = ~(np.bincount(ink.word, within) > 0)[ink.word]
    background, covered, on_picture, below_picture = _surroundings(ink, drawing)
    is_known = (ink.colour[:, 0] >= 0) & (background[:, 0] >= 0)
    difference = np.where(is_known, abs(ink.colour - background).max(axis=1), 255.0)
    contrast = difference * ink.opacity / 255
    is_faint = contrast < MAX_FAINT_CONTRAST
    typical = float(np.median(ink.size)) if len(x) else 0.0
    tiny = (ink.size < MAX_TINY_SIZE) & (typical > 3 * MAX_TINY_SIZE)
    covered, tiny = covered & ~outside, tiny & ~outside & ~covered
    is_layer = (~ink.has_ink | below_picture) & ~(outside | covered | tiny)
    faint = is_faint & ~(outside | covered | tiny | is_layer)
    is_seen = ~(outside | covered | tiny | is_layer | faint)
    reasons = {
        "outside the page": outside,
        "covered": covered,
        "too small to read": tiny,
        "in the colour of the page": faint,
        "without ink": is_layer & _is_second(ink, is_layer & on_picture, is_layer, is_seen),
    }
    return Visibility(reasons, np.where(ink.has_ink, contrast, 255.0))


def _surroundings(ink: Ink, drawing: Drawing) -> tuple[Colours, Booleans, Booleans, Booleans]:
    """Return the colour below each letter, and whether it is covered, on a picture, or below a picture."""
    background = np.full((len(ink.size), 3), 255.0)
    covered, on_picture, below_picture = np.zeros((3, len(ink.size)), bool)
    x, y = ink.middles.T
    for box, colour, order in zip(drawing.surfaces, drawing.colours, drawing.orders, strict=True):
        within = (x > box[0]) & (y > box[1]) & (x < box[2]) & (y < box[3])
        is_before = within & (ink.order < order)
        if colour[0] == PICTURE[0]:
            on_picture |= within
            below_picture |= is_before
        elif colour[0] != UNKNOWN[0]:
            covered |= is_before
        background[within & ~is_before] = colour
    return background, covered, on_picture, below_picture


def _is_second(ink: Ink, is_scanned: Booleans, is_layer: Booleans, is_seen: Booleans) -> Booleans:
    """Return which letters of a layer without ink repeat or add to those that are seen."""
    if not is_seen.any():
        return np.zeros(len(is_seen), bool)
    found = is_layer & ~is_scanned
    if is_scanned.any():
        from scipy.spatial import KDTree  # why here: few pages need it, and it takes time to load

        distance, _ = KDTree(ink.middles[is_seen]).query(ink.middles[is_scanned])
        is_over = distance < COPY_DISTANCE * ink.size[is_scanned]
        found[is_scanned] = is_over | (is_over.mean() > SECOND_LAYER)
    return found
