"""Makes one call of a vendor's SDK and returns its result.

Exceptions of the call, the stream and its objects are part of the result. Cancellations and
exceptions that do not derive from `Exception` are raised. These functions do not retry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from inspect import isawaitable
from traceback import format_tb

from holdfast.calls.call_result import CallResult
from holdfast.calls.call_wording import status_text
from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.foreign_fields import redact_exception
from holdfast.calls.http_responses import aload_http_body
from holdfast.calls.response_handler import ResponseHandler
from holdfast.calls.status_line import SENDING, StatusCallback
from holdfast.core.argument_checks import check_value
from holdfast.core.errors import UnexpectedTypeError

logger = logging.getLogger(__name__)


def send_message(call: Callable[..., object], *args: object) -> CallResult:
    """Make a call that returns a whole response, and return its result.

    Args:
        call: makes the call, for example `chat.send_message`.
        args: the arguments of `call`; use `functools.partial` for keyword arguments.

    A result that `call` made by a function of this module is returned unchanged.

    >>> answer = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    >>> str(send_message(lambda: answer))
    'Hi'
    >>> print(send_message(lambda: None))
    Received an unexpected response format from the AI.
    Expected: response object
    Got: None
    <BLANKLINE>
    This may be a temporary API issue. Please try again.
    """
    check_value("call", call, Callable)
    handler = ResponseHandler()
    with ErrorCatcher() as caught:
        response = call(*args)
        if isinstance(response, CallResult):
            return response
        if isawaitable(response):
            _refuse_awaitable(response)
        handler.process_response(response)
    return _make_result(handler, caught.error)


async def asend_message(call: Callable[..., object], *args: object) -> CallResult:
    """Like `send_message`, for a call of an asynchronous client."""
    check_value("call", call, Callable)
    handler = ResponseHandler()
    with ErrorCatcher() as caught:
        response = call(*args)
        if isawaitable(response):
            response = await response
        if isinstance(response, CallResult):
            return response
        await aload_http_body(response)
        handler.process_response(response)
    return _make_result(handler, caught.error)


def send_message_streaming(
    call: Callable[..., object], *args: object, status_callback: StatusCallback | None = None
) -> CallResult:
    """Make a call that returns a stream, read it to its end, and return the result.

    Args:
        call: makes the call, for example `chat.send_message_stream`.
        args: the arguments of `call`; use `functools.partial` for keyword arguments.
        status_callback: called with each status line.

    >>> def chunks():
    ...     yield {"choices": [{"delta": {"content": "Hi"}}]}
    ...     yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    >>> result = send_message_streaming(chunks)
    >>> result.ok, result.text, result.finish_reason.value
    (True, 'Hi', 'stop')
    """
    check_value("call", call, Callable)
    handler = ResponseHandler(status_callback)
    with ErrorCatcher() as caught:
        handler.status.show_status(SENDING)
        handler.handle(call(*args))
    return _show_result(handler, caught.error)


async def asend_message_streaming(
    call: Callable[..., object], *args: object, status_callback: StatusCallback | None = None
) -> CallResult:
    """Like `send_message_streaming`, for a call of an asynchronous client."""
    check_value("call", call, Callable)
    handler = ResponseHandler(status_callback)
    with ErrorCatcher() as caught:
        handler.status.show_status(SENDING)
        await handler.ahandle(call(*args))
    return _show_result(handler, caught.error)


def _make_result(handler: ResponseHandler, error: Exception | None) -> CallResult:
    """Return the result, and log the exception that becomes a part of it."""
    if error is not None:
        # The text of a formatted traceback would hold the secrets of the exception.
        frames = "".join(format_tb(error.__traceback__))
        logger.error(
            "A call raised %s: %s\n%s", type(error).__name__, redact_exception(error), frames
        )
    return handler.result(error)


def _show_result(handler: ResponseHandler, error: Exception | None) -> CallResult:
    result = _make_result(handler, error)
    if result.error is not None:
        handler.status.show_status(status_text(result.error))
    return result


def _refuse_awaitable(response: object) -> None:
    close = getattr(response, "close", None)
    if callable(close):
        close()
    raise UnexpectedTypeError("response object", f"{type(response).__name__}: use asend_message")
