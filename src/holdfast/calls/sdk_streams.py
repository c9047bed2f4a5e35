"""Opens and closes the stream objects of the SDKs: iterators, and managers that give one.

A stream that is left before its end is closed, so that its connection goes back. This module must
never read from a stream.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from inspect import isawaitable

from holdfast.calls.caught_error import ErrorCatcher
from holdfast.core.errors import EmptyResponseError, UnexpectedTypeError

_WANTED = "stream of chunks"
_WANTED_ASYNC = "async stream of chunks"


@contextmanager
def open_stream(stream: object) -> Iterator[Iterable[object]]:
    """The chunks of a stream; the stream is closed at the end of the block.

    Raises:
        EmptyResponseError: there is no stream.
        UnexpectedTypeError: it is none, or an asynchronous one.
    """
    _require_stream(stream)
    if _is_one_response(stream):
        yield (stream,)
        return
    with ExitStack() as stack:
        if isinstance(stream, AbstractContextManager) and not isinstance(stream, Iterable):
            stream = stack.enter_context(stream)
        if not isinstance(stream, Iterable) or isinstance(stream, str | bytes):
            _drop_coroutine(stream)
            raise UnexpectedTypeError(_WANTED, type(stream).__name__)
        stack.callback(_close_stream, stream)
        yield stream


@asynccontextmanager
async def aopen_stream(stream: object) -> AsyncIterator[AsyncIterable[object]]:
    """As `open_stream`, for what an asynchronous client gives; awaited first when it must be."""
    if isawaitable(stream):
        stream = await stream
    _require_stream(stream)
    if _is_one_response(stream):
        yield _yield_response(stream)
        return
    async with AsyncExitStack() as stack:
        if isinstance(stream, AbstractAsyncContextManager) and not isinstance(
            stream, AsyncIterable
        ):
            stream = await stack.enter_async_context(stream)
        if not isinstance(stream, AsyncIterable):
            # To iterate a blocking stream here would stop every other task.
            raise UnexpectedTypeError(_WANTED_ASYNC, type(stream).__name__)
        stack.push_async_callback(_aclose_stream, stream)
        yield stream


def _require_stream(stream: object) -> None:
    if stream is None:
        raise EmptyResponseError("no response stream received")


def _is_one_response(stream: object) -> bool:
    """Whether this is a whole response: the models of the SDKs can be iterated too, by field."""
    return isinstance(stream, Mapping) or hasattr(type(stream), "model_dump")


async def _yield_response(response: object) -> AsyncIterator[object]:
    yield response


def _drop_coroutine(stream: object) -> None:
    """A coroutine that nobody awaits is closed, so that it does not warn."""
    if isawaitable(stream):
        _close_stream(stream)


def _close_stream(stream: object) -> None:
    close = getattr(stream, "close", None)
    if callable(close):
        # The answer is whole, or the error that counts is on its way.
        with ErrorCatcher():
            close()


async def _aclose_stream(stream: object) -> None:
    close = getattr(stream, "aclose", None) or getattr(stream, "close", None)
    if callable(close):
        with ErrorCatcher():
            closing = close()
            if isawaitable(closing):
                await closing
