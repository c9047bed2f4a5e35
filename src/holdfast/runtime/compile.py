"""Compiles the keywords of an agent into a plan.

Checks the keywords, composes the strategies once and indexes the tools. This module must never run
a tool or call a model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypedDict, cast, get_origin

import msgspec

from holdfast.codecs.endpoint_profile import ProfileChanges
from holdfast.core.argument_checks import check_value
from holdfast.core.client_tools import ClientTool
from holdfast.core.constraints import PositiveInt
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import OnWait
from holdfast.core.hosted_tools import HostedTool, split_hosted_tools
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply, user
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.core.turn_options import InterruptedRun
from holdfast.journal.port import Journal
from holdfast.journal.retention import Retention
from holdfast.middleware.chain import (
    AnyMiddleware,
    Chain,
    compile_chain,
    limits_with,
    tool_settings,
)
from holdfast.middleware.usage_limits import UsageLimits
from holdfast.models.http_model import HttpModel, Model
from holdfast.models.prices import Prices
from holdfast.models.reply_carry import ReplyCarry
from holdfast.models.resolve import ModelAt, resolve_model
from holdfast.resilience.clock import Clock, Rng
from holdfast.resilience.defaults import Candidate, Resilience, compose_model_call, tool_pipeline
from holdfast.resilience.endpoint_states import PROCESS
from holdfast.resilience.pipeline import Operation, Pipeline
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.system_clock import SystemClock, system_rng
from holdfast.runtime.instructions import Instructions, compile_instructions
from holdfast.runtime.plan import AgentPlan, ToolCallOptions
from holdfast.runtime.questions.question_checks import OnQuestion
from holdfast.runtime.sessions.session_pool import OnBusy
from holdfast.runtime.spending import check_cost_limit, meter_attempts
from holdfast.runtime.tool_attempt import make_tool_operation
from holdfast.runtime.turn_state.turn_input import check_toolsets
from holdfast.telemetry.observers import (
    ObservedTarget,
    Observer,
    check_observers,
    observe_attempts,
)
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool
from holdfast.tools.toolset import Toolset, join_tools
from holdfast.transport.port import Timeouts, Transport

if TYPE_CHECKING:
    from holdfast.output.structured_output import Output, OutputKind, StructuredOutput


class AgentKeywords(TypedDict, total=False):
    """The keywords of `Agent`: the record that the agent file, the builder and the engine share.

    Their defaults and descriptions are in the signature and the docstring of `Agent`; a test compares
    its names and types with this record.
    """

    model: str | ModelAt | Model
    name: str
    instructions: Instructions[Any]
    tools: Iterable[Callable[..., object] | Tool | HostedTool | ClientTool]
    toolsets: Sequence[Toolset]
    # Any: only the signature of `Agent` can connect this type with the type of the result.
    output: OutputKind[Any] | Sequence[OutputKind[Any]] | StructuredOutput[Any]
    deps_type: type[Any] | None
    deps: Any | Callable[[InterruptedRun], Any | Awaitable[Any]] | None
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
    api_key: str | None
    profile: ProfileChanges | None
    timeouts: Timeouts | None
    on_question: OnQuestion | None
    on_wait: OnWait
    on_busy: OnBusy
    session_cache: int
    journal: Journal | str | None
    retention: Retention | None
    prices: Prices | None
    transport: Transport | None
    clock: Clock | None
    rng: Rng | None


def compile_plan(keywords: AgentKeywords) -> AgentPlan:
    """Check and compile the keywords. Raises ConfigurationError with the name of the argument."""
    _check_types(keywords)
    models = [resolve(keywords, _pick_primary(keywords)), *_resolve_fallbacks(keywords)]
    functions, hosted = split_hosted_tools(keywords["tools"])
    # The registry checks that the others are functions.
    registry = Registry(cast("Iterable[Callable[..., object] | Tool | ClientTool]", functions))
    output = compile_output_type(keywords["output"])
    toolsets = check_toolsets(keywords["toolsets"])
    registry = add_toolsets(registry, toolsets)
    of_toolsets = [one for toolset in toolsets for one in toolset.middlewares]
    chain = compile_chain([*keywords["middleware"], *of_toolsets])
    limits = limits_with(chain.middlewares, keywords["limits"])
    known = [one for one in toolsets if one.fixed_tools is None and one.known_tools is not None]
    # Tools may also come with a run, such as those of the callers of a service.
    comes_later = not (registry.tools or known) or any(one.known_tools is None for one in toolsets)
    if known:
        _check_known_tools(registry, known, output, chain, is_complete=not comes_later)
    registry = finish_registry(registry, output, chain, is_complete=not (comes_later or known))
    retry = keywords["retry"] or RetryOptions()
    tools = _compile_tool_call_options(keywords, retry, chain.middlewares)
    _check_time_limits(registry, tools)
    clock = keywords["clock"] or SystemClock()
    check_cost_limit(limits, keywords["prices"], tuple(models), clock.now())
    _check_cost_middlewares(chain.middlewares, keywords["prices"])
    calls = compose_call(keywords, models, output, clock)
    plan = AgentPlan(
        name=keywords["name"],
        models=tuple(models),
        instructions=compile_instructions(keywords["instructions"]),
        registry=registry,
        hosted_tools=hosted,
        toolsets=tuple(one for one in toolsets if one.fixed_tools is None),
        lifespans={key: use for one in toolsets for key, use in one.lifespans.items()},
        output=output,
        deps_type=_check_deps_type(keywords["deps_type"]),
        default_deps=keywords["deps"],
        settings=keywords["settings"] or ModelSettings(),
        limits=limits if output is None else output.cap_limits(limits),
        tool_calls=tools,
        parallel_tools=keywords["parallel_tools"],
        **calls,
        carry=ReplyCarry((keywords["resilience"] or Resilience()).continue_streams),
        use_tool=tool_pipeline(tools.retry).wrap_operation(
            make_tool_operation(tools.tool_timeout, repeat_in_doubt=tools.retry.repeat_in_doubt)
        ),
        chain=chain,
        observers=check_observers(keywords["observers"]),
        clock=clock,
        rng=keywords["rng"] or system_rng,
        prices=keywords["prices"],
    )
    is_strict = any(spec.strict for spec in registry.specs)
    is_native = output is not None and output.schema.mode == "native"
    if hosted or is_strict or is_native or keywords["settings"] is not None:
        check_wires(plan)
    return plan


def _check_time_limits(registry: Registry, tools: ToolCallOptions) -> None:
    """Raise ConfigurationError for a tool with a check and without a time limit."""
    for tool in registry:
        if tool.check is not None and (tool.timeout or tools.tool_timeout) is None:
            problem = f"is missing, and {tool.name} has a check"
            fix = "Without a limit nobody knows from when on it can no longer act: set one"
            raise ConfigurationError("tool.timeout", problem, fix=fix)


class ComposedCall(TypedDict):
    """The fields of a plan for a call of the first model or a fallback."""

    pipeline: Pipeline
    ask_model: Operation[ModelRequest, Reply]
    ask_wrapped: Callable[[bool, bool], Operation[ModelRequest, Reply]]


def compose_call(
    keywords: AgentKeywords, models: Iterable[Model], output: Output | None, clock: Clock
) -> ComposedCall:
    """Compose the strategies around a call; with more around each attempt once a turn has prices or observers."""
    retry, resilience = keywords["retry"] or RetryOptions(), keywords["resilience"] or Resilience()
    shared, attempts = (
        PROCESS.for_clock(clock),
        [(one, _build_attempt(one, output)) for one in models],
    )

    def compose(
        attempts: Iterable[tuple[Model, Operation[ModelRequest, Reply]]],
    ) -> tuple[Pipeline, Operation[ModelRequest, Reply]]:
        candidates = [
            Candidate(one.name, one.model, one.name, attempt, one.account)
            for one, attempt in attempts
        ]
        return compose_model_call(candidates, retry, resilience, shared=shared)

    @cache
    def ask_wrapped(is_priced: bool, is_observed: bool) -> Operation[ModelRequest, Reply]:
        wrapped = attempts
        if is_observed:
            wrapped = [(one, observe_attempts(_describe_target(one), it)) for one, it in wrapped]
        if is_priced:
            wrapped = [(one, meter_attempts(one, it)) for one, it in wrapped]
        return compose(wrapped)[1]

    pipeline, ask_model = compose(attempts)
    return {"pipeline": pipeline, "ask_model": ask_model, "ask_wrapped": ask_wrapped}


def _describe_target(model: Model) -> ObservedTarget:
    """Return a model as observers see it."""
    provider, _ = getattr(model, "priced_as", ("", True))
    return ObservedTarget(model.name, provider, str(model.describe().get("base_url", "")))


def add_toolsets(registry: Registry, toolsets: Iterable[Toolset]) -> Registry:
    """Return a registry with the fixed tools of toolsets. Raises ConfigurationError."""
    groups = [(f"toolset {toolset.name!r}", toolset.fixed_tools or ()) for toolset in toolsets]
    if not groups:
        return registry
    return Registry(join_tools([("tools=", registry), *groups]))


def _check_known_tools(
    registry: Registry,
    known: Iterable[Toolset],
    output: Output | None,
    chain: Chain,
    *,
    is_complete: bool,
) -> None:
    """Check the tools that a search may offer as if they were offered. Raises ConfigurationError."""
    groups = [(f"toolset {one.name!r}", one.known_tools or ()) for one in known]
    searched = Registry(join_tools([("tools=", registry), *groups]))
    finish_registry(searched, output, chain, is_complete=is_complete)


def finish_registry(
    registry: Registry, output: Output | None, chain: Chain, *, is_complete: bool
) -> Registry:
    """Return the registry with the output functions, after the checks of its tools.

    Args:
        registry: the tools.
        output: the output, whose functions and names count.
        chain: the middlewares with the permission rules.
        is_complete: whether no other tools are added before a model call.

    Raises:
        ConfigurationError: a name belongs to the output, or a permission rule fits no argument or
            no tool.
    """
    _check_tool_names(registry, output)
    if output is not None:
        registry = registry.with_output_functions(output.functions)
    if chain.middlewares:
        from holdfast.runtime.hooks.rule_checks import check_rules  # only with middlewares

        check_rules(chain.middlewares, registry, is_complete=is_complete)
    return registry


def _compile_tool_call_options(
    keywords: AgentKeywords, retry: RetryOptions, middlewares: Sequence[AnyMiddleware]
) -> ToolCallOptions:
    """Build the options of tool calls; settings of middlewares replace those of the agent."""
    given = ToolCallOptions(
        retry=retry,
        tool_timeout=keywords["tool_timeout"],
        detailed_errors=keywords["detailed_errors"],
    )
    own = {"tool_timeout": given.tool_timeout, "detailed_errors": given.detailed_errors}
    changes = tool_settings(middlewares, {**msgspec.structs.asdict(retry), **own})
    of_calls = {name: changes.pop(name) for name in own if name in changes}
    return msgspec.structs.replace(
        given, retry=msgspec.structs.replace(retry, **changes), **of_calls
    )


def _pick_primary(keywords: AgentKeywords) -> ModelAt | Model:
    model = keywords["model"]
    if not isinstance(model, str):
        return model
    return at_address(keywords, model)


def at_address(keywords: AgentKeywords, model: str) -> ModelAt:
    """Return a model at the agent's address, with its key and its profile."""
    base_url, api_key, profile = keywords["base_url"], keywords["api_key"], keywords["profile"]
    return ModelAt(model, base_url=base_url, api_key=api_key, profile=profile)


