"""The routes that export and import sessions, as lines of JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from io import BytesIO

import msgspec
from starlette.responses import Response, StreamingResponse

from holdfast.core.acts import Act
from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_errors import JournalCorruptError, JournalVersionError
from holdfast.server.access.budgets import WRITES
from holdfast.server.access.callers import take_stream
from holdfast.server.api.operations import (
    NDJSON,
    AnyOperation,
    Call,
    Operation,
    OperationAnswer,
    respond,
)
from holdfast.server.api.request_bodies import ImportQuery, NoBody, NoQuery
from holdfast.server.api.request_reading import check_content_type
from holdfast.server.api.session_reading import read_summary
from holdfast.server.api.views import SessionSummary
from holdfast.server.problem_responses import ProblemError, make_problem

_LINES = (NDJSON, "application/jsonl")


async def export_session(call: Call[NoQuery, NoBody]) -> Response:
    """Stream a session as lines."""
    take_stream(call.request)
    lines = call.tenant.sessions.export(call.session)
    first = await anext(lines)  # a session that does not exist is refused before the answer begins
    return StreamingResponse(_encode(first, lines), media_type=NDJSON)


async def _encode(first: str, lines: AsyncIterator[str]) -> AsyncIterator[bytes]:
    yield f"{first}\n".encode()
    async for line in lines:
        yield f"{line}\n".encode()


async def import_session(call: Call[ImportQuery, NoBody]) -> Response:
    """Import a session that was exported, as history. No request can leave a turn of it open."""
    check_content_type(call.request.headers, _LINES)
    # One by one: a short body can have millions of lines, each of which takes far more memory.
    lines = (line.decode() for line in BytesIO(await call.request.body()))
    act = call.make_act("import")
    try:
        session = await call.tenant.sessions.with_act(act).import_(
            lines, session=call.query.session or None, name="the body"
        )
    except UnicodeDecodeError as error:
        raise ProblemError(make_problem(400, "body", "the lines are not UTF-8")) from error
    except (JournalCorruptError, JournalVersionError) as error:
        problem = make_problem(422, "lines", error.problem, field=error.path, fix=error.fix)
        raise ProblemError(problem) from error
    except RecursionError as error:
        raise ConfigurationError("lines", "are nested too deeply") from error
    call.tenant.watch.wake(session)
    return await _answer_imported(call, msgspec.structs.replace(act, session=session))


async def _answer_imported(call: Call[ImportQuery, NoBody], act: Act) -> Response:
    return respond(await read_summary(call.tenant, act.session), 201)


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="export_session",
        method="GET",
        path="/sessions/{session}/export",
        text="Export a session as lines of JSON, with a checksum in each.",
        scope="read",
        takes=("requests", "streams"),
        handle=export_session,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(str, "The lines.", NDJSON),)},
        refusals=(404,),
    ),
    Operation(
        name="import_session",
        method="POST",
        path="/sessions/import",
        text="Import a session that was exported, as history: open turns end as interrupted. On an error "
        "nothing is imported.",
        scope="import",
        takes=WRITES,
        handle=import_session,
        query=ImportQuery,
        body=NoBody,
        carries="lines",
        once="act",
        answer_again=_answer_imported,
        answers={201: (OperationAnswer(SessionSummary, "The session."),)},
        refusals=(409,),
    ),
)
"""How sessions are moved."""
