"""Builds the ASGI application of a service, which also mounts into other applications.

This module must never run a turn: it connects routes with the service.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from holdfast.console.console_routes import console_routes, redirect_to_console
from holdfast.core.errors import HoldfastError
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_options import ServiceOptions
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.port import Journal
from holdfast.server.access.options import AccessOptions
from holdfast.server.access.stack import AccessControl, protect
from holdfast.server.api.native_api import NativeApi
from holdfast.server.api.routes import OPERATIONS
from holdfast.server.health.prometheus import Metric
from holdfast.server.health.queue_metrics import measure_queue
from holdfast.server.health.turn_counts import TurnCounts
from holdfast.server.loop_watch import LoopWatch, note_requests
from holdfast.server.problem_responses import ProblemError, respond_problem, to_problem
from holdfast.server.protocols.agui import routes as agui
from holdfast.server.protocols.openai_errors import OpenAIErrors
from holdfast.server.protocols.openai_routes import make_openai_api
from holdfast.server.protocols.vercel import routes as vercel
from holdfast.server.queued_turns import QueueOptions, queue_turns
from holdfast.worker.worker import EntryWorker


def create_app(
    agents: AnyAgent | Iterable[AnyAgent],
    *,
    journal: Journal | str | None = None,
    access: AccessOptions | None = None,
    grace: float = 60.0,
    options: ServiceOptions | None = None,
    queue: QueueOptions | None = None,
) -> Starlette:
    """Return an ASGI application that serves agents.

    Args:
        agents: one agent, or several with different names.
        journal: the journal or its address; by default that of the first agent, or memory.
        access: who may call, and how much.
        grace: how long a process that is told to stop waits for writing tools, in seconds.
        options: how it tells of its turns: whose text it holds, and what tokens cost.
        queue: how turns are driven; with a PostgreSQL journal they are queued, and this process is one
            of the workers. With any other journal a turn begins at once.

    Raises:
        ConfigurationError: an argument is wrong.

    >>> from holdfast import Agent
    >>> from holdfast.testing import ScriptedModel
    >>> app = create_app(Agent(ScriptedModel("Hello."), name="greeter"))
    """
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
            await stack.enter_async_context(serving)
            yield

    app = Starlette(
        routes=[
            _WholeMount("/api/v1", NativeApi(service, OPERATIONS)),
            _WholeMount("/v1", make_openai_api(service)),
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
        Middleware(OpenAIErrors),
        Middleware(protect, access=control),
    ]


async def _read_queue(inbox: Inbox) -> list[Metric]:
    return measure_queue(await inbox.count_entries())


def _refuse(_request: Request, error: Exception) -> Response:
    if isinstance(error, ProblemError):
        return respond_problem(error.problem)
    assert isinstance(error, HoldfastError)  # noqa: S101  # REASON: registered for it above
    return respond_problem(to_problem(error))
