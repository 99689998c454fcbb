"""Bytes to text: by the byte order mark, as declared, as UTF-8, else by a guess that a note names.

marked -> UTF-16 without a mark -> declared -> UTF-8 -> Latin letters of one language -> charset-normalizer
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator

from hwdag.text.characters import without_surrogates
from hwdag.text.languages import detect_language
from hwdag_files.content import UnreadableError

COUNTING_HANDLER = "hwdag.counted"
"""Error handler that decodes each invalid byte to a lone surrogate, which valid input never yields, and counts it."""

MOST_NUL = 0.3  # share of NUL bytes in a damaged text, such as a log that was cut off
SAMPLE = 1 << 16  # bytes that an encoding is guessed from
MOST_LATIN = 0.2  # share of letters with accents, quotation marks and the like
LEAST_KANA = 0.2  # share of those beyond ASCII in a Japanese text
MOST_ODD = 0.1  # share of signs beyond ASCII that do not fit the language

# why: 32 before 16, because the mark of the one begins with that of the other
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")

_ESCAPED = (
    (b"\x1b$B", "iso2022_jp_2"),
    (b"\x1b$@", "iso2022_jp_2"),
    (b"\x1b$)C", "iso2022_kr"),
)
"""Encodings that ASCII and escape sequences write, by one of these."""

_EXTENDED = {
    **dict.fromkeys(("ascii", "iso8859-1"), "cp1252"),
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    **{"shift_jis": "cp932", "euc_kr": "cp949", "iso8859-9": "cp1254", "tis-620": "cp874"},
}
"""Declared encodings, each with the larger one that such files really use; browsers do the same."""

_LATIN = (
    "cp1252",
    "cp1250",
    "iso8859_2",
    "cp1254",
    "cp1257",
    "iso8859_15",
    "cp850",
    "cp852",
    "mac_roman",
)
_OTHERS = (
    *("gb18030", "big5", "cp932", "euc_jp", "cp949", "johab", "cp1251", "koi8_r", "koi8_u"),
    *("iso8859_5", "cp866", "cp855", "mac_cyrillic", "iso8859_6"),
    *("cp1253", "cp1255", "cp1256", "cp874", "cp1250", "cp1252", "cp1254", "cp1257"),
)
_JAPANESE = ("euc_jp", "cp932")
_NAMES = {
    **{"cp932": "Shift JIS", "cp949": "EUC-KR", "cp874": "Windows-874", "mac_roman": "Mac Roman"},
    **{"iso8859_2": "ISO-8859-2", "iso8859_15": "ISO-8859-15"},
}

_ALPHABETS = {
    language: frozenset(letters)
    for language, letters in {
        "ca": "àçèéíïòóúü", "cs": "áčďéěíňóřšťúůýž", "da": "æøåéèêëóòâôöäü", "de": "äöüßéè",
        "en": "éèêëçñöüïâàôæœáíóú", "es": "áéíñóúü", "et": "äöõüšž", "fi": "äöåšžéü",
        "fr": "àâæçéèêëîïôœùûüÿ", "hr": "čćđšž", "hu": "áéíóöőúüű", "is": "áðéíóúýþæö",
        "it": "àèéìíîòóùú", "lt": "ąčęėįšųūž", "lv": "āčēģīķļņšūž", "nb": "æøåéèêëóòâôöäü",
        "nl": "áéëïíóöúüèêç", "pl": "ąćęłńóśźż", "pt": "àáâãçéêíóôõúü", "ro": "ăâîşţșț",
        "sk": "áäčďéíĺľňóôŕšťúýž", "sv": "åäöéü", "tr": "çğıöşüâîû",
    }.items()
}  # fmt: skip
"""Letters beyond ASCII, by language."""

_USUAL = re.compile("[\xa0\xad„“”‚‘’«»‹›–—…•·€£¥§°©®™±×÷¡¿µ²³¹¼½¾ªº¶†‡‰]")
_BEYOND_ASCII = re.compile("[^\0-\x7f]")
_HALF_WIDTH = re.compile("[\uff66-\uff9f]")
_BETWEEN_LETTERS = re.compile("[\xad’·–—…/\xa0]")
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
UNREADABLE = re.compile(
    "[\\0-\\x08\\x0e-\\x1a\\x1c-\\x1f\\x7f-\\x84\\x86-\\x9f\\ue000-\\uf8ff\\ufdd0-\\ufdef\\ufffd-\\uffff]"
)
"""Characters that no text has: controls, those of private use, and the sign for wrong bytes."""


def decoded(data: bytes, declared: str = "utf-8") -> tuple[str, tuple[str, ...]]:
    """Decode a text, line breaks as line feeds; notes list guesses, replacements and omissions.

    Raises:
        UnreadableError: the bytes are no text.
    """
    text, notes = _decoded(data, declared)
    text, lost = without_surrogates(text)
    if lost:
        notes = (*notes, f"{lost} undecodable byte{'s' * (lost > 1)} replaced")
    return text.replace("\r\n", "\n").replace("\r", "\n"), notes


def _decoded(data: bytes, declared: str) -> tuple[str, tuple[str, ...]]:
    for mark, marked in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(marked, COUNTING_HANDLER), ()
    notes = list[str]()
    if nul := data.count(0):
        if wide := _wide(data):
            note = f"no byte order mark: read as {wide.upper()} (guessed)"
            return data.decode(wide), (note,) if wide != declared else ()
        if nul > MOST_NUL * len(data) or _CONTROL.search(data):
            raise UnreadableError("holds NUL bytes, so it is binary")
        data = data.replace(b"\0", b"")
        notes.append(f"{nul} NUL byte{'s' * (nul > 1)} left out")
    declared = codecs.lookup(declared).name
    escaped = next((one for sign, one in _ESCAPED if sign in data), None)
    if escaped and declared in ("utf-8", "ascii"):
        notes.append(f"escape sequences: read as {_name(escaped)} (guessed)")
        return data.decode(escaped, COUNTING_HANDLER), tuple(notes)
    text = data.decode(_EXTENDED.get(declared, declared), COUNTING_HANDLER)
    lost = without_surrogates(text)[1] if declared == "utf-8" else 0
    if lost and (encoding := _guessed(data, is_damaged=_is_damaged(data, lost))):
        notes.append(f"not UTF-8: read as {_name(encoding)} (guessed)")
        text = data.decode(encoding, COUNTING_HANDLER)
    return text, tuple(notes)


def _wide(data: bytes) -> str | None:
    """Return the encoding of UTF-16 or UTF-32 whose text has most characters of ASCII and no odd ones."""
    found = dict[str, int]()
    for encoding in _WIDE:
        try:
            text = data[:SAMPLE].decode(encoding)
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if not UNREADABLE.search(text):
            found[encoding] = len(text) - len(_BEYOND_ASCII.findall(text))
    return max(found, key=lambda one: found[one]) if found else None


def _is_damaged(data: bytes, lost: int) -> bool:
    """Return whether too many bytes beyond ASCII are valid UTF-8 for chance; the rest is damage then."""
    return 2 * len(_BEYOND_ASCII.findall(data.decode(errors="ignore"))) >= lost


def _guessed(data: bytes, *, is_damaged: bool) -> str | None:
    """Return the encoding that lines beyond ASCII seem to have; None if nothing fits, or UTF-8 that is damaged."""
    lines, size = list[bytes](), 0
    for line in _lines(data):
        if not line.isascii():
            lines.append(line)
            size += len(line)
        if size > SAMPLE:
            break
    sample = b"\n".join(lines)
    high = sum(byte > 127 for byte in sample)
    # why first: a short text of EUC-JP may look like damaged UTF-8
    if japanese := next((one for one in _JAPANESE if _is_japanese(sample, one)), None):
        return japanese
    if is_damaged:
        return None
    odd, latin = min((_odd(sample, one), at) for at, one in enumerate(_LATIN))
    if odd < 1 or (high < MOST_LATIN * len(sample) and odd <= MOST_ODD * high):
        return _LATIN[latin]
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return None
    # why: katakana of half width alone are Cyrillic or Greek letters
    is_odd = _HALF_WIDTH.search(sample.decode("cp932", errors="ignore")) is not None
    others = [one for one in _OTHERS if one != "cp932" or not is_odd]
    best = from_bytes(sample, cp_isolation=others).best()
    return best.encoding if best else None


def _is_japanese(data: bytes, encoding: str) -> bool:
    """Return whether a text has as much kana as Japanese: other languages have no kana."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return False
    kana = sum("\u3041" <= sign <= "\u30fa" for sign in text)
    return kana >= LEAST_KANA * len(_BEYOND_ASCII.findall(text))


