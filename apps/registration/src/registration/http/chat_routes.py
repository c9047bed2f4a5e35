"""The routes of a conversation: begin, write, follow and look.

One pure function makes the events of a page from the items of the service's event log. This module must never use a
client's word about steps, and must never show the arguments or the result of a tool.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, cast

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.client import EndItem, EventItem, NoticeItem, StreamItem, TextItem, WithdrawnItem
from holdfast.events import ModelReplied
from holdfast.server import Service, keep_alive
from registration.club.corrections import CHANGE, refuse_change
from registration.club.progress import Effect, Progress
from registration.club.wording import WORKING, count_steps, summarize
from registration.flow.agents import AGAIN, GENERAL
from registration.flow.conversations import Conversation, to_conversation
from registration.flow.model_calls import SUBMIT
from registration.flow.registration_hooks import CONTINUATION, REGISTRATION
from registration.http.access import begin_session, find_own_session, limit_address
from registration.http.admission import EventStream
from registration.http.bodies import read_body
from registration.http.chat import Chat, Sent
from registration.http.problems import Problem, unavailable
from registration.http.state import AppState, state_of
from registration.store import Transaction
from registration.store.messages import Message, find_message_of_turn
from registration.store.sessions import Session

_Id = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[\x21-\x7e]+$")]


class ChatBody(Struct):
    """A message.

    Args:
        user_message: the message of the parent.
        session_id: the session.
        message_id: the client's name for the message.
        answers_turn: the `turn` of the last answer, or of the session, that the parent has seen. If
            another question is open by then, it is asked again, and the message is not used.
        routine_number: accepted and not looked at.
        last_agent: accepted and not looked at.
    """

    user_message: Annotated[str, Meta(min_length=1)]
    session_id: _Id
    message_id: _Id | None = None
    answers_turn: int | None = None
    routine_number: int | None = None
    last_agent: str | None = None


class SessionBody(Struct):
    """Names a session."""

    session_id: _Id


def routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/sessions", begin, methods=["POST"]),
        Route("/sessions/{session_id}", show, methods=["GET"]),
        Route("/chat", chat, methods=["POST"]),
        Route("/chat/continue", continue_chat, methods=["POST"]),
        Route("/chat/rereg", continue_again, methods=["POST"]),
        Route("/chat/stream", stream_chat, methods=["POST"]),
        Route("/events/{turn}", events, methods=["GET"]),
    ]


async def begin(request: Request) -> Response:
    """Begin a conversation."""
    limit_address(request, "sessions")
    await read_body(request, dict[str, object])
    session_id, token = await begin_session(state_of(request).running.parts, GENERAL)
    return _json({"session_id": session_id, "token": token}, 201)


async def show(request: Request) -> Response:
    """Show how far a conversation is, and its saved answers."""
    parts = state_of(request).running.parts
    session = await find_own_session(parts, request, request.path_params["session_id"])
    return _json(describe_conversation(session.id, to_conversation(session)))


async def chat(request: Request) -> Response:
    """Answer a message; with `Prefer: respond-async`, name its turn."""
    body = await read_body(request, ChatBody)
    session, _ = await _admit(request, body.session_id)
    return await _answer(request, session, body)


async def continue_chat(request: Request) -> Response:
    """Answer a message of a registration that is open."""
    body = await read_body(request, ChatBody)
    session, conversation = await _admit(request, body.session_id)
    if conversation.progress is None:
        raise Problem("no_open_flow", "There is no registration to go on with.")
    return await _answer(request, session, body, CONTINUATION)


async def continue_again(request: Request) -> Response:
    """Answer a message of a re-registration that is open; its answer names no step."""
    body = await read_body(request, ChatBody)
    session, conversation = await _admit(request, body.session_id)
    if conversation.progress is None or conversation.progress.code.kind != "100":
        raise Problem("no_open_flow", "There is no re-registration to go on with.")
    return await _answer(request, session, body)


async def stream_chat(request: Request) -> Response:
    """Answer a message by a stream that reports progress; it ends with the answer or an error.

    `Content-Location` names the address at which a stream that broke off goes on.
    """
    body = await read_body(request, ChatBody)
    session, _ = await _admit(request, body.session_id)
    sent = await _send(request, session, body)
    return _stream(state_of(request), TurnReader(sent, ""))


async def _admit(request: Request, session_id: str) -> tuple[Session, Conversation]:
    """Return the session of a message and where it stands. Raises Problem."""
    state = state_of(request)
    parts = state.running.parts
    session = await find_own_session(parts, request, session_id)
    wait = state.window.count(session.id, time.monotonic())
    if wait is not None:
        raise Problem("too_many_requests", "That was a little fast. Please try again.", wait)
    return session, to_conversation(session)


async def _answer(
    request: Request, session: Session, body: ChatBody, call_type: str = REGISTRATION
) -> Response:
    sent = await _send(request, session, body, call_type)
    if request.headers.get("prefer", "").strip().lower() == "respond-async":
        return _json({"turn": sent.message.turn, "session_id": session.id}, 202)
    state = state_of(request)
    answer = await state.chat.wait(sent, state.running.parts.settings.turn_seconds)
    return _json(msgspec.to_builtins(answer))


async def _send(
    request: Request, session: Session, body: ChatBody, call_type: str = REGISTRATION
) -> Sent:
    """Accept a message. Raises Problem."""
    state = state_of(request)
    settings = state.running.parts.settings
    if len(body.user_message) > settings.message_characters:
        raise Problem(
            "too_large", f"A message has at most {settings.message_characters} characters."
        )
    if body.routine_number not in (None, (session.progress.get("progress") or {}).get("step")):
        state.running.parts.counts.add("client_steps_ignored")
    if not body.user_message.strip():
        raise Problem("invalid", "user_message: it has no words.")
    metadata: dict[str, str | int] = {"call_type": call_type}
    if body.answers_turn is not None:
        metadata["answers_turn"] = body.answers_turn
    return await state.chat.send(session, body.user_message, body.message_id, metadata)


async def events(request: Request) -> Response:
    """Stream the events of a turn, from the reader's position."""
    state = state_of(request)
    database = state.running.parts.database
    turn = request.path_params["turn"]

    def find(tx: Transaction) -> Message | None:
        return find_message_of_turn(tx, turn)

    message = await database.read(find)
    if message is None:
        raise Problem("not_found", "There is no such turn.")
    await find_own_session(state.running.parts, request, message.session_id)
    reader = await _find_reader(state, message, request.headers.get("last-event-id", ""))
    return _stream(state, reader)


