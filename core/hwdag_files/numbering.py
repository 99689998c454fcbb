"""Numbers of paragraphs, counted as Word does: the file does not store them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

_LEVELS = 9
_PLACE = re.compile("%([1-9])")
_ROMAN = dict(
    zip(
        (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
        ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"),
        strict=True,
    )
)
_ONES = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
    sixteen seventeen eighteen nineteen
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
_LETTERS = {
    "lowerLetter": "abcdefghijklmnopqrstuvwxyz",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "hebrew2": "אבגדהוזחטיכלמנסעפצקרשת",
    "arabicAlpha": "أبتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "arabicAbjad": "أبجدهوزحطيكلمنسعفصقرشتثخذضظغ",
    "thaiLetters": "กขคงจฉชซฌญฎฏฐฑฒณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮ",
    "aiueo": "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン",
    "aiueoFullWidth": "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン",
    "iroha": "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセスン",
    "ganada": "가나다라마바사아자차카타파하",
    "chosung": "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ",
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "decimalEnclosedCircle": "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳",
    "decimalEnclosedCircleChinese": "①②③④⑤⑥⑦⑧⑨⑩",
    "decimalEnclosedParen": "⑴⑵⑶⑷⑸⑹⑺⑻⑼⑽⑾⑿⒀⒁⒂⒃⒄⒅⒆⒇",
    "decimalEnclosedFullstop": "⒈⒉⒊⒋⒌⒍⒎⒏⒐⒑⒒⒓⒔⒕⒖⒗⒘⒙⒚⒛",
}
_REPEATED = {"lowerLetter", "russianLower"}
_DIGITS = {
    "decimalFullWidth": "０１２３４５６７８９",
    "decimalFullWidth2": "０１２３４５６７８９",
    "hindiNumbers": "०१२३४५६७८९",
    "thaiNumbers": "๐๑๒๓๔๕๖๗๘๙",
    "ideographDigital": "〇一二三四五六七八九",
    "japaneseDigitalTenThousand": "〇一二三四五六七八九",
}
_IDEOGRAMS = {
    "japaneseCounting",
    "chineseCounting",
    "chineseCountingThousand",
    "taiwaneseCounting",
    "taiwaneseCountingThousand",
}


def shown(number: int, form: str, language: str = "en") -> str:
    """Write a number in one of Word's formats; in digits if the format is unknown or has no more signs."""
    if number < 1 or number > 1 << 15:
        return str(number)
    if form in ("upperRoman", "upperLetter", "russianUpper"):
        return shown(number, form.replace("upper", "lower").replace("Upper", "Lower")).upper()
    if form in _LETTERS:
        return _lettered(number, form)
    if digits := _DIGITS.get(form):
        return str(number).translate(str.maketrans("0123456789", digits))
    if form in _IDEOGRAMS and number < 100:
        return _ideograms(number)
    if form in ("cardinalText", "ordinalText") and language.startswith("en") and number < 100:
        return _words(number, is_ordinal=form == "ordinalText").capitalize()
    others = {
        "lowerRoman": _roman(number),
        "decimalZero": f"{number:02}",
        "ordinal": _ordinal(number, language),
        "numberInDash": f"- {number} -",
    }
    return others.get(form, str(number))


def _lettered(number: int, form: str) -> str:
    letters = _LETTERS[form]
    times, at = divmod(number - 1, len(letters))
    if form in _REPEATED:  # "aa", then "bb"
        return letters[at] * (times + 1)
    return str(number) if times else letters[at]


def _ideograms(number: int) -> str:
    tens, ones = divmod(number, 10)
    signs = _DIGITS["ideographDigital"]
    return (signs[tens] if tens > 1 else "") + "十" * (tens > 0) + (signs[ones] if ones else "")


