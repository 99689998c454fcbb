"""The README's examples run as they are, and its links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.model
@pytest.mark.parametrize(
    ("code", "answer"),
    list(zip(EXAMPLES[1:], ["Clara Holm", "Clara Holm"], strict=True)),
    ids=["llama-index", "langchain"],
)
def test_the_examples_with_frameworks_run_and_answer(code, answer, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert answer in capsys.readouterr().out


@pytest.mark.model
def test_the_first_example_prints_the_output_that_follows_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[0], "README.md", "exec"), {"__name__": "readme"})
    (promised,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    # without the weights, whose last digit depends on the CPU
    lines = [
        [re.sub(r"^\d+% ", "", line) for line in text.splitlines()]
        for text in (promised, capsys.readouterr().out)
    ]
    assert lines[0] == lines[1]
    assert "the Sorensen family" in promised


@pytest.mark.parametrize(
    "page", [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("*.md"))], ids=str
)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


FOLDERS = "core|tests|benchmarks|examples|tools|docs|llama_index_hwdag|langchain_hwdag"
PAGES = [*sorted(ROOT.glob("docs/*.md")), *(ROOT / f"{n}.md" for n in ("README", "CONTRIBUTING"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_paths_that_a_page_names_are_there(page):
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", page.read_text("utf-8")):
        assert (ROOT / path).exists(), f"{page.name} names {path}"
