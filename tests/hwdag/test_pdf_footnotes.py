"""Notes at the foot of the pages of a PDF, and sentences that continue on the next page."""

import io

import pytest
from pdf_world import HARBOUR, RAILWAY, SCHOOL, WATERWORKS, wrapped
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas

from hwdag.text.sentences import sentences
from hwdag.types import Document
from hwdag_files.page_texts import PageText, joined
from hwdag_files.pdf import pdf_content

FIRST, LAST = WATERWORKS[: WATERWORKS.index(" loan")], WATERWORKS[WATERWORKS.index("loan") :]
NOTES = ["See the minutes of 4 May, page 12, where the offers were compared.", "So the mayor."]
MARKS = {
    "numbers": ["1 ", "2 "],
    "brackets": ["[7] ", "[8] "],
    "dots": ["12. ", "13. "],
    "stars": ["* ", "** "],
    "daggers": ["†", "‡"],
}


def pages(*drawn):
    """Return pages of columns: each a place from the left with paragraphs, and notes below."""
    canvas = Canvas(buffer := io.BytesIO(), pagesize=A4, invariant=1)
    for columns in drawn:
        for x, width, paragraphs, notes in columns:
            at = 760
            for size, texts, lead in ((11, paragraphs, 14), (8, notes, 10)):
                canvas.setFont("Times-Roman", size)
                at = min(at, 130 if size == 8 else at)
                for text in texts:
                    for line in wrapped(text, width * 11 // size):
                        canvas.drawString(x, at, line)
                        at -= lead
                    at -= lead / 2 if size == 11 else 0
        canvas.line(72, 145, 200, 145)
        canvas.showPage()
    canvas.save()
    return pdf_content(buffer.getvalue())


def found_sentences(content):
    return [
        " ".join(content.text[span.start : span.end].split()) for span in sentences(content.text)
    ]


@pytest.mark.parametrize("name", MARKS)
def test_a_sentence_continues_over_notes_and_the_end_of_a_page(name):
    notes = [mark + note for mark, note in zip(MARKS[name], NOTES, strict=True)]
    content = pages(
        [(72, 80, [HARBOUR, FIRST], notes)], [(72, 80, [f"{LAST} {SCHOOL}", RAILWAY], [])]
    )
    text = content.text.replace("\n\n", "|").replace("\n", " ").split("|")
    assert text == [HARBOUR, WATERWORKS, *notes, SCHOOL, RAILWAY]
    document = Document("d", content.text, metadata={"page_starts": list(content.page_starts)})
    where = {words: document.page_of(content.text.index(words)) for words in ("So the", "The sch")}
    assert where == {"So the": 1, "The sch": 2}


def test_a_sentence_continues_in_the_next_column_over_the_notes_of_the_first():
    notes = [f"1 {NOTES[0]}"]
    left, right = (60, 36, [HARBOUR, FIRST], notes), (310, 36, [f"{LAST} {SCHOOL}", RAILWAY], [])
    content = pages([left, right])
    assert content.text.split("\n\n") == [HARBOUR, f"{WATERWORKS} {SCHOOL}", RAILWAY, *notes]


def test_notes_on_each_page_stay_on_their_page():
    content = pages(
        *(
            [(72, 80, [text], [f"{i} {text[:60]}."])]
            for i, text in enumerate((HARBOUR, SCHOOL, RAILWAY), 1)
        )
    )
    ends = [*content.page_starts[1:], len(content.text)]
    found = [content.text[a:b].split() for a, b in zip(content.page_starts, ends, strict=True)]
    assert [page[0] for page in found] == ["The", "The", "The"]
    assert [page.count(str(i)) for i, page in enumerate(found, 1)] == [1, 1, 1]


def test_a_list_of_books_in_small_type_stays_in_its_order():
    books = [
        f"[{i}] {name}, {text[:90]}."
        for i, (name, text) in enumerate(
            [("Aas", HARBOUR), ("Bakke", SCHOOL), ("Moe", RAILWAY), ("Boe", WATERWORKS)], 1
        )
    ]
    content = pages([(60, 36, [HARBOUR], books[:2]), (310, 36, [], books[2:])])
    places = [" ".join(content.text.split()).index(f"[{i}]") for i in range(1, 5)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("above", "below", "whole"),
    [
        ("cata-", "logue", "catalogue"),
        ("well-", "known", "well-known"),
        ("COVID-", "wave", "COVID-wave"),
    ],
)
def test_a_word_that_the_end_of_a_page_divides_is_put_together(above, below, whole):
    known = {"well-known", "covid-wave"}
    text, starts = joined([PageText(f"See the {above}"), PageText(f"{below} of it.")], known)
    assert text == f"See the {whole} of it."
    assert text[starts[1] :] == f"{below} of it."


def test_pages_without_a_text_begin_after_the_notes_of_the_page_above():
    pages = [PageText("One", "1 Note."), PageText(""), PageText("two."), PageText("", "2 Alone.")]
    text, starts = joined(pages)
    assert text == "One\n\n1 Note.\n\ntwo.\n\n2 Alone."
    assert [text[start:][:3] for start in starts] == ["One", "\n\nt", "two", "\n\n2"]
