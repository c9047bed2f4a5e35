"""The tool calls of one reply, and their results.

Results arrive in any order and enter the history in the order of the calls. A batch must never leave
a call without a result: providers refuse such a history. A call that the reply has twice runs once,
and both calls get its result.

A gateway or a model may send a call twice. Calls are the same if they have one id, one name and equal
arguments. Arguments are compared as JSON values: the order of keys and the spelling of a number do not
matter, and `true` is not `1`. Arguments that are not strict JSON are the same only as texts. Calls
without an id are never the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.core.effects import CopyResult, Effect, RunTool, call_index, tool_key
from holdfast.core.errors import ErrorInfo
from holdfast.core.events import DoubtChecked, ToolFinished
from holdfast.core.json_strict import NotJson, read_strict_json
from holdfast.core.messages import Message, Text, ToolCall, ToolResult, tool_results, user

NOT_RUN_TEXT = "Error: Function '{name}' was not run: the turn was stopped before it began."

IN_DOUBT_TEXT = (
    "Error: Function '{name}' was stopped before it finished. "
    "Whether it took effect is unknown: check before calling it again."
)

OVER_LIMIT_TEXT = "Error: Function '{name}' was not run: the limit of tool calls is reached."

_NO_CHECKS: Final[Mapping[str, tuple[DoubtChecked, ...]]] = {}


class Batch:
    """The calls of one reply.

    Args:
        turn: the number of the turn.
        iteration: the number of the iteration.
        calls: the calls, in the order of the reply.
        unfinished: the reply was cut, so none of the calls may run.
        by_code: code made the calls, not the model.
    """

    __slots__ = (
        "_by_code",
        "_duplicates",
        "_errors",
        "_iteration",
        "_turn",
        "_unfinished",
        "begun_at",
        "calls",
        "checks",
        "has_begun",
        "results",
    )

    is_output = False
    """Whether the call is the call of an output function."""

    def __init__(
        self,
        turn: int,
        iteration: int,
        calls: tuple[ToolCall, ...],
        *,
        unfinished: bool = False,
        by_code: bool = False,
    ) -> None:
        self._turn = turn
        self._iteration = iteration
        self._unfinished = unfinished
        self._by_code = by_code
        self.calls = calls
        self._duplicates = find_duplicate_calls(calls)
        self._errors: dict[int, ErrorInfo | None] = {}
        self.results: dict[int, ToolResult] = {}
        self.has_begun = False
        """Whether the tools may have started, in this process or an earlier one."""
        self.begun_at = 0.0
        self.checks: Mapping[str, tuple[DoubtChecked, ...]] = _NO_CHECKS
        """The answers of checks, by the key of their call."""

    def begin(self, at: float) -> None:
        """Note that the tools may have started from now on."""
        self.has_begun, self.begun_at = True, at

    def add_check(self, event: DoubtChecked) -> None:
        """Store the answer of a check of one call."""
        key = find_checked_call(event.key)
        self.checks = {**self.checks, key: (*self.checks.get(key, ()), event)}

    def is_whole(self) -> bool:
        """Whether every call has its result."""
        return len(self.results) == len(self.calls)

    def add_result(self, event: ToolFinished) -> None:
        """Store the result of one call."""
        index = call_index(event.key)
        self.results[index] = event.result
        if self._duplicates:
            self._errors[index] = event.error

    def plan_effects(self) -> dict[str, Effect]:
        """Return one effect for each call, by key; for duplicates, when all other calls have results."""
        planned: dict[str, Effect] = {}
        for index, call in enumerate(self.calls):
            if index in self.results:
                continue
            key, first = tool_key(self._turn, self._iteration, index), self._duplicates.get(index)
            if first is None:
                planned[key] = RunTool(key, call, index, self._unfinished, self._by_code)
            elif first in self.results:
                same_as = tool_key(self._turn, self._iteration, first)
                result, error = self.results[first], self._errors.get(first)
                planned[key] = CopyResult(key, index, same_as, result, error)
        return planned

    def fill_missing(self, text: str, started_keys: tuple[str, ...]) -> None:
        """Give every call that has no result an error result.

        Args:
            text: for a call that did not run, with `{name}`.
            started_keys: the keys of the calls that had begun, so their outcome is unknown.
        """
        for index, call in enumerate(self.calls):
            if index in self.results:
                continue
            if index in self._duplicates:
                self.results[index] = self.results[self._duplicates[index]]
                continue
            key = tool_key(self._turn, self._iteration, index)
            checked = self.checks.get(key)
            if checked and checked[-1].result is not None:
                self.results[index] = checked[-1].result  # a check has found that it happened
                continue
            in_doubt = key in started_keys
            message = (IN_DOUBT_TEXT if in_doubt else text).format(name=call.name)
            content = (Text(message),)
            self.results[index] = ToolResult(
                call.id, call.name, content, is_error=True, in_doubt=in_doubt
            )

    def build_message(self) -> Message:
        """Return the message of all results, in the order of the calls."""
        return tool_results([self.results[index] for index in range(len(self.calls))])


class OutputCall(Batch):
    """The call of an output function: its arguments are the text of a reply that calls no tool.

    Its result cannot be the result of a tool in the history, so it is a text of the user, as the
    problems of an output are.

    Args:
        turn: the number of the turn.
        iteration: the number of the iteration.
        call: the call.
    """

    __slots__ = ()

    is_output = True

    def __init__(self, turn: int, iteration: int, call: ToolCall) -> None:
        super().__init__(turn, iteration, (call,))

    def build_message(self) -> Message:
        """Return the result as a text of the user."""
        return user(self.results[0].text)


def find_checked_call(key: str) -> str:
    """Return the key of the call that a check was about.

    >>> find_checked_call("t1.i0.tool.2.check.0")
    't1.i0.tool.2'
    """
    return key.rpartition(".check.")[0]


def find_duplicate_calls(calls: Sequence[ToolCall]) -> dict[int, int]:
    """Return the index of each call that an earlier call of its reply equals, and that call's index.

    >>> pay = ToolCall("1", "pay", '{"to": "Ada", "amount": 5}')
    >>> find_duplicate_calls([pay, ToolCall("1", "pay", '{"amount": 5.0, "to": "Ada"}')])
    {1: 0}
    >>> find_duplicate_calls([pay, ToolCall("2", "pay", pay.arguments)])
    {}
    """
    if len(calls) < 2:
        return {}
    counts = Counter(call.id for call in calls if call.id)
    duplicates: dict[int, int] = {}
    firsts: dict[tuple[str, str, str], int] = {}
    for at, call in enumerate(calls):
        if counts[call.id] > 1:
            first = firsts.setdefault((call.id, call.name, _make_key(call.arguments)), at)
            if first != at:
                duplicates[at] = first
    return duplicates


def count_distinct_calls(calls: Sequence[ToolCall]) -> int:
    """Return how many calls of a reply run.

    >>> count_distinct_calls([ToolCall("1", "pay"), ToolCall("1", "pay"), ToolCall("2", "pay")])
    2
    """
    return len(calls) - len(find_duplicate_calls(calls))


def _make_key(arguments: str) -> str:
    """Return a text that is the same for equal arguments only: one for each call, and not for each pair."""
    text = arguments.strip() or "{}"
    try:
        read_strict_json(text)
        return json.dumps(json.loads(text, parse_float=_read_float), sort_keys=True)
    except (NotJson, ValueError, RecursionError):
        return text


def _read_float(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value


NO_BATCH: Final = Batch(0, 0, ())
"""The batch while no tools are in progress. It has no calls, so it never changes."""
