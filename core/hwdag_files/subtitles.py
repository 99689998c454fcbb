"""Subtitles to running text: cues joined into sentences, with their times as positions.

00:01.000 --> 00:03.000
<v Ada>The dike was              Ada: The dike was raised in 1998.
00:03.000 --> 00:05.000          times: [[0, 1.0], [18, 3.0]]
<v Ada>raised in 1998.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import pairwise
from typing import NamedTuple

from hwdag.text.words import UNSPACED
from hwdag_files.content import Content, as_notes
from hwdag_files.encodings import decoded

PAUSE = 4.0  # seconds without a cue that end a paragraph

_CLOCK = r"(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?"
_TIMES = re.compile(rf"\s*{_CLOCK}\s*-->\s*{_CLOCK}(?:\s.*)?")
_TAG = re.compile(
    r"</?(?:[biusv]|c|font|lang|ruby|rp)(?:[.\s][^<>]*)?>|<(?:\d+:)?\d+:\d+[.,]\d+>|\{\\[^{}]*\}",
    re.I,
)
_RUBY = re.compile(r"<rt[^<>]*>[^<]*(?:</rt>)?", re.I)
_VOICE = re.compile(r"<v(?:\.[^<>\s]*)*\s+([^<>]+)>", re.I)
_DASH = re.compile(r"[-–—](?:\s+|(?=[^\W\d_]|[\"“„«¿¡]))")
_LABEL = re.compile(r"(?=[^\W\d_a-z])(\w[\w.'’-]*(?: \w[\w.'’-]*){0,4})\s?[:：]\s+(?=\S)")
_WITHOUT_BLANK = re.compile(f"(?![\u1000-\u109f])[{UNSPACED}、。！？]")
_NOTES = {
    "comment": "{} comment{s}, style or region block{s} left out",
    "broken": "{} line{s} of times left out that cannot be read",
    "astray": "{} line{s} without a time left out",
}


class Cue(NamedTuple):
    """Lines that are shown together, from one second to another."""

    start: float
    end: float
    lines: list[str]


@dataclass(frozen=True, slots=True)
class _Utterance:
    """Words of one speaker; `speaker` is "" if unnamed, None for an unnamed change of speaker."""

    start: float
    end: float
    speaker: str | None
    text: str


def subtitles_content(data: bytes) -> Content:
    """Read subtitles (SRT or WebVTT) as paragraphs: one ends with its speaker, or at a pause."""
    text, notes = decoded(data)
    noted = Counter[str]()
    head, cues = _cues(text, noted)
    if not cues:
        shown = "" if text.startswith("WEBVTT") else text
        return Content(shown, "", (*notes, f"no times found{': read as text' * bool(shown)}"))
    title, metadata = _header(head)
    cues = _without_rolling(sorted(cues, key=lambda cue: cue.start))
    found, times = _written(_utterances(cues))
    notes = (*notes, *as_notes(noted, _NOTES))
    return Content(found, title, notes, metadata=metadata, times=tuple(times))


def _cues(text: str, noted: Counter[str]) -> tuple[list[str], list[Cue]]:
    """Return the lines of the header, and the cues; blank lines may be missing, or within a cue."""
    lines = text.split("\n")
    starts = [i for i, line in enumerate(lines) if "-->" in line and _TIMES.fullmatch(line)]
    is_webvtt = lines[0].startswith("WEBVTT")
    cues = list[Cue]()
    for start, end in pairwise([*starts, len(lines) + 1]):
        found = _TIMES.fullmatch(lines[start])
        assert found
        body = lines[start + 1 : end - (end <= len(lines) and _is_name(lines, end - 1))]
        blocks = "\n".join(body).strip("\n").split("\n\n") if is_webvtt else ["\n".join(body)]
        shown = [one for one in blocks if not re.match(r"(?:NOTE|STYLE|REGION)\b", one)]
        noted["comment"] += len(blocks) - len(shown)
        kept = [line for line in "\n".join(shown).split("\n") if line.strip()]
        noted["broken"] += sum("-->" in line for line in kept)
        kept = [line for line in kept if "-->" not in line]
        cues.append(Cue(_seconds(found.groups()[:4]), _seconds(found.groups()[4:]), kept))
    first = starts[0] if starts else 0
    head = lines[: max(0, first - _is_name(lines, first - 1))] if starts else []
    if is_webvtt:
        blocks = "\n".join(head).split("\n\n")
        noted["comment"] += sum(bool(re.match("NOTE|STYLE|REGION", one)) for one in blocks[1:])
        return blocks[0].split("\n"), cues
    noted["astray"] += sum(map(bool, map(str.strip, head)))
    return [], cues


def _is_name(lines: Sequence[str], at: int) -> bool:
    """Return whether a line before the times of a cue is its number or name."""
    if at < 0 or not lines[at].strip():
        return False
    is_apart = at == 0 or not lines[at - 1].strip()
    return lines[at].strip().isdecimal() or (is_apart and not lines[at].startswith("WEBVTT"))


def _seconds(parts: Sequence[str | None]) -> float:
    hours, minutes, seconds, share = (part or "0" for part in parts)
    return 3600 * int(hours) + 60 * int(minutes) + float(f"{seconds}.{share}")


def _header(lines: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the title and the settings of a WebVTT file ("Language: en")."""
    if not lines:
        return "", {}
    pairs = (line.partition(":") for line in lines[1:])
    settings = {name.strip(): value.strip() for name, sign, value in pairs if sign and name.strip()}
    return lines[0].removeprefix("WEBVTT").strip(" \t-–—"), settings


