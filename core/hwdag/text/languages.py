"""The language of a text, as far as it decides where sentences end."""

from __future__ import annotations

import re
from collections import Counter

SAMPLE = 1 << 14
"""Characters at the beginning of a text that its language is told from."""

CERTAIN = 0.06
"""Share of a language's function words from which a text is taken for that language."""

_FUNCTION_WORDS = {
    "bg": "и на в е се за от да не с по като която което тази това",
    "cs": "a je se na v že s z do ve byl byla bylo která který jako také jsou od po",
    "da": "og er det en af den til på som for med har blev ikke i at et var fra ved hun hans efter",
    "de": "der die und das ist nicht ein eine den von mit sich dem auf wurde im zu am sie er bei in",
    "el": "και το η ο του της την να με για που από στο των",
    "en": "the of and to in is was that for with he on as his it by at from a an are be she her",
    "es": "el la los las del y que en una es por con para su un se al fue como más",
    "fi": "ja on ei että se oli hän mutta kuin ovat myös joka sekä ole tämä",
    "fr": "le la les des et est une dans du que pour qui au par un en il elle a sur sont aux",
    "hu": "a az és hogy nem egy is volt ez meg egyik csak még között után",
    "it": "il la di che e è una per del della gli con non nel un dal fu si lo al sono",
    "nb": "og er det en av den til på som for med har ble ikke i å et var fra ved hun hans etter",
    "nl": "de het een van en is dat niet op voor met zijn te in werd door uit bij aan",
    "pl": "i w na się z nie do jest że to jak był była było przez oraz przy od po",
    "pt": "o os a as da do das dos e que uma em não para com foi um no na pelo seu",
    "ru": "и в на не с что он по как из это от была был она его было также",
    "sk": "a je sa na v že s z do vo bol bola bolo ktorá ktorý ako tiež sú od po",
    "sv": "och är det en av den till på som för med har att i ett var från vid hon hans efter",
    "tr": "ve bir bu da için ile olarak olan çok daha göre kadar sonra en",
    "uk": "і в на не з що він по як із це від була був вона його та",
}
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in _FUNCTION_WORDS.items():
    for _one in _words.split():
        _LANGUAGES_OF.setdefault(_one, []).append(_language)
_WORD = re.compile(r"[^\W\d_]+")
_CYRILLIC = re.compile("[\u0400-\u04ff]")


def language_of(text: str) -> str:
    """Return the ISO 639-1 code of the language that has the most function words.

    With fewer than two different ones, or as many English ones, it is "en", in Cyrillic letters "ru".
    """
    words = _WORD.findall(text[:SAMPLE].lower())
    found, different = Counter[str](), Counter[str]()
    for word, times in Counter(words).items():
        for language in _LANGUAGES_OF.get(word, ()):
            found[language] += times
            different[language] += 1
    best = max(found, key=lambda language: (found[language], language == "en"), default="en")
    is_told = different[best] > 1 and found[best] >= CERTAIN * len(words)
    return best if is_told else "ru" if any(map(_CYRILLIC.match, words[:16])) else "en"
