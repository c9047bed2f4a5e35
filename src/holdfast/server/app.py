"""Builds the ASGI application of a service, which also mounts into other applications.

Nginx and Caddy can pass a path below their root path as it was sent, which keeps an encoded `/` in the
name of a session. Other proxies remove the path below which they show a service. Both kinds are
understood, because no path of the service itself begins like the root path. This module must never run
a turn: it connects routes with the service.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from holdfast.console.page_files import console_routes, redirect_to_console
from holdfast.core.errors import ConfigurationError, HoldfastError
from holdfast.core.redaction import quote_setting
from holdfast.hosting.bound_agents import AnyAgent, name_agents, observe_agent
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import ServiceOptions
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.port import Journal
from holdfast.server.access.asgi import ASGIApp, Receive, Scope, Send
from holdfast.server.access.options import AccessOptions
from holdfast.server.access.stack import AccessControl, protect
from holdfast.server.api.routes import OPERATIONS, NativeApi
from holdfast.server.health.prometheus import Metric
from holdfast.server.health.service_metrics import TurnCounts, measure_queue
from holdfast.server.loop_watch import LoopWatch, note_requests
from holdfast.server.problem_responses import ProblemError, respond_problem, to_problem
from holdfast.server.protocols.agui import routes as agui
from holdfast.server.protocols.chat import chat_routes
from holdfast.server.protocols.openai_http import OpenAIErrors
from holdfast.server.protocols.responses import response_routes
from holdfast.server.protocols.vercel import routes as vercel
from holdfast.server.queued_turns import QueueOptions, queue_turns
from holdfast.telemetry.observers import CALLER_TRACE, Observer
from holdfast.worker.worker import EntryWorker

OWN_PATHS: Final = frozenset(
    {"agui", "api", "console", "favicon.ico", "health", "metrics", "ready", "v1", "vercel"}
)
"""How the paths of a service begin."""

_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")


def create_app(
    agents: AnyAgent | Iterable[AnyAgent],
    *,
    journal: Journal | str | None = None,
    access: AccessOptions | None = None,
    grace: float = 60.0,
    options: ServiceOptions | None = None,
    queue: QueueOptions | None = None,
    observe: Iterable[Observer] = (),
) -> Starlette:
    """Return an ASGI application that serves agents.

    Args:
        agents: one agent, or several with different names.
        journal: the journal or its address; by default that of the first agent, or memory.
        access: who may call, and how much.
        grace: how long a process that is to stop waits for writing tools, in seconds.
        options: how it shows its turns: whose text it holds, and the prices of tokens.
        queue: how turns are driven; with a PostgreSQL journal they are queued, and this process is one
            of the workers. With any other journal a turn begins at once.
        observe: observers of all agents, besides those that each has, such as `OpenTelemetry()`.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> from holdfast import Agent
    >>> from holdfast.testing import ScriptedModel
    >>> app = create_app(Agent(ScriptedModel("Hello."), name="greeter"))
    """
    observers = tuple(observe)
    if observers:
        agents = [observe_agent(one, observers) for one in name_agents(agents).values()]
    allow_models = access.allow_models if access is not None else ()
    service = ServiceTenants(agents, journal, options, allow_models)
    control = _control_access(service, access)
    serving = queue_turns(service, ServiceLifetime(service, grace), queue)
    if isinstance(serving, EntryWorker):
        control.readiness.add_check("worker", serving.check)
    watch = _measure_process(control, service.inbox)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.enter_context(watch.watching())
            stack.push_async_callback(control.keys.close)
            stack.push_async_callback(service.claims.close)
            await stack.enter_async_context(serving)
            yield

    app = Starlette(
        routes=[
            _WholeMount("/api/v1", NativeApi(service, OPERATIONS)),
            _WholeMount("/v1", _make_openai_api(service)),
            Route("/console", redirect_to_console),
            Mount("/console", routes=console_routes()),
            Mount("/vercel", routes=vercel.routes()),
            Mount("/agui", routes=agui.routes()),
        ],
        middleware=_list_middleware(control, watch),
        lifespan=lifespan,
        exception_handlers={HoldfastError: _refuse, ProblemError: _refuse},
    )
    app.state.service = service
    app.state.access = control
    return app


class _WholeMount(Mount):
    """A mount for every path below it: the name of a session may have a line break."""

    def __init__(self, path: str, app: ASGIApp) -> None:
        super().__init__(path, app)
        self.path_regex = re.compile(self.path_regex.pattern, re.DOTALL)


def _control_access(service: ServiceTenants, access: AccessOptions | None) -> AccessControl:
    control = AccessControl(service.store, access)
    counts = TurnCounts(service)
    control.usage.count_turns = counts.estimate
    control.usage.count_bytes = service.count_bytes
    control.metrics.add_gauges(counts.read_gauges)
    service.observe = control.metrics.note_item
    service.note_link = control.outage.note_link
    service.note_accepted = control.outage.let_wait
    control.readiness.is_stopping = lambda: service.is_closing
    control.readiness.is_journal_lost = lambda: control.outage.is_known
    control.readiness.add_check("journal", service.check_journal)
    return control


def _measure_process(control: AccessControl, inbox: Inbox | None) -> LoopWatch:
    """Add the metrics of the event loop and of the queue; return the watch of the loop."""
    watch = LoopWatch()
    control.metrics.add_metrics(watch.read_metrics)
    if inbox is not None:
        control.metrics.add_metrics(partial(_read_queue, inbox))
    return watch


def _list_middleware(control: AccessControl, watch: LoopWatch) -> list[Middleware]:
    return [
        Middleware(note_requests, watch=watch),
        Middleware(_keep_trace),
        Middleware(OpenAIErrors),
        Middleware(protect, access=control),
    ]


def _keep_trace(app: ASGIApp) -> ASGIApp:
    """Return an application whose turns belong to the trace of the request that starts them."""

    async def kept(scope: Scope, receive: Receive, send: Send) -> None:
        found = [value for name, value in scope.get("headers", ()) if name == b"traceparent"]
        if not found:
            await app(scope, receive, send)
            return
        token = CALLER_TRACE.set(found[0].decode("latin-1"))
        try:
            await app(scope, receive, send)
        finally:
            CALLER_TRACE.reset(token)

    return kept


async def _read_queue(inbox: Inbox) -> list[Metric]:
    return measure_queue(await inbox.count_entries())


def _refuse(_request: Request, error: Exception) -> Response:
    if isinstance(error, ProblemError):
        return respond_problem(error.problem)
    assert isinstance(error, HoldfastError)  # noqa: S101  # REASON: registered for it above
    return respond_problem(to_problem(error))


def _make_openai_api(service: ServiceTenants) -> NativeApi:
    """Return the application that answers below `/v1`."""
    return NativeApi(service, (*response_routes.OPERATIONS, *chat_routes.OPERATIONS))


class RootPath:
    """A middleware that passes an application the path below which it is shown.

    Args:
        app: the application.
        path: the path, such as "/agents".

    Raises:
        ConfigurationError: it is not a path, or begins like a path of the service.
    """

    def __init__(self, app: ASGIApp, path: str) -> None:
        check_root_path(path)
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            path, raw = str(scope["path"]), bytes(scope.get("raw_path") or b"")
            scope["root_path"] = self._path
            if path != self._path and not path.startswith(f"{self._path}/"):
                scope["path"] = self._path + path
                scope["raw_path"] = self._path.encode() + raw if raw else raw
        await self._app(scope, receive, send)


def check_root_path(path: str) -> None:
    """Refuse a path below which no service can be shown.

    Args:
        path: the path.

    Raises:
        ConfigurationError: it is not a path, or begins like a path of the service.

    >>> check_root_path("/agents")
    """
    if not _PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        raise ConfigurationError(
            "root_path",
            f"{quote_setting(path)} is not a path",
            fix='Write it with a slash before each part and none at the end, such as "/agents"',
        )
    if path.split("/")[1] in OWN_PATHS:
        raise ConfigurationError(
            "root_path",
            f"{quote_setting(path)} begins like a path of the service",
            fix='Choose another one, such as "/agents"',
        )
