"""A call of a vendor's SDK from beginning to end, as one result.

No exception of the call, of the stream or of its objects leaves these functions; a cancellation
does, and so does what is no `Exception`. This module must never call twice: retrying is not its work.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable

from holdfast.calls.call_result import CallResult
from holdfast.calls.call_wording import status_text
from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.response_handler import ResponseHandler
from holdfast.calls.status_line import SENDING, StatusCallback
from holdfast.core.argument_checks import check_callable
from holdfast.core.errors import UnexpectedTypeError


def send_message(call: Callable[..., object], *args: object) -> CallResult:
    """Make a call that returns a complete response, and return its outcome.

    Args:
        call: makes the call, for example `chat.send_message`.
        args: go to `call`; use `functools.partial` for named ones.

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
    check_callable("call", call)
    handler = ResponseHandler()
    with ErrorCatcher() as caught:
        response = call(*args)
        if isawaitable(response):
            _refuse_awaitable(response)
        handler.process_response(response)
    return handler.result(caught.error)


async def asend_message(call: Callable[..., object], *args: object) -> CallResult:
    """As `send_message`, for a call of an asynchronous client."""
    check_callable("call", call)
    handler = ResponseHandler()
    with ErrorCatcher() as caught:
        response = call(*args)
        handler.process_response(await response if isawaitable(response) else response)
    return handler.result(caught.error)


def send_message_streaming(
    call: Callable[..., object], *args: object, status_callback: StatusCallback | None = None
) -> CallResult:
    """Make a call that returns a stream, read it to its end, and return its outcome.

    Args:
        call: makes the call, for example `chat.send_message_stream`.
        args: go to `call`; use `functools.partial` for named ones.
        status_callback: gets a line of text for each thing that happens.

    >>> def chunks():
    ...     yield {"choices": [{"delta": {"content": "Hi"}}]}
    ...     yield {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    >>> result = send_message_streaming(chunks)
    >>> result.ok, result.text, result.finish_reason.value
    (True, 'Hi', 'stop')
    """
    check_callable("call", call)
    handler = ResponseHandler(status_callback)
    with ErrorCatcher() as caught:
        handler.status.show_status(SENDING)
        handler.handle(call(*args))
    return _show_result(handler, caught.error)


async def asend_message_streaming(
    call: Callable[..., object], *args: object, status_callback: StatusCallback | None = None
) -> CallResult:
    """As `send_message_streaming`, for a call of an asynchronous client."""
    check_callable("call", call)
    handler = ResponseHandler(status_callback)
    with ErrorCatcher() as caught:
        handler.status.show_status(SENDING)
        await handler.ahandle(call(*args))
    return _show_result(handler, caught.error)


def _show_result(handler: ResponseHandler, error: Exception | None) -> CallResult:
    result = handler.result(error)
    if result.error is not None:
        handler.status.show_status(status_text(result.error))
    return result


def _refuse_awaitable(response: object) -> None:
    close = getattr(response, "close", None)
    if callable(close):
        close()
    raise UnexpectedTypeError("response object", f"{type(response).__name__}: use asend_message")
