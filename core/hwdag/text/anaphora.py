"""Which part of a message asks, and whether that can be understood without the text before it (not in the papers).

A question within a conversation cannot if it has no words of its own ("Why?"), is no whole question ("And in winter?"), or has a pronoun
whose antecedent it does not name ("When was she born?").
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hwdag.text.languages import detect_language, is_function_word
from hwdag.text.sentences import is_question, sentences
from hwdag.text.words import STOPWORDS

LONG_QUESTION = 600
"""Characters of a question that asks in full; a longer one is a message with a question in it."""

_PRONOUNS = {
    "en": "he she they him them her hers his its their theirs it this these those that there then here "
    "one ones else others same",
    "de": "er sie es ihn ihm ihr ihnen ihre ihren ihrem ihrer ihres sein seine seinen seinem seiner dort da "
    "damals davon dafür dazu darin daran dabei danach davor dagegen dies diese dieser dieses diesem "
    "diesen das sonst",
    "es": "él ella ellos ellas su sus eso esa ese esos esas esto allí ahí entonces",
    "fr": "il elle ils elles lui leur leurs cela ça là alors celui celle ceux celles",
    "it": "lui lei loro suo sua suoi sue ciò questo quello lì là allora",
    "nl": "hij zij ze hem haar hun daar dat toen deze dit die",
    "pt": "ele ela eles elas seu sua seus suas isso isto lá ali então",
}
_SETS = {language: frozenset(said.split()) for language, said in _PRONOUNS.items()}
_ANY = frozenset().union(*_SETS.values()) - {"es", "sua", "so", "da", "das", "die", "la", "sein"}
_AT_THE_END = frozenset(["that", "das", "dat", "then", "da", "die", "one", "ones", "here", "same"])
"""Pronouns that refer to something only at the end: "before that?", not "the person that built it"."""

_ADVERB = re.compile(
    r"\b(?:before|after|afterwards|earlier|later|next|previously|instead|then|too|davor|danach|vorher|nachher|"
    r"avant|après|antes|después|depois|prima|dopo|daarna)\W*$",
    re.I,
)
"""Compares with something that a short question leaves out: "What happened next?"."""

_CONJUNCTION = re.compile(
    r"\W*(?:and|but|or|so|und|aber|oder|et|mais|ou|y|pero|e|ma|o|en|maar|mas)\b\s*", re.I
)
_THING = (
    r"(?:(?:in|on|at|by|since|to|from|for|with|of|mit|von|für|seit|an|auf|bis|aus|zu)\s+)?(?:who|whom|whose|what|which|"
    r"when|where|why|how|wer|wen|wem|wessen|was|welch\w*|wann|wo|woher|wohin|warum|wieso|wie|womit|wozu|qui|que|quoi|"
    r"quand|où|pourquoi|comment|combien|quel\w*|qué|quién|dónde|cuándo|cómo|cuál\w*|cuánt\w*|chi|che|dove|come|"
    r"perché|quanto|wat|waar|wanneer|waarom|hoe|welke?|quem|onde)\b"
)
_ASKS = re.compile(
    rf"{_THING}.*\s\w+\s+\w|(?:is|are|was|were|do|does|did|has|"
    r"have|had|can|could|may|must|should|will|would|ist|sind|war|waren|hat|haben|wird|kann|darf|muss|est|a)\b",
    re.I,
)
"""A question that is whole, after a conjunction: "And who built the theatre?", not "And with a dog?"."""

_ASKS_FOR_A_THING = re.compile(rf"\W*{_THING}", re.I)

_ABOUT = re.compile(r"\W*(?:what|how) about\b", re.I)
_EXPLETIVE = re.compile(
    r"\b(?:(?:is|are|was|were|be|been) there\b|there (?:is|are|was|were|be|has|have|will)\b|gibt es\b|es gibt\b|"
    r"gab es\b|(?:it|es)\b(?=.*\b(?:to|that|zu|dass)\b)|y a-t-il\b|il y a\b|faut-il\b|"
    r"(?:this|dies\w*) (?:year|month|week|spring|summer|autumn|winter|morning|document|file|text|contract|agreement|manual|report|jahr\w*|monat\w*|"
    r"woche|dokument\w*|vertrag\w*)\b)",
    re.I,
)
_NAMED = re.compile(
    r"\b(?:the|an?|der|die|das|dem|den|des|le|la|les|el|los|las|il|lo|gli|o|os|as|het|de)\s+\w|"
    r"(?<=[\w,] )[^\W\d_a-zß-öø-ÿ]\w|\bl['’]\w"
)
"""A thing that a question names: a noun with an article, or a capitalised word that is not the first."""

_CLAUSE = re.compile(
    r"[,;:]|\b(?:and|or|when|if|before|after|while|because|although|until|that|whether|und|oder|wenn|als|weil|"
    r"obwohl|bevor|nachdem|dass|ob|et|ou|quand|si|y|e|en)\b",
    re.I,
)
_NUMBER = re.compile(r"\d")
_WORD = re.compile(r"[^\W\d_]+")
_CHINESE = re.compile("[他她它]|那[里裡儿个個时時]?|这[里个]")
_ARABIC = re.compile(r"\b(?:هو|هي|هم|ذلك|تلك|هناك|هذا|هذه)\b")


def stands_alone(question: str) -> bool:
    """Return whether a question can be understood without earlier ones; a long message can."""
    if len(question) > LONG_QUESTION:  # why: the patterns below take the square of a length
        return True
    language = detect_language(question)
    if language in ("zh", "ar"):
        return not (_CHINESE if language == "zh" else _ARABIC).search(question)
    if language is not None and language not in _SETS:
        return False
    own = own_words(_WORD.findall(question.lower()))
    if _ABOUT.match(question) or not (
        len(own) > 1 or _NAMED.search(question) or _NUMBER.search(question)
    ):
        return False
    if len(own) <= 2 and _ADVERB.search(question):
        return False
    if (start := _CONJUNCTION.match(question)) and not _ASKS.match(question, start.end()):
        return False
    pronouns = _SETS.get(language or "", _ANY)
    return not any(
        _refers(question, match)
        for match in _WORD.finditer(
            _EXPLETIVE.sub(lambda found: "." * len(found.group()), question)
        )
        if match.group() in pronouns or match.group().lower() in pronouns - {"sie", "ihr", "ihre"}
    )


def asks_for_a_thing(question: str) -> bool:
    """Return whether a question begins with a question word, so that yes or no is no answer: "Was gilt?"."""
    return _ASKS_FOR_A_THING.match(question) is not None


def asking_part(message: str) -> str:
    """Return the part of a message that is searched for: all of it, unless it is long.

    A long message is searched for its last question with the rest of the paragraph, or for its first and last
    sentence if it has no question mark. A question that cannot be understood alone keeps the text before it.
    """
    if len(message) <= LONG_QUESTION:
        return message
    parts = [message[part.start : part.end] for part in sentences(message)]
    asking = next(filter(is_question, reversed(parts)), None)
    if asking is None:
        return f"{parts[0][:LONG_QUESTION]} {parts[-1][-LONG_QUESTION:]}"
    end = message.rindex(asking) + len(asking)
    if not stands_alone(asking):
        return message[max(0, end - LONG_QUESTION) : end]
    start = message.rfind("\n\n", 0, end) + 1
    end = next((at for at in [message.find("\n\n", end)] if at >= 0), len(message))
    paragraph = message[start:end].strip()
    return paragraph if len(paragraph) <= LONG_QUESTION else asking[-LONG_QUESTION:]


def own_words(words: Iterable[str]) -> set[str]:
    """Return the words that are neither function words nor pronouns of any language."""
    return {
        word
        for word in words
        if word not in _ANY and word not in STOPWORDS and not is_function_word(word)
    }


def _refers(question: str, pronoun: re.Match[str]) -> bool:
    """Return whether a pronoun refers to something outside of its question."""
    word = pronoun.group().lower()
    if word in _AT_THE_END:
        return not re.match(r"\s*\w", question[pronoun.end() :])
    before = question[: pronoun.start()]
    antecedents = list(_NAMED.finditer(before))
    is_possessive = word in ("his", "her", "its", "their") or before.endswith("-")
    return not any(is_possessive or _CLAUSE.search(before, one.end()) for one in antecedents)
