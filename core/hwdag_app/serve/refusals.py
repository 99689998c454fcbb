"""Errors as a client may read them: its own mistakes in full, all others as a sentence and a number.

The log has the whole error under that number. It may name files, addresses and models of the owner, and
hold text of another server.
"""

from __future__ import annotations

import logging
import re
import secrets

from starlette.exceptions import HTTPException

from hwdag.errors import (
    AnswererFailed,
    HWDAGError,
    IndexBusy,
    IndexFileError,
    IndexMismatch,
    InputError,
    ModelBusy,
    ModelError,
    OutOfMemory,
    QuestionTooLong,
    UnknownDocument,
    WriterFailed,
)
from hwdag_app.serve.systems import UnknownSystem

UNUSABLE = "the index of this server cannot be used; its owner must mend it"

MISSING = (UnknownDocument, UnknownSystem)
"""Errors with the status 404, shown in full: they name only ids, which a client may list."""

SENTENCES: tuple[tuple[type[Exception], int, str], ...] = (
    (QuestionTooLong, 400, "the question is too long for the model of this server; shorten it"),
    (
        InputError,
        400,
        "the server cannot use the question, the document or an option of the request",
    ),
    (AnswererFailed, 502, "the model that writes the answers failed; the search did not"),
    (ModelBusy, 503, "the model has too many questions to answer; try again soon"),
    (OutOfMemory, 503, "the model has no memory left for this question; try again soon"),
    (IndexBusy, 503, "another program is changing the index; try again soon"),
    (IndexMismatch, 500, UNUSABLE),
    (IndexFileError, 500, UNUSABLE),
    (ModelError, 500, "a model of this server failed"),
    (Exception, 500, "the server failed"),
)
"""Status and sentence of an error that is not shown, by its kind; the first one that fits."""

SHOWN = (InputError, ModelBusy)
"""Errors that a client can mend; their messages are hwdag's own."""

_OF_THE_OWNER = re.compile(r"(?<![\w./])[/\\]{1,2}\w|\b[A-Za-z]:\\|\w://")
"""A part of an absolute path, or of an address."""

_LOGGER = logging.getLogger(__name__)


def refusal(error: BaseException) -> tuple[int, str]:
    """Return the status and the message of an error for a client; log an error whose text is withheld."""
    if isinstance(error, HTTPException):
        return error.status_code, error.detail
    if isinstance(error, MISSING):
        return 404, str(error)
    status, sentence = next(
        (status, sentence) for kind, status, sentence in SENTENCES if isinstance(error, kind)
    )
    if _may_be_shown(error):
        return status, str(error)
    number = secrets.token_hex(4)
    # why not of a writer: its message is about its server, and the frames are those of a client
    trace = None if isinstance(error.__cause__, WriterFailed) else error
    _LOGGER.error("error %s, %s: %s", number, sentence, error, exc_info=trace)
    return status, f"{sentence} (error {number}; the server's log has the reason)"


def without_folder(name: str | None) -> str | None:
    """Return the name of a model without the folder that holds its weights."""
    return name if name is None or not _OF_THE_OWNER.search(name) else re.split(r"[/\\]", name)[-1]


def _may_be_shown(error: BaseException) -> bool:
    quotes_others = error.__cause__ is not None and not isinstance(error.__cause__, HWDAGError)
    is_ours = isinstance(error, SHOWN) and not quotes_others
    return is_ours and _OF_THE_OWNER.search(str(error)) is None
