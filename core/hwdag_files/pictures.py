"""Pictures of pages, such as photos and faxes, read by OCR as a PDF of their pages."""

from __future__ import annotations

import io
from collections.abc import Callable

from hwdag_files.content import Content, UnreadableError, said
from hwdag_files.ocr import DPI
from hwdag_files.pdf import pdf_content


def picture_content(
    data: bytes,
    *,
    layout_seconds: float | None = None,
    show: Callable[[int], object] | None = None,
) -> Content:
    """Read a picture, upright as its camera noted; a TIFF may have several pages."""
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(data)) as picture:
            has_pages = picture.format == "TIFF" and getattr(picture, "n_frames", 1) > 1
            upright = picture if has_pages else ImageOps.exif_transpose(picture).convert("RGBA")
            if not has_pages:  # why: transparent parts are white, as paper is
                white = Image.new("RGBA", upright.size, "white")
                upright = Image.alpha_composite(white, upright).convert("RGB")
            upright.save(pages := io.BytesIO(), "PDF", resolution=DPI, save_all=has_pages)
    except Exception as error:  # Pillow raises all kinds of exceptions
        raise UnreadableError(f"not a readable picture: {said(error)}") from error
    return pdf_content(pages.getvalue(), layout_seconds=layout_seconds, show=show)
