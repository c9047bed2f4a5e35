"""Opens and closes the stream objects of the SDKs: iterators, and context managers that return one.

A stream is always closed, so that its connection is released. This module never looks into a chunk.
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
from holdfast.calls.http_responses import (
    aiterate_http_response,
    find_http_response,
    iterate_http_response,
)
from holdfast.core.errors import EmptyResponseError, UnexpectedTypeError

_STREAM = "stream of chunks"
_ASYNC_STREAM = "async stream of chunks"


@contextmanager
def open_stream(stream: object) -> Iterator[Iterable[object]]:
    """Open a stream for iteration; it is closed at the end of the block.

    Raises:
        EmptyResponseError: the stream is None.
        UnexpectedTypeError: it is not a stream, or it is an asynchronous one.
    """
    _require_stream(stream)
    if _is_one_response(stream):
        yield (stream,)
        return
    with ExitStack() as stack:
        response = find_http_response(stream)
        if isinstance(stream, AbstractContextManager) and (
            response is None and not isinstance(stream, Iterable)
        ):
            stream = stack.enter_context(stream)
            response = find_http_response(stream)
        if response is not None:
            stack.callback(_close_stream, response)
            yield iterate_http_response(response)
            return
        if not isinstance(stream, Iterable) or isinstance(stream, str | bytes):
            _drop_coroutine(stream)
            raise UnexpectedTypeError(_STREAM, type(stream).__name__)
        stack.callback(_close_stream, stream)
        yield _flatten(stream)


@asynccontextmanager
async def aopen_stream(stream: object) -> AsyncIterator[AsyncIterable[object]]:
    """Like `open_stream`, for the stream of an asynchronous client, which may be awaitable.

    Raises:
        EmptyResponseError: there is no stream.
        UnexpectedTypeError: it is not a stream of an asynchronous client.
    """
    if isawaitable(stream):
        stream = await stream
    _require_stream(stream)
    if _is_one_response(stream):
        yield _yield_response(stream)
        return
    async with AsyncExitStack() as stack:
        response = find_http_response(stream)
        if isinstance(stream, AbstractAsyncContextManager) and (
            response is None and not isinstance(stream, AsyncIterable)
        ):
            stream = await stack.enter_async_context(stream)
            response = find_http_response(stream)
        if response is not None:
            stack.push_async_callback(_aclose_stream, response)
            yield aiterate_http_response(response)
            return
        if not isinstance(stream, AsyncIterable):
            # Iterating a blocking stream here would block the event loop.
            raise UnexpectedTypeError(_ASYNC_STREAM, type(stream).__name__)
        stack.push_async_callback(_aclose_stream, stream)
        yield _aflatten(stream)


def _require_stream(stream: object) -> None:
    if stream is None:
        raise EmptyResponseError("no response stream received")


def _is_one_response(stream: object) -> bool:
    """Whether this is a whole response. The SDKs' models are iterable too, by field."""
    return isinstance(stream, Mapping) or hasattr(type(stream), "model_dump")


def _drop_coroutine(stream: object) -> None:
    """Close a coroutine that is not awaited, so that Python does not warn."""
    if isawaitable(stream):
        _close_stream(stream)


def _flatten(stream: Iterable[object]) -> Iterator[object]:
    """Yield the chunks; a chunk may be the stream of one model turn, as a tool runner gives them."""
    for chunk in stream:
        if isinstance(chunk, Iterator):
            yield from chunk
        else:
            yield chunk


async def _aflatten(stream: AsyncIterable[object]) -> AsyncIterator[object]:
    async for chunk in stream:
        if isinstance(chunk, AsyncIterator):
            async for inner in chunk:
                yield inner
        else:
            yield chunk


async def _yield_response(response: object) -> AsyncIterator[object]:
    yield response


def _close_stream(stream: object) -> None:
    close = getattr(stream, "close", None)
    if callable(close):
        # An error of close() does not matter: the reply is complete, or another error is being raised.
        with ErrorCatcher():
            close()


async def _aclose_stream(stream: object) -> None:
    close = getattr(stream, "aclose", None) or getattr(stream, "close", None)
    if callable(close):
        with ErrorCatcher():
            closing = close()
            if isawaitable(closing):
                await closing
