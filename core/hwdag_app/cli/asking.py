"""The commands `ask` and `chat`: answer questions, and show the walk as it happens."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import suppress
from io import TextIOWrapper
from reprlib import repr as brief
from textwrap import fill
from typing import Any

from hwdag.config import SearchConfig
from hwdag.errors import AnswererFailed, EmptyIndex, HWDAGError, InputError
from hwdag.index import HWDAGIndex
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.text.characters import visible
from hwdag.trace import render
from hwdag.types import Answer, Step
from hwdag_app.cli.inputs import answerer, check_page, reader
from hwdag_app.cli.options import config_of
from hwdag_app.cli.terminal import print_step, print_styled, width
from hwdag_app.warming import warm

MOST_FOUND = 3  # sentences that are shown if the answerer failed


def ask(options: argparse.Namespace) -> int:
    """Answer a question, and show the walk as it happens."""
    if not options.question.strip():
        raise InputError("the question is empty or only white space")
    for page in (options.html, options.graph):
        if page is not None:
            check_page(page)
    config, scope = search_config(options), scope_of(options)
    with opened(options, scope) as index:
        answer = print_answer(index, options, config, scope)
        if options.graph is not None:
            options.graph.write_text(index.to_html(walk=answer), "utf-8")
    return 0


def chat(options: argparse.Namespace) -> int:
    """Answer question after question until the input ends; a question may refer to earlier ones."""
    config, scope = search_config(options), scope_of(options)
    asked: dict[str, Any] = {"config": config, "scope": scope, **length_of(options)}
    history = list[tuple[str, str]]()
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a wrong byte costs no conversation
    with opened(options, scope) as index:
        print(f"{index!r}; one question per line, Ctrl-D ends", flush=True)
        warm(index)
        with suppress(EOFError):
            while True:
                question = input("> " if sys.stdin.isatty() else "")
                try:
                    if question.strip():
                        answer = show_answer(
                            index, question, verbose=options.verbose, history=history, **asked
                        )
                        history.append((question, answer.text))
                except HWDAGError as error:
                    print(f"hwdag: {visible(str(error))}", file=sys.stderr)
    return 0


def print_answer(
    index: Retriever, options: argparse.Namespace, config: SearchConfig, scope: Scope
) -> Answer:
    """Ask `options.question`, and print the walk, the answer and its sources, or all as JSON."""
    asked: dict[str, Any] = {"config": config, "scope": scope, **length_of(options)}
    verbose = options.verbose
    if options.json:
        answer = index.answer(options.question, **asked)
        print(json.dumps(answer.to_dict(), ensure_ascii=False, indent=2))
    else:
        answer = show_answer(index, options.question, verbose=verbose, **asked)
    if options.html:
        options.html.write_text(answer.to_html(), "utf-8")
    return answer


def show_answer(index: Retriever, question: str, *, verbose: bool = False, **asked: Any) -> Answer:
    """Answer, and print the pieces as they come, the sources, and a line of how it was found.

    With `verbose` every step of the walk is printed as it happens. `asked` is passed to `stream`.
    """
    began, columns = time.perf_counter(), width()
    is_first = True

    def on_step(step: Step) -> None:
        nonlocal is_first
        if is_first:  # why: an error in the question comes before any output
            print(f"question: {question}")
            print_styled(render.HEADER, "dim")
            is_first = False
        print_step(render.step_line(step, columns))

    stream = index.stream(question, on_step=on_step if verbose else None, **asked)
    if verbose:
        said = render.stop_line(stream.retrieval)
        print_styled(fill(said, columns, subsequent_indent="  "), "dim")
    elif stream.retrieval.searched_for:
        print_styled(f"searched for: {stream.retrieval.searched_for}", "dim")
    label = "answer: "
    try:
        for piece in stream:
            print(label, end="")
            print_styled(piece, "bold", end="")
            label = ""
    except AnswererFailed:
        print("found:" if label else "\nfound:")
        for step in stream.retrieval.best(MOST_FOUND):
            print(render.found_line(step, columns))
        raise
    answer = stream.answer
    print(label, end="")
    _print_after(answer, columns)
    shown = render.usage_line if verbose else render.how_line
    print_styled(shown(answer, time.perf_counter() - began), "dim")
    return answer


def _print_after(answer: Answer, columns: int) -> None:
    """Print the sources of an answer, its notes and its confidence; a refusal shows the nearest sentences itself."""
    is_refused = answer.found is False and answer.answered_by is None
    print("" if is_refused else "\nsources:")
    for citation in () if is_refused else answer.citations:
        print(render.citation_line(citation, columns))
    for note in answer.notes:
        print_styled(fill(f"note: {note}", columns), "dim")
    if answer.confidence is not None and not is_refused:
        print_styled(f"probability that this is right: {answer.confidence:.2f}", "dim")


def length_of(options: argparse.Namespace) -> dict[str, int]:
    """Return the length of an answer as an argument of `stream`, if the command line names one."""
    length = options.max_new_tokens
    return {} if length is None else {"max_new_tokens": length}


def search_config(options: argparse.Namespace) -> SearchConfig:
    """Return the settings of the search, as the command line has them."""
    return config_of(SearchConfig(), options)


def scope_of(options: argparse.Namespace) -> Scope:
    """Return the documents to search, as the command line names them."""
    filters = options.filter
    try:
        filters = None if filters is None else json.loads(filters)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f'--filter must be JSON such as \'{{"year": {{"gte": 2020}}}}\', got {brief(filters)}: {error}'
        ) from error
    return Scope(options.document, filters)


def opened(options: argparse.Namespace, scope: Scope) -> HWDAGIndex:
    """Return the index with the models that the command line names.

    Raises `InputError` for an unknown document before it loads a model.
    """
    with HWDAGIndex.load(options.file) as index:
        if not len(index):
            raise EmptyIndex(f"{options.file} holds no document; insert some first")
        documents = index.documents
        for one in scope.document_ids or ():
            if one not in documents:
                raise InputError(
                    f"no document {one!r} in {options.file}; `hwdag show {options.file}` lists them"
                )
    return HWDAGIndex.load(
        options.file,
        reader=reader(options, options.file),
        embedder=options.embedder,
        answerer=answerer(options),
    )
