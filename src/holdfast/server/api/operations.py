"""Operations: one declaration for each route, from which requests are read and documents are made.

This module must never know a route.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.acts import Act
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService, new_act
from holdfast.journal.encoding import to_json
from holdfast.journal.service_store.service_store import ServiceStore
from holdfast.server.access.budgets import READS, Takes, check_takes
from holdfast.server.access.callers import take_bytes
from holdfast.server.access.principals import Principal, Scope
from holdfast.server.api.request_bodies import NoBody, NoQuery

Q = TypeVar("Q")
B = TypeVar("B")

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
NDJSON = "application/x-ndjson"

BodyKind: TypeAlias = Literal["none", "optional", "json", "lines", "bytes"]
"""The body of a request: nothing, JSON that may be left out, JSON, lines of JSON, or bytes."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, B]):
    """A request to one operation, checked.

    Attributes:
        tenant: the service as the caller sees it.
        principal: who calls.
        names: the names in the path, decoded.
        query: the query parameters.
        body: the body; None if the operation reads it itself.
        request: the request.
        service: the whole service.
        act_id: the id of its act, which is made of its idempotency key; "" without one.
        digest: the digest of the request, if it has an idempotency key.
    """

    tenant: TenantService
    principal: Principal
    names: Mapping[str, str]
    query: Q
    body: B
    request: Request
    service: ServiceTenants
    act_id: str = ""
    digest: str = ""

    def make_act(self, act: str, session: str = "", **details: object) -> Act:
        """Return the act of this call, which the journal saves with the records of the act.

        Args:
            act: the name of the act.
            session: the session; by default that in the path, if there is one.
            details: JSON values.
        """
        return new_act(
            act,
            session or self.names.get("session", ""),
            by=self.principal.name,
            act_id=self.act_id,
            digest=self.digest,
            **details,
        )

    @property
    def store(self) -> ServiceStore:
        """Stores everything besides runs."""
        return self.service.store

    @property
    def session(self) -> str:
        """The session in the path."""
        return self.names["session"]

    def accepts(self, media_type: str) -> bool:
        """Whether the caller asks for this type of answer."""
        return media_type in self.request.headers.get("Accept", "")


@dataclass(frozen=True, slots=True)
class OperationAnswer:
    """One kind of successful answer.

    Attributes:
        kind: its type; None for no content, and for content that is not JSON.
        text: its meaning.
        media_type: its media type.
    """

    kind: Any
    text: str
    media_type: str = JSON


@dataclass(frozen=True, slots=True)
class OperationHeader:
    """A header that an operation reads.

    Attributes:
        name: its name.
        text: its meaning.
        schema: the JSON Schema of its value.
    """

    name: str
    text: str
    schema: Mapping[str, object]


IDEMPOTENCY_KEY = OperationHeader(
    "Idempotency-Key",
    "A text of yours that names the request, such as a UUID. A repetition with the same key and body "
    "gets the answer of the first, for 24 hours.",
    {"type": "string", "minLength": 1, "maxLength": 200},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Q, B]):
    """One method of one path.

    Attributes:
        name: names it in documents and clients.
        method: the HTTP method.
        path: the path below `/api/v1`, with names in braces.
        text: a sentence about it.
        scope: the scope that a caller needs.
        takes: the budgets that it may take from; see `holdfast.server.access.budgets`.
        handle: performs it.
        query: the type of the query parameters.
        body: the type of the body.
        carries: how the body is sent.
        answers: the successful answers, by status; a status may have several media types.
        refusals: the statuses of problems besides those that every operation may answer.
        headers: the headers that it reads, besides that of every POST.
        once: how a request with an idempotency key is performed once: the journal saves it with its
            "act"; the "turn" that it begins carries the key; or only its "answer" is saved, because
            performing it again changes nothing; "" if the key is not read.
        answer_again: makes the answer to a request whose act is in the journal; it performs the rest.
    """

    name: str
    method: Literal["GET", "POST", "PATCH", "DELETE"]
    path: str
    text: str
    scope: Scope
    takes: Takes
    handle: Callable[[Call[Q, B]], Awaitable[Response]]
    query: type[Q]
    body: type[B]
    carries: BodyKind = "none"
    answers: Mapping[int, tuple[OperationAnswer, ...]] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    headers: tuple[OperationHeader, ...] = ()
    once: Literal["", "act", "turn", "answer"] = ""
    answer_again: Callable[[Call[Q, B], Act], Awaitable[Response]] | None = None

    def __post_init__(self) -> None:
        check_takes(self.name, self.takes)

    async def perform(self, call: Call[Q, B]) -> Response:
        """Perform it; the bytes that the request stores are counted before."""
        if "bytes" in self.takes:
            await take_bytes(call.request, len(await call.request.body()))
        return await self.handle(call)


AnyOperation: TypeAlias = Operation[Any, Any]
AnyCall: TypeAlias = Call[Any, Any]


def make_command(
    name: str,
    path: str,
    text: str,
    handle: Callable[[Call[NoQuery, NoBody]], Awaitable[Response]],
    answers: Mapping[int, tuple[OperationAnswer, ...]],
    *,
    refusals: tuple[int, ...] = (),
) -> Operation[NoQuery, NoBody]:
    """Return a POST that carries nothing but its path, and changes nothing when it is repeated."""
    return Operation(
        name=name,
        method="POST",
        path=path,
        text=text,
        scope="run",
        takes=READS,
        handle=handle,
        query=NoQuery,
        body=NoBody,
        carries="optional",
        once="answer",
        answers=answers,
        refusals=refusals,
    )


def respond(view: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with a view as JSON."""
    return Response(to_json(view), status, dict(headers or {}), media_type=JSON)
