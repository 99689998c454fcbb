"""All exceptions, under `HWDAGError`. Messages name the value, the accepted ones, and the way out."""

from __future__ import annotations

from typing import Any


class HWDAGError(Exception):
    """Base of every error that hwdag raises on purpose."""


class InputError(HWDAGError, ValueError):
    """A document, question or option cannot be used."""


class UnknownOption(InputError):
    """An option name or value that does not exist."""


class UnknownDocument(InputError):
    """There is no document with that id."""


class EmptyIndex(InputError):
    """The index holds no document."""

    def __init__(self, message: str = "the index holds no document; insert some first") -> None:
        super().__init__(message)


class QuestionTooLong(InputError):
    """The question, with the prompt around it, does not fit into the model's context."""


class ModelError(HWDAGError):
    """Base of the errors of language models and embedders."""


class ModelNotFound(ModelError):
    """There is no model of that name or path."""


class ContextTooSmall(ModelError):
    """The model's context cannot hold one chunk and the prompt."""


class CaptureUnsupported(ModelError):
    """The architecture's attention cannot be captured."""


class ModelBusy(ModelError):
    """Too many callers are waiting for the model."""


class OutOfMemory(ModelError):
    """The model's device has no memory left for a forward; finished work is kept."""


class ReaderRequired(ModelError, TypeError):
    """The reader is not a local Hugging Face model, so its attention cannot be read."""


class WriterFailed(ModelError):
    """The writer raised, or did not return one text per prompt."""


class AnswererFailed(ModelError):
    """The answerer gave no answer.

    `retrieval`, a `hwdag.types.Retrieval`, is the result of the search; `reply` is the part of the reply that came.
    """

    def __init__(self, message: str, retrieval: Any = None, reply: str = "") -> None:
        super().__init__(message)
        self.retrieval, self.reply = retrieval, reply


class IndexFileError(HWDAGError):
    """An index file cannot be used."""


class NotAnIndex(IndexFileError):
    """The file is not SQLite, or not an hwdag index."""


class IndexVersionError(IndexFileError):
    """The file has another format version."""


class IndexCorrupt(IndexFileError):
    """The file is truncated or violates an invariant of the graph."""


class IndexBusy(IndexFileError):
    """Another process, or another thread of this one, is writing to the file."""


class IndexMismatch(HWDAGError):
    """The model or embedder is not the one that the index was built with."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return next(filter(None, map(str.strip, str(error).splitlines())), "no reason given")
