"""From what the user gave to a plan: checks it all, wraps the strategies once, indexes the tools.

Nothing here may run a tool or reach a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.checks import check_optional_callable, check_port
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import OnWait
from holdfast.core.limits import Limits, check_count
from holdfast.core.messages import Reply
from holdfast.core.request import ModelRequest, ModelSettings
from holdfast.journal.port import Journal
from holdfast.middleware.chain import AnyMiddleware, compile_chain, limits_with, tool_settings
from holdfast.resilience.clock import Clock, Dice
from holdfast.resilience.defaults import Candidate, Resilience, ask_models, tool_pipeline
from holdfast.resilience.handling import ErrorHandling
from holdfast.resilience.pipeline import Act
from holdfast.runtime.asking import OnQuestion
from holdfast.runtime.clock import SystemClock, system_dice
from holdfast.runtime.conversations import OnBusy
from holdfast.runtime.models import Model
from holdfast.runtime.observers import Observer, checked_observers
from holdfast.runtime.plan import Plan
from holdfast.runtime.resolve import ModelAt, resolve
from holdfast.runtime.tool_call import tool_act
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool
from holdfast.transport.port import Timeouts, Transport

if TYPE_CHECKING:
    from holdfast.runtime.structured_output import Output


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The keywords of an agent, as they were given."""

    model: str | ModelAt | Model
    name: str
    instructions: str
    tools: Iterable[Callable[..., Any] | Tool]
    output: object
    settings: ModelSettings | None
    limits: Limits | None
    error_handling: ErrorHandling | None
    resilience: Resilience | None
    fallback: Sequence[str | ModelAt | Model]
    middleware: Sequence[AnyMiddleware]
    observers: Iterable[Observer]
    parallel_tools: int
    base_url: str | None
    api_key: str | None = field(repr=False)
    timeouts: Timeouts | None
    on_question: OnQuestion | None
    on_wait: OnWait
    on_busy: OnBusy
    journal: Journal | str | None = field(repr=False)
    transport: Transport | None
    clock: Clock | None
    dice: Dice | None


def compile_plan(given: Settings) -> Plan:
    """Check and compile. Raises ConfigurationError that names the argument."""
    _check_types(given)
    models = [_resolved(given, _preferred(given)), *_fallbacks(given)]
    registry, output = Registry(given.tools), _output(given.output)
    _check_tool_names(registry, output)
    candidates = [
        Candidate(one.name, one.model, one.name, _attempt(one, output), one.account)
        for one in models
    ]
    chain, limits = compile_chain(given.middleware), limits_with(given.middleware, given.limits)
    handling = given.error_handling or ErrorHandling()
    of_tools = msgspec.structs.replace(
        handling, **tool_settings(given.middleware, msgspec.structs.asdict(handling))
    )
    pipeline, ask_model = ask_models(candidates, handling, given.resilience or Resilience())
    return Plan(
        name=given.name,
        model=models[0],
        instructions=given.instructions,
        registry=registry,
        output=output,
        settings=given.settings or ModelSettings(),
        limits=limits if output is None else output.capped(limits),
        handling=of_tools,
        parallel_tools=given.parallel_tools,
        pipeline=pipeline,
        ask_model=ask_model,
        use_tool=tool_pipeline(of_tools).around(tool_act(registry, of_tools.function_timeout)),
        chain=chain,
        observers=checked_observers(given.observers),
        clock=given.clock or SystemClock(),
        dice=given.dice or system_dice,
    )


def _preferred(given: Settings) -> ModelAt | Model:
    if not isinstance(given.model, str):
        return given.model
    return ModelAt(given.model, base_url=given.base_url, api_key=given.api_key)


def _fallbacks(given: Settings) -> Iterable[Model]:
    """The other models. The base URL and the key that were given belong to the first one alone."""
    if isinstance(given.fallback, str) or not isinstance(given.fallback, Sequence):
        raise ConfigurationError(
            "fallback", "must be a list of models", fix='Write fallback=["anthropic:..."]'
        )
    for at, model in enumerate(given.fallback):
        try:
            yield _resolved(given, model)
        except ConfigurationError as error:
            raise _of_fallback(f"fallback[{at}]", model, error) from None


def _of_fallback(
    place: str, model: str | ModelAt | Model, error: ConfigurationError
) -> ConfigurationError:
    """The same error for one of the other models: `api_key=` of the agent would not help it."""
    what, problem, fix = error.argument, error.problem, error.fix
    variable = what.isupper()
    if variable:
        problem = f"{what} {problem}"
    elif isinstance(model, ModelAt):
        place = f"{place}.{what}"
    if isinstance(model, str) and what not in ("model", "provider"):
        missing = "api_key" if variable else what
        fix = f"Write ModelAt({model!r}, {missing}=...)"
        fix += f", or export {what}=..." if variable else ""
    return ConfigurationError(place, problem, fix=fix)


def _resolved(given: Settings, model: str | ModelAt | Model) -> Model:
    return resolve(
        model, lambda: given.transport or _shared_transport(), given.timeouts or Timeouts()
    )


_RECORDS = (
    ("settings", ModelSettings),
    ("limits", Limits),
    ("error_handling", ErrorHandling),
    ("resilience", Resilience),
    ("timeouts", Timeouts),
)


_PORTS = {
    "transport": ("send",),
    "clock": ("now", "monotonic", "sleep"),
}


def _check_types(given: Settings) -> None:
    for argument, wanted in (("name", str), ("instructions", str), *_RECORDS):
        value = getattr(given, argument)
        if not isinstance(value, wanted) and not (value is None and wanted is not str):
            raise ConfigurationError(
                argument, f"must be {wanted.__name__}, got {type(value).__name__}"
            )
    _check_access(given)
    for port, methods in _PORTS.items():
        check_port(port, getattr(given, port), methods)
    check_optional_callable("dice", given.dice)
    middleware: object = given.middleware
    if not isinstance(middleware, Iterable):
        raise ConfigurationError(
            "middleware",
            f"must be a list of middlewares, got {type(middleware).__name__}",
            fix="Write middleware=[...]",
        )
    if not given.name.strip():
        raise ConfigurationError("name", "is empty")
    if given.parallel_tools is None:
        raise ConfigurationError("parallel_tools", "must be a whole number, got None")
    check_count("parallel_tools", given.parallel_tools, at_least=1)


def _check_access(given: Settings) -> None:
    for argument in ("base_url", "api_key"):
        if (value := getattr(given, argument)) is None:
            continue
        if not isinstance(value, str):
            raise ConfigurationError(argument, f"must be a text, got {type(value).__name__}")
        if not isinstance(given.model, str):
            kind = "ModelAt" if isinstance(given.model, ModelAt) else "Model"
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


def _attempt(model: Model, output: Output | None) -> Act[ModelRequest, Reply]:
    if output is None:
        return model.attempt
    from holdfast.runtime.answer_modes import asked_for  # plain text needs none of it

    return asked_for(model, output.schema)


def _output(given: object) -> Output | None:
    if given is str:
        return None
    from holdfast.runtime.structured_output import compile_output  # plain text needs none of it

    return compile_output(given)


@cache
def _shared_transport() -> Transport:
    """The transport of all agents that were given none: one connection pool per event loop."""
    from holdfast.transport.http import HttpTransport

    return HttpTransport()
