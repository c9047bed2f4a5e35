"""The routes of sessions: list, search, read, make, title, delete, and export and import as lines of JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from io import BytesIO

from msgspec import UNSET
from msgspec.structs import replace
from starlette.responses import Response, StreamingResponse

from holdfast.core.acts import Act
from holdfast.core.errors import ConfigurationError
from holdfast.journal.journal_errors import JournalCorruptError, JournalVersionError
from holdfast.server.access.budgets import READS, WRITES
from holdfast.server.access.callers import take_stream
from holdfast.server.api.operations import (
    NDJSON,
    AnyOperation,
    Call,
    Operation,
    OperationAnswer,
    respond,
)
from holdfast.server.api.queued_sessions import find_new, mark_queued
from holdfast.server.api.request_bodies import (
    ImportQuery,
    NewSession,
    NoBody,
    NoQuery,
    SessionChange,
    SessionsQuery,
)
from holdfast.server.api.request_reading import check_content_type
from holdfast.server.api.session_pages import find_sessions, list_sessions_page
from holdfast.server.api.session_reading import check_idle, read_summary
from holdfast.server.api.views import HistoryView, SessionPage, SessionSummary
from holdfast.server.problem_responses import ProblemError, make_problem
from holdfast.sessions.names import new_name


async def list_sessions(call: Call[SessionsQuery, NoBody]) -> Response:
    """List or search sessions. A redacted reader may not search: each hit would reveal a word."""
    if call.query.q is not UNSET:
        if call.principal.is_redacted:
            detail = "The key has only the scope 'read:redacted', and a search reveals the words of messages."
            raise ProblemError(
                make_problem(403, "forbidden", detail, field="q", fix="Leave it out")
            )
        return respond(await find_sessions(call.tenant, call.query, call.query.q))
    return respond(await list_sessions_page(call.tenant, call.query))


async def create_session(call: Call[NoQuery, NewSession]) -> Response:
    """Make an empty session."""
    title, session = call.body.title, call.body.session or new_name()
    act = call.make_act("title", session, title=title)
    sessions = call.tenant.sessions.with_act(act)
    await sessions.create(title, session=session, by=act.by)
    call.tenant.watch.wake(session)
    return await _answer_created(call, act)


async def _answer_created(call: Call[NoQuery, NewSession], act: Act) -> Response:
    return respond(await read_summary(call.tenant, act.session), 201)


async def read_session(call: Call[NoQuery, NoBody]) -> Response:
    """Describe a session, also one whose first turn is queued."""
    try:
        summary = await read_summary(call.tenant, call.session)
    except ConfigurationError:
        if (new := await find_new(call.tenant, call.session)) is None:
            raise
        return respond(new)
    queue = call.tenant.queue
    entry = None if queue is None else await queue.find_unbegun(call.session)
    return respond(mark_queued(summary, entry))


async def change_session(call: Call[NoQuery, SessionChange]) -> Response:
    """Give a session another title."""
    await call.tenant.sessions.info(call.session)
    act = call.make_act("title", title=call.body.title)
    sessions = call.tenant.sessions.with_act(act)
    await sessions.rename(call.session, call.body.title, by=act.by)
    call.tenant.watch.wake(call.session)
    return await _answer_changed(call, act)


async def _answer_changed(call: Call[NoQuery, SessionChange], act: Act) -> Response:
    return respond(await read_summary(call.tenant, act.session))


async def delete_session(call: Call[NoQuery, NoBody]) -> Response:
    """Delete a session. Its messages that have not begun are taken out of the queue first."""
    await check_idle(call.tenant, call.session)
    if call.tenant.queue is not None:
        await call.tenant.queue.cancel_all_unbegun(call.session, call.principal.name)
    act = call.make_act("delete")
    await call.tenant.sessions.with_act(act).delete(call.session)
    call.tenant.watch.wake(call.session)
    return await _answer_deleted(call, act)


async def _answer_deleted(_call: Call[NoQuery, NoBody], _act: Act) -> Response:
    return Response(None, 204)


async def read_history(call: Call[NoQuery, NoBody]) -> Response:
    """Read the messages and the turns of a session."""
    history = await call.tenant.sessions.read(call.session)
    return respond(HistoryView(history.messages, history.points, history.open))


_SUMMARY = OperationAnswer(SessionSummary, "The session.")

_LINES = (NDJSON, "application/jsonl")


async def export_session(call: Call[NoQuery, NoBody]) -> Response:
    """Stream a session as lines."""
    take_stream(call.request)
    lines = call.tenant.sessions.export(call.session)
    first = await anext(lines)  # a session that does not exist is refused before the answer begins
    return StreamingResponse(_encode_lines(first, lines), media_type=NDJSON)


async def _encode_lines(first: str, lines: AsyncIterator[str]) -> AsyncIterator[bytes]:
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
    return await _answer_imported(call, replace(act, session=session))


async def _answer_imported(call: Call[ImportQuery, NoBody], act: Act) -> Response:
    return respond(await read_summary(call.tenant, act.session), 201)


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="list_sessions",
        method="GET",
        path="/sessions",
        text="List or search the sessions, the latest change first.",
        scope="read",
        takes=READS,
        handle=list_sessions,
        query=SessionsQuery,
        body=NoBody,
        answers={200: (OperationAnswer(SessionPage, "Some sessions."),)},
    ),
    Operation(
        name="create_session",
        method="POST",
        path="/sessions",
        text="Make an empty session. A turn makes its session itself.",
        scope="run",
        takes=WRITES,
        handle=create_session,
        query=NoQuery,
        body=NewSession,
        carries="json",
        once="act",
        answer_again=_answer_created,
        answers={201: (_SUMMARY,)},
        refusals=(409,),
    ),
    Operation(
        name="read_session",
        method="GET",
        path="/sessions/{session}",
        text="Describe a session and its last turn.",
        scope="read",
        takes=READS,
        handle=read_session,
        query=NoQuery,
        body=NoBody,
        answers={200: (_SUMMARY,)},
        refusals=(404,),
    ),
    Operation(
        name="change_session",
        method="PATCH",
        path="/sessions/{session}",
        text="Give a session another title.",
        scope="run",
        takes=WRITES,
        handle=change_session,
        query=NoQuery,
        body=SessionChange,
        carries="json",
        once="act",
        answer_again=_answer_changed,
        answers={200: (_SUMMARY,)},
        refusals=(404, 409),
    ),
    Operation(
        name="delete_session",
        method="DELETE",
        path="/sessions/{session}",
        text="Delete a session permanently.",
        scope="run",
        takes=READS,
        handle=delete_session,
        query=NoQuery,
        body=NoBody,
        once="act",
        answer_again=_answer_deleted,
        answers={204: (OperationAnswer(None, "It is deleted."),)},
        refusals=(404, 409),
    ),
    Operation(
        name="read_history",
        method="GET",
        path="/sessions/{session}/history",
        text="Read the messages of a session, and its turns and changes with their numbers.",
        scope="read",
        takes=READS,
        handle=read_history,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(HistoryView, "The content of the session."),)},
        refusals=(404,),
    ),
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
"""The operations on sessions."""