def _roman(number: int) -> str:
    text = ""
    for value, sign in _ROMAN.items():
        text += sign * (number // value)
        number %= value
    return text


def _ordinal(number: int, language: str) -> str:
    if not language.startswith("en"):
        ending = {"fr": "e", "es": "º", "it": "º", "pt": "º", "nl": "e"}.get(language[:2], ".")
        return f"{number}er" if language.startswith("fr") and number == 1 else f"{number}{ending}"
    teens = 10 < number % 100 < 20
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _words(number: int, *, is_ordinal: bool) -> str:
    tens, ones = divmod(number, 10)
    words = _ONES.split()[number] if number < 20 else _TENS.split()[tens - 2]
    if number > 20 and ones:
        words += f"-{_ONES.split()[ones]}"
    if not is_ordinal:
        return words
    head, hyphen, last = words.rpartition("-")
    if last.endswith("y"):
        return f"{head}{hyphen}{last[:-1]}ieth"
    return f"{head}{hyphen}{_ORDINALS.get(last) or last + 'th'}"


@dataclass(slots=True)
class _Level:
    """How the paragraphs of a level are counted and shown."""

    start: int = 1
    form: str = "decimal"
    text: str = ""
    restart: int | None = None  # the level from 1 that restarts it; 0 for never
    is_legal: bool = False
    style: str = ""


@dataclass(slots=True)
class _List:
    abstract: str
    levels: Mapping[int, _Level]
    starts: dict[int, int] = field(default_factory=dict)  # where this list begins anew, by level


class Numbering:
    """The lists of a document, which count while it is read from the beginning."""

    def __init__(self, root: Any = None, linked: Callable[[str], str] = str) -> None:
        """Read the lists of `numbering.xml`; `linked` gives the list of a style of numbering."""
        self._lists: dict[str, _List] = {}
        self._counts: dict[str, dict[int, int]] = {}
        self._styles: dict[str, tuple[str, int]] = {}
        if root is not None:
            self._read(root, linked)

    def by_style(self, style: str) -> tuple[str, int] | None:
        """Return list and level of the paragraphs of a style that a level of a list names."""
        return self._styles.get(style)

    def next(self, number_id: str, level: int, language: str = "en") -> str | None:
        """Count a paragraph, and return its number; "" for a bullet, None if it is in no list."""
        found = self._lists.get(number_id)
        if found is None or level not in found.levels:
            return None
        counts = self._counts.setdefault(found.abstract, {})
        for at, start in found.starts.items():  # why once: later ones of this list continue
            counts[at] = start - 1
        found.starts.clear()
        own = found.levels[level]
        counts[level] = counts.get(level, own.start - 1) + 1
        for at, below in found.levels.items():
            if at > level and (below.restart is None or level < below.restart):
                counts.pop(at, None)
        return _PLACE.sub(
            lambda place: self._part(found, int(place[1]) - 1, own, language), own.text
        )

    def _part(self, found: _List, level: int, own: _Level, language: str) -> str:
        if level not in found.levels:
            return ""
        form = "decimal" if own.is_legal else found.levels[level].form
        count = self._counts[found.abstract].get(level, found.levels[level].start)
        return "" if form == "none" else shown(count, form, language)

    def _read(self, root: Any, linked: Callable[[str], str]) -> None:
        abstracts, links = dict[str, dict[int, _Level]](), dict[str, str]()
        for one in root.iterchildren(f"{WORD}abstractNum"):
            name = one.get(f"{WORD}abstractNumId", "")
            abstracts[name] = dict(map(_level, one.iterchildren(f"{WORD}lvl")))
            if link := _value(one, "numStyleLink"):
                links[name] = link
        of = {
            one.get(f"{WORD}numId", ""): _value(one, "abstractNumId") or ""
            for one in root.iterchildren(f"{WORD}num")
        }
        for one in root.iterchildren(f"{WORD}num"):
            number_id = one.get(f"{WORD}numId", "")
            abstract = of[number_id]
            if abstract in links:
                abstract = of.get(linked(links[abstract]), abstract)
            levels, starts = dict(abstracts.get(abstract, {})), dict[int, int]()
            for changed in one.iterchildren(f"{WORD}lvlOverride"):
                at = _integer(changed.get(f"{WORD}ilvl"), 0)
                if (level := changed.find(f"{WORD}lvl")) is not None:
                    levels[at] = _level(level)[1]
                if (start := _value(changed, "startOverride")) is not None:
                    starts[at] = _integer(start, 1)
            self._lists[number_id] = _List(abstract, levels, starts)
            for at, level in levels.items():
                if level.style:
                    self._styles.setdefault(level.style, (number_id, at))


def _level(element: Any) -> tuple[int, _Level]:
    at = _integer(element.get(f"{WORD}ilvl"), 0)
    form = _value(element, "numFmt") or _value(element, ".//" + WORD + "numFmt") or "decimal"
    legal = element.find(f"{WORD}isLgl")
    restart = _value(element, "lvlRestart")
    text = _value(element, "lvlText") or ""
    return min(at, _LEVELS), _Level(
        _integer(_value(element, "start"), 0),
        form,
        bullet(text) if form == "bullet" else text,
        None if restart is None else _integer(restart, 0),
        legal is not None and legal.get(f"{WORD}val") not in ("0", "false", "off"),
        _value(element, "pStyle") or "",
    )


def bullet(sign: str) -> str:
    """Return the sign of a bullet that is a box with its state; "" for any other one."""
    return {"☐": "[ ]", "☑": "[x]", "☒": "[x]"}.get(sign.strip(), "")


def _value(element: Any, name: str) -> str | None:
    found = element.find(name if name.startswith(".") else WORD + name)
    value = None if found is None else found.get(f"{WORD}val")
    return None if value is None else str(value)


def _integer(text: str | None, default: int) -> int:
    try:
        return int(text or default)
    except ValueError:
        return default
