"""A compiled agent: the data that all of its runs share and none of them changes.

Strategies are composed and tools are indexed once, when the plan is built. A plan must never hold
the state of a run, because one agent can execute any number of runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from types import NoneType
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import PositiveFloat
from holdfast.core.errors import ConfigurationError
from holdfast.core.hosted_tools import HostedTool
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply, ToolResult
from holdfast.core.model_request import ModelRequest, ModelSettings
from holdfast.core.secret_values import SecretValues
from holdfast.core.turn_options import Fingerprints
from holdfast.middleware.chain import AnyMiddleware, Chain
from holdfast.models.http_model import Model, find_model_secrets
from holdfast.models.prices import Prices
from holdfast.models.reply_carry import ReplyCarry
from holdfast.resilience.clock import Clock, Rng
from holdfast.resilience.pipeline import Operation, Pipeline
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.timeout.pausable_timeout import find_share
from holdfast.runtime.instructions import AgentInstructions
from holdfast.runtime.tool_attempt import ToolAttempt
from holdfast.telemetry.observers import CheckedObserver
from holdfast.tools.asking_checks import AskCheck, ask_check
from holdfast.tools.registry import Registry
from holdfast.tools.toolset import Lifespan, LifespanUse, Toolset

if TYPE_CHECKING:
    from holdfast.output.structured_output import Output


class ToolCallOptions(Struct, frozen=True, kw_only=True):
    """How the tools of an agent are called.

    Args:
        retry: the retry options of tools.
        tool_timeout: seconds for one attempt of a tool without its own timeout; None gives it
            the rest of its turn less 60 s, or less a fifth if that is less.
        detailed_errors: send the message of an exception that a tool raised to the model.
    """

    retry: RetryOptions
    tool_timeout: PositiveFloat | None = None
    detailed_errors: bool = False

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class AgentPlan:
    """The settings of an agent that are fixed before a run begins."""

    name: str
    models: tuple[Model, ...]
    instructions: AgentInstructions
    registry: Registry
    hosted_tools: tuple[HostedTool, ...]
    """The tools that no function decides about."""
    toolsets: tuple[Toolset, ...]
    """The toolsets whose tools are listed before each model call."""
    lifespans: Mapping[Lifespan, LifespanUse]
    """The lifespans that are open while a turn runs."""
    output: Output | None
    deps_type: type[object] | None
    default_deps: object
    """The deps of a run that was not passed any, or a function that returns them; None if there are none."""
    settings: ModelSettings
    limits: Limits
    tool_calls: ToolCallOptions
    parallel_tools: int
    pipeline: Pipeline
    ask_model: Operation[ModelRequest, Reply]
    ask_wrapped: Callable[[bool, bool], Operation[ModelRequest, Reply]]
    """Returns the same call with a meter around each attempt, for turns that have prices, and with the context
    managers of observers."""
    carry: ReplyCarry
    use_tool: Operation[ToolAttempt, ToolResult]
    chain: Chain
    observers: tuple[CheckedObserver, ...]
    clock: Clock
    rng: Rng
    prices: Prices | None = None
    ask_check: AskCheck = ask_check
    """Asks the check of a write in doubt."""
    fingerprints: Fingerprints = field(default_factory=dict)
    """The values of one turn that cannot be saved; empty for the plan of the agent itself."""

    def cap_limits(self, limits: Limits) -> Limits:
        """Return the limits of a turn, adjusted by the options of the output."""
        return limits if self.output is None else self.output.cap_limits(limits)

    def check_deps(self, deps: object) -> None:
        """Raise ConfigurationError unless `deps` has the type that the agent declares."""
        if self.deps_type is None:
            return
        if deps is None and self.default_deps is not None:
            return
        if deps is None and self.deps_type is not NoneType:
            name = self.deps_type.__name__
            problem = f"is missing; the agent has deps_type={name}"
            raise ConfigurationError("deps", problem, fix=f"Pass deps=, a {name}")
        check_value("deps", deps, self.deps_type)

    @property
    def begins_directly(self) -> bool:
        """Whether nothing of the user is called before a turn is saved as open, or after its end."""
        chain = self.chain
        return self.instructions.fixed is not None and not (chain.before_turn or chain.after_turn)

    @property
    def model(self) -> Model:
        """The model that is called first; the others are its fallbacks."""
        return self.models[0]

    @property
    def secrets(self) -> SecretValues:
        """The secrets of all models, which no error of this agent may contain."""
        return reduce(or_, map(find_model_secrets, self.models))

    @property
    def middlewares(self) -> tuple[AnyMiddleware, ...]:
        """The middlewares, in the order of registration."""
        return self.chain.middlewares

    def describe(self) -> str:
        """Describe the pipeline of the agent and its settings, outermost strategy first."""
        lines = [f"agent {self.name}", "  model"]
        lines += [f"    {field}: {value}" for field, value in self.model.describe().items()]
        lines.append("  pipeline, outermost first")
        lines.append("    format: what the model and the user see of an error")
        for strategy, settings in self.pipeline.describe():
            shown = ", ".join(f"{field}={value}" for field, value in settings.items())
            lines.append(f"    {strategy}: {shown}")
        lines.append("    call, parse and validate")
        if self.carry.continues:
            lines.append(
                "    continue_streams=True: the next attempt continues a reply that breaks off"
            )
        if self.chain.middlewares:
            lines.append("  middleware, in the order of registration; then hooks, in call order")
            lines += [f"    {line}" for line in self.chain.describe()]
        if self.output is not None:
            lines.append(f"  output: {self.output.describe()}")
            lines += self._describe_output_modes(self.output)
        lines.append(f"  limits: {self.limits}")
        lines += [] if self.prices is None else [f"  prices: {self.prices!r}"]
        lines.append(f"  tools: {', '.join(spec.name for spec in self.registry.specs) or 'none'}")
        for_code = [tool.name for tool in self.registry if not tool.offered]
        if for_code:
            lines.append(f"  tools that no model sees: {', '.join(for_code)}")
        if self.hosted_tools:
            names = ", ".join(tool.name for tool in self.hosted_tools)
            lines.append(f"  run by the provider: {names}")
        if self.toolsets:
            names = ", ".join(one.name for one in self.toolsets)
            lines.append(f"  toolsets that are listed before each model call: {names}")
        doubtful = [
            tool.name
            for tool in self.registry
            if tool.effect == "write"
            or (tool.effect is None and not self.tool_calls.retry.repeat_in_doubt)
        ]
        if doubtful:
            lines.append(
                f"  not repeated after a timeout or a lost connection: {', '.join(doubtful)}"
            )
        unlimited = [
            tool.name
            for tool in self.registry
            if not tool.is_async and tool.timeout is None and self.tool_calls.tool_timeout is None
        ]
        if unlimited:
            lines.append(
                f"  without a timeout, in threads that cannot be stopped: {', '.join(unlimited)}"
            )
        lines += self._describe_shares()
        return "\n".join(lines)

    def _describe_output_modes(self, output: Output) -> list[str]:
        """Say how each model is asked for the output, and why."""
        if output.schema.mode != "auto":
            return []
        from holdfast.output.output_modes import skip_refused_mode  # only agents with an output

        lines: list[str] = []
        for model in self.models:
            choose = getattr(model, "asking", None)
            if choose is None:
                continue
            method = choose(
                ModelRequest(
                    model=model.model,
                    messages=(),
                    tools=self.registry.specs,
                    hosted_tools=self.hosted_tools,
                    output=output.schema,
                    settings=self.settings,
                )
            )
            method = skip_refused_mode(model, output.schema, method)
            lines.append(f"    {model.name}: mode={method.mode} ({method.reason})")
        return lines

    def _describe_shares(self) -> list[str]:
        """Name the tools without a timeout of their own, and the time that they may use instead."""
        if self.tool_calls.tool_timeout is not None:
            return []
        names = ", ".join(tool.name for tool in self.registry if tool.timeout is None)
        if not names:
            return []
        if self.limits.seconds is None:
            return [f"  without a time limit, as the turn has none: {names}"]
        share = f"{find_share(self.limits.seconds):g} s"
        rest = (
            f"what the turn has left less 60 s, or less a fifth if that is less (at most {share})"
        )
        return [f"  may use {rest}, and are not repeated then: {names}"]
