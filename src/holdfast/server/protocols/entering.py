"""Reads the caller, the body and the answers of a request to a protocol for user interfaces.

An answer fits one question by its key and its binding. The first answer counts: a later one changes nothing,
and its sender reads the effect of the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.question_log import asker_key
from holdfast.core.questions import AnyQuestion
from holdfast.event_log.display.display_items import parse_question_id
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.server.access.budgets import Takes, check_takes
from holdfast.server.access.callers import (
    require,
    set_takes,
    take_bytes,
    take_further_turn,
    take_stream,
    take_turn,
)
from holdfast.server.access.principals import Scope
from holdfast.server.api.idempotency import check_key
from holdfast.server.api.request_reading import (
    check_content_type,
    decode_body,
    match_path,
    split_path,
)
from holdfast.server.problem_responses import ProblemError, make_problem

B = TypeVar("B", bound=Struct)


class ProtocolRoute(Struct, frozen=True):
    """The handler of a method and a path.

    Args:
        handle: answers. The names in the path are its arguments.
        takes: the budgets that it may take from; see `holdfast.server.access.budgets`.
    """

    handle: Callable[..., Awaitable[Response]]
    takes: Takes

    def __post_init__(self) -> None:
        check_takes(getattr(self.handle, "__name__", ""), self.takes)


RouteTable: TypeAlias = Mapping[tuple[str, str], ProtocolRoute]
"""The route of each method and path."""

_JSON = "application/json"


class Entered(Struct, frozen=True):
    """A caller with the scope that its request needs.

    Args:
        tenant: its view of the service.
        name: who it is; answers and acts are saved with it.
    """

    tenant: TenantService
    name: str


def enter(
    request: Request, scope: Scope, *, starts: bool = False, streams: bool = False
) -> Entered:
    """Return who calls, if it may do this.

    Args:
        request: the request.
        scope: the scope that the route needs.
        starts: whether it starts a turn.
        streams: whether the answer is a stream.

    Raises:
        ProblemError: 401, 403, or 429 with the seconds to wait.
    """
    service: ServiceTenants = request.app.state.service
    principal = take_turn(request) if starts else require(request, scope)
    if streams and scope == "answer":
        require(request, "read")  # the stream shows the text of the turn so far
    if scope == "answer":
        take_further_turn(request)
    if streams:
        take_stream(request)
    return Entered(service.for_tenant(principal.tenant), principal.name)


async def check_request(request: Request, entered: Entered) -> None:
    """Check that the idempotency key of a request names no other one. Raises ProblemError."""
    await check_key(request, entered.tenant.tenant, request.app.state.service.store)


async def read_json(request: Request, kind: type[B]) -> B:
    """Return the body of a request as its type. Raises ProblemError that names the field."""
    check_content_type(request.headers, (_JSON,))
    return decode_body(await request.body(), kind)


async def dispatch(request: Request, routes: RouteTable) -> Response:
    """Answer a request by the route that fits it. Raises ProblemError with 404 if none does."""
    given = split_path(request.scope)
    for (method, path), route in routes.items():
        names = match_path(path.split("/")[1:], given)
        if names is not None and method == request.method:
            request.scope["path_params"] = names
            set_takes(request, route.takes)
            if "bytes" in route.takes:
                await take_bytes(request, len(await request.body()))
            return await route.handle(request, **names)
    detail = f"there is nothing for {request.method} at this address"
    raise ProblemError(make_problem(404, "route", detail))


async def find_questions(tenant: TenantService, session: str) -> dict[str, AnyQuestion]:
    """Return the open questions of a session by their keys."""
    agent = await tenant.agent_of(session)
    return {question.key: question for question in await agent.questions(session)}


def find_asked(questions: dict[str, AnyQuestion], given: str) -> AnyQuestion | None:
    """Return the open question of an id; None if it is answered already, or no question has it.

    Args:
        questions: the open questions by their keys.
        given: the id of the question; or the call that the client ran itself.

    Raises:
        ProblemError: an open question has the key, and the id belongs to another one.
    """
    parsed = parse_question_id(given)
    if parsed is None:
        return _find_client_call(questions, given)
    question = questions.get(parsed[0])
    if question is not None and question.binding != parsed[1]:
        raise ProblemError(
            make_problem(
                409,
                "mismatch",
                f"the answer {given!r} belongs to another question",
                fix="Load the chat again, and answer what it asks now",
            )
        )
    return question


def _find_client_call(questions: dict[str, AnyQuestion], call: str) -> AnyQuestion | None:
    """Return the open question of a call that the client runs itself."""
    for question in questions.values():
        if isinstance(question, ClientToolQuestion) and asker_key(question.key) == call:
            return question
    return None
