"""Packed files: office files and books are zips of XML."""

from __future__ import annotations

import io
import zipfile

from hwdag_files.content import UnreadableError, said

UNPACKED_BYTES = 1 << 29  # of all members of a packed file together


def check_packed(data: bytes) -> None:
    """Raise `UnreadableError` for what is no package, or unpacks to too much."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            size = sum(member.file_size for member in packed.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise UnreadableError(f"not a readable package: {said(error)}") from error
    if size > UNPACKED_BYTES:
        raise UnreadableError(
            f"it unpacks to {size >> 20:,} MB, more than the {UNPACKED_BYTES >> 20} MB that are read"
        )
