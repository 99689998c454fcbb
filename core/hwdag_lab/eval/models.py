"""The models of a run: one reader for all systems, a writer, and the embedders."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdag.building.points import PROMPTS_AT_ONCE
from hwdag.embedding.base import Embedder
from hwdag.errors import IndexBusy, InputError, WriterFailed
from hwdag.lm.base import Reader, Writer
from hwdag.store.calls import CallCache, key_of
from hwdag.store.database import build_lock
from hwdag.types import Usage
from hwdag_lab.methods.longllmlingua.retriever import scoring_of
from hwdag_lab.methods.youra.retriever import ColumnHeads, column_reader

if TYPE_CHECKING:  # why: torch is imported only if a model is needed
    from hwdag_lab.methods.longllmlingua.likelihood import TextScoring
    from hwdag_lab.methods.youra.columns import ModelColumns


@contextmanager
def open_calls(path: Path) -> Iterator[CallCache]:
    """Open the calls of a run exclusively, so that only one process writes to it.

    Raises:
        InputError: another process has the file open, or it is something else.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(build_lock(path, 0))
        except IndexBusy as error:
            raise InputError(
                f"{path} is in use; another run writes to this folder: wait for it, or choose "
                "another folder"
            ) from error
        yield stack.enter_context(CallCache.open(path))


