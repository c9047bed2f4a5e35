"""Makes one call of a vendor's SDK and returns its result.

Exceptions of the call, the stream and its objects are part of the result. Cancellations and
exceptions that do not derive from `Exception` are raised. These functions do not retry by themselves. To a function of
`resilient` they give their reader: each attempt is read, so that one without an answer has failed and is repeated.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from traceback import format_tb
from types import UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, overload

from msgspec.structs import replace

from holdfast.calls.call_result import CallResult
from holdfast.calls.call_wording import SENDING, PreviewCallback, StatusCallback, status_text
from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.foreign_fields import redact_exception
from holdfast.calls.http_responses import aload_http_body
from holdfast.calls.opened_streams import run_now
from holdfast.calls.response_handler import ResponseHandler
from holdfast.calls.response_reader import DEFAULT_READER, ResponseReader
from holdfast.core.argument_checks import check_not_async, check_value
from holdfast.core.errors import ConfigurationError, UnexpectedTypeError
from holdfast.core.json_schema import JsonSchema
from holdfast.output.structured_output import StructuredOutput, Validator

if TYPE_CHECKING:
    from holdfast.calls.guarded_functions import GuardedCall
    from holdfast.calls.typed_answers import AnswerPreview
    from holdfast.resilience.pipeline import Outcome

logger = logging.getLogger(__name__)

T = TypeVar("T")

AnswerKind: TypeAlias = type[T] | Sequence[type[T]] | StructuredOutput[T]
"""The values of `output=` for an answer of the type `T`."""


@overload
def send_message(
    call: Callable[..., object], *args: object, reader: ResponseReader | None = None
) -> CallResult: ...
@overload
def send_message(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: AnswerKind[T],
    validators: Sequence[Validator] = (),
) -> CallResult[T]: ...
@overload
def send_message(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: JsonSchema | UnionType,
    validators: Sequence[Validator] = (),
) -> CallResult[Any]: ...
def send_message(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: object = None,
    validators: Sequence[Validator] = (),
) -> CallResult[Any]:
    """Make a call that returns a whole response, and return its result.

    A result that `call` made by a function of this module is returned unchanged.

    With a type, the schema goes to the model as the call takes it: by the keywords of an SDK's method, otherwise in
    the text of the question. A wrong answer goes back with its problems, until one is right or the limits of
    `StructuredOutput` are reached.

    Args:
        call: makes the call, for example `chat.send_message`. If `resilient` made this function, an attempt
            without an answer is a failed attempt.
        args: the arguments of `call`; use `functools.partial` for keyword arguments.
        reader: how the response is read; by default as `resilient` was told to read it.
        output: the type of the answer, a list of types, a `JsonSchema`, or a `StructuredOutput`.
        validators: functions that take the answer, and may raise `OutputRejected`.

    Raises:
        ConfigurationError: the type has no schema, or the call cannot ask for it; nothing was sent.

    >>> answer = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    >>> str(send_message(lambda: answer))
    'Hi'
    >>> number = {"choices": [{"message": {"content": "42"}, "finish_reason": "stop"}]}
    >>> send_message(lambda question: number, "What is six times seven?", output=int).output
    42
    >>> print(send_message(lambda: None))
    Received an unexpected response format from the AI.
    Expected: response object
    Got: None
    <BLANKLINE>
    This may be a temporary API issue. Please try again.
    """
    wanted = _read_wanted(output, validators)
    return run_now(_send(_Exchange(call, args, reader), wanted, blocking=True))


@overload
async def asend_message(
    call: Callable[..., object], *args: object, reader: ResponseReader | None = None
) -> CallResult: ...
@overload
async def asend_message(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: AnswerKind[T],
    validators: Sequence[Validator] = (),
) -> CallResult[T]: ...
@overload
async def asend_message(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: JsonSchema | UnionType,
    validators: Sequence[Validator] = (),
) -> CallResult[Any]: ...
async def asend_message(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: object = None,
    validators: Sequence[Validator] = (),
) -> CallResult[Any]:
    """Like `send_message`, for a call of an asynchronous client."""
    wanted = _read_wanted(output, validators)
    return await _send(_Exchange(call, args, reader), wanted, blocking=False)


@overload
def send_message_streaming(
    call: Callable[..., object],
    *args: object,
    status_callback: StatusCallback | None = None,
    reader: ResponseReader | None = None,
) -> CallResult: ...
@overload
def send_message_streaming(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: AnswerKind[T],
    validators: Sequence[Validator] = (),
    status_callback: StatusCallback | None = None,
    preview_callback: PreviewCallback | None = None,
) -> CallResult[T]: ...
@overload
def send_message_streaming(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: JsonSchema | UnionType,
    validators: Sequence[Validator] = (),
    status_callback: StatusCallback | None = None,
    preview_callback: PreviewCallback | None = None,
) -> CallResult[Any]: ...
def send_message_streaming(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: object = None,
    validators: Sequence[Validator] = (),
    status_callback: StatusCallback | None = None,
    preview_callback: PreviewCallback | None = None,
) -> CallResult[Any]:
    """Make a call that returns a stream, read it to its end, and return the result.

    Args:
        call: as in `send_message`, for example `chat.send_message_stream`.
        args: as in `send_message`.
        reader: as in `send_message`.
        output: as in `send_message`.
        validators: as in `send_message`.
        status_callback: called with each status line.
        preview_callback: called with the typed answer while it grows: an unchecked dictionary or list, always the
            same object. None means that the last one is invalid, because the answer was wrong.

    >>> def chunks():
    ...     yield {"choices": [{"delta": {"content": "Hi"}}]}
    ...     yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    >>> result = send_message_streaming(chunks)
    >>> result.ok, result.text, result.finish_reason.value
    (True, 'Hi', 'stop')
    """
    wanted = _read_wanted(output, validators, preview_callback)
    exchange = _Exchange(call, args, reader, status_callback, is_streamed=True)
    return run_now(_send(exchange, wanted, blocking=True))


@overload
async def asend_message_streaming(
    call: Callable[..., object],
    *args: object,
    status_callback: StatusCallback | None = None,
    reader: ResponseReader | None = None,
) -> CallResult: ...
@overload
async def asend_message_streaming(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: AnswerKind[T],
    validators: Sequence[Validator] = (),
    status_callback: StatusCallback | None = None,
    preview_callback: PreviewCallback | None = None,
) -> CallResult[T]: ...
@overload
async def asend_message_streaming(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: JsonSchema | UnionType,
    validators: Sequence[Validator] = (),
    status_callback: StatusCallback | None = None,
    preview_callback: PreviewCallback | None = None,
) -> CallResult[Any]: ...
async def asend_message_streaming(
    call: Callable[..., object],
    *args: object,
    reader: ResponseReader | None = None,
    output: object = None,
    validators: Sequence[Validator] = (),
    status_callback: StatusCallback | None = None,
    preview_callback: PreviewCallback | None = None,
) -> CallResult[Any]:
    """Like `send_message_streaming`, for a call of an asynchronous client."""
    wanted = _read_wanted(output, validators, preview_callback)
    exchange = _Exchange(call, args, reader, status_callback, is_streamed=True)
    return await _send(exchange, wanted, blocking=False)


class _WantedAnswer(NamedTuple):
    """The type of an answer, and what is done with it."""

    output: object
    validators: Sequence[Validator]
    preview_callback: PreviewCallback | None


def _read_wanted(
    output: object,
    validators: Sequence[Validator],
    preview_callback: PreviewCallback | None = None,
) -> _WantedAnswer | None:
    """Return what is wanted of an answer, or None; refuse arguments that are wrong, or mean nothing without a type."""
    check_value("validators", validators, Sequence[Validator])
    check_value("preview_callback", preview_callback, Callable | None)
    check_not_async("preview_callback", preview_callback)
    if output is not None:
        return _WantedAnswer(output, validators, preview_callback)
    for name, given in (("validators", validators), ("preview_callback", preview_callback)):
        if given:
            raise ConfigurationError(name, "means nothing without output=")
    return None


async def _send(
    exchange: _Exchange, wanted: _WantedAnswer | None, *, blocking: bool
) -> CallResult[Any]:
    """Make a call, or several until the answer has its type; with `blocking` this never waits in an event loop."""
    if wanted is None:
        return await exchange.make(blocking=blocking)
    from holdfast.calls.typed_answers import ask_typed, compile_question  # only for typed answers

    question = compile_question(
        exchange.call, exchange.args, wanted.output, wanted.validators, exchange.reader
    )

    def send(call: Callable[[], object], preview: AnswerPreview) -> Awaitable[CallResult]:
        return exchange.with_call(call, preview).make(blocking=blocking)

    return await ask_typed(question, send, wanted.preview_callback, blocking=blocking)


class _Exchange:
    """One call and its result. It reads what comes back: in each attempt, if a guard makes several."""

    def __init__(
        self,
        call: Callable[..., object],
        args: tuple[object, ...],
        reader: ResponseReader | None,
        status_callback: StatusCallback | None = None,
        *,
        is_streamed: bool = False,
    ) -> None:
        check_value("call", call, Callable)
        check_value("reader", reader, ResponseReader | None)
        self.is_streamed = is_streamed
        self.call = call
        self.args = args
        self.reader = reader
        self._guarded = _find_guarded_call(call, args)
        guards = DEFAULT_READER if self._guarded is None else self._guarded.guard.reader
        self._reader = guards if reader is None else reader
        self._callback = status_callback
        self._preview: AnswerPreview | None = None
        self._results: list[tuple[object, CallResult]] = []

    def with_call(self, call: Callable[[], object], preview: AnswerPreview) -> _Exchange:
        """Return the exchange for another call, whose reply goes through a preview."""
        other = _Exchange(call, (), self.reader, self._callback, is_streamed=self.is_streamed)
        other._preview = preview
        return other

    async def make(self, *, blocking: bool) -> CallResult:
        """Make the call and return its result; with `blocking` this never waits in an event loop."""
        if self.is_streamed:
            self._make_handler().status.show_status(SENDING)
        guarded = self._guarded
        with ErrorCatcher() as caught:
            if guarded is None or (blocking and not guarded.is_blocking):
                value = self.call(*self.args)
                result = await self._read(value, blocking=blocking)
            elif blocking:
                result = await self._result_of(guarded.run_blocking(self), blocking=True)
            else:
                result = await self._result_of(await guarded.run(self), blocking=False)
            return self._report(result)
        return self._report(self._make_handler().result(caught.required_error))

    def read(self, value: object) -> object:
        """Read a value of an attempt, in its thread."""
        return self._keep(value, run_now(self._read(value, blocking=True)))

    async def aread(self, value: object) -> object:
        """Like `read`, in the event loop."""
        return self._keep(value, await self._read(value, blocking=False))

    def _keep(self, value: object, result: CallResult) -> object:
        self._results.append((value, result))
        if result.error is not None:
            raise result.error
        return result if self.is_streamed else value

    async def _read(self, value: object, *, blocking: bool) -> CallResult:
        handler = self._make_handler()
        if self._preview is not None:
            self._preview.begin()
            handler.pass_deltas(self._preview.read_deltas)
        with ErrorCatcher() as caught:
            if isawaitable(value):
                value = self._refuse_awaitable(value) if blocking else await value
            if isinstance(value, CallResult):
                return value
            if self.is_streamed:
                handler.handle(value) if blocking else await handler.ahandle(value)
            else:
                if not blocking:
                    await aload_http_body(value)
                handler.process_response(value)
        return handler.result(caught.error)

    async def _result_of(self, outcome: Outcome[object], *, blocking: bool) -> CallResult:
        """Return the result of the attempt that decided, with what the strategies know about it."""
        from holdfast.resilience.pipeline import Failed  # it is there if there is a guard

        if isinstance(outcome, Failed):
            error = outcome.error
            if not isinstance(error, Exception):
                raise error
            read = [result for _, result in self._results if result.error is error]
            result = read[-1] if read else self._make_handler().result(error)
            return replace(result, info=outcome.info, attempts=outcome.attempts)
        value = outcome.value
        if not isinstance(value, CallResult):
            read = [result for seen, result in self._results if seen is value]
            # A cache or a call that several share gives what this exchange has not read.
            value = read[-1] if read else await self._read(value, blocking=blocking)
        return replace(value, attempts=outcome.attempts)

    def _report(self, result: CallResult) -> CallResult:
        error = result.error
        if error is not None:
            # The text of a formatted traceback would hold the secrets of the exception.
            frames = "".join(format_tb(error.__traceback__))
            name, text = type(error).__name__, redact_exception(error)
            logger.error("A call failed with %s: %s\n%s", name, text, frames)
            if self.is_streamed:
                self._make_handler().status.show_status(status_text(error))
        return result

    def _make_handler(self) -> ResponseHandler:
        return ResponseHandler(self._callback, reader=self._reader)

    def _refuse_awaitable(self, value: object) -> object:
        close = getattr(value, "close", None)
        if callable(close):
            close()
        expected, use = ("response object", "asend_message")
        if self.is_streamed:
            expected, use = ("stream of chunks", "asend_message_streaming")
        raise UnexpectedTypeError(expected, f"{type(value).__name__}: use {use}")


def _find_guarded_call(call: object, args: tuple[object, ...]) -> GuardedCall | None:
    """Return what a call of a guarded function does, or None; the module is not imported for who has no guard."""
    if "holdfast.calls.guard" not in sys.modules:
        return None
    from holdfast.calls.guarded_functions import find_guarded_call

    return find_guarded_call(call, args, {})
