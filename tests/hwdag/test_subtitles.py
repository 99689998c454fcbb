"""Subtitles as running text: sentences, speakers, and the second of each cue."""

from itertools import pairwise

import pytest

from hwdag.text.sentences import sentences
from hwdag.types import Document
from hwdag_files.read import read_documents
from hwdag_files.subtitles import PAUSE, subtitles_content

SENTENCES = ["The bridge was closed because a ship hit it.", "The repair cost 4.2 million kroner."]
PIECES = [
    "The bridge was",
    "closed because a ship",
    "hit it. The repair",
    "cost 4.2 million kroner.",
]


def clock(seconds, mark=","):
    return f"00:{int(seconds) // 60:02}:{seconds % 60:06.3f}".replace(".", mark)


def srt(*pieces, length=2.0, gap=0.1, between="\n\n"):
    times = [(i * (length + gap), i * (length + gap) + length) for i in range(len(pieces))]
    return between.join(
        f"{i}\n{clock(start)} --> {clock(end)}\n{piece}"
        for i, ((start, end), piece) in enumerate(zip(times, pieces, strict=True), 1)
    )


def vtt(*pieces, head="WEBVTT"):
    cues = (f"{clock(i, '.')[3:]} --> {clock(i + 1, '.')}\n{one}" for i, one in enumerate(pieces))
    return "\n\n".join([head, *cues])


def text_of(written):
    return subtitles_content(written.encode()).text


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (srt(*PIECES), "a.srt"),
        (srt(*PIECES, between="\n").replace("\n", "\r\n"), "a.srt"),
        ("\ufeff" + srt(*PIECES, between="\n\n\n").replace(",", "."), "a.srt"),
        (srt(*(piece.replace(" ", "\n", 1) for piece in PIECES)), "a.SRT"),
        (srt(*(piece.replace(" ", "\n\n", 1) for piece in PIECES)), "a.srt"),
        (vtt(*PIECES), "a.vtt"),
        (vtt(*PIECES).replace("-->", "--> ").replace("\n\n", "\n\nname of a cue\n"), "a.vtt"),
    ],
)
def test_cues_are_joined_to_sentences(tmp_path, written, name):
    (tmp_path / name).write_bytes(written.encode())
    [document] = read_documents([tmp_path / name])
    spans = sentences(document.text)
    assert [document.text[span.start : span.end] for span in spans] == SENTENCES
    assert document.metadata["notes"] == []
    starts = [document.text.index(piece[:8]) for piece in PIECES]
    assert [time[0] for time in document.metadata["times"]] == starts


def test_a_character_has_the_second_of_its_cue():
    content = subtitles_content(srt(*PIECES).encode())
    document = Document("talk", content.text, metadata={"times": content.times})
    assert [document.time_of(content.text.index(word)) for word in ("The", "ship", "4.2")] == [
        0.0,
        2.1,
        6.3,
    ]
    assert Document("d", "text").time_of(0) is None
    for wrong in ("00:01", [1, 2], [[0, "1"]], [[0]], {"0": 1}):
        assert Document("d", "text", metadata={"times": wrong}).time_of(0) is None


@pytest.mark.parametrize(("gap", "between"), [(PAUSE - 0.01, " "), (PAUSE, "\n\n")])
def test_a_pause_ends_a_paragraph(gap, between):
    assert text_of(srt("We wait.", "It comes.", gap=gap)) == f"We wait.{between}It comes."


def test_speakers_are_named_at_the_start_of_their_paragraph():
    voices = [
        "<v.loud Ada Lind>The dike was",
        "<v Ada Lind>raised.</v> <v Olav &amp; Co>When?",
        "<v Ada Lind>In 1998.</v>",
        "[Applause]",
    ]
    paragraphs = ["Ada Lind: The dike was raised.", "Olav & Co: When?", "Ada Lind: In 1998."]
    assert text_of(vtt(*voices)).split("\n\n") == [*paragraphs, "[Applause]"]


def test_labels_of_speakers_are_those_that_come_twice():
    cues = ["ANNA: I go.", "ANNA: You stay.", "Bo: Why?", "Anna, why?", "Bo: Remember: close it."]
    assert text_of(srt(*cues)).split("\n\n") == [
        "ANNA: I go. You stay.",
        "Bo: Why? Anna, why? Remember: close it.",
    ]
    assert text_of(srt("Remember: close it.", "Thanks.")) == "Remember: close it. Thanks."


def test_dashes_part_two_speakers():
    cues = ["- Who came?\n- Nobody.", "It is\n-5 degrees.", "– Yes, as I\nsaid."]
    assert text_of(srt(*cues)).split("\n\n") == [
        "Who came?",
        "Nobody.",
        "It is -5 degrees.",
        "Yes, as I said.",
    ]


def test_marks_of_display_are_no_text():
    cues = [
        "{\\an8}<font color='red'>It's</font> <I>over</I> &lt;b&gt;",
        "<00:00:01.500><c.blue>a < b</c> &amp; c > d",
        "<ruby>漢<rt>kan</rt></ruby>字&nbsp;<b>now</b>",
    ]
    assert text_of(vtt(*cues)) == "It's over <b> a < b & c > d 漢字 now"


def test_scripts_without_blanks_are_joined_without():
    assert text_of(srt("橋は\n閉まった。", "春です。")) == "橋は閉まった。春です。"
    assert text_of(srt("مرحبا", "بالعالم")) == "مرحبا بالعالم"


def test_lines_that_roll_up_are_read_once():
    lines = ["the bridge", "was closed", "because", "of ice"]
    rolling = [lines[0], *("\n".join(pair) for pair in pairwise(lines))]
    assert text_of(vtt(*rolling)) == " ".join(lines)
    assert text_of(srt("No.", "No.", "Why not?", "I see.")) == "No. No. Why not? I see."


def test_the_head_of_webvtt_is_title_and_metadata():
    head = "WEBVTT - A talk\nKind: captions\nLanguage: en\n\nSTYLE\n::cue {}\n\nNOTE made by hand"
    content = subtitles_content(vtt("Hello.\n\nNOTE\nat the end", head=head).encode())
    assert (content.text, content.title) == ("Hello.", "A talk")
    assert content.metadata == {"Kind": "captions", "Language": "en"}
    assert content.notes == ("3 comments, style or region blocks left out",)


def test_times_that_cannot_be_read_are_no_text():
    broken = srt("One.", "Two.").replace("00:00:02,100 -->", "00:00:0d,100 -->")
    content = subtitles_content(broken.encode())
    assert "-->" not in content.text and content.text.endswith("Two.")
    assert content.notes == ("1 line of times left out that cannot be read",)
    assert subtitles_content(b"WEBVTT\n").text == ""


def test_other_texts_are_reported():
    content = subtitles_content(b"Only text.\n\nNo times.")
    assert content.text == "Only text.\n\nNo times."
    assert content.notes == ("no times found: read as text",)
    assert subtitles_content(f"by Ada\n\n{srt('Hi.')}".encode()).notes == (
        "1 line without a time left out",
    )


def test_cues_are_read_in_the_order_of_their_times():
    first, second = srt("First.", "Second.").split("\n\n")
    assert text_of(f"{second}\n\n{first}") == "First. Second."
