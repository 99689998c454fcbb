"""Builds on a Ray cluster: readers and embedders are actors with one model each.

    from hwdag import HWDAGIndex, RayExecutor

    index = HWDAGIndex.from_documents(documents, path="notes.hwdag", executor=RayExecutor(4))

Documents are cut, and their finished calls and graphs are stored, by the process that builds: the
file has one writer. Only the work of a model goes to an actor. If an actor dies, Ray starts it again
and the call that it was making is made once more; those before it are in the file. If its node dies,
the build ends: Ray may wait for ever for a place for the actor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
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

CHECK_SECONDS = 5.0  # between two looks at the nodes, during a call
START_SECONDS = (30.0, 570.0)
"""Seconds that workers may wait for a place before a warning, and after it."""

_LOGGER = logging.getLogger(__name__)


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

        Workers without a place in the cluster are left out. Raises `ModelError` if no worker has one, or if one
        cannot make its models, `IndexMismatch` if they are other models.
        """
        ray = _ray()
        if not ray.is_initialized():
            ray.init()
        make = self._make or partial(_by_name, *_names(local.reader, local.embedder))
        actor = ray.remote(_Worker).options(**self._options)
        actors = [actor.remote(make) for _ in range(self._workers)]
        try:
            calls = _Calls(ray, actors)
            expected = _names(local.reader, local.embedder)
            try:
                names = [calls.result(one) for one in [a.names.remote() for a in calls.actors]]
            except ray.exceptions.RayTaskError as error:
                raise ModelError(f"a worker cannot make its models: {error}") from error
            for found in names:
                if found != expected:
                    raise IndexMismatch(
                        f"a worker has the models {found}, this process has {expected}; make the "
                        "same ones with RayExecutor(models=...)"
                    )
            spent = _Spent()
            yield [_remote(local, partial(calls.ask, one), spent) for one in calls.actors]
        finally:
            for one in actors:
                ray.kill(one)


Ask = Callable[..., tuple[Any, Usage]]


class _Worker:
    """The actor: one reader, one embedder."""

    def __init__(self, make: Callable[[], tuple[Reader, Embedder]]) -> None:
        self._make = make

    @cached_property
    def _models(self) -> tuple[Reader, Embedder]:
        return self._make()

    def node(self) -> str:
        found: str = _ray().get_runtime_context().get_node_id()
        return found

    def names(self) -> tuple[str, str, str | None]:
        return _names(*self._models)

    def read(self, method: str, *args: Any, **options: Any) -> tuple[Any, Usage]:
        reader, _ = self._models
        before = reader.usage
        return getattr(reader, method)(*args, **options), reader.usage - before

    def embed(self, texts: list[str]) -> tuple[Vectors, Usage]:
        return self._models[1].embed(texts), Usage()


class _Calls:
    """Calls of the workers that have a place in the cluster.

    All end with a `ModelError` as soon as the node of one of these workers is dead.
    """

    def __init__(self, ray: Any, actors: Sequence[Any]) -> None:
        self._ray, self._nodes, self._is_lost = ray, set[str](), False
        places = {one.node.remote(): one for one in actors}
        for seconds in START_SECONDS:
            started, missing = ray.wait(list(places), num_returns=len(places), timeout=seconds)
            if not missing:
                break
            _LOGGER.warning(
                "%d of %d workers have no place in the cluster, which has %s, of which %s are free",
                *(len(missing), len(places), ray.cluster_resources(), ray.available_resources()),
            )
        if not started:
            raise ModelError(
                f"no worker got a place within {sum(START_SECONDS):.0f} seconds in the cluster, which has "
                f"{ray.cluster_resources()}; add nodes, or ask for less with RayExecutor(num_cpus=...)"
            )
        self.actors = [places[one] for one in started]
        self._nodes = {self.result(one) for one in started}

    def ask(self, actor: Any, method: str, *args: Any, **options: Any) -> tuple[Any, Usage]:
        """Call a method of a worker."""
        made: tuple[Any, Usage] = self.result(getattr(actor, method).remote(*args, **options))
        return made

    def result(self, call: Any) -> Any:
        """Wait for a call."""
        ray = self._ray
        try:
            while not self._is_lost:
                if ray.wait([call], timeout=CHECK_SECONDS)[0]:
                    return ray.get(call)
                alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
                self._is_lost = self._is_lost or not alive >= self._nodes
        except (ray.exceptions.RayActorError, ray.exceptions.NodeDiedError) as error:
            raise ModelError(
                f"a worker died again and again while it made one call: {error}\nIf its memory ran out, "
                "give it more, or a smaller replay_batch; if its node was lost, start the build again on "
                "a node that runs. Finished work is kept"
            ) from error
        raise ModelError(
            "a node of the cluster died, with a worker; start the build again on nodes that run, with "
            "fewer workers if there are fewer. Finished work is kept"
        )


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
