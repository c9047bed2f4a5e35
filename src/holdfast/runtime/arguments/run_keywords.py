"""The keywords of `Agent.run` and of the methods that continue a turn, and the corrections of wrong ones.

The `TypedDict`s are the signatures of these methods for type checkers and for the check at run time.
This module must never compile a plan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Generic, TypedDict, TypeVar

from msgspec import Struct

from holdfast.core.client_tools import ClientTool
from holdfast.core.errors import ConfigurationError
from holdfast.core.hosted_tools import HostedTool
from holdfast.core.json_schema import JsonSchema
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.model_request import ModelSettings
from holdfast.core.turn_options import InterruptedRun, Metadata
from holdfast.models.http_model import Model
from holdfast.models.resolve import ModelAt
from holdfast.resilience.defaults import Resilience
from holdfast.resilience.retry.options import RetryOptions
from holdfast.tools.tool import Tool
from holdfast.tools.toolset import Toolset
from holdfast.transport.port import Timeouts

D = TypeVar("D")


class RunKeywords(TypedDict, Generic[D], total=False):
    """The keywords of `Agent.run`, `Agent.run_sync` and `Agent.stream`; see `Agent.run`."""

    session: str | None
    history: Sequence[Message]
    deps: D
    request: str | None
    model: str | ModelAt | Model | None
    settings: ModelSettings | None
    tools: Iterable[Callable[..., object] | Tool | HostedTool | ClientTool]
    toolsets: Sequence[Toolset]
    limits: Limits | None
    metadata: Metadata | None
    instructions: str | None
    by: str
    trace: str | None


class SubmitKeywords(TypedDict, total=False):
    """The keywords of `Agent.submit`; see there."""

    session: str | None
    request: str | None
    tenant: str | None
    priority: int
    not_before: float | None
    history: Sequence[Message]
    model: str
    settings: ModelSettings | None
    output: JsonSchema | None
    tools: Iterable[ClientTool]
    limits: Limits | None
    metadata: Metadata | None
    instructions: str | None
    by: str
    trace: str | None


class ResumeKeywords(TypedDict, Generic[D], total=False):
    """The keywords of `Agent.resume` and `Agent.resume_stream`; see `Agent.resume`."""

    deps: D | Callable[[InterruptedRun], D | Awaitable[D]]
    model: ModelAt | Model | None
    tools: Iterable[Callable[..., object] | Tool | HostedTool | ClientTool]
    toolsets: Sequence[Toolset]


class RecoverKeywords(ResumeKeywords[D], Generic[D], total=False):
    """The keywords of `Agent.recover`; see there."""

    runs: Sequence[str] | None
    parallel: int
    seconds: float | None


RUN_NAMES = frozenset({*RunKeywords.__annotations__, "output"})
SUBMIT_NAMES = frozenset(SubmitKeywords.__annotations__)
RESUME_NAMES = frozenset({*ResumeKeywords.__annotations__, "output"})
RECOVER_NAMES = frozenset({*RecoverKeywords.__annotations__, "output"})

_SAVED = frozenset(
    {"settings", "limits", "metadata", "session", "history", "request", "instructions"}
)
"""The keywords that a continued turn reads from the journal."""

_RECORDS: dict[str, type[Struct]] = {
    "settings": ModelSettings,
    "limits": Limits,
    "retry": RetryOptions,
    "resilience": Resilience,
    "timeouts": Timeouts,
}
"""The keywords whose value is a record of settings."""

_OTHER_WORDS = {
    "context": "deps",
    "dependencies": "deps",
    "functions": "tools",
    "idempotency_key": "request",
    "input": "prompt",
    "message_history": "history",
    "messages": "history",
    "model_settings": "settings",
    "output_type": "output",
    "response_format": "output",
    "response_model": "output",
    "result_type": "output",
    "session_id": "session",
    "system": "instructions",
    "system_prompt": "instructions",
    "thread_id": "session",
    "usage_limits": "limits",
    "user_prompt": "prompt",
}
"""The names that other libraries give a keyword."""

_OTHER_FIELDS = {
    "max_completion_tokens": "max_tokens",
    "max_iterations": "iterations",
    "max_output_tokens": "max_tokens",
    "max_steps": "iterations",
    "max_turns": "iterations",
    "reasoning": "reasoning_effort",
    "tool_calls_limit": "tool_calls",
}
"""The names that other libraries give a setting."""


def check_names(method: str, given: Collection[str], known: Collection[str]) -> None:
    """Raise ConfigurationError for a keyword that the method does not have.

    Args:
        method: such as "Agent.run"; "Agent" for the constructor.
        given: the names of the keywords of a call.
        known: the names that the method has.

    >>> check_names("Agent.run", ["temperature"], RUN_NAMES)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: temperature: is not an argument of Agent.run, but a \
setting of the model. Write settings=ModelSettings(temperature=...)
    """
    for name in given:
        if name not in known:
            problem, fix = _explain(method, name, known)
            said = f"is not an argument of {method}{problem}"
            raise ConfigurationError(name, said, fix=fix)


def _explain(method: str, name: str, known: Collection[str]) -> tuple[str, str]:
    """Return the problem of a wrong keyword, and its fix."""
    agent_names = _agent_names()
    if name in _SAVED and method not in ("Agent", *_STARTING):
        return "; it is saved with the turn", "Leave it out"
    word = _OTHER_WORDS.get(name, name)
    if word != name and word in known:
        return "", f"Write {word}=..."
    if word in agent_names and method != "Agent":
        return ", but of Agent", f"Write Agent(..., {word}=...)"
    if word in RUN_NAMES and method == "Agent":
        return ", but of a run", f"Write agent.run(..., {word}=...)"
    field = _OTHER_FIELDS.get(name, name)
    for keyword, record in _RECORDS.items():
        if field in record.__struct_fields__:
            what = (
                ", but a setting of the model" if keyword == "settings" else f"; {keyword} has it"
            )
            written = f"{keyword}={record.__name__}({field}=...)"
            return what, f"Write {written if keyword in known else f'Agent(..., {written})'}"
    near = get_close_matches(name, known, 1)
    return "", f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(known))}"


_STARTING = ("Agent.run", "Agent.run_sync", "Agent.stream")


def _agent_names() -> Collection[str]:
    from holdfast.runtime.compile import AgentKeywords  # which imports most of the runtime

    return AgentKeywords.__annotations__