def _resolve_fallbacks(keywords: AgentKeywords) -> Iterable[Model]:
    """Resolve the fallbacks. The agent's `base_url`, `api_key` and `profile` are for the first model only."""
    fallback = keywords["fallback"]
    if isinstance(fallback, str) or not isinstance(fallback, Sequence):
        raise ConfigurationError(
            "fallback", "must be a list of models", fix='Write fallback=["anthropic:..."]'
        )
    for at, model in enumerate(fallback):
        try:
            yield resolve(keywords, model)
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


def resolve(keywords: AgentKeywords, model: str | ModelAt | Model) -> Model:
    """Return the model with the transport, the timeouts and the reply limits of the agent."""
    return resolve_model(
        model,
        lambda: keywords["transport"] or _shared_transport(),
        keywords["timeouts"],
        (keywords["resilience"] or Resilience()).reply_limits,
    )


_RECORDS = (
    ("settings", ModelSettings),
    ("limits", Limits),
    ("retry", RetryOptions),
    ("resilience", Resilience),
    ("timeouts", Timeouts),
    ("retention", Retention),
    ("prices", Prices),
)


def _check_types(keywords: AgentKeywords) -> None:
    for argument, wanted in (("name", str), *_RECORDS):
        value = keywords.get(argument)
        if not isinstance(value, wanted) and not (value is None and wanted is not str):
            raise ConfigurationError(
                argument, f"must be {wanted.__name__}, got {type(value).__name__}"
            )
    _check_access(keywords)
    check_value("transport", keywords.get("transport"), Transport | None)
    check_value("clock", keywords.get("clock"), Clock | None)
    check_value("rng", keywords["rng"], Rng | None)
    middleware: object = keywords["middleware"]
    if not isinstance(middleware, Iterable):
        raise ConfigurationError(
            "middleware",
            f"must be a list of middlewares, got {type(middleware).__name__}",
            fix="Write middleware=[...]",
        )
    if not keywords["name"].strip():
        raise ConfigurationError("name", "is empty")
    check_value("parallel_tools", keywords["parallel_tools"], PositiveInt)


