"""The routes: the page, questions and documents for it, figures, and OpenAI's API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hwdag.building.report import BuildReport
from hwdag.errors import HWDAGError, IndexBusy, InputError, ModelBusy
from hwdag.page import built_file, served_page
from hwdag.scope import Scope
from hwdag.text.files import KNOWN_SUFFIXES, read_documents
from hwdag.threads import in_builder_thread
from hwdag.trace.bars import Advanced, Reporting
from hwdag.types import Answer, Document, Retrieval, Step, shown_documents
from hwdag.version import __version__
from hwdag_serve.asking import Desk, events_of, logger, message_of
from hwdag_serve.completions import Completions
from hwdag_serve.guard import (
    Access,
    Events,
    Guard,
    Limits,
    Slots,
    failure,
    frame,
    json_body,
    limited_body,
)
from hwdag_serve.systems import Systems

__all__ = ["Access", "Limits", "Systems", "application"]

LONGEST_NAME = 200
CLIENT_LEFT = 499  # what nginx logs for it; nobody reads it


def application(
    systems: Systems, *, limits: Limits | None = None, access: Access | None = None
) -> Starlette:
    """Return the server of an index.

    Without a token in `access` only this machine should reach it.
    """
    limits, access = limits or Limits(), access or Access()
    server = _Server(systems, limits, access)
    completions = Completions(server.desk, limits)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        server.desk.close()

    get, post = ["GET"], ["POST"]
    return Starlette(
        routes=[
            Route("/", server.page, methods=get),
            Route("/page.js", partial(_built, "page.js", "text/javascript"), methods=get),
            Route("/page.css", partial(_built, "page.css", "text/css"), methods=get),
            Route("/health", server.health, methods=get),
            Route("/metrics", server.metrics, methods=get),
            Route("/api/state", server.state, methods=get),
            Route("/api/graph", server.graph, methods=get),
            Route("/api/ask", server.ask, methods=post),
            Route("/api/documents/{name}", server.upload, methods=["PUT"]),
            Route("/api/documents/{name:path}", server.delete, methods=["DELETE"]),
            Route("/v1/models", completions.models, methods=get),
            Route("/v1/chat/completions", completions.create, methods=post),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={
            HTTPException: _said,
            HWDAGError: _refused,
            ClientDisconnect: lambda request, error: Response(status_code=CLIENT_LEFT),
            Exception: lambda request, error: failure(500, message_of(error)),
        },
        lifespan=lifespan,
    )


class _Server:
    def __init__(self, systems: Systems, limits: Limits, access: Access) -> None:
        self.desk = Desk(systems, limits)
        self._limits = limits
        self._access = access
        self._uploads = Slots(limits.uploads, "uploads")

    async def page(self, request: Request) -> Response:
        return Response(served_page(), media_type="text/html")

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def metrics(self, request: Request) -> Response:
        self.desk.metrics.documents.set(len(self.desk.systems.index))
        return PlainTextResponse(self.desk.metrics.text(), media_type="text/plain; version=0.0.4")

    async def state(self, request: Request) -> Response:
        documents = await asyncio.to_thread(lambda: [*self.desk.systems.index.documents.values()])
        return JSONResponse(
            {
                "version": __version__,
                "systems": list(self.desk.systems),
                "documents": [{"id": one.id, "title": one.title} for one in documents],
                "read_only": self._access.read_only,
                "upload_bytes": self._limits.upload_bytes,
                "suffixes": sorted(KNOWN_SUFFIXES),
            }
        )

    async def graph(self, request: Request) -> Response:
        """The graphs, of all documents or of those that `?document=` names."""
        wanted = request.query_params.getlist("document") or None
        return JSONResponse(await asyncio.to_thread(self.desk.systems.index.to_dict, wanted))

    async def ask(self, request: Request) -> Response:
        """Answer `{question, system, token_budget, documents}` as a stream of events.

        `step` for every visited node, `walk`, `piece` for every piece of the answer, `answer`, or `error`.
        """
        body = await json_body(request, self._limits.json_bytes)
        question, name = body.get("question"), body.get("system", "hwdag")
        if not isinstance(question, str) or not question.strip():
            raise InputError("question must be a text that is not empty")
        system = self.desk.systems.named(name, token_budget=body.get("token_budget"))
        scope = None if body.get("documents") is None else Scope(body["documents"])

        async def frames() -> AsyncIterator[str]:
            try:
                async for event in self.desk.ask(name, system, question, scope):
                    yield _shown(event)
            except Exception as error:
                yield frame({"message": message_of(error)}, "error")

        return Events(frames(), self.desk.slots)

    async def upload(self, request: Request) -> Response:
        """Read a document from the body and build it; the stream says how far it is."""
        self._check_writable()
        name = safe_name(request.path_params["name"])
        with self._uploads.one():  # while it arrives; the stream holds a slot of its own
            folder = TemporaryDirectory(prefix="hwdag-upload-")
            try:
                with (Path(folder.name) / name).open("wb") as file:
                    async for piece in limited_body(request, self._limits.upload_bytes):
                        await asyncio.to_thread(file.write, piece)
            except BaseException:
                folder.cleanup()
                raise
        return Events(self._inserted(folder, name), self._uploads)

    async def delete(self, request: Request) -> Response:
        """Remove a document."""
        self._check_writable()
        await asyncio.to_thread(self.desk.systems.delete, request.path_params["name"])
        return JSONResponse({"deleted": request.path_params["name"]})

    async def _inserted(self, folder: TemporaryDirectory[str], name: str) -> AsyncIterator[str]:
        """The events of an upload: `progress`, then `done` or `error`."""

        def work(tell: Callable[[Advanced | BuildReport], None]) -> None:
            with folder:
                [found] = read_documents([Path(folder.name) / name])
            if not isinstance(found, Document):
                raise InputError(f"{name}: {found.reason}")
            document = replace(found, id=name, metadata={**found.metadata, "path": name})
            tell(self.desk.systems.insert([document], Reporting(tell, shown=False)))

        outcome = "refused"
        try:
            # why not stopped: what is being built is finished, whether somebody waits or not
            async for event in events_of(work, in_builder_thread, stops=False):
                if isinstance(event, Advanced):
                    shown = {"stage": event.stage, "done": event.done, "total": event.total}
                    yield frame(shown, "progress")
                else:
                    outcome = "built"
                    yield frame({"report": str(event), "id": name}, "done")
        except Exception as error:
            if not isinstance(error, HWDAGError):
                logger.exception("an upload failed")
            yield frame({"message": message_of(error)}, "error")
        self.desk.metrics.uploads.labels(outcome).inc()

    def _check_writable(self) -> None:
        if self._access.read_only:
            raise HTTPException(403, "this server is read-only: its documents cannot be changed")


def safe_name(name: str) -> str:
    """Return the name of an uploaded file, the id of its document; `InputError` for one that is unsafe."""
    if (
        name != Path(name).name
        or name.startswith(".")
        or "\\" in name
        or not name.isprintable()
        or len(name.encode()) > LONGEST_NAME
    ):
        raise InputError(
            f"{name!r} is no file name: one that can be printed, without a slash, a backslash or a "
            f"dot at its beginning, of at most {LONGEST_NAME} bytes"
        )
    if Path(name).suffix.lower() not in KNOWN_SUFFIXES:
        raise InputError(f"{name!r} must end in one of {', '.join(sorted(KNOWN_SUFFIXES))}")
    return name


def _shown(event: Step | Retrieval | str | Answer) -> str:
    match event:
        case Step():
            return frame(event.to_dict(), "step")
        case Retrieval():
            return frame({"stop": event.stop}, "walk")
        case Answer():
            documents = shown_documents(event.retrieval)
            return frame({"documents": documents, "answer": event.to_dict()}, "answer")
        case _:
            return frame({"text": event}, "piece")


async def _built(name: str, kind: str, request: Request) -> Response:
    return Response(built_file(name), media_type=kind)


def _said(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = failure(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


def _refused(request: Request, error: Exception) -> Response:
    busy = isinstance(error, IndexBusy | ModelBusy)
    return failure(503 if busy else 400 if isinstance(error, InputError) else 500, str(error))
