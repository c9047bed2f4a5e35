"""What a page hears of a turn: what is being done, text, text that is void, and the answer.

One pure function makes the events from the items of the service's event log. This module must never
tell the arguments of a tool, nor what a tool returned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import cast

import msgspec
from msgspec import Struct

from holdfast.client import EndItem, EventItem, NoticeItem, StreamItem, TextItem, WithdrawnItem
from holdfast.events import ModelReplied
from holdfast.server import Service
from registration.club.progress import Effect
from registration.club.wording import WORKING
from registration.flow.agents import GENERAL
from registration.flow.model_calls import SUBMIT
from registration.http.chat import Chat, Sent
from registration.http.problems import Problem

Told = tuple[str, Mapping[str, object]]
"""The name of an event, and its data."""

_READ = "One moment, I am reading your message."
_SLOW = "This takes a little longer than usual. Please keep the chat open."


class Telling(Struct, frozen=True):
    """What is told to whom.

    Args:
        sent: the message and its turn.
        position: the last position that the reader has; "" for none.
    """

    sent: Sent
    position: str


async def tell_turn(
    service: Service, chat: Chat, telling: Telling
) -> AsyncIterator[tuple[str, str, object]]:
    """Yield the position, the name and the data of each event; the last one is the answer or an error.

    Without a last one, the process stopped or the reader was too slow: it comes back.

    Args:
        service: drives the turns.
        chat: finds the answer.
        telling: the turn, and where the reader is.
    """
    turn = telling.sent.turn
    if turn is None or telling.sent.message.answer is not None:
        yield telling.position or "0", *await _tell_end(chat, telling.sent)
        return
    agent = (await service.read(turn.session, turn.number)).agent
    begin = telling.position or str(turn.sequence)
    async for position, item in service.follow(turn.session, begin, turn=turn.number):
        if isinstance(item, EndItem):
            if item.reason == "turn_ended":
                yield position, *await _tell_end(chat, telling.sent)
            return
        for name, data in tell_item(item, shows_text=agent == GENERAL):
            yield position, name, data


def tell_item(item: StreamItem, *, shows_text: bool) -> list[Told]:
    """Return what a page hears of an item.

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


async def _tell_end(chat: Chat, sent: Sent) -> tuple[str, object]:
    try:
        return "answer", msgspec.to_builtins(await chat.wait(sent, 1.0))
    except Problem as problem:
        return "error", problem.describe()
