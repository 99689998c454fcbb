"""Take the pictures of README and docs: build an index, ask it, open the pages in a browser.

    make screenshots READER=Qwen/Qwen2.5-1.5B-Instruct

The reader writes the points of the graph and makes its edges; the answer is that of the default models.
Needs the embedded models, the package playwright, and Chromium.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

from hwdag import Document, HWDAGIndex
from hwdag_files.read import read_documents

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
QUESTION = "Who owned the quarry that the stone of the harbour came from?"


def main() -> None:
    """Write the pictures of one answer, its parts, and the graph."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reader", help="hub name or path of a model that can write points")
    reader = parser.parse_args().reader
    documents = [d for d in read_documents([ROOT / "examples" / "town"]) if isinstance(d, Document)]
    documents = [Document(Path(d.id).stem, d.text, d.title) for d in documents]
    index = HWDAGIndex.from_documents(documents)
    graphs = HWDAGIndex.from_documents(documents, method="hwdag", reader=reader)
    for _ in range(2):  # the first loads the model, and its seconds are on the page
        answer = index.answer(QUESTION)
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as play, TemporaryDirectory() as folder:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--enable-unsafe-swiftshader"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        file = Path(folder) / "page.html"
        file.write_text(answer.to_html(), "utf-8")
        page.goto(file.as_uri())
        page.locator(".citations li").first.click()
        page.wait_for_timeout(1000)  # the page scrolls to the citation
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=IMAGES / "answer.png")
        page.locator(".citations").first.screenshot(path=IMAGES / "citations.png")
        page.get_by_label("Source documents").screenshot(path=IMAGES / "source.png")
        page.locator(".walk li").first.screenshot(path=IMAGES / "walk.png")
        file.write_text(graphs.to_html(), "utf-8")
        page.goto(file.as_uri())
        page.get_by_label("Find in nodes").fill("quarry")
        page.locator(".found button").first.click()
        page.wait_for_timeout(1000)  # the graph is drawn
        page.screenshot(path=IMAGES / "graph.png")
        browser.close()


if __name__ == "__main__":
    main()
