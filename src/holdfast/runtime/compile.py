"""Compiles the options of an agent into a plan.

Checks the options, composes the strategies once and indexes the tools. This module must never run
a tool or call a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import PositiveInt
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import OnWait
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest, ModelSettings
from holdfast.journal.port import Journal
from holdfast.middleware.chain import AnyMiddleware, compile_chain, limits_with, tool_settings
from holdfast.models.http_model import Model
from holdfast.models.reply_carry import ReplyCarry
from holdfast.models.resolve import ModelAt, resolve_model
from holdfast.resilience.clock import Clock, Rng
from holdfast.resilience.defaults import Candidate, Resilience, compose_model_call, tool_pipeline
from holdfast.resilience.pipeline import Operation
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.system_clock import SystemClock, system_rng
from holdfast.runtime.plan import AgentPlan, ToolCallOptions
from holdfast.runtime.questions.question_checks import OnQuestion
from holdfast.runtime.sessions.session_pool import OnBusy
from holdfast.runtime.tool_attempt import make_tool_operation
from holdfast.telemetry.observers import Observer, check_observers
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool
from holdfast.transport.port import Timeouts, Transport

if TYPE_CHECKING:
    from holdfast.runtime.output.structured_output import Output


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """The keywords of an agent, as the user passed them."""

    model: str | ModelAt | Model
    name: str
    instructions: str
    tools: Iterable[Callable[..., Any] | Tool]
    output: object
    settings: ModelSettings | None
    limits: Limits | None
    retry: RetryOptions | None
    resilience: Resilience | None
    fallback: Sequence[str | ModelAt | Model]
    middleware: Sequence[AnyMiddleware]
    observers: Iterable[Observer]
    parallel_tools: int
    tool_timeout: float | None
    detailed_errors: bool
    base_url: str | None
    api_key: str | None = field(repr=False)
    timeouts: Timeouts | None
    on_question: OnQuestion | None
    on_wait: OnWait
    on_busy: OnBusy
    journal: Journal | str | None = field(repr=False)
    transport: Transport | None
    clock: Clock | None
    rng: Rng | None


def compile_plan(options: AgentOptions) -> AgentPlan:
    """Check and compile the options. Raises ConfigurationError with the name of the argument."""
    _check_types(options)
    models = [_resolve_model(options, _pick_primary(options)), *_resolve_fallbacks(options)]
    registry, output = Registry(options.tools), _compile_output(options.output)
    _check_tool_names(registry, output)
    candidates = [
        Candidate(one.name, one.model, one.name, _build_attempt(one, output), one.account)
        for one in models
    ]
    chain, limits = (
        compile_chain(options.middleware),
        limits_with(options.middleware, options.limits),
    )
    retry = options.retry or RetryOptions()
    tools = _compile_tool_call_options(options, retry)
    resilience = options.resilience or Resilience()
    pipeline, ask_model = compose_model_call(candidates, retry, resilience)
    return AgentPlan(
        name=options.name,
        model=models[0],
        instructions=options.instructions,
        registry=registry,
        output=output,
        settings=options.settings or ModelSettings(),
        limits=limits if output is None else output.cap_limits(limits),
        tool_calls=tools,
        parallel_tools=options.parallel_tools,
        pipeline=pipeline,
        ask_model=ask_model,
        carry=ReplyCarry(resilience.continue_streams),
        use_tool=tool_pipeline(tools.retry).wrap_operation(
            make_tool_operation(registry, tools.tool_timeout)
        ),
        chain=chain,
        observers=check_observers(options.observers),
        clock=options.clock or SystemClock(),
        rng=options.rng or system_rng,
    )


def _compile_tool_call_options(options: AgentOptions, retry: RetryOptions) -> ToolCallOptions:
    """Build the options of tool calls; settings of middlewares replace those of the agent."""
    given = ToolCallOptions(
        retry=retry, tool_timeout=options.tool_timeout, detailed_errors=options.detailed_errors
    )
    own = {"tool_timeout": given.tool_timeout, "detailed_errors": given.detailed_errors}
    changes = tool_settings(options.middleware, {**msgspec.structs.asdict(retry), **own})
    of_calls = {name: changes.pop(name) for name in own if name in changes}
    return msgspec.structs.replace(
        given, retry=msgspec.structs.replace(retry, **changes), **of_calls
    )


def _pick_primary(options: AgentOptions) -> ModelAt | Model:
    if not isinstance(options.model, str):
        return options.model
    return ModelAt(options.model, base_url=options.base_url, api_key=options.api_key)


def _resolve_fallbacks(options: AgentOptions) -> Iterable[Model]:
    """Resolve the fallbacks. The agent's `base_url` and `api_key` are for the first model only."""
    if isinstance(options.fallback, str) or not isinstance(options.fallback, Sequence):
        raise ConfigurationError(
            "fallback", "must be a list of models", fix='Write fallback=["anthropic:..."]'
        )
    for at, model in enumerate(options.fallback):
        try:
            yield _resolve_model(options, model)
        except ConfigurationError as error:
            raise _to_fallback_error(f"fallback[{at}]", model, error) from None


