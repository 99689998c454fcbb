"""Reading files: time and memory of this version and an older one, for `performance.py --only files`.

Each way runs in a process of its own, so that memory is its own, too. The older version is a worktree of
this repository's git, in a temporary folder; it needs pdfplumber.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from reportlab.lib import colors
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

ROOT = Path(__file__).parent.parent
OLD = "5a68074"  # the last version that read PDFs with pdfplumber alone
PAGES = 311  # of a manual of a program

_TEXT = ParagraphStyle(
    "text", fontName="Times-Roman", fontSize=10, leading=12, alignment=TA_JUSTIFY
)
_HEADING = ParagraphStyle("heading", fontName="Helvetica-Bold", fontSize=13, leading=18)
_READ = """
import json, sys, time
from {module} import parse
data = open(sys.argv[1], "rb").read()
start = time.process_time()
content = parse(data, ".pdf")
seconds = time.process_time() - start
# why not getrusage: the peak of the process that started this one counts there
lines = open("/proc/self/status").read().splitlines()
memory = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
print(json.dumps([seconds, memory, len(content.page_starts), len(content.text)]))
"""


@dataclass(frozen=True)
class Reading:
    """Seconds of the processor, megabytes at the peak, pages and characters of a file that was read."""

    seconds: float
    memory: float
    pages: int
    characters: int


def manual(pages: int = PAGES) -> bytes:
    """Return a manual: on each page headings, paragraphs and a table with lines, as made by reportlab."""
    story = []
    for page in range(1, pages + 1):
        story.append(Paragraph(f"{page} Options of the plot command", _HEADING))
        for part in range(1, 6):
            sentence = (
                f"The option number {page}.{part} sets the width of the lines of curve {part} in points, and "
                "a value of 0 draws the thinnest line that the terminal has. "
            )
            story.append(Paragraph(f"{page}.{part} Width of the lines", _HEADING))
            story.append(Paragraph(sentence * 4, _TEXT))
        rows = [["Option", "Default", "Unit"]]
        rows += [[f"width{page}{row}", f"{row}.{page % 10}", "points"] for row in range(8)]
        story.append(Table(rows, style=[("GRID", (0, 0), (-1, -1), 0.5, colors.black)]))
        story.append(PageBreak())
    SimpleDocTemplate(buffer := io.BytesIO(), pagesize=A4, invariant=1).build(story)
    return buffer.getvalue()


def beside_the_old_version(pages: int, rounds: int) -> Iterator[tuple[Reading, Reading]]:
    """Yield a manual's readings by this version and the older one, which take turns.

    Raises `ModuleNotFoundError` without pdfplumber: the older version would read no tables then, in a fraction
    of the time.
    """
    import_module("pdfplumber")
    with TemporaryDirectory() as folder, _worktree(Path(folder) / "old") as old:
        path = Path(folder) / "manual.pdf"
        path.write_bytes(manual(pages))
        for _ in range(rounds):
            new = _reading(path, ROOT / "core", "hwdag_files.converting")
            yield new, _reading(path, old / "core", "hwdag.text.converting")


def _reading(path: Path, packages: Path, module: str) -> Reading:
    found = subprocess.run(
        [sys.executable, "-c", _READ.format(module=module), path],
        env={**os.environ, "PYTHONPATH": str(packages)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return Reading(*json.loads(found.stdout))


@contextmanager
def _worktree(folder: Path) -> Iterator[Path]:
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", folder, OLD], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", folder], check=True)
