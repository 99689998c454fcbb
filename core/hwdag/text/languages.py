"""The language of a text: it decides where sentences end, and in which words prompts ask."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from unicodedata import name

SAMPLE = 1 << 14
"""Characters at the beginning of a text from which its language is detected."""

CERTAIN = 0.06
"""Share of a language's function words from which a text is taken for that language."""

KANA = 0.1
"""Kana per Chinese character from which a text is Japanese."""

_FUNCTION_WORDS = {
    "bg": "и на в е се за от да не с по като която което тази това кой къде кога защо",
    "cs": "a je se na v že s z do ve byl byla bylo která který jako také jsou od po kdo kde kdy jak proč",
    "da": "og er det en af den til på som for med har blev ikke i at et var fra ved hun hans efter hvem hvor hvornår hvad hvorfor",
    "de": "der die und das ist nicht ein eine den von mit sich dem auf wurde im zu am sie er bei in wer wo wann wie warum welche welcher was",
    "el": "και το η ο του της την να με για που από στο των ποιος πού πότε πώς γιατί",
    "en": "the of and to in is was that for with he on as his it by at from a an are be she her who where when how why which what",
    "es": "el la los las del y que en una es por con para su un se al fue como más quién dónde cuándo cómo cuál cuánto qué quien",
    "fi": "ja on ei että se oli hän mutta kuin ovat myös joka sekä ole tämä kuka missä milloin miten miksi",
    "fr": "le la les des et est une dans du que pour qui au par un en il elle a sur sont aux où quand comment pourquoi quel quelle combien",
    "hu": "a az és hogy nem egy is volt ez meg egyik csak még között után ki hol mikor hogyan miért",
    "it": "il la di che e è una per del della gli con non nel un dal fu si lo al sono chi dove quando come perché quale ha",
    "nb": "og er det en av den til på som for med har ble ikke i å et var fra ved hun hans etter hvem hvor når hva hvorfor",
    "nl": "de het een van en is dat niet op voor met zijn te in werd door uit bij aan wie waar wanneer hoe waarom welke wat",
    "pl": "i w na się z nie do jest że to jak był była było przez oraz przy od po kto gdzie kiedy dlaczego",
    "pt": "o os a as da do das dos e que uma em não para com foi um no na pelo seu quem onde quando qual quanto",
    "ru": "и в на не с что он по как из это от была был она его было также кто где когда почему какой",
    "sk": "a je sa na v že s z do vo bol bola bolo ktorá ktorý ako tiež sú od po kto kde kedy prečo",
    "sv": "och är det en av den till på som för med har att i ett var från vid hon hans efter vem när hur varför vad",
    "tr": "ve bir bu da için ile olarak olan çok daha göre kadar sonra en kim nerede nasıl neden hangi",
    "uk": "і в на не з що він по як із це від була був вона його та хто де коли чому який",
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in _FUNCTION_WORDS.items():
    for _one in _words.split():
        _LANGUAGES_OF.setdefault(_one, []).append(_language)
_WORD = re.compile(r"[^\W\d_]+")
_CYRILLIC = re.compile("[\u0400-\u04ff]")
_SCRIPTS = {
    "ARABIC": "ar",
    "ARMENIAN": "hy",
    "CJK": "zh",
    "GEORGIAN": "ka",
    "HANGUL": "ko",
    "HEBREW": "he",
    "HIRAGANA": "ja",
    "KATAKANA": "ja",
    "THAI": "th",
}
"""Languages of letters, by the first word of their names in Unicode."""

_NOT_ARABIC = re.compile("[\u067e\u0686\u0698\u06af\u0679\u0688\u06d2]")  # Persian, Urdu
NAMES = {
    "ar": "Arabic",
    "bg": "Bulgarian",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hu": "Hungarian",
    "hy": "Armenian",
    "it": "Italian",
    "ja": "Japanese",
    "ka": "Georgian",
    "ko": "Korean",
    "nb": "Norwegian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "sk": "Slovak",
    "sv": "Swedish",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "zh": "Chinese",
}
"""English names of the languages that are detected."""


def is_function_word(word: str) -> bool:
    """Return whether a lower-cased word is one that is everywhere in some language."""
    return word in _LANGUAGES_OF


def language_of(text: str) -> str:
    """Return the ISO 639-1 code of the language that has the most function words.

    With fewer than two different ones, or as many English ones, it is "en", in Cyrillic letters "ru".
    """
    words = _words_of(text)
    return _by_words(text, words) or ("ru" if any(map(_CYRILLIC.match, words[:16])) else "en")


def detect_language(text: str) -> str | None:
    """Return the ISO 639-1 code of a language that is sure, from letters or function words; else None."""
    script = _script_of(text)
    if script == "ARABIC" and _NOT_ARABIC.search(text[:SAMPLE]):
        return None
    return _SCRIPTS.get(script) or _by_words(text, _words_of(text))


def may_be_english(text: str) -> bool:
    """Return whether a text is in English, or in Latin letters and no language is sure."""
    return is_latin(text) and detect_language(text) in ("en", None)


def is_latin(text: str) -> bool:
    """Return whether most letters of a text are Latin, or it has none."""
    return _script_of(text) == "LATIN"


def _script_of(text: str) -> str:
    """Return the script of most letters, by the first word of their names; of Japanese it is "HIRAGANA"."""
    counts = Counter(map(_script_of_letter, filter(str.isalpha, text[:SAMPLE])))
    script = max(counts, key=counts.__getitem__, default="LATIN")
    kana = counts["HIRAGANA"] + counts["KATAKANA"]
    return "HIRAGANA" if script == "CJK" and kana > KANA * counts["CJK"] else script


@lru_cache(maxsize=4096)
def _script_of_letter(letter: str) -> str:
    return re.split("[ -]", name(letter, ""), maxsplit=1)[0]


def _words_of(text: str) -> list[str]:
    return _WORD.findall(text[:SAMPLE].lower())


def _by_words(text: str, words: list[str]) -> str | None:
    found, different = Counter[str](), Counter[str]()
    for word, times in Counter(words).items():
        for language in _LANGUAGES_OF.get(word, ()):
            found[language] += times
            different[language] += 1
    if "¿" in text[:SAMPLE]:  # no other language has it
        found["es"] += 2
        different["es"] += 2
    best = max(found, key=lambda language: (found[language], language == "en"), default="en")
    return best if different[best] > 1 and found[best] >= CERTAIN * len(words) else None
