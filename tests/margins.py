"""The lead of an answer over its rivals, so that no promised answer hangs on the last bits of a product.

CPUs differ in the order in which they add, and in the meaning of `dtype="auto"`. A page may promise an
answer whose mean log-probability is `LEAST_MARGIN` above that of every rival, in float32 and in bfloat16.
"""

import re
from contextlib import ExitStack

from hwdag import HWDAGIndex
from hwdag.lm.default import load_reader

LEAST_MARGIN = 0.3  # of the mean log-probability per token
NEAREST = 3  # rivals in float32 that are also scored in bfloat16
_NAME = re.compile(r"(?:the )?[A-Z]\w+(?: [A-Z]\w+)*(?: family)?|\d[\d.,]*\d|\d")


def rivals(texts, answer):
    """Return the names of the texts, of a number the numbers, apart from those that overlap the answer."""
    said = answer.lower().rstrip(".")
    found = {name for text in texts for name in _NAME.findall(text)}
    found = {name for name in found if name[-1].isdigit() == said[-1].isdigit()}
    return sorted(name for name in found if name.lower() not in said and said not in name.lower())


def check_margins(worlds):
    """Assert that the default reader gives its answers to the questions of each world, whatever the CPU.

    A world is a pair of documents and answers by question. Rivals are the names and numbers of the text that the
    reader has read; in bfloat16 those that were next in float32. Yields the indexes of the worlds for each dtype.
    """
    nearest = {}
    for dtype in ("float32", "bfloat16"):
        reader = load_reader(dtype=dtype)
        with ExitStack() as opened:
            indexes = [
                opened.enter_context(HWDAGIndex.from_documents(documents, reader=reader))
                for documents, _ in worlds
            ]
            for index, (_, answers) in zip(indexes, worlds, strict=True):
                for question, expected in answers.items():
                    stream = index.stream(question)
                    others = nearest.get(question) or rivals(_read(stream), expected)
                    nearest[question] = _check(stream, question, expected, others, dtype)
            yield indexes


def _read(stream):
    return [step.node.text for step in stream.evidence.retrieval.steps]


def _check(stream, question, expected, others, dtype):
    """Return the `NEAREST` rivals."""
    found = stream.evidence
    scores = found.session.likelihoods([expected, *others], enough=found.says_yes)
    text = stream.answer.text
    leads = sorted((scores[0] - s, name) for s, name in zip(scores[1:], others, strict=True))
    lead, rival = leads[0]
    assert (text, lead >= LEAST_MARGIN) == (expected, True), (
        f"in {dtype} the answer to {question!r} is {text!r}; {expected!r} is {lead:.2f} ahead of "
        f"{rival!r}. A page may only promise an answer that is {LEAST_MARGIN} ahead in float32 and "
        "bfloat16, since CPUs add in different orders: choose another example"
    )
    return [name for _, name in leads[:NEAREST]]
