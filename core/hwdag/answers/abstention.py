"""Replace an answer by "not found" if the documents do not seem to hold it, and rate the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from hwdag.answers.citations import Place, citable_sentences
from hwdag.search.answerability import (
    answer_signals,
    fitted,
    is_answerable,
    probability_of,
)
from hwdag.text.headings import parted, searched_text
from hwdag.text.languages import detect_language
from hwdag.text.words import content_words, in_digits, words
from hwdag.types import Answer, Node, Retrieval

SHOWN_SENTENCES = 3  # sentences that are shown if there is no answer
LONGEST_SHOWN = 300  # characters of each
MOST_SAID = 8
"""Content words of a short answer, at most; a stream gives a longer one as it comes, unless it is doubtful."""
NOT_FOUND = {
    "en": "The documents do not seem to answer this. Nearest to the question:",
    "de": "Die Dokumente scheinen darauf keine Antwort zu haben. Der Frage am nächsten:",
    "es": "Los documentos no parecen responder a esto. Lo más cercano a la pregunta:",
    "fr": "Les documents ne semblent pas répondre à cette question. Au plus près :",
    "it": "I documenti non sembrano rispondere a questa domanda. Più vicino alla domanda:",
    "nl": "De documenten lijken hier geen antwoord op te geven. Het dichtst bij de vraag:",
    "pt": "Os documentos não parecem responder a isto. O mais próximo da pergunta:",
    "zh": "文档中似乎没有这个问题的答案。与问题最接近的内容：",
    "ar": "يبدو أن المستندات لا تجيب عن هذا السؤال. الأقرب إلى السؤال:",
}
"""The reply if the evidence does not seem to hold an answer, by language of the question."""

MODEL_REPLIES = {
    "en": "The model's reply:",
    "de": "Antwort des Modells:",
    "es": "Respuesta del modelo:",
    "fr": "Réponse du modèle :",
    "it": "Risposta del modello:",
    "nl": "Antwoord van het model:",
    "pt": "Resposta do modelo:",
    "zh": "模型的回答：",
    "ar": "إجابة النموذج:",
}
"""The mark before an answerer's reply that follows `NOT_FOUND`."""


_DECLINES = re.compile(
    r"\b(?:(?:sentences?|documents?|texts?|evidence|context|passages?|quotes?) (?:\w+ ){0,3}?"
    r"(?:(?:do|does|did)(?: not|n['’]t) (?:\w+ )?(?:hold|contain|mention|specify|provide|state|say|answer|give)|"
    r"(?:have|hold|contain|give|provide)s? no (?:answer|information|mention))|"
    r"(?:is|are|was|were)(?: not|n['’]t) (?:\w+ )?(?:mentioned|specified|stated)|"
    r"no (?:mention of|information (?:about|on|in|given|available))|"
    r"i (?:can ?not|can['’]t|could not) (?:answer|find|determine|say)|can ?not be (?:answered|determined)|"
    r"nicht (?:erwähnt|angegeben|genannt)|keine (?:angaben?|information\w*)|"
    r"pas (?:mentionn|indiqu|précis)\w*|aucune (?:information|mention)|"
    r"no se (?:menciona|indica|especifica)|no hay información)\b",
    re.I,
)
"""Subject and verb, since "The milk does not contain sugar" is an answer."""

_YES_OR_NO = re.compile(r"\W*(?:yes|no|ja|nein|oui|non|sí)[,.]", re.I)


