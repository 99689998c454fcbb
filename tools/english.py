"""Find wording that a reader has to read twice, in docstrings, comments, messages and pages.

    python tools/english.py [PATH ...]        # by default the folders and pages of SWEPT

Prints `file:line: found: advice`, and exits with 1 if anything was found. The rules are those of
CONTRIBUTING.md; `ALLOWED` holds the exceptions, each with its reason.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

SWEPT = (
    *("core", "llama_index_hwdag", "langchain_hwdag"),
    *("haystack_hwdag", "haystack_integrations", "tools", "benchmarks"),
    *("README.md", "CONTRIBUTING.md", "docs", "tests", "examples"),
)
"""Paths that follow the rules already."""

DATA = {"files", "golden", "town"}
"""Folders whose pages are documents to search, not prose about the code."""

PATTERNS = {
    r"(^\W*|[.;:] )what\b(?![^.?!]*\?)": "name the thing instead of a clause with 'what'",
    r"\b(of|from|by|with|than|all|is|are|in|on) what\b": "name the thing instead of a clause with 'what'",
    r"\b(tells?|told)\b(?![^.]* apart)": "people tell; code returns, reports, detects, raises",
    r"\b(stands?|stood|standing)\b(?! (alone|for|still)\b)": "text precedes, follows, appears",
    r"\b(behind|beside)\b": "text precedes or follows; things are used with others",
    r"\bwhere (there|nobody|nothing|no|none)\b": "'if' for a condition, 'when' for a time",
    r"\bnone (of|are|has|have)\b": "'none' is no subject: name the things",
    r"\b(so many|the latter|the former|\(ours\))": "name the number or the thing",
    r"\b(goes|go|went) on\b": "continues",
}

TEST_NAMES = re.compile(
    r"_(told|says?|said|goes_on|go_on|gone_on|stands?|behind|beside|none_of|so_many)(?=_|$)"
    r"(?!_(apart|alone|in_for|anything))"
)
"""Words that the name of a test does without."""

OTHER_OPENINGS = re.compile(
    r"\W*(an?|the|this|that|these|those|its|their|it|they|ones?|each|every|all|both|no|none|some|any"
    r"|others?|what|whether|whose?|how|where|when|which|why|of|in|at|with|without|from|for|to|as|only"
    r"|first|last|most)\b",
    re.IGNORECASE,
)
"""Common openings of a docstring that are not verbs."""

ALLOWED: dict[str, str] = {
    "stands in for": "the usual phrase for a substitute",
    "stand in for": "the same",
    "People tell and say": "the rule itself",
}
"""Wording that a rule finds and that is right, and the reason."""


class Prose(NamedTuple):
    """A text for people: its first line in the file, and whether it is a function's docstring or a test's name."""

    line: int
    text: str
    is_function: bool = False
    is_name: bool = False


def python(source: str) -> Iterator[Prose]:
    """Yield docstrings, comments, messages of errors and names of tests of a module."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Prose(token.start[0], token.string)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str):
                yield Prose(node.lineno, node.value.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # why not of a test: its name says what it does, and its docstring why
            is_test = node.name.startswith("test_")
            if is_test:
                yield Prose(node.lineno, node.name, is_name=True)
            if (text := ast.get_docstring(node)) and not is_test and not _is_value(node):
                yield Prose(node.body[0].lineno, text, is_function=True)
        elif isinstance(node, ast.Raise):
            yield from _literals(node)


def _is_value(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is a property or a fixture, which is named by a noun."""
    return any(
        "property" in name or "fixture" in name for name in map(ast.unparse, node.decorator_list)
    )


def _literals(node: ast.AST) -> Iterator[Prose]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield Prose(part.lineno, part.value)


def markdown(source: str) -> Iterator[Prose]:
    """Yield the lines of a page outside of code, its headings without "What", which is plain there."""
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield Prose(number, re.sub(r"^#+ What\b|`[^`]*`", "", line))


def problems(prose: Prose) -> Iterator[tuple[int, str]]:
    """Yield line and advice for each rule that a text breaks."""
    text = re.sub(r'"[^"\n]*"|`[^`\n]*`', lambda quoted: " " * len(quoted[0]), prose.text)
    if prose.is_function:
        if first := OTHER_OPENINGS.match(text):
            yield prose.line, f"{first[1]}: begin with a verb"
        return
    if prose.is_name:
        for word in TEST_NAMES.finditer(text):
            yield prose.line, f"{word[1]}: a test's name says which behaviour is right"
        return
    for pattern, advice in PATTERNS.items():
        for found in re.finditer(pattern, text, re.IGNORECASE):
            line = text.count("\n", 0, found.start())
            around = " ".join(text.splitlines()[line].split())
            if not any(allowed in around for allowed in ALLOWED):
                yield prose.line + line, f"{found[0]}: {advice}"


def check(path: Path) -> list[str]:
    """Return the problems of a file, one line each, in the order of the file."""
    source = path.read_text("utf-8")
    texts = python(source) if path.suffix == ".py" else markdown(source)
    found = {problem for prose in texts for problem in problems(prose)}
    return [f"{path.relative_to(ROOT)}:{line}: {advice}" for line, advice in sorted(found)]


def files(paths: list[str]) -> Iterator[Path]:
    """Yield the modules and pages of these paths."""
    for path in map(ROOT.joinpath, paths):
        found = [path] if path.is_file() else path.rglob("*")
        prose = (file for file in found if file.suffix == ".py" or not DATA & {*file.parts})
        yield from sorted(file for file in prose if file.suffix in {".py", ".md"})


def main() -> None:
    """Check the paths of the command line, or those of `SWEPT`."""
    found = [line for path in files(sys.argv[1:] or list(SWEPT)) for line in check(path)]
    sys.stdout.writelines(f"{line}\n" for line in found)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
