#!/usr/bin/env bash
# rapidocr 3.10.0, onnxruntime 1.32.0 (2026-11-28)
# Expected: of a scan that lies upside down the text is right, or the confidence is low.
# Seen: each line is turned and read without a fault, but the lines come from the last to the first,
#   with scores of 0.99 and more, higher than those of the upright page. Of a page on its side the
#   order is a mixture, and two columns are read across, line by line, with scores of 1.0.
# Costs: the score is what pipelines filter by, and it cannot see any of this: answers are built from
#   sentences in the wrong order, clauses of two columns are one sentence.
. "$(dirname "$0")/lib/setup.sh" rapidocr==3.10.0 onnxruntime==1.32.0 pillow==13.0.0 numpy==2.4.6
python - 2>/dev/null <<'PY'
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rapidocr import RapidOCR
from still import still

LINES = ("The lease begins in May.", "The rent is 700 euro.", "The tenant paints the walls.")
FONT = ImageFont.load_default(size=34)


def page(*columns: tuple[str, ...]) -> Image.Image:
    image = Image.new("RGB", (650 * len(columns), 320), "white")
    for number, lines in enumerate(columns):
        for row, line in enumerate(lines):
            at = (40 + 650 * number, 40 + 80 * row)
            ImageDraw.Draw(image).text(at, line, fill="black", font=FONT)
    return image


def read(image: Image.Image) -> tuple[tuple[str, ...], bool]:
    found = reader(np.array(image))
    return found.txts, min(found.scores) > 0.98


reader = RapidOCR()
still(read(page(LINES)), (LINES, True), "upright, and sure")
still(read(page(LINES).rotate(180)), (LINES[::-1], True), "upside down, and sure")
left, right = ("The lease begins", "in May."), ("The rent is", "700 euro.")
across = tuple(line for pair in zip(left, right) for line in pair)
still(read(page(left, right)), (across, True), "two columns, and sure")
PY