def _lines(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start : min(end, start + SAMPLE)].strip(b"\r\n")
        start = end


def _odd(data: bytes, encoding: str) -> float:
    """Count the signs beyond ASCII that are unlikely in Latin letters, for the language that fits best."""
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return len(data)
    letters, odd = Counter[str](), 0
    for match in _BEYOND_ASCII.finditer(text):
        sign, after = match[0], text[match.end() : match.end() + 1]
        if sign.isalpha() and sign not in "ªº":
            letters[sign.lower()] += 1
        else:
            is_within = text[match.start() - 1 : match.start()].isalpha() and after.isalpha()
            odd += not _USUAL.match(sign) or (is_within and not _BETWEEN_LETTERS.match(sign))
    detected = detect_language(text)
    return odd + min(
        sum(times for letter, times in letters.items() if letter not in alphabet)
        # why: the letters of Turkish alone are those of Icelandic alone in the other encoding
        + (0.5 if language == "is" else 0.25 * (detected is not None and detected != language))
        for language, alphabet in _ALPHABETS.items()
    )


def _name(encoding: str) -> str:
    if encoding.startswith("cp125"):
        return f"Windows-{encoding[2:]}"
    return _NAMES.get(encoding, encoding.upper().replace("_", "-"))


def _count_bytes(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udc80" * (error.end - error.start), error.end


codecs.register_error(COUNTING_HANDLER, _count_bytes)
