"""A call of the model that is repeated until its reply can be read, by the row of its kind.

The rows and waits are those of `holdfast.compat`. The agents' own retry is off, so this is the one
layer that repeats a call. This module must never let a reply through that cannot be read.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast import OutputError, Reply
from holdfast.calls import CallOutcome
from holdfast.compat import CallOptions, async_retry_ai_call_with_parsing, get_retry_config
from holdfast.resilience import CallMetrics
from registration.club.progress import Reading
from registration.flow.checked_words import has_hidden_signs, has_link

_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)

_READ = '{"agent_final_response": "read"}'  # stands for a reply that is of another form, and fine
_LONGEST = 4_000
"""Characters of a model's reading: a message has no more."""

_LONGEST_WAIT = 4.0
"""Seconds: the longest wait of the table."""

SUBMIT = "submit_answer"
"""The tool by which a model reports its reading."""


class CallKind(Struct, frozen=True, kw_only=True):
    """The kind of a call, and how patiently it is made.

    Args:
        call_type: the type of the call, which has a row in the table of retries and in the metrics.
        session: the id of the session, for the metrics and the log.
        step: the number of the step; None outside of the steps.
        seconds: for all attempts and waits; the last attempt is cut off.
    """

    call_type: str
    session: str
    step: int | None
    seconds: float


class ModelCalls:
    """Repeats calls of models; one object for the process.

    Args:
        metrics: counts the calls.
        sleep: waits between two attempts.
        monotonic: seconds since some moment.
    """

    def __init__(
        self,
        metrics: CallMetrics,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics = metrics
        self._sleep = sleep
        self._monotonic = monotonic

    async def read_answer(self, ask: Callable[[], Awaitable[Reply]], kind: CallKind) -> Reply:
        """Ask until the reply calls `submit_answer` with arguments that can be read.

        Raises:
            HoldfastError: the model failed, or no reply could be read.
        """
        return await self._repeat(ask, kind, _check_reading)

    async def phrase_reply(self, ask: Callable[[], Awaitable[Reply]], kind: CallKind) -> Reply:
        """Ask until the reply is an `AgentResponse`; text that is none is refused.

        Raises:
            HoldfastError: the model failed, or no reply could be read.
        """
        return await self._repeat(ask, kind, lambda reply: reply.text)

    async def answer_freely(self, ask: Callable[[], Awaitable[Reply]], kind: CallKind) -> Reply:
        """Ask until the reply is prose: no JSON that was cut, and no page of HTML.

        Raises:
            HoldfastError: the model failed, or no reply could be read.
        """
        return await self._repeat(ask, kind, _check_prose, raw_text="prose")

    async def look_at_photo(self, ask: Callable[[], Awaitable[Reply]], kind: CallKind) -> Reply:
        """Ask until there is a reply; the agent reads its verdict.

        Raises:
            HoldfastError: the model failed.
        """
        return await self._repeat(ask, kind, lambda _reply: _READ)

    async def _repeat(
        self,
        ask: Callable[[], Awaitable[Reply]],
        kind: CallKind,
        read: Callable[[Reply], str],
        *,
        raw_text: Literal["prose", "refuse"] = "refuse",
    ) -> Reply:
        last: list[Reply] = []
        outcomes: list[CallOutcome] = []
        end = self._monotonic() + kind.seconds

        async def call() -> dict[str, str]:
            async with asyncio.timeout(max(end - self._monotonic(), 0.0)):
                reply = await ask()
            last[:] = [reply]
            return {"output_text": read(reply)}

        row = get_retry_config(kind.call_type, kind.step)
        done, *_ = await async_retry_ai_call_with_parsing(
            call,
            max_retries=row["max_retries"],
            delay=row["delay"],
            session_id=kind.session,
            call_type=kind.call_type,
            options=CallOptions(
                raw_text=raw_text,
                by_category=True,
                deadline=kind.seconds,
                longest_wait=_LONGEST_WAIT,
                max_breaker_wait=0.0,  # the text is said as it is, and no parent waits for others
                metrics=self.metrics,
                on_outcome=outcomes.append,
                asleep=self._sleep,
                monotonic=self._monotonic,
            ),
        )
        if done:
            return last[0]
        error = outcomes[0].error if outcomes else None
        raise error or OutputError("The reply of the model could not be read.")


def find_reading(reply: Reply) -> Reading | None:
    """Return the model's reading from its reply; None if the reply has none."""
    for call in reply.calls:
        if call.name != SUBMIT:
            continue
        try:
            read = msgspec.json.decode(call.arguments.encode(), type=Reading)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
        said = (read.value, read.wants_to_change, read.question)
        return None if any(len(one or "") > _LONGEST for one in said) else read
    return None


def calls_exactly_once(reply: Reply) -> bool:
    """Return whether a reply that can be read has one call, with no argument that nobody knows."""
    if len(reply.calls) != 1:
        return False
    given = msgspec.json.decode(reply.calls[0].arguments.encode(), type=dict[str, object])
    return set(given) <= set(Reading.__struct_fields__)


def _check_reading(reply: Reply) -> str:
    if find_reading(reply) is None:
        raise OutputError("The reply of the model does not say what it read.")
    return _READ


def _check_prose(reply: Reply) -> str:
    if _PAGE.match(reply.text):
        raise OutputError("The reply of the model is a page of HTML.")
    if has_link(reply.text) or has_hidden_signs(reply.text):
        raise OutputError("The reply of the model leads somewhere else, or hides signs.")
    return reply.text