def _check_deps_type(given: type[Any] | None) -> type[Any] | None:
    """Return the class of `deps`, without the type arguments of `dict[str, int]`."""
    kind = get_origin(given) or given
    check_value("deps_type", kind, type | None)
    return kind


def _check_access(keywords: AgentKeywords) -> None:
    for argument, wanted in (("base_url", str), ("api_key", str), ("profile", Mapping)):
        value = keywords.get(argument)
        if value is None:
            continue
        if not isinstance(value, wanted):
            kind = "a text" if wanted is str else "a mapping of fields"
            raise ConfigurationError(argument, f"must be {kind}, got {type(value).__name__}")
        if not isinstance(keywords["model"], str):
            kind = "ModelAt" if isinstance(keywords["model"], ModelAt) else "Model"
            raise ConfigurationError(
                argument, f"has no effect on a {kind} object", fix=f"Give it to the {kind}"
            )


def _check_tool_names(registry: Registry, output: Output | None) -> None:
    for taken in output.schema.tools if output is not None else ():
        if registry.get(taken.name) is not None:
            raise ConfigurationError(
                "tools",
                f"{taken.name!r} is the name by which the model gives its answer",
                fix="Rename yours",
            )


def _check_cost_middlewares(middlewares: Sequence[AnyMiddleware], prices: Prices | None) -> None:
    """Raise ConfigurationError if a middleware limits the cost, and the agent has no prices."""
    for one in middlewares:
        if prices is None and isinstance(one, UsageLimits) and one.maximums["cost"] is not None:
            fix = "Pass Agent(prices=Prices.known()), or prices of your own"
            raise ConfigurationError("cost", "needs prices, and the agent has none", fix=fix)


