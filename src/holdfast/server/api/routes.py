"""The routes of the native API."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from holdfast.journal.encoding import to_json
from holdfast.journal.journal_names import DEFAULT_TENANT
from holdfast.server.api.event_stream import stream_entries
from holdfast.server.event_log.positions import START, Position, parse_position
from holdfast.server.live.reading import ReadingEnd
from holdfast.server.problems import ProblemError, make_problem
from holdfast.server.service import Service, TenantService


class NewTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /turns`.

    Args:
        agent: the name of the agent.
        message: the message of the user.
        session: the session; without one, a new one is made.
    """

    agent: str
    message: str
    session: str | None = None


def tenant_of(request: Request) -> TenantService:
    """Return what the caller of a request sees of the service."""
    service: Service = request.app.state.service
    return service.for_tenant(DEFAULT_TENANT)


async def start_turn(request: Request) -> Response:
    """`POST /turns`: start a turn. With `Accept: text/event-stream`, answer with its stream."""
    tenant, body = tenant_of(request), await _read_body(request, NewTurn)
    accepted = await tenant.start(
        body.agent,
        body.message,
        session=body.session,
        request=request.headers.get("Idempotency-Key"),
    )
    if "text/event-stream" in request.headers.get("Accept", ""):
        end = ReadingEnd(accepted.number)
        return stream_entries(
            tenant.reader.follow(accepted.session, Position(accepted.sequence), end)
        )
    return Response(
        to_json({"session": accepted.session, "turn": accepted.number}),
        202,
        media_type="application/json",
    )


async def read_events(request: Request) -> Response:
    """`GET /sessions/{session}/events`: the event log of a session from a position."""
    tenant, session = tenant_of(request), request.path_params["session"]
    after = request.headers.get("Last-Event-ID") or request.query_params.get("after")
    position = parse_position(after) if after else START
    latest = await tenant.last_turn(session)
    end = ReadingEnd(latest.turn) if request.query_params.get("until") == "turn_end" else None
    return stream_entries(tenant.reader.follow(session, position, end))


async def _read_body(request: Request, kind: type[NewTurn]) -> NewTurn:
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.ValidationError as error:
        raise ProblemError(make_problem(422, "body", str(error))) from error
    except msgspec.DecodeError as error:
        raise ProblemError(make_problem(400, "body", f"the body is not JSON: {error}")) from error


def routes() -> Sequence[BaseRoute]:
    """Return the routes of `/api/v1`."""
    return [
        Route("/turns", start_turn, methods=["POST"]),
        Route("/sessions/{session:path}/events", read_events, methods=["GET"]),
    ]
