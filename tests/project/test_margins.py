"""Promises of README and `hwdag demo` do not hang on the last bits of a product; one reader answers for both."""

import re
from pathlib import Path

import pytest
from margins import check_margins

from hwdag.search.answerability import fitted
from hwdag_app.cli.demo import QUESTIONS, town

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.model
def test_promised_answers_and_the_refusal_have_a_margin():
    example = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)[0]
    names = {}
    exec(compile(example.partition("index = ")[0], "README.md", "exec"), names)
    (asked,) = re.findall(r'index\.answer\("([^"]+)"\)', example)
    promised = {question: answer for _, question, answer in QUESTIONS if answer}
    [refused] = [question for _, question, answer in QUESTIONS if not answer]
    worlds = [(names["documents"], {asked: "the Sorensen family"}), (town(), promised)]
    checked = 0
    for _, demo in check_margins(worlds):
        answer = demo.answer(refused)
        assert answer.found is False
        assert answer.confidence < fitted()["least confidence"] / 2
        assert answer.retrieval.answerability < fitted()["least answerability"] / 2
        checked += 1
    assert checked == 2
