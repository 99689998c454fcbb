"""The kind of a file by its first bytes, not by its name."""

from __future__ import annotations

import io
import re
import zipfile
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of file: its name for people, and the suffix of its reader; "" if hwdag reads no such file."""

    name: str
    suffix: str = ""
    advice: str = ""


_OLD_OFFICE = Kind(
    "an old Office file, an Outlook message or an encrypted document",
    advice="save it in a current format (.docx, .xlsx, .pptx, .eml), without a password",
)
PICTURE = ".picture"
"""In place of a suffix: pictures that OCR reads, whatever their format."""

_OCR = "to read it, install the extra: pip install 'hwdag[ocr]'"
_UNPACK = "unpack it"

_STARTS = (
    (b"%PDF-", Kind("a PDF", ".pdf")),
    (b"{\\rtf", Kind("an RTF document", ".rtf")),
    (b"\x89PNG\r\n\x1a\n", Kind("a PNG image", PICTURE, _OCR)),
    (b"\xff\xd8\xff", Kind("a JPEG image", PICTURE, _OCR)),
    (b"GIF87a", Kind("a GIF image", PICTURE, _OCR)),
    (b"GIF89a", Kind("a GIF image", PICTURE, _OCR)),
    (b"II*\0", Kind("a TIFF image", PICTURE, _OCR)),
    (b"MM\0*", Kind("a TIFF image", PICTURE, _OCR)),
    (b"8BPS\0", Kind("a Photoshop image", advice="export it as PNG")),
    (b"\0\0\1\0", Kind("an icon")),
    (b"AT&TFORM", Kind("a DjVu document", advice="convert it to PDF")),
    (b"%!PS", Kind("a PostScript program", advice="convert it to PDF")),
    (b"\xc5\xd0\xd3\xc6", Kind("a PostScript program", advice="convert it to PDF")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLD_OFFICE),
    (b"!BDN", Kind("an Outlook data file", advice="export its mails as .eml or .mbox")),
    (b"\x1f\x8b", Kind("a gzip archive", advice=_UNPACK)),
    (b"BZh9", Kind("a bzip2 archive", advice=_UNPACK)),
    (b"\xfd7zXZ\0", Kind("an xz archive", advice=_UNPACK)),
    (b"\x28\xb5\x2f\xfd", Kind("a Zstandard archive", advice=_UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", Kind("a 7-Zip archive", advice=_UNPACK)),
    (b"Rar!\x1a\x07", Kind("a RAR archive", advice=_UNPACK)),
    (b"MSCF\0\0\0\0", Kind("a cabinet archive", advice=_UNPACK)),
    (b"\x7fELF", Kind("a program")),
    (b"\xca\xfe\xba\xbe", Kind("a program")),
    (b"\xfe\xed\xfa\xce", Kind("a program")),
    (b"\xfe\xed\xfa\xcf", Kind("a program")),
    (b"\xce\xfa\xed\xfe", Kind("a program")),
    (b"\xcf\xfa\xed\xfe", Kind("a program")),
    (b"\0asm", Kind("a program")),
    (b"SQLite format 3\0", Kind("an SQLite database", advice="export its tables as CSV")),
    (b"\0\1\0\0Standard ", Kind("an Access database", advice="export its tables as CSV")),
    (b"PAR1", Kind("a Parquet file", advice="export it as CSV or JSON")),
    (b"ARROW1", Kind("an Arrow file", advice="export it as CSV or JSON")),
    (b"\x89HDF\r\n", Kind("an HDF5 file")),
    (b"\x93NUMPY", Kind("a NumPy array")),
    (b"GGUF", Kind("the weights of a model")),
    (b"OTTO\0", Kind("a font")),
    (b"\0\1\0\0\0", Kind("a font")),
    (b"wOFF", Kind("a font")),
    (b"wOF2", Kind("a font")),
    (b"ID3", Kind("an MP3 recording", advice="transcribe it")),
    (b"OggS\0", Kind("an Ogg recording", advice="transcribe it")),
    (b"fLaC\0", Kind("a FLAC recording", advice="transcribe it")),
    (b"\x1aE\xdf\xa3", Kind("a Matroska video", advice="transcribe it")),
    (b"-----BEGIN PGP MESSAGE-----", Kind("an encrypted message", advice="decrypt it")),
    (b"age-encryption.org/", Kind("an encrypted file", advice="decrypt it")),
    (
        b"version https://git-lfs.github.com/spec/",
        Kind("a pointer of Git LFS and not the file itself", advice="run `git lfs pull`"),
    ),
)

_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")
_RIFF = {b"WEBP": "a WebP image", b"WAVE": "a WAV recording", b"AVI ": "an AVI video"}
_TAR_AT = 257

ARCHIVE = Kind("a zip archive", advice=_UNPACK)
"""A package of an unknown kind, or a damaged one."""

_PACKAGES = {
    "word/document.xml": Kind("a Word document", ".docx"),
    "xl/workbook.xml": Kind("an Excel workbook", ".xlsx"),
    "ppt/presentation.xml": Kind("a PowerPoint presentation", ".pptx"),
    "xl/workbook.bin": Kind("a binary Excel workbook", advice="save it as .xlsx"),
    "Index/Document.iwa": Kind("a document of iWork", advice="export it as PDF or .docx"),
}
"""Kinds of packages by a part that they have."""

_MIMETYPES = {
    "application/epub+zip": Kind("an EPUB", ".epub"),
    "application/vnd.oasis.opendocument.text": Kind("an OpenDocument text", ".odt"),
    "application/vnd.oasis.opendocument.spreadsheet": Kind("an OpenDocument sheet", ".ods"),
    "application/vnd.oasis.opendocument.presentation": Kind("an OpenDocument show", ".odp"),
}

_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.{0,999}?-->\s*)?<(?:!doctype\s+html|html)\b", re.I | re.S
)
_MARKED_UP = frozenset({".html", ".htm", ".xhtml", ".xml", ".md", ".markdown", ".php", ".mht"})
"""Suffixes of files that may begin like an HTML page."""


def kind_of(data: bytes, suffix: str = "") -> Kind | None:
    """Return the kind that the first bytes of a file show; None for a text or an unknown kind.

    The suffix decides whether a file that begins like an HTML page is one.
    """
    is_binary = _CONTROL.search(data, 0, 1024) is not None
    for start, kind in _STARTS:
        # why: a text may begin with the words "ID3" or "BZh"
        if data.startswith(start) and (is_binary or not start.isalnum()):
            return kind
    if data.startswith((b"PK\3\4", b"PK\5\6", b"PK\7\x08")):
        return _package(data)
    if data[4:8] == b"ftyp":
        is_image = data[8:12] in (b"heic", b"heix", b"mif1", b"avif")
        return (
            Kind("an image", advice="export it as PNG")
            if is_image
            else Kind("a video or recording")
        )
    if data.startswith(b"RIFF") and data[8:12] in _RIFF:
        is_image = data[8:12] == b"WEBP"
        return Kind(_RIFF[data[8:12]], *((PICTURE, _OCR) if is_image else ()))
    if data[_TAR_AT : _TAR_AT + 5] == b"ustar":
        return Kind("a tar archive", advice=_UNPACK)
    if data.startswith((b"MZ", b"BM")) and is_binary:
        return Kind("a program") if data.startswith(b"MZ") else Kind("a BMP image", PICTURE, _OCR)
    if suffix not in _MARKED_UP and _PAGE.match(data[:2048]):
        return Kind("an HTML page", ".html")
    return None


def _package(data: bytes) -> Kind:
    """Return the kind of a zip, by its parts; one that cannot be opened is an archive, too."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            names = frozenset(packed.namelist())
            if "mimetype" in names and packed.getinfo("mimetype").file_size < 256:
                mimetype = packed.read("mimetype").decode("ascii", "replace").strip()
                if mimetype in _MIMETYPES:
                    return _MIMETYPES[mimetype]
    except Exception:  # damaged packages raise all kinds of exceptions
        return ARCHIVE
    return next((kind for part, kind in _PACKAGES.items() if part in names), ARCHIVE)