def _to_fallback_error(
    argument: str, model: str | ModelAt | Model, error: ConfigurationError
) -> ConfigurationError:
    """Rewrite the error for a fallback, since `api_key=` of the agent does not apply to it."""
    what, problem, fix = error.argument, error.problem, error.fix
    variable = what.isupper()
    if variable:
        problem = f"{what} {problem}"
    elif isinstance(model, ModelAt):
        argument = f"{argument}.{what}"
    if isinstance(model, str) and what not in ("model", "provider"):
        missing = "api_key" if variable else what
        fix = f"Write ModelAt({model!r}, {missing}=...)"
        fix += f", or export {what}=..." if variable else ""
    return ConfigurationError(argument, problem, fix=fix)


def _resolve_model(options: AgentOptions, model: str | ModelAt | Model) -> Model:
    return resolve_model(
        model, lambda: options.transport or _shared_transport(), options.timeouts or Timeouts()
    )


_RECORDS = (
    ("settings", ModelSettings),
    ("limits", Limits),
    ("retry", RetryOptions),
    ("resilience", Resilience),
    ("timeouts", Timeouts),
)


def _check_types(options: AgentOptions) -> None:
    for argument, wanted in (("name", str), ("instructions", str), *_RECORDS):
        value = getattr(options, argument)
        if not isinstance(value, wanted) and not (value is None and wanted is not str):
            raise ConfigurationError(
                argument, f"must be {wanted.__name__}, got {type(value).__name__}"
            )
    _check_access(options)
    check_value("transport", options.transport, Transport | None)
    check_value("clock", options.clock, Clock | None)
    check_value("rng", options.rng, Rng | None)
    middleware: object = options.middleware
    if not isinstance(middleware, Iterable):
        raise ConfigurationError(
            "middleware",
            f"must be a list of middlewares, got {type(middleware).__name__}",
            fix="Write middleware=[...]",
        )
    if not options.name.strip():
        raise ConfigurationError("name", "is empty")
    check_value("parallel_tools", options.parallel_tools, PositiveInt)


def _check_access(options: AgentOptions) -> None:
    for argument in ("base_url", "api_key"):
        if (value := getattr(options, argument)) is None:
            continue
        if not isinstance(value, str):
            raise ConfigurationError(argument, f"must be a text, got {type(value).__name__}")
        if not isinstance(options.model, str):
            kind = "ModelAt" if isinstance(options.model, ModelAt) else "Model"
            raise ConfigurationError(
                argument, f"has no effect on a {kind} object", fix=f"Give it to the {kind}"
            )


def _check_tool_names(registry: Registry, output: Output | None) -> None:
    for taken in output.schema.tools if output is not None else ():
        if registry.get(taken.name) is not None:
            raise ConfigurationError(
                "tools",
                f"{taken.name!r} is the tool by which the model gives its answer",
                fix="Rename yours",
            )


def _build_attempt(model: Model, output: Output | None) -> Operation[ModelRequest, Reply]:
    if output is None:
        return model.attempt
    from holdfast.runtime.output.output_modes import (
        make_output_attempt,  # only for typed output
    )

    return make_output_attempt(model, output.schema)


def _compile_output(given: object) -> Output | None:
    if given is str:
        return None
    from holdfast.runtime.output.structured_output import (
        compile_output,  # only for typed output
    )

    return compile_output(given)


@cache
def _shared_transport() -> Transport:
    """Return the default transport, shared by all agents: one connection pool per event loop."""
    from holdfast.transport.http import HttpTransport

    return HttpTransport()