class CachedWriter:
    """A Writer that never repeats a finished call, not even in another process.

    Remembered calls still count as cost: `usage` is the cost of all calls without the
    cache, so two systems that ask the same are charged the same.
    """

    def __init__(self, writer: Writer, calls: CallCache) -> None:
        self._writer = writer
        self._calls = calls
        self._saved = Usage()

    @property
    def name(self) -> str:
        """Name of the writer."""
        return self._writer.name

    @property
    def concurrency(self) -> int:
        """Prompts that the writer answers at a time."""
        return int(getattr(self._writer, "concurrency", PROMPTS_AT_ONCE))

    @property
    def usage(self) -> Usage:
        """Cost of the writer so far, if it counts, and of remembered calls."""
        return spent(self._writer) + self._saved

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        """Return one reply per prompt, in order; only new prompts reach the writer, in one batch.

        Raises:
            WriterFailed: the writer did not return one reply per prompt.
        """
        return self._replies("eval.write", self._writer.write, prompts, max_new_tokens)

    @property
    def condense(self) -> Callable[..., list[str]]:
        """As `write`, if the writer can be kept from copying (`HuggingFaceLM.condense`)."""
        condense: Callable[..., list[str]] = self._writer.condense  # type: ignore[attr-defined]

        def ask(prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
            return self._replies("eval.condense", condense, prompts, max_new_tokens)

        return ask

    def _replies(
        self,
        kind: str,
        write: Callable[..., list[str]],
        prompts: Sequence[str],
        max_new_tokens: int,
    ) -> list[str]:
        keys = [key_of(kind, self.name, max_new_tokens, prompt) for prompt in prompts]
        replies = {key: found for key in keys if (found := self._kept(key))}
        new = {k: p for k, p in zip(keys, prompts, strict=True) if k not in replies}
        replies |= self._ask(write, new, max_new_tokens)
        for key in keys:
            if new.pop(key, None) is None:  # the first use of a new reply was just paid for
                self._saved += replies[key][1]
        return [replies[key][0] for key in keys]

    def _kept(self, key: bytes) -> tuple[str, Usage] | None:
        value = self._calls.get(key)
        if value is None:
            return None
        found = json.loads(value)
        return found["reply"], Usage(**found["usage"])

    def _ask(
        self, write: Callable[..., list[str]], prompts: dict[bytes, str], max_new_tokens: int
    ) -> dict[bytes, tuple[str, Usage]]:
        if not prompts:
            return {}
        before = spent(self._writer)
        replies = write(list(prompts.values()), max_new_tokens=max_new_tokens)
        if len(replies) != len(prompts):
            raise WriterFailed(
                f"the writer {self.name} returned {len(replies)} replies to {len(prompts)} prompts"
            )
        costs = _shares(spent(self._writer) - before, len(prompts))
        made = dict(zip(prompts, zip(replies, costs, strict=True), strict=True))
        rows = {k: {"reply": reply, "usage": asdict(cost)} for k, (reply, cost) in made.items()}
        self._calls.put_all({key: json.dumps(row).encode() for key, row in rows.items()})
        return made


def _of_the_model(name: str) -> Any:
    """Return a property or a method of the wrapped model."""
    return property(lambda self: getattr(self._model, name))


class CachedReader(CachedWriter):
    """A local model that remembers its writing; everything else passes through."""

    def __init__(self, model: Reader, calls: CallCache) -> None:
        if not isinstance(model, Writer):
            raise InputError(
                f"the reader {model.name} does not write; there is nothing to remember"
            )
        super().__init__(model, calls)
        self._model: Reader = model

    context_tokens = _of_the_model("context_tokens")
    window_tokens = _of_the_model("window_tokens")
    template_tokens = _of_the_model("template_tokens")
    replay_batch = _of_the_model("replay_batch")
    card = _of_the_model("card")
    known_heads = _of_the_model("known_heads")
    tokenizer_fingerprint = _of_the_model("tokenizer_fingerprint")
    count_tokens = _of_the_model("count_tokens")
    count_lines = _of_the_model("count_lines")
    replay = _of_the_model("replay")
    session = _of_the_model("session")

    def scoring(self) -> TextScoring:
        """Return log-probabilities of texts; raises `ReaderRequired` if the model has none."""
        return scoring_of(self._model)

    def columns(self, heads: ColumnHeads, *, memory_bytes: int) -> ModelColumns:
        """Return the column means of attention; raises `ReaderRequired` if the model has none."""
        return column_reader(self._model, heads, memory_bytes=memory_bytes)


def spent(model: object) -> Usage:
    """Return the cost of a model so far; zero if it does not count."""
    counts = isinstance(model, Reader | CachedWriter)
    return model.usage if counts else Usage()  # type: ignore[attr-defined]


def _shares(usage: Usage, count: int) -> list[Usage]:
    """Split the cost of a batch equally; the first share gets the remaining tokens."""
    tokens, rest = divmod(usage.tokens, count)
    return [
        Usage(tokens + (rest if i == 0 else 0), usage.tflops / count, usage.seconds / count)
        for i in range(count)
    ]


@dataclass(frozen=True, slots=True)
class RunModels:
    """The models that all systems of a run share."""

    reader: Reader  # reads, counts tokens and answers, for every system
    embedder: Embedder  # embeds, for every system that does
    # writes Information Points and summaries; None is the reader (in PECAN Table 2 the writer is
    # larger)
    writer: Writer | None = None
    dense: Embedder | None = None  # embeds for the `dense` systems; None is `embedder`
    precision: str = ""  # of the reader's weights, recorded with the run
    # digest of the head list passed to the reader, recorded with the run; empty for its own
    heads: str = ""

    def remembering(self, calls: CallCache) -> RunModels:
        """Return the same models, remembering their writing in `calls`."""
        reader = CachedReader(self.reader, calls) if isinstance(self.reader, Writer) else None
        writer: Writer | None = self.writer
        if isinstance(writer, Reader):
            same = id(writer) == id(self.reader)
            writer = reader if same else CachedReader(writer, calls)
        elif writer is not None:
            writer = CachedWriter(writer, calls)
        return replace(self, reader=reader or self.reader, writer=writer)

    @property
    def spent(self) -> Usage:
        """Cost of reader and writer so far, outside of sessions."""
        apart = id(self.writer) != id(self.reader)  # one object may play both roles
        return self.reader.usage + (spent(self.writer) if apart else Usage())

    @property
    def names(self) -> dict[str, str]:
        """Names by role, as recorded."""
        listed = {"heads": self.heads} if self.heads else {}
        return listed | {
            "reader": self.reader.name,
            "precision": self.precision,
            "writer": (self.writer or self.reader).name,
            "embedder": self.embedder.name,
            "dense_embedder": (self.dense or self.embedder).name,
        }


def load_models(
    *,
    reader: str | None = None,
    writer: str | None = None,
    embedder: str | None = None,
    dense: str | None = None,
    dtype: str | None = None,
    device: str | None = None,
    heads: str | None = None,
) -> RunModels:
    """Load models by name; None is the embedded default, and for the writer the reader itself.

    `dtype` and `device` apply to reader and writer; `heads` is the file of a head list.

    Raises:
        ModelNotFound: there is no model of one of these names.
        InputError: the dtype is unknown, or the head list does not fit the reader.
    """
    from hwdag.embedding.default import as_embedder
    from hwdag.lm.default import load_reader
    from hwdag.lm.model_file import ModelFile

    listed = None if heads is None else ModelFile.load(heads)
    loaded = load_reader(reader, dtype=dtype, device=device)
    if listed is not None:
        loaded = loaded.with_heads(listed)
    return RunModels(
        reader=loaded,
        embedder=as_embedder(embedder or None),
        writer=load_reader(writer, dtype=dtype, device=device) if writer else None,
        dense=as_embedder(dense) if dense else None,
        precision=str(loaded.model.dtype).removeprefix("torch."),
        heads="" if listed is None else listed.digest,
    )