_NO_ARGUMENTS: Mapping[str, object] = {"type": "object", "properties": {}}


def check_wires(plan: AgentPlan) -> None:
    """Check that the wire of each model has the settings, the provider's tools and the output of the agent.

    Raises:
        ConfigurationError: a wire does not have one; for a fallback, the error names the model.
    """
    # A hook may add the tool that is named here.
    settings = msgspec.structs.replace(plan.settings, tool_choice=None)
    # To convert many schemas takes time, so that only those are converted here that the user wants enforced.
    tools = tuple(
        [
            spec if spec.strict is not None else ToolSpec(spec.name, "", _NO_ARGUMENTS)
            for spec in plan.registry.specs
        ]
    )
    output = None if plan.output is None else _find_native_output(plan.output)
    for at, model in enumerate(plan.models):
        if not isinstance(model, HttpModel):
            continue
        request = ModelRequest(
            model=model.model,
            messages=(user("Hello"),),
            tools=tools,
            hosted_tools=plan.hosted_tools,
            output=output,
            settings=settings,
        )
        try:
            model.check_request(request)
        except ConfigurationError as error:
            problem = error.problem if at == 0 else f"{model.name}: {error.problem}"
            raise ConfigurationError(error.argument, problem, fix=error.fix) from None


def _find_native_output(output: Output) -> OutputSchema | None:
    """Return the output in the form of the wire's field, if the user wants it there and nowhere else."""
    schema = output.schema
    if schema.mode != "native":
        return None
    return msgspec.structs.replace(schema, schema=schema.envelope or schema.schema)


def _build_attempt(model: Model, output: Output | None) -> Operation[ModelRequest, Reply]:
    if output is None:
        return model.attempt
    from holdfast.output.output_modes import (
        make_output_attempt,  # only for typed output
    )

    return make_output_attempt(model, output.schema)


def compile_output_type(given: object) -> Output | None:
    """Return the compiled type of an output; None for text. Raises ConfigurationError."""
    if given is str:
        return None
    from holdfast.output.structured_output import (
        compile_output,  # only for typed output
    )

    return compile_output(given)


@cache
def _shared_transport() -> Transport:
    """Return the default transport, shared by all agents: one connection pool per event loop."""
    from holdfast.transport.http import HttpTransport

    return HttpTransport()
