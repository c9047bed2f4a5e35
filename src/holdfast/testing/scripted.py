"""A model without a network: it answers from a script, and remembers what it was asked.

It takes the place of an HTTP model and nothing else: retry, tools, limits and the journal are the
real ones. It must never invent an answer: a script that is over is an error of the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import count
from typing import TypeAlias

import msgspec

from holdfast.core.checks import check_instance, check_text
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import FinishReason, Reply, Text, ToolCall, Usage
from holdfast.core.notices import AttemptAbandoned, AttemptStarted
from holdfast.core.request import ModelRequest
from holdfast.resilience.pipeline import Call, Done, Outcome, failed

Answer: TypeAlias = str | ToolCall | Reply | HoldfastError
Line: TypeAlias = (
    Answer | tuple[ToolCall, ...] | Callable[[ModelRequest], Answer | Awaitable[Answer]]
)
"""One answer, several calls at once, or a function from the question to an answer."""


_numbers = count(1)


class ScriptedModel:
    """Answers each attempt with the next line of its script.

    Args:
        script: texts, tool calls, replies, errors, or functions; a function may be async, and is
            where a test makes an attempt slow.
        name: what `describe()` and results call it.

    >>> import asyncio
    >>> from holdfast import Agent
    >>> agent = Agent(ScriptedModel("Hello!"))
    >>> asyncio.run(agent.run("Hi")).output
    'Hello!'
    """

    def __init__(self, *script: Line, name: str = "scripted:model") -> None:
        check_text("name", name)
        for index, line in enumerate(script):
            _check_line(f"script[{index}]", line)
        self._script: list[Line] = list(script)
        self.name = name
        self.model = name.partition(":")[2] or name
        self.account = f"script-{next(_numbers)}"
        self.requests: list[ModelRequest] = []

    def describe(self) -> Mapping[str, object]:
        """Its name and how much of the script is left."""
        return {"model": self.name, "lines_left": len(self._script)}

    async def attempt(self, call: Call[ModelRequest]) -> Outcome[Reply]:
        """The next line. Raises AssertionError when the script is over."""
        self.requests.append(
            msgspec.structs.replace(call.payload, messages=tuple(call.payload.messages))
        )
        if not self._script:
            raise AssertionError(f"{self.name}: the script has no line for this attempt")
        call.env.tell(AttemptStarted(call.key, call.attempt, self.name))
        line = self._script.pop(0)
        if callable(line):
            answer = line(call.payload)
            line = await answer if isinstance(answer, Awaitable) else answer
        await asyncio.sleep(0)
        return self._outcome(line, call)

    def _outcome(
        self, answer: Answer | tuple[ToolCall, ...], call: Call[ModelRequest]
    ) -> Outcome[Reply]:
        if isinstance(answer, HoldfastError):
            if answer.partial is not None:
                self._show(answer.partial, call)
                call.env.tell(AttemptAbandoned(call.key, call.attempt, answer.info.public()))
            return failed(answer)
        reply = answer if isinstance(answer, Reply) else _reply(answer)
        self._show(reply, call)
        return Done(reply)

    def _show(self, reply: Reply, call: Call[ModelRequest]) -> None:
        for word in reply.text.split(" ") if reply.text else ():
            call.env.tell(TextDelta(word))


def _check_line(argument: str, line: object) -> None:
    if callable(line):
        return
    for one in line if isinstance(line, tuple) and line else (line,):
        many = one is not line
        check_instance(argument, one, *((ToolCall,) if many else _LINES))


_LINES = (str, ToolCall, Reply, HoldfastError)


def _reply(answer: str | ToolCall | tuple[ToolCall, ...]) -> Reply:
    usage = Usage(10, 5)
    if isinstance(answer, str):
        return Reply((Text(answer),), usage=usage)
    calls: Iterable[ToolCall] = (answer,) if isinstance(answer, ToolCall) else answer
    return Reply(tuple(calls), finish=FinishReason.TOOL_CALLS, usage=usage)
