"""`FunctionRetryExecutor` of seed 000: one function, retried, with that system's texts.

It stands alone, for those who call functions without an agent, and decides by the same functions
as the strategy. Its own timeout ends the call at once, as in the seed: it is not retried. A
cancellation must never be taken for a failure (the seed did).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping

from msgspec import Struct

from holdfast.calls.exception_rules import Classify, classify_exception
from holdfast.calls.guard import check_repeatable, make_execution_context, run_callable
from holdfast.compat.error_handling_config import ErrorHandling
from holdfast.core.argument_checks import check_arguments
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError
from holdfast.core.redaction import redact
from holdfast.resilience.pipeline import CallContext, Done, ExecutionContext, Failed, Outcome
from holdfast.resilience.retry.strategy import Retry
from holdfast.tools.context import ToolContext, tool_call_scope


class FunctionTimeoutError(HoldfastError, TimeoutError):
    """One attempt took longer than `function_timeout`.

    >>> str(FunctionTimeoutError("pay", 30.0))
    "Function 'pay' timed out after 30 seconds."
    """

    default_category = ErrorCategory.TIMEOUT

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"Function '{name}' timed out after {seconds:g} seconds.")
        self.name = name
        self.seconds = seconds


class FunctionInvocationError(HoldfastError):
    """The function failed for good; `__cause__` is its exception, `attempts` how often it ran."""

    def __init__(self, message: str, *, info: ErrorInfo, attempts: int) -> None:
        super().__init__(message, info=info)
        self.attempts = attempts


class FunctionCall(Struct, frozen=True):
    """A function, its arguments, and the name that texts and notices give it."""

    name: str
    function: Callable[..., object]
    arguments: Mapping[str, object] = {}


class FunctionRetryExecutor:
    """Calls functions with retry, as seed 000 describes it.

    Args:
        handling: the settings; `function_timeout` is for each attempt.
        classify: returns the category of an exception.
        env: time, chance and notices; the real ones when absent.

    While it runs, `current_tool_call()` returns its name and its attempt.

    >>> executor = FunctionRetryExecutor(ErrorHandling(max_retries=0))
    >>> asyncio.run(executor.execute_with_retry(pow, {"base": 2, "exp": 10}, "power"))
    1024
    """

    __slots__ = ("_classify", "_env", "_operation", "handling")

    @check_arguments
    def __init__(
        self,
        handling: ErrorHandling | None = None,
        *,
        classify: Classify | None = None,
        env: ExecutionContext | None = None,
    ) -> None:
        self.handling = handling or ErrorHandling()
        self._classify = classify
        self._env = env or make_execution_context()
        self._operation = Retry(self.handling.retry_options()).wrap(self._attempt_call)

    async def execute_with_retry(
        self,
        function: Callable[..., object],
        arguments: Mapping[str, object] | None = None,
        name: str = "",
    ) -> object:
        """Call the function until it succeeds or must not be tried again.

        Args:
            function: async, or synchronous, and then it runs in a thread.
            arguments: given by name.
            name: for texts and notices; the function's own name when empty.

        Raises:
            FunctionTimeoutError: an attempt took too long.
            FunctionInvocationError: it failed; the text says after how many attempts, or that it
                was not worth another.
        """
        check_repeatable(function)
        name = name or getattr(function, "__name__", "") or "Unknown"
        work = FunctionCall(name, function, arguments or {})
        outcome = await self._operation(CallContext(name, work, self._env))
        if isinstance(outcome, Done):
            return outcome.value
        if isinstance(outcome.error, FunctionTimeoutError):
            raise outcome.error
        raise self._invocation_error(name, outcome) from outcome.error

    def _invocation_error(self, name: str, outcome: Failed) -> FunctionInvocationError:
        said, attempts = redact(str(outcome.error)), outcome.attempts
        if attempts > self.handling.max_retries:
            text = f"Error invoking function '{name}' after {attempts} attempts: {said}"
        else:
            text = f"Error invoking function '{name}': {said} (non-retryable)"
        return FunctionInvocationError(text, info=outcome.info, attempts=attempts)

    async def _attempt_call(self, call: CallContext[FunctionCall]) -> Outcome[object]:
        work, seconds = call.payload, self.handling.function_timeout
        bound = functools.partial(work.function, **work.arguments)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                with tool_call_scope(
                    ToolContext(run_id="", key=call.key, tool=work.name, attempt=call.attempt)
                ):
                    return Done(await run_callable(bound, work.name))
        except Exception as error:  # noqa: BLE001  # REASON: here an exception becomes a value
            if limit.expired() and seconds is not None:
                late = FunctionTimeoutError(work.name, seconds)
                return Failed(late, late.info, may_repeat=False)
            return Failed(error, classify_exception(error, self._classify, call.execution.clock))
