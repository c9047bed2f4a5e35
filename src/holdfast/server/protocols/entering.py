"""What the routes of protocols ask of a request: who calls, and the body as its type."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import Request

from holdfast.journal.journal_names import DEFAULT_TENANT
from holdfast.server.problems import ProblemError, make_problem
from holdfast.server.service import Service, TenantService

B = TypeVar("B", bound=Struct)


class Entered(Struct, frozen=True):
    """A caller that may do what it asks for.

    Args:
        tenant: what it sees of the service.
        name: who it is; answers and acts are saved with it.
    """

    tenant: TenantService
    name: str


def enter(request: Request) -> Entered:
    """Return who calls."""
    service: Service = request.app.state.service
    return Entered(service.for_tenant(DEFAULT_TENANT), "")


async def read_json(request: Request, kind: type[B]) -> B:
    """Return the body of a request as its type. Raises ProblemError that names the field."""
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except msgspec.ValidationError as error:
        detail, _, place = str(error).partition(" - at `$.")
        raise ProblemError(make_problem(422, "body", detail, field=place.rstrip("`"))) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ProblemError(make_problem(400, "body", f"the body is not JSON: {error}")) from error