def _stream(state: AppState, reader: TurnReader) -> EventStream:
    """Return the response that streams a turn. Raises Problem if too many streams are open."""
    message = reader.sent.message
    return EventStream(
        state.streams,
        message.session_id,
        keep_alive(_encode(stream_turn(state.running.service, state.chat, reader))),
        headers={
            "Cache-Control": "no-store",
            "Content-Location": f"/events/{message.turn}",
            "X-Accel-Buffering": "no",
        },
    )


async def _find_reader(state: AppState, message: Message, position: str) -> TurnReader:
    turn = await state.chat.find_turn(message)
    if turn is None and message.answer is None:  # the process ended before it began the turn
        raise unavailable()
    return TurnReader(Sent(message, turn), position)


async def _encode(entries: AsyncIterator[tuple[str, str, object]]) -> AsyncIterator[bytes]:
    async for position, name, data in entries:
        body = msgspec.json.encode(data).decode()
        yield f"id: {position}\nevent: {name}\ndata: {body}\n\n".encode()


def describe_conversation(session_id: str, conversation: Conversation) -> dict[str, object]:
    """Return the facts that a page shows beside the chat.

    Args:
        session_id: the session.
        conversation: where it stands.
    """
    progress = conversation.progress
    if progress is None:
        return {"session_id": session_id, "agent": GENERAL, "turn": conversation.turn}
    done, of = count_steps(progress)
    shown: dict[str, object] = {
        "session_id": session_id,
        "turn": conversation.turn,
        "step": done,
        "of": of,
        "correcting": progress.back_to is not None,
        "saved": [_describe_row(progress, *row) for row in summarize(progress)],
        "to_change": CHANGE,
    }
    if progress.code.kind == "100":
        return {**shown, "agent": AGAIN}
    return {**shown, "agent": "new_registration", "routine_number": progress.step}


def _describe_row(progress: Progress, label: str, value: str, field: str) -> dict[str, object]:
    row: dict[str, object] = {"label": label, "value": value, "field": field}
    return {**row, "fixed": True} if refuse_change(progress, field) else row


def _json(content: object, status: int = 200) -> JSONResponse:
    return JSONResponse(content, status, {"Cache-Control": "no-store"})


PageEvent = tuple[str, Mapping[str, object]]
"""The name of an event, and its data."""

_READ = "One moment, I am reading your message."
_SLOW = "This takes a little longer than usual. Please keep the chat open."


class TurnReader(Struct, frozen=True):
    """The turn and the reader of a stream.

    Args:
        sent: the message and its turn.
        position: the last position that the reader has; "" for none.
    """

    sent: Sent
    position: str


async def stream_turn(
    service: Service, chat: Chat, reader: TurnReader
) -> AsyncIterator[tuple[str, str, object]]:
    """Yield the position, the name and the data of each event; the last one is the answer or an error.

    Without a last one, the process stopped or the reader was too slow: it comes back.

    Args:
        service: drives the turns.
        chat: finds the answer.
        reader: the turn, and the reader's position.
    """
    turn = reader.sent.turn
    if turn is None or reader.sent.message.answer is not None:
        yield reader.position or "0", *await _describe_end(chat, reader.sent)
        return
    agent = (await service.read(turn.session, turn.number)).agent
    begin = reader.position or str(turn.sequence)
    async for position, item in service.follow(turn.session, begin, turn=turn.number):
        if isinstance(item, EndItem):
            if item.reason == "turn_ended":
                yield position, *await _describe_end(chat, reader.sent)
            return
        for name, data in describe_item(item, shows_text=agent == GENERAL):
            yield position, name, data


def describe_item(item: StreamItem, *, shows_text: bool) -> list[PageEvent]:
    """Return the events of a page for an item.

    Args:
        item: the item.
        shows_text: whether the text of the reply is for a person while it is written.
    """
    if isinstance(item, EventItem) and isinstance(item.event, ModelReplied):
        working = [_describe(call.name) for call in item.event.reply.calls]
        return [("status", {"text": text}) for text in working if text]
    if isinstance(item, NoticeItem) and item.name == "retry_scheduled":
        return [("status", {"text": _SLOW})]
    if isinstance(item, TextItem) and shows_text:
        return [("text", {"offset": item.offset, "text": item.text})]
    if isinstance(item, WithdrawnItem) and shows_text:
        return [("forget", {})]
    return []


def _describe(tool: str) -> str:
    return _READ if tool == SUBMIT else WORKING.get(cast("Effect", tool), "")


async def _describe_end(chat: Chat, sent: Sent) -> tuple[str, object]:
    try:
        return "answer", msgspec.to_builtins(await chat.wait(sent, 1.0))
    except Problem as problem:
        return "error", problem.describe()