def _without_rolling(cues: list[Cue]) -> list[Cue]:
    """Leave out lines that stay on the screen while the next one comes below them.

    That is so if most cues begin with the last lines of the one before.
    """
    texts = [[_bare(line) for line in cue.lines] for cue in cues]
    stays = [0, *(_stay(one, two) for one, two in pairwise(texts))]
    rolling = sum(map(bool, stays))
    if rolling < 2 or 2 * rolling < len(cues):
        return cues
    return [cue._replace(lines=cue.lines[n:]) for cue, n in zip(cues, stays, strict=True)]


def _stay(before: Sequence[str], lines: Sequence[str]) -> int:
    """Return how many of the first lines are the last ones of the cue before."""
    most = min(len(before), len(lines), 8)
    return next((n for n in range(most, 0, -1) if before[-n:] == lines[:n]), 0)


def _bare(line: str) -> str:
    return " ".join(unescape(_TAG.sub("", _RUBY.sub("", line))).split())


def _utterances(cues: Sequence[Cue]) -> list[_Utterance]:
    """Return the words of each speaker in a cue, whom a tag, a label or only a dash names."""
    found = list[_Utterance]()
    for start, end, lines in cues:
        found += [_Utterance(start, end, *one) for one in _voices(lines)]
    labels = [None if one.speaker else _LABEL.match(one.text) for one in found]
    # why twice: "Remember: close the door" names nobody
    names = Counter(label[1] for label in labels if label)
    before: _Utterance | None = None
    for i, (one, label) in enumerate(zip(found, labels, strict=True)):
        if label and names[label[1]] > 1:
            before = replace(one, speaker=label[1], text=one.text[label.end() :])
        elif before and one.speaker == "" and one.start - before.end < PAUSE:
            before = replace(one, speaker=before.speaker)  # captions name who begins to speak
        else:
            before = None
        found[i] = before or one
    return found


def _voices(lines: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """Yield speaker and words; a line that begins with a dash is by somebody else."""
    dashes = [bool(_DASH.match(_bare(line))) for line in lines]
    has_dashes = sum(dashes) > 1 or any(dashes[:1])
    speaker: str | None = ""
    words = list[str]()
    for line in lines:
        first, *voices = _VOICE.split(line)
        for name, part in [(speaker, first), *zip(voices[::2], voices[1::2], strict=True)]:
            text = _bare(part)
            dash = _DASH.match(text) if has_dashes else None
            if words and (name != speaker or dash or _LABEL.match(text)):
                yield speaker, _joined(words)
                words = []
            speaker = None if dash else " ".join(unescape(name).split()) if name else name
            words += [text[dash.end() :] if dash else text] if text else []
    if words:
        yield speaker, _joined(words)


def _joined(words: Sequence[str]) -> str:
    text = ""
    for one in words:
        text += _between(text, one) + one
    return text


def _between(before: str, after: str) -> str:
    """Return the blank between two pieces of a text; scripts without blanks have none."""
    if not before or not after:
        return ""
    return "" if all(map(_WITHOUT_BLANK.match, (before[-1], after[0]))) else " "


def _written(found: Sequence[_Utterance]) -> tuple[str, list[tuple[float, float]]]:
    """Return the text, and the character and the second at which each utterance begins."""
    pieces, times, length = list[str](), list[tuple[float, float]](), 0
    before: _Utterance | None = None
    for one in found:
        is_new = (
            before is None
            or one.speaker is None
            or one.speaker != before.speaker
            or one.start - before.end >= PAUSE
        )
        gap = "\n\n" if is_new and before else _between(pieces[-1] if pieces else "", one.text)
        name = f"{one.speaker}: " if is_new and one.speaker else ""
        times.append((length + len(gap), one.start))
        pieces.append(f"{gap}{name}{one.text}")
        length += len(pieces[-1])
        before = one
    return "".join(pieces), times
