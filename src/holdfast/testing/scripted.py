"""A model without a network: it replies from a script and records its requests.

It replaces only the HTTP model: retry, tools, limits and the journal are the real ones. A request
after the end of the script raises an error.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Annotated, TypeAlias

import msgspec

from holdfast.core.argument_checks import check_arguments, check_value
from holdfast.core.constraints import Constraint
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError, HoldfastError
from holdfast.core.messages import FinishReason, Reply, Text, ToolCall, Usage
from holdfast.core.model_request import ModelRequest
from holdfast.core.notices import AttemptAbandoned, AttemptStarted
from holdfast.resilience.pipeline import CallContext, Done, Outcome, failed_outcome

ToolCalls: TypeAlias = Annotated[Sequence[ToolCall], Constraint("a list that is not empty", bool)]
ScriptedAnswer: TypeAlias = str | ToolCall | ToolCalls | Reply | HoldfastError
ScriptLine: TypeAlias = (
    ScriptedAnswer | Callable[[ModelRequest], ScriptedAnswer | Awaitable[ScriptedAnswer]]
)
"""One reply, which may contain several tool calls, or a function from the request to a reply."""

_WORD = re.compile(r"\s*\S+|\s+")

_numbers = count(1)


class ScriptedModel:
    """Replies to each attempt with the next line of its script.

    Args:
        script: a line for each attempt: a text, a tool call or a list of them, a reply, an error,
            or a sync or async function of the request that returns one of these.
        name: its name in `describe()` and in results.

    >>> import asyncio
    >>> from holdfast import Agent
    >>> agent = Agent(ScriptedModel("Hello!"))
    >>> asyncio.run(agent.run("Hi")).output
    'Hello!'
    """

    @check_arguments
    def __init__(self, *script: ScriptLine, name: str = "scripted:model") -> None:
        self._script: list[ScriptLine] = list(script)
        self.name = name
        self.model = name.partition(":")[2] or name
        self.account = f"script-{next(_numbers)}"
        self.requests: list[ModelRequest] = []

    def describe(self) -> Mapping[str, object]:
        """Return its name and the number of remaining lines."""
        return {"model": self.name, "lines_left": len(self._script)}

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Reply with the next line.

        Raises:
            ConfigurationError: the script has ended, or a function returned an invalid reply.
        """
        self.requests.append(
            msgspec.structs.replace(call.payload, messages=tuple(call.payload.messages))
        )
        if not self._script:
            raise ConfigurationError(
                "script",
                f"{self.name} has no line left for {call.key}, attempt {call.attempt}",
                fix="Add a line: each attempt uses one",
            )
        call.execution.emit(AttemptStarted(call.key, call.attempt, self.name))
        line = self._script.pop(0)
        if callable(line):
            answer = line(call.payload)
            line = await answer if isinstance(answer, Awaitable) else answer
            check_value("what a function of the script returned", line, ScriptedAnswer)
        await asyncio.sleep(0)
        return self._to_outcome(line, call)

    def _to_outcome(
        self, answer: ScriptedAnswer, call: CallContext[ModelRequest]
    ) -> Outcome[Reply]:
        if isinstance(answer, HoldfastError):
            if answer.partial is not None:
                self._emit_text(answer.partial, call)
                call.execution.emit(
                    AttemptAbandoned(call.key, call.attempt, answer.info.to_public())
                )
            return failed_outcome(answer)
        reply = answer if isinstance(answer, Reply) else _to_reply(answer)
        self._emit_text(reply, call)
        return Done(reply)

    def _emit_text(self, reply: Reply, call: CallContext[ModelRequest]) -> None:
        for word in _WORD.findall(reply.text):
            call.execution.emit(TextDelta(word))


def _to_reply(answer: str | ToolCall | Sequence[ToolCall]) -> Reply:
    usage = Usage(10, 5)
    if isinstance(answer, str):
        return Reply((Text(answer),), usage=usage)
    calls = (answer,) if isinstance(answer, ToolCall) else tuple(answer)
    return Reply(calls, finish=FinishReason.TOOL_CALLS, usage=usage)
