"""PDF, office and other packed files to text, in a process of their own.

A file of a few kilobytes may unpack to gigabytes, or keep a parser busy for hours. A thread cannot be
stopped, so a process with a limit of memory and time parses such a file.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace

from hwdag.text.characters import without_surrogates
from hwdag.trace.bars import Reporter, Silent
from hwdag_files.content import Content, UnreadableError, said
from hwdag_files.encoded import without_encoded
from hwdag_files.kinds import PICTURE
from hwdag_files.packages import check_packed
from hwdag_files.readers import PACKED_SUFFIXES, READERS, TEXT_READERS

CONVERTED_SUFFIXES = frozenset(READERS)
"""Office files and books, which the extra `documents` reads, notebooks and the like."""

LAYOUT_SHARE = 0.5  # of the time for a PDF; when it is over, pages are read without their layout
MEMORY_BYTES = 4 << 30  # of the process that parses a file
_PAGES = b"pages "  # the line of the total of pages for OCR, repeated after each page
MOST_CHARACTERS = 1 << 27  # of a text


def convert(
    data: bytes, suffix: str, *, max_seconds: float, reporter: Reporter | None = None
) -> Content:
    """Read a file that has to be parsed; raises `UnreadableError`. The reporter shows the pages that OCR reads."""
    command = [sys.executable, "-P", "-m", "hwdag_files.converting"]
    command += [suffix, f"{max_seconds}", f"{MEMORY_BYTES}"]
    # why: the child must import from the same folders
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    late = threading.Event()
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        command, env=environment, stdin=pipe, stdout=pipe, stderr=nothing
    ) as child:

        def end() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(max_seconds, end)
        timer.start()
        try:
            answer = _answer(child, data, reporter or Silent())
        except BaseException:
            child.kill()
            raise
        finally:
            timer.cancel()
    if late.is_set():
        raise UnreadableError(
            f"reading it took longer than {max_seconds:g} s; allow more with max_seconds, or give "
            "its text"
        )
    try:
        found = json.loads(answer)
    except ValueError:
        raise UnreadableError(
            f"reading it needs more than {MEMORY_BYTES >> 20:,} MB, or broke its parser (status "
            f"{child.returncode}); give its text"
        ) from None
    if "reason" in found:
        raise UnreadableError(found["reason"])
    sequences = ("notes", "page_starts", "times")
    return Content(**found | {name: tuple(found[name]) for name in sequences})


def _answer(child: subprocess.Popen[bytes], data: bytes, reporter: Reporter) -> bytes:
    """Give the process its file, show its progress, and return its last line."""
    assert child.stdin and child.stdout
    with suppress(OSError):  # why: the process may have ended
        child.stdin.write(data)
        child.stdin.close()
    answer, advance = b"", None
    with ExitStack() as stage:
        for line in child.stdout:
            if not line.startswith(_PAGES):
                answer = line
            elif advance is None:
                total = int(line.removeprefix(_PAGES))
                advance = stage.enter_context(reporter.stage("reading by OCR", total, "pages"))
            else:
                advance(1)
    return answer


def main() -> None:
    """Parse standard input, for `convert`; the arguments are the suffix of the file, seconds, and bytes of memory."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # why: libraries may print
    logging.disable()
    with suppress(ImportError, ValueError, OSError):  # on Windows, or if a lower limit is set
        from resource import RLIMIT_AS, setrlimit

        setrlimit(RLIMIT_AS, (int(sys.argv[3]),) * 2)
    try:
        layout_seconds = LAYOUT_SHARE * float(sys.argv[2])

        def show(total: int) -> None:
            answer.write(b"%s%d\n" % (_PAGES, total))
            answer.flush()

        found = asdict(parse(sys.stdin.buffer.read(), sys.argv[1], layout_seconds, show))
    except UnreadableError as error:
        found = {"reason": str(error)}
    with answer:
        answer.write(json.dumps(found).encode())


def parse(
    data: bytes,
    suffix: str,
    layout_seconds: float | None = None,
    show: Callable[[int], object] | None = None,
) -> Content:
    """Read a file within this process; raises `UnreadableError`. The last arguments are those of `pdf_content`."""
    if suffix == ".pdf":
        from hwdag_files.pdf import pdf_content  # why here: PDFium stays out of other processes

        content = pdf_content(data, layout_seconds=layout_seconds, show=show)
    elif suffix == PICTURE:
        from hwdag_files.pictures import picture_content

        content = picture_content(data, layout_seconds=layout_seconds, show=show)
    else:
        content = _converted(data, suffix)
    if len(content.text) > MOST_CHARACTERS:
        raise UnreadableError(
            f"its text has {len(content.text):,} characters, more than {MOST_CHARACTERS:,}"
        )
    return content


def _converted(data: bytes, suffix: str) -> Content:
    """Read a file by its reader; raises `UnreadableError`."""
    if suffix in PACKED_SUFFIXES:
        check_packed(data)
    try:
        found = (READERS.get(suffix) or TEXT_READERS[suffix])(data)
    except UnreadableError:
        raise
    except ImportError:
        raise UnreadableError(
            f"to read {suffix} install the extra: pip install 'hwdag[documents]'"
        ) from None
    except Exception as error:  # the parsers raise all kinds of exceptions
        raise UnreadableError(f"not a readable {suffix} file: {said(error)}") from error
    text, odd = without_surrogates(found.text)
    notes = (f"{odd} characters that are not Unicode replaced",) if odd else ()
    title, _ = without_surrogates(found.title)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not found.times:  # why: times refer to characters of this text
        text, more = without_encoded(re.sub("[\xad\u2060]", "", text))
        notes = (*notes, *more)
    return replace(found, text=text.strip(), title=title.strip(), notes=(*found.notes, *notes))


if __name__ == "__main__":
    main()