def judged(answer: Answer) -> Answer:
    """Return an answer of the reader or an answerer with `confidence`, `found` and `reply`.

    An answer of the reader is found if its confidence is high enough, and a long one also if the evidence
    seems to hold an answer. Otherwise `not_found` takes its place. The reply of an answerer is kept, after
    a warning. It is as likely right as the evidence holds an answer and its words are in the evidence; a
    reply that declines is right if the evidence holds none.
    """
    retrieval, reply = answer.retrieval, answer.text
    likely = retrieval.answerability
    if likely is None:
        return replace(answer, reply=reply)
    sure, found = likely, is_answerable(retrieval)
    if answer.likelihood is not None:
        sure = probability_of("answer", answer_signals(likely, answer.likelihood))
        found = sure >= fitted()["least confidence"] or (found and not is_short(reply))
    if answer.answered_by is not None:
        declined = declines(reply)
        found = found and not declined
        sure = 1 - likely if declined else likely * _supported(answer, reply)
        text = before_reply(retrieval) + reply
    else:
        text = reply if found else not_found(retrieval)
    notes = answer.notes if found or answer.answered_by is not None else ()  # about the reply
    return replace(answer, text=text, reply=reply, confidence=sure, found=found, notes=notes)


def declines(reply: str) -> bool:
    """Return whether a reply begins with the remark that the documents do not answer the question."""
    begins = re.split(r"(?<=[.。])\s", reply, maxsplit=1)[0]
    return _DECLINES.search(begins) is not None and not _YES_OR_NO.match(begins)


def _supported(answer: Answer, reply: str) -> float:
    """Return the share of a reply's content words that the question or the evidence has; 1 in another language.

    "Twenty" and "20" are one word.
    """
    texts = [searched_text(step.node) for step in answer.retrieval.context]
    texts += [citation.text for citation in answer.citations]
    wanted = set(content_words(in_digits(reply)))
    languages = {detect_language(reply), detect_language(" ".join(texts))} - {None}
    if not wanted or len(languages) > 1:
        return 1.0
    held = {w for text in (answer.retrieval.question, *texts) for w in words(in_digits(text))}
    return len(wanted & held) / len(wanted)


def is_short(text: str) -> bool:
    """Return whether an answer is so short that its confidence alone decides if it was found."""
    return len(content_words(text)) <= MOST_SAID


def not_found(retrieval: Retrieval) -> str:
    """Return the reply if the evidence does not hold an answer, with the nearest sentences."""
    said = NOT_FOUND[_language(retrieval)]
    shown = islice(_distinct(retrieval), SHOWN_SENTENCES)
    nearest = [bare(node)[:LONGEST_SHOWN] for node in shown]
    return "\n- ".join([said, *nearest]) if nearest else _refusal(said)


def _distinct(retrieval: Retrieval) -> Iterator[Node]:
    """Yield the nodes, best first, without those that repeat a text or a place of an earlier one."""
    lines, places = set[str](), set[Place]()
    for step in retrieval.best(len(retrieval.steps) + len(retrieval.unread)):
        node, line = step.node, bare(step.node)
        own = [place for unit in citable_sentences(0, node, node.text) for place in unit.places]
        if line not in lines and not (own and places.issuperset(own)):
            yield node
        lines.add(line)
        places.update(own)


def before_reply(retrieval: Retrieval) -> str:
    """Return a warning and a mark before an answerer's reply; "" if the evidence seems to hold an answer."""
    if is_answerable(retrieval):
        return ""
    language = _language(retrieval)
    return f"{_refusal(NOT_FOUND[language])}\n\n{MODEL_REPLIES[language]} "


def _refusal(said: str) -> str:
    """Return the first sentence of a reply of `NOT_FOUND`."""
    return re.split("(?<=[.。])", said)[0]


def _language(retrieval: Retrieval) -> str:
    """Return the language of a question if there is a text in it, else English."""
    language = detect_language(retrieval.question)
    return language if language in NOT_FOUND else "en"


def bare(node: Node) -> str:
    """Return the text of a node in one line, without marks of Markdown, and without a heading before its sentence."""
    text = node.text.lstrip("# ")
    first, _, rest = text.partition("\n")
    if first.strip() == parted(node.heading)[1] and rest.strip():
        text = rest.lstrip("# \n")
    return " ".join(text.removeprefix("- ").removeprefix("* ").removeprefix("| ").split())
