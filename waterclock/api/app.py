"""The application: routes under /api/v1, probes, the page, and one form for everything that goes wrong.

What must hold: every answer carries the security headers (our page may load nothing from elsewhere); what is refused,
whoever refuses it, is a problem document; a bug is a 500 without a trace. Importing this costs half a second: only the
API process does.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from waterclock.model.errors import BackendDown, RequestError

from . import (
    backfills,
    bulk,
    calendars,
    cancelling,
    dag_acts,
    dag_runs,
    dlq,
    forecast,
    history,
    jobs,
    operations,
    overview,
    preview,
    probes,
    reference,
    run_logs,
    runs,
    stream,
)
from .access import known_parameters
from .describing import describe
from .page import files as page_files
from .problems import Problem, away, problem_of
from .services import Services

PREFIX = "/api/v1"
_SECURITY_HEADERS = [
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_SLUG_OF_STATUS = {404: "not-found", 405: "method-not-allowed"}
_log = structlog.get_logger()


def build_app(services: Services, *, threads: bool = True) -> FastAPI:
    """The application on these services; it starts and stops them. ``threads``: see ``Services.start``."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await services.start(threads=threads)
        try:
            yield
        finally:
            await services.stop()

    app = FastAPI(lifespan=life, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.services = services
    # run_logs stands before runs, whose path for a run takes in whatever follows.
    parts = (bulk, jobs, history, run_logs, runs, cancelling, dlq, operations, preview, forecast, stream, overview)
    for part in (*parts, calendars, dag_runs, dag_acts, backfills):
        app.include_router(part.routes, prefix=PREFIX, dependencies=[Depends(known_parameters)])
    app.include_router(probes.routes, dependencies=[Depends(known_parameters)])
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]  # FastAPI's own way to replace it
    app.include_router(reference.routes)
    app.include_router(page_files.routes)
    _tell_what_goes_wrong(app, services)
    app.add_middleware(_Around, services=services)
    return app


def _tell_what_goes_wrong(app: FastAPI, services: Services) -> None:
    def told(problem: Problem) -> Response:
        services.measures.refused.labels(problem.slug).inc()
        return problem.answer()

    async def of_problem(_: Request, error: Exception) -> Response:
        assert isinstance(error, Problem)
        return told(error)

    async def of_request(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return told(problem_of(error))

    async def of_backend(_: Request, error: Exception) -> Response:
        assert isinstance(error, BackendDown)
        _log.warning("backend away", backend=error.backend, cause=str(error))
        return told(away(error))

    async def of_parameters(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where, name = first["loc"][0], str(first["loc"][-1])
        return told(Problem("bad-request", f"The {where} parameter {name!r}: {first['msg']}", pointer=f"/{name}"))

    async def of_http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        slug = _SLUG_OF_STATUS.get(error.status_code, "bad-request")
        headers = dict(error.headers or {})
        return told(Problem(slug, str(error.detail), hint="/docs lists what there is", headers=headers))

    async def of_bug(request: Request, error: Exception) -> Response:
        _log.error("a bug answered 500", path=request.url.path, exc_info=error)
        return told(Problem("bug", "This should not have happened; the log of the API tells more"))

    app.add_exception_handler(Problem, of_problem)
    app.add_exception_handler(RequestError, of_request)
    app.add_exception_handler(BackendDown, of_backend)
    app.add_exception_handler(RequestValidationError, of_parameters)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(Exception, of_bug)


class _Around:
    """Around every request: security headers on the answer, and its time in the figures."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._measures = services.measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_SECURITY_HEADERS]
                self._measures.served(message["status"], time.perf_counter() - began_s)
            await send(message)

        await self._app(scope, receive, guarded)
