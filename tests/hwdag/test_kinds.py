"""The first bytes of a file count for more than its name."""

import bz2
import gzip
import io
import lzma
import sqlite3
import struct
import tarfile
import wave
import zipfile

import pytest
from test_files import make_pdf
from test_files import word as make_word

from hwdag_files.kinds import kind_of
from hwdag_files.read import Skipped, read_documents


def packed(**parts):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, text in parts.items():
            file.writestr(name.replace("__", "/").replace("_", "."), text)
    return buffer.getvalue()


def image(kind):
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, kind)
    return buffer.getvalue()


def tar():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        file.addfile(tarfile.TarInfo("a.txt"))
    return buffer.getvalue()


def sound():
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(64))
    return buffer.getvalue()


def database(tmp_path):
    with sqlite3.connect(tmp_path / "made.db") as connection:
        connection.execute("CREATE TABLE a (b)")
    connection.close()
    return (tmp_path / "made.db").read_bytes()


FOREIGN = {
    "a PNG image": lambda: image("PNG"),
    "a JPEG image": lambda: image("JPEG"),
    "a GIF image": lambda: image("GIF"),
    "a TIFF image": lambda: image("TIFF"),
    "a BMP image": lambda: image("BMP"),
    "a WebP image": lambda: image("WEBP"),
    "a WAV recording": sound,
    "a gzip archive": lambda: gzip.compress(b"text"),
    "a bzip2 archive": lambda: bz2.compress(b"text"),
    "an xz archive": lambda: lzma.compress(b"text"),
    "a tar archive": tar,
    "a zip archive": lambda: packed(a_txt="text"),
    "a binary Excel workbook": lambda: packed(xl__workbook_bin="x"),
    "a program": lambda: b"\x7fELF" + bytes(60),
    "an old Office file": lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
    "a PostScript program": lambda: b"%!PS-Adobe-3.0\n(text) show\n",
    "an encrypted message": lambda: b"-----BEGIN PGP MESSAGE-----\n\nhQEM\n",
    "a video or recording": lambda: struct.pack(">I", 24) + b"ftypisom" + bytes(12),
    "a pointer of Git LFS": lambda: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
}


def read(tmp_path, data, name):
    (tmp_path / name).write_bytes(data)
    [found] = read_documents([tmp_path / name])
    return found


@pytest.mark.parametrize("name", ["a.txt", "a.pdf", "a.md", "a.json", "a"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_kinds_are_refused_by_their_name(tmp_path, kind, name):
    reason = read(tmp_path, FOREIGN[kind](), name).reason
    assert reason.startswith(f"it is {kind}") and "which hwdag does not read" in reason


def test_a_database_is_refused(tmp_path):
    reason = read(tmp_path, database(tmp_path), "a.txt").reason
    assert reason == "it is an SQLite database, which hwdag does not read; export its tables as CSV"


@pytest.mark.parametrize(
    "text",
    [
        "ID3 tags name a song.",
        "BZh9 begins an archive.",
        "PAR1, the first paragraph",
        "MZ is short for Marienzell",
        "BMW",
        "OTTO was here",
        "GIF89a is a format, PNG too",
        "PK is a school",
        "{\\rt is no RTF}",
        "We write <html> for pages.",
    ],
)
def test_words_that_look_so_are_text(tmp_path, text):
    assert read(tmp_path, text.encode(), "a.txt").text == text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.txt", "a.docx", "a.html", "a"])
def test_a_pdf_is_read_as_one_whatever_its_name(tmp_path, name):
    document = read(tmp_path, make_pdf("First page"), name)
    assert document.text == "First page"
    assert document.metadata["notes"][0].startswith("it is a PDF and no ")


@pytest.mark.slow
def test_a_word_file_is_read_as_one_whatever_its_name(tmp_path):
    body = "<w:body><w:p><w:r><w:t>They bark.</w:t></w:r></w:p></w:body>"
    for name in ("a.txt", "a.xlsx", "a.docm"):
        assert read(tmp_path, make_word(body), name).text == "They bark."


@pytest.mark.parametrize("name", ["a.txt", "a.xls", "a.doc", "a.pdf", "a.docx"])
@pytest.mark.parametrize(
    "head", ["<!DOCTYPE HTML>\n<html>", "\ufeff\n<html lang=en>", "<!-- x --><HTML>"]
)
def test_a_page_is_read_as_one_whatever_its_name(tmp_path, name, head):
    page = f"{head}<table><tr><th>Town<th>Cars<tr><td>Hamar<td>18</table></html>"
    document = read(tmp_path, page.encode(), name)
    assert document.text == "| Town, Cars\n| Hamar, Cars: 18"
    assert "it is an HTML page" in document.metadata["notes"][0]
    assert kind_of(page.encode(), ".md") is None


def test_damaged_packages_are_reported_by_their_reader(tmp_path):
    for name in ("a.docx", "a.xlsx", "a.epub"):
        found = read(tmp_path, b"PK\3\4 and no more", name)
        assert isinstance(found, Skipped) and "not a readable" in found.reason
