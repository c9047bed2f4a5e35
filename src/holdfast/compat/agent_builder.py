"""AgentBuilder: the fluent spelling of `Agent` (seed 000).

The methods have the seed's names; `with_keywords` sets any other keyword of `Agent`. Each method
returns a new builder, so that several agents can be made from one. The builder must never have a
behaviour of its own: its agents can be written with keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic

from typing_extensions import TypeVar, Unpack

from holdfast.agent import Agent
from holdfast.compat.error_handling_config import ErrorHandling
from holdfast.core.argument_checks import check_value
from holdfast.core.messages import Message
from holdfast.core.questions import Timeout
from holdfast.middleware.chain import AnyMiddleware
from holdfast.middleware.continuation_permission import ContinuationPermission
from holdfast.middleware.error_handling import (
    ErrorFormatting,
    FunctionRetry,
    FunctionTimeout,
    error_handling_middlewares,
)
from holdfast.middleware.error_tracking import ErrorTracking
from holdfast.middleware.guidance import Guidance
from holdfast.middleware.history_reduction import HistoryReduction, Summarize
from holdfast.middleware.iteration_cache import IterationCache
from holdfast.middleware.iteration_logging import IterationLogging
from holdfast.middleware.permission_rules import Rules
from holdfast.middleware.permission_source import Permission
from holdfast.middleware.pii import Action, Kind
from holdfast.middleware.pii_protection import PIIProtection
from holdfast.middleware.repetition_guard import RepetitionGuard
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.middleware.total_error_threshold import TotalErrorThreshold
from holdfast.models.http_model import Model
from holdfast.models.resolve import ModelAt
from holdfast.output.structured_output import OutputKind, StructuredOutput
from holdfast.runtime.compile import AgentKeywords
from holdfast.telemetry.observers import Observer
from holdfast.tools.tool import Tool

T = TypeVar("T", default=str)
D = TypeVar("D", default=None)
U = TypeVar("U")

AnyTool = Callable[..., object] | Tool


class AgentBuilder(Generic[T, D]):
    """Builds an `Agent` by methods; each returns a new builder, and `build()` returns the agent.

    Args:
        keywords: keywords of `Agent` to begin with.

    >>> builder = AgentBuilder().with_provider("ollama", "llama3.2").with_error_handling()
    >>> builder.with_keywords(name="scout").build()
    Agent('ollama:llama3.2', name='scout')
    """

    __slots__ = ("_keywords",)

    def __init__(self, **keywords: Unpack[AgentKeywords]) -> None:
        self._keywords: AgentKeywords = {"model": "", **keywords}

    def build(self) -> Agent[T, D]:
        """Make the agent. Raises ConfigurationError as `Agent` does."""
        return Agent(**self._keywords)

    def with_keywords(self, **changes: Unpack[AgentKeywords]) -> AgentBuilder[T, D]:
        """Set any keywords of `Agent`, such as `name="scout", limits=Limits(iterations=5)`."""
        keywords: AgentKeywords = {**self._keywords, **changes}
        return AgentBuilder(**keywords)

    def with_model(
        self,
        model: str | ModelAt | Model,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
    ) -> AgentBuilder[T, D]:
        """Set the model: `"provider:model"` with its API key and address, a ModelAt, or a Model."""
        return self.with_keywords(model=model, api_key=api_key, base_url=base_url)

    def with_provider(
        self, provider: str, model: str, api_key: str | None = None, base_url: str | None = None
    ) -> AgentBuilder[T, D]:
        """Set the model of a provider, whose environment variable has the key by default."""
        return self.with_model(f"{provider}:{model}", api_key=api_key, base_url=base_url)

    def with_openai(
        self, model: str, api_key: str | None = None, base_url: str | None = None
    ) -> AgentBuilder[T, D]:
        """Set a model of OpenAI, or of a server at `base_url` with the same wire."""
        return self.with_provider("openai", model, api_key, base_url)

    def with_anthropic(
        self, model: str, api_key: str | None = None, base_url: str | None = None
    ) -> AgentBuilder[T, D]:
        """Set a model of Anthropic."""
        return self.with_provider("anthropic", model, api_key, base_url)

    def with_gemini(
        self, model: str, api_key: str | None = None, base_url: str | None = None
    ) -> AgentBuilder[T, D]:
        """Set a model of Google."""
        return self.with_provider("gemini", model, api_key, base_url)

    def with_tools(self, *tools: AnyTool) -> AgentBuilder[T, D]:
        """Add tools."""
        return self.with_keywords(tools=(*self._keywords.get("tools", ()), *tools))

    def with_output(
        self, output: OutputKind[U] | Sequence[OutputKind[U]] | StructuredOutput[U]
    ) -> AgentBuilder[U, D]:
        """Set the type of the output."""
        keywords: AgentKeywords = {**self._keywords, "output": output}
        return AgentBuilder(**keywords)

    def with_deps_type(self, deps_type: type[U]) -> AgentBuilder[T, U]:
        """Set the type of `run(deps=...)`."""
        keywords: AgentKeywords = {**self._keywords, "deps_type": deps_type}
        return AgentBuilder(**keywords)

    def with_error_handling_config(self, handling: ErrorHandling) -> AgentBuilder[T, D]:
        """Set retries, tool timeouts, and the texts of errors for the model."""
        check_value("handling", handling, ErrorHandling)
        return self.with_keywords(**handling.agent_keywords())

    def with_middleware(self, *middlewares: AnyMiddleware) -> AgentBuilder[T, D]:
        """Add middlewares after the existing ones."""
        return self.with_keywords(middleware=(*self._keywords.get("middleware", ()), *middlewares))

    def with_observer(self, *observers: Observer) -> AgentBuilder[T, D]:
        """Add observers: functions, or objects with `on_event`, that receive events and notices."""
        return self.with_keywords(observers=(*self._keywords.get("observers", ()), *observers))

    def with_error_handling(
        self,
        max_consecutive_calls: int | RepetitionGuard = 5,
        max_consecutive_errors: int | ErrorTracking = 3,
        max_total_errors: int | TotalErrorThreshold = 10,
        *,
        retry: FunctionRetry | None = None,
        timeout: float | None = None,
        include_detailed_errors: bool | None = None,
    ) -> AgentBuilder[T, D]:
        """Add the six middlewares of `error_handling_middlewares`, in their order."""
        return self.with_middleware(
            *error_handling_middlewares(
                max_consecutive_calls,
                max_consecutive_errors,
                max_total_errors,
                retry=retry,
                timeout=timeout,
                include_detailed_errors=include_detailed_errors,
            )
        )

    def with_circuit_breaker(
        self,
        max_consecutive_calls: int = 3,
        *,
        hint_at: int | None = None,
        withdraw_at: int | None = None,
        ask_at: int | None = None,
    ) -> AgentBuilder[T, D]:
        """Add `RepetitionGuard`: the equal call with this number does not run."""
        return self.with_middleware(
            RepetitionGuard(
                max_consecutive_calls, hint_at=hint_at, withdraw_at=withdraw_at, ask_at=ask_at
            )
        )

    def with_error_tracking(self, max_consecutive_errors: int = 3) -> AgentBuilder[T, D]:
        """Add `ErrorTracking`: at most so many iterations in a row may fail."""
        return self.with_middleware(ErrorTracking(max_consecutive_errors))

    def with_total_error_threshold(self, max_total_errors: int = 10) -> AgentBuilder[T, D]:
        """Add `TotalErrorThreshold`: at most so many tools of a turn may fail."""
        return self.with_middleware(TotalErrorThreshold(max_total_errors))

    def with_function_retry(self, **settings: object) -> AgentBuilder[T, D]:
        """Add `FunctionRetry`: tools are retried, also when it is not known whether they acted."""
        return self.with_middleware(FunctionRetry(**{"repeat_in_doubt": True, **settings}))

    def with_function_timeout(self, seconds: float | None = None) -> AgentBuilder[T, D]:
        """Add `FunctionTimeout`: seconds for one attempt of a tool; by default the agent's or 30."""
        return self.with_middleware(FunctionTimeout(seconds))

    def with_error_formatting(
        self, include_detailed_errors: bool | None = None
    ) -> AgentBuilder[T, D]:
        """Add `ErrorFormatting`: whether the model reads the message of an exception."""
        return self.with_middleware(ErrorFormatting(include_detailed_errors))

    def with_custom_retry_middleware(self, middleware: AnyMiddleware) -> AgentBuilder[T, D]:
        """Replace the built-in retries of tools by a middleware."""
        return self.with_middleware(FunctionRetry(max_retries=0), middleware)

    def with_permissions(
        self,
        *,
        allow: Rules = (),
        ask: Rules = (),
        deny: Rules = (),
        default: Permission = "deny",
        timeout: Timeout = "default",
    ) -> AgentBuilder[T, D]:
        """Add `ToolPermission`: which tools may run, by rule or by asking a person."""
        return self.with_middleware(
            ToolPermission(allow=allow, ask=ask, deny=deny, default=default, timeout=timeout)
        )

    def with_continuation_permission(
        self, iterations: int | None = None, *, extension: int = 3, timeout: Timeout = "default"
    ) -> AgentBuilder[T, D]:
        """Add `ContinuationPermission`, which asks a person at the limit of iterations."""
        return self.with_middleware(
            ContinuationPermission(iterations, extension=extension, timeout=timeout)
        )

    def with_pii_protection(
        self,
        actions: Mapping[Kind, Action] | None = None,
        *,
        on_input: bool = True,
        on_output: bool = False,
        on_tool_results: bool = False,
    ) -> AgentBuilder[T, D]:
        """Add `PIIProtection` before all other middlewares."""
        return self.with_keywords(
            middleware=(
                PIIProtection(
                    actions,
                    on_input=on_input,
                    on_output=on_output,
                    on_tool_results=on_tool_results,
                ),
                *self._keywords.get("middleware", ()),
            )
        )

    def with_history_reduction(
        self,
        target: int = 20,
        threshold: int = 5,
        *,
        tokens: int | None = None,
        summarize: Summarize | None = None,
        pinned: Callable[[Message], bool] | None = None,
    ) -> AgentBuilder[T, D]:
        """Add `HistoryReduction`: old turns are left out, or replaced by a summary."""
        return self.with_middleware(
            HistoryReduction(target, threshold, tokens=tokens, summarize=summarize, pinned=pinned)
        )

    def with_iteration_cache(
        self, seconds: float = 600.0, entries: int = 1000
    ) -> AgentBuilder[T, D]:
        """Add `IterationCache`, which saves replies to equal requests."""
        return self.with_middleware(IterationCache(seconds, entries))

    def with_guidance(self, max_iterations: int | None = 20) -> AgentBuilder[T, D]:
        """Add `Guidance`: the model reads how many iterations remain."""
        return self.with_middleware(Guidance(max_iterations))

    def with_logging(self) -> AgentBuilder[T, D]:
        """Add `IterationLogging`, which logs each iteration."""
        return self.with_middleware(IterationLogging())
