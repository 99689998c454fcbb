"""The routes: the page, questions and documents for it, figures, and OpenAI's API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hwdag.building.report import BuildReport
from hwdag.config import SearchConfig
from hwdag.errors import HWDAGError, InputError
from hwdag.index import HWDAGIndex
from hwdag.page import built_file, served_page
from hwdag.retriever import Retriever
from hwdag.scope import Scope
from hwdag.search.follow_ups import checked_history
from hwdag.threads import in_builder_thread
from hwdag.trace.bars import Advanced, Reporting
from hwdag.types import Answer, Document, Retrieval, Step, shown_documents
from hwdag.version import __version__
from hwdag_app.serve.agents import agents_of
from hwdag_app.serve.asking import Questions, events_of
from hwdag_app.serve.completions import Completions
from hwdag_app.serve.config import ServerConfig
from hwdag_app.serve.greeting import example_questions
from hwdag_app.serve.guard import (
    MAX_UPLOADS,
    Events,
    Guard,
    Slots,
    failure,
    frame,
    json_body,
    limited_body,
)
from hwdag_app.serve.refusals import refusal, without_folder
from hwdag_app.serve.systems import Systems
from hwdag_files.read import KNOWN_SUFFIXES, read_bytes

__all__ = ["ServerConfig", "application"]

LONGEST_NAME = 200
CLIENT_LEFT = 499  # as nginx logs it; no client reads it


def application(
    index: HWDAGIndex,
    config: SearchConfig | None = None,
    *,
    others: Mapping[str, Retriever] | None = None,
    server: ServerConfig | None = None,
) -> Starlette:
    """Return the server of an index, which is searched with `config`.

    Without a token only this machine should reach it.

    Args:
        index: the served index; uploads and deletions change it.
        config: the default settings of a walk.
        others: other methods by name, which hold the documents of the index and change with it.
        server: who may ask, and how much the server takes on.
    """
    server = server or ServerConfig()
    systems = Systems(index, config, others)
    questions = Questions(systems, server.max_questions)
    pages, completions = _Pages(questions, server), Completions(questions)
    agents = agents_of(index, config, questions.slots)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with nullcontext() if agents is None else agents.running():
            yield
        questions.close()

    get, post = ["GET"], ["POST"]
    return Starlette(
        routes=[
            Route("/", pages.page, methods=get),
            Route("/page.js", partial(_built, "page.js", "text/javascript"), methods=get),
            Route("/page.css", partial(_built, "page.css", "text/css"), methods=get),
            Route("/health", pages.health, methods=get),
            Route("/metrics", pages.metrics, methods=get),
            Route("/api/state", pages.state, methods=get),
            Route("/api/graph", pages.graph, methods=get),
            Route("/api/ask", pages.ask, methods=post),
            Route("/api/documents/{name}", pages.upload, methods=["PUT"]),
            Route("/api/documents/{name:path}", pages.delete, methods=["DELETE"]),
            Route("/v1/models", completions.models, methods=get),
            Route("/v1/chat/completions", completions.create, methods=post),
            *([] if agents is None else [Route("/mcp", agents)]),
        ],
        middleware=[Middleware(Guard, token=server.token)],
        exception_handlers={
            ClientDisconnect: lambda request, error: Response(status_code=CLIENT_LEFT),
            **dict.fromkeys((HTTPException, HWDAGError, Exception), _refused),
        },
        lifespan=lifespan,
    )


class _Pages:
    def __init__(self, questions: Questions, server: ServerConfig) -> None:
        self._questions = questions
        self._systems = questions.systems
        self._metrics = questions.metrics
        self._server = server
        self._uploads = Slots(MAX_UPLOADS, "uploads")

    async def page(self, request: Request) -> Response:
        return Response(served_page(), media_type="text/html")

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def metrics(self, request: Request) -> Response:
        self._metrics.documents.set(len(self._systems.index))
        return PlainTextResponse(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def state(self, request: Request) -> Response:
        index = self._systems.index
        documents = await asyncio.to_thread(lambda: [*index.documents.values()])
        return JSONResponse(
            {
                "version": __version__,
                "name": index.path.stem if index.path else "",
                "characters": sum(len(one.text) for one in documents),
                "has_graph": self._systems.has_points,
                "systems": list(self._systems),
                "documents": [{"id": one.id, "title": one.title} for one in documents],
                "questions": example_questions(documents),
                "read_only": self._server.read_only,
                "upload_bytes": self._server.max_upload_bytes,
                "suffixes": sorted(KNOWN_SUFFIXES),
            }
        )

    async def graph(self, request: Request) -> Response:
        """Return the graphs of all documents, or of those that `?document=` names."""
        wanted = request.query_params.getlist("document") or None
        return JSONResponse(await asyncio.to_thread(self._systems.index.to_dict, wanted))

    async def ask(self, request: Request) -> Response:
        """Answer `{question, system, token_budget, documents, history}` as a stream of events.

        They are `step` for each visited node, `walk`, `piece` for each piece of the answer, `answer`; or
        `error`.
        """
        body = await json_body(request)
        question, name = body.get("question"), body.get("system", "hwdag")
        if not isinstance(question, str) or not question.strip():
            raise InputError("question must be a text that is not empty")
        system = self._systems.named(name, token_budget=body.get("token_budget"))
        scope = None if body.get("documents") is None else Scope(body["documents"])
        history = checked_history(body.get("history") or [])

        async def frames() -> AsyncGenerator[str]:
            asked = self._questions.ask(name, system, question, scope, history=history)
            try:
                async with aclosing(asked) as events:
                    async for event in events:
                        yield _shown(event)
            except Exception as error:
                yield frame({"message": refusal(error)[1]}, "error")

        return Events(frames(), self._questions.slots)

    async def upload(self, request: Request) -> Response:
        """Read a document from the body and build it, with its progress as a stream of events."""
        self._check_writable()
        name = safe_name(request.path_params["name"])
        # why without a name: it is gone once the process is, even if that is killed
        with self._uploads.one(), TemporaryFile() as file:
            async for piece in limited_body(request, self._server.max_upload_bytes):
                await asyncio.to_thread(file.write, piece)
            file.seek(0)
            data = await asyncio.to_thread(file.read)
        return Events(self._inserted(data, name), self._uploads)  # takes a slot of its own

    async def delete(self, request: Request) -> Response:
        """Remove a document."""
        self._check_writable()
        await asyncio.to_thread(self._systems.delete, request.path_params["name"])
        return JSONResponse({"deleted": request.path_params["name"]})

    async def _inserted(self, data: bytes, name: str) -> AsyncGenerator[str]:
        """Yield the events of an upload: `progress`, then `done` or `error`."""

        def work(tell: Callable[[Advanced | BuildReport], None]) -> None:
            found = read_bytes(data, name)
            if not isinstance(found, Document):
                raise InputError(f"{name}: {found.reason}")
            if not found.text.strip():
                notes = "; ".join(found.metadata["notes"])
                raise InputError(
                    f"{name}: it holds no text, so nothing was added; {notes}".strip("; ")
                )
            tell(self._systems.insert([found], Reporting(tell, shown=False)))

        outcome = "refused"
        try:
            # why not stopped: a build that has begun is finished, whether or not the client stays
            async for event in events_of(work, in_builder_thread, self._uploads):
                if isinstance(event, Advanced):
                    shown = {"stage": event.stage, "done": event.done, "total": event.total}
                    yield frame(shown, "progress")
                else:
                    outcome = "built"
                    yield frame({"report": str(event), "id": name}, "done")
        except Exception as error:
            yield frame({"message": refusal(error)[1]}, "error")
        self._metrics.uploads.labels(outcome).inc()

    def _check_writable(self) -> None:
        if self._server.read_only:
            raise HTTPException(403, "this server is read-only: its documents cannot be changed")


def safe_name(name: str) -> str:
    """Return the name of an uploaded file, which becomes its id. Raises `InputError` if it is unsafe."""
    if (
        name != Path(name).name
        or name.startswith(".")
        or "\\" in name
        or not name.isprintable()
        or len(name.encode()) > LONGEST_NAME
    ):
        raise InputError(
            f"{name!r} is no file name; give one of printable characters, at most {LONGEST_NAME} bytes, "
            "without a slash or backslash and without a dot at its beginning"
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
            answer = event.to_dict() | {"answered_by": without_folder(event.answered_by)}
            return frame({"documents": documents, "answer": answer}, "answer")
        case _:
            return frame({"text": event}, "piece")


async def _built(name: str, kind: str, request: Request) -> Response:
    return Response(built_file(name), media_type=kind)


def _refused(request: Request, error: Exception) -> Response:
    response = failure(*refusal(error))
    if isinstance(error, HTTPException):
        response.headers.update(error.headers or {})
    return response
