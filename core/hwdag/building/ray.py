"""Builds on a Ray cluster: readers and embedders are actors with one model each.

    from hwdag import HWDAGIndex, RayExecutor

    index = HWDAGIndex.from_documents(documents, path="notes.hwdag", executor=RayExecutor(4))

Documents are cut, and their finished calls and graphs are stored, by the process that builds: the
file has one writer. Only what a model does goes to an actor. If an actor dies, Ray starts it again
and the call that it was making is made once more; those before it are in the file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from hwdag.arrays import Vectors
from hwdag.building.levels import GraphBuilder
from hwdag.checks import whole
from hwdag.config import Heads
from hwdag.embedding.base import Embedder
from hwdag.embedding.default import load_embedder
from hwdag.errors import IndexMismatch, InputError, ModelError
from hwdag.lm.base import Reader, Replay, ReplayRequest
from hwdag.types import Usage


class RayExecutor:
    """Builds as many documents at a time as there are workers; the graphs do not depend on it.

    It joins the cluster that `ray.init` has joined, that `RAY_ADDRESS` names, or starts one here. The
    process that builds loads the models too: it counts tokens, and asks a writer that is not the reader.

    Args:
        workers: actors; each holds a reader and an embedder.
        models: makes both in a worker; None loads those of the index by their names, as
            `HWDAGIndex.load` does, the reader in the same dtype.
        retries: of a call whose worker has died.
        resources: of a worker, as `ray.remote` takes them, `num_gpus=1` say; one CPU by default.
    """

    def __init__(
        self,
        workers: int,
        *,
        models: Callable[[], tuple[Reader, Embedder]] | None = None,
        retries: int = 3,
        **resources: Any,
    ) -> None:
        self._workers = whole("workers", workers, 1)
        self._make = models
        self._options = {
            "num_cpus": 1,
            "max_restarts": -1,
            "max_task_retries": whole("retries", retries, 0),
        } | resources
        _ray()

    @contextmanager
    def builders(self, local: GraphBuilder) -> Iterator[list[GraphBuilder]]:
        """Start the workers, each with a builder, and end them with the context.

        Raises `ModelError` if one cannot make its models, `IndexMismatch` if they are other models.
        """
        ray = _ray()
        if not ray.is_initialized():
            ray.init()
        make = self._make or partial(_by_name, *_names(local.reader, local.embedder))
        actor = ray.remote(_Worker).options(**self._options)
        actors = [actor.remote(make) for _ in range(self._workers)]
        try:
            expected = _names(local.reader, local.embedder)
            try:
                names = ray.get([one.names.remote() for one in actors])
            except ray.exceptions.RayActorError as error:
                raise ModelError(f"a worker cannot make its models: {error}") from error
            for found in names:
                if found != expected:
                    raise IndexMismatch(
                        f"a worker has the models {found}, this process has {expected}; make the "
                        "same ones with RayExecutor(models=...)"
                    )
            spent = _Spent()
            yield [_remote(local, partial(_ask, ray, one), spent) for one in actors]
        finally:
            for one in actors:
                ray.kill(one)


Ask = Callable[..., tuple[Any, Usage]]


class _Worker:
    """The actor: one reader, one embedder."""

    def __init__(self, make: Callable[[], tuple[Reader, Embedder]]) -> None:
        self._reader, self._embedder = make()

    def names(self) -> tuple[str, str, str | None]:
        return _names(self._reader, self._embedder)

    def read(self, method: str, *args: Any, **options: Any) -> tuple[Any, Usage]:
        before = self._reader.usage
        return getattr(self._reader, method)(*args, **options), self._reader.usage - before

    def embed(self, texts: list[str]) -> tuple[Vectors, Usage]:
        return self._embedder.embed(texts), Usage()


class _Spent:
    def __init__(self) -> None:
        self.usage = Usage()
        self._lock = threading.Lock()

    def take(self, made: tuple[Any, Usage]) -> Any:
        with self._lock:
            self.usage += made[1]
        return made[0]


class _RemoteReader:
    """A reader whose model is asked elsewhere; tokens are counted here."""

    replies = None  # batches are written at once, as the local model does

    def __init__(self, local: Reader, ask: Ask, spent: _Spent) -> None:
        self._local, self._ask, self._spent = local, ask, spent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    @property
    def usage(self) -> Usage:
        return self._local.usage + self._spent.usage

    def replay(self, requests: Sequence[ReplayRequest], *, heads: Heads) -> list[Replay]:
        found: list[Replay] = self._spent.take(self._ask("read", "replay", requests, heads=heads))
        return found

    def write(self, prompts: Sequence[str], *, max_new_tokens: int) -> list[str]:
        made = self._ask("read", "write", prompts, max_new_tokens=max_new_tokens)
        found: list[str] = self._spent.take(made)
        return found

    @property
    def condense(self) -> Callable[..., list[str]]:
        _ = self._local.condense  # type: ignore[attr-defined] # none where that has none
        return lambda prompts, **options: self._spent.take(
            self._ask("read", "condense", prompts, **options)
        )


class _RemoteEmbedder:
    """An embedder whose passages are embedded elsewhere."""

    def __init__(self, local: Embedder, ask: Ask) -> None:
        self.name, self.dimension = local.name, local.dimension
        self.embed_query = local.embed_query
        self._ask = ask

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors: Vectors = self._ask("embed", list(texts))[0]
        return vectors


def _remote(local: GraphBuilder, ask: Ask, spent: _Spent) -> GraphBuilder:
    reader: Any = _RemoteReader(local.reader, ask, spent)
    own: object = local.reader
    writer = reader if local.writer is own else local.writer
    return replace(
        local, reader=reader, writer=writer, embedder=_RemoteEmbedder(local.embedder, ask)
    )


def _ask(ray: Any, actor: Any, method: str, *args: Any, **options: Any) -> tuple[Any, Usage]:
    try:
        made: tuple[Any, Usage] = ray.get(getattr(actor, method).remote(*args, **options))
    except (ray.exceptions.RayActorError, ray.exceptions.NodeDiedError) as error:
        raise ModelError(
            f"a worker died again and again while it made one call: {error}\nIf its memory ran out, give "
            "it more, or a smaller replay_batch; if its node was lost, start the build again on a node "
            "that runs. Finished work is kept"
        ) from error
    return made


def _names(reader: Reader, embedder: Embedder) -> tuple[str, str, str | None]:
    return reader.name, embedder.name, getattr(reader, "dtype", None)


def _by_name(reader: str, embedder: str, dtype: str | None) -> tuple[Reader, Embedder]:
    from hwdag.lm.default import load_reader

    return load_reader(reader, dtype=dtype), load_embedder(embedder)


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InputError("RayExecutor needs ray: pip install 'hwdag[ray]'") from error
    return ray
