"""Opens and closes the streams of SDKs: for guarded calls, which read them up to their first piece, and for handlers.

A stream is an iterator, or a context manager that returns one. It is always closed, so that its connection is
released. Until the first piece came, nobody has seen anything of a stream, so the attempt can be repeated. From
then on the stream belongs to its reader: an error is raised there, with a note, and is not retried.
This module never looks into a piece, and never reads a stream further than its reader asks for. Responses of HTTP
clients are read by the codecs, which are imported with the first stream.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from functools import lru_cache
from inspect import isawaitable
from threading import Lock
from types import TracebackType
from typing import Generic, Self, TypeAlias, TypeGuard, TypeVar, cast

from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.response_reader import find_event_stream
from holdfast.core.errors import EmptyResponseError, UnexpectedTypeError

_STREAM = "stream of chunks"
_ASYNC_STREAM = "async stream of chunks"
_MANAGER = "StreamManager"
_LAZY_MANAGERS = frozenset(
    {
        "_GeneratorContextManager",
        "_AsyncGeneratorContextManager",
        "ResponseContextManager",
        "AsyncResponseContextManager",
    }
)
"""Managers of contextlib (`httpx.stream` makes one) and of the SDKs' `with_streaming_response`."""
_METHODS = ("__exit__", "__next__", "__aexit__", "__anext__")
_SDK_FIELDS = ("response", "completion_stream", "until_done")
"""An iterator with one of these is the stream or the tool runner of an SDK. A cursor of a database has none."""

SyncSource: TypeAlias = Iterator[object] | AbstractContextManager[Iterator[object]]
AsyncSource: TypeAlias = AsyncIterator[object] | AbstractAsyncContextManager[AsyncIterator[object]]
Raised: TypeAlias = tuple[type[BaseException] | None, BaseException | None, TracebackType | None]

S = TypeVar("S")
T = TypeVar("T")


def run_now(coroutine: Coroutine[object, object, T]) -> T:
    """Run a coroutine that never waits, without an event loop.

    >>> async def add(a, b):
    ...     return a + b
    >>> run_now(add(1, 2))
    3
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    coroutine.close()
    raise RuntimeError("a coroutine waited that must not")


class _Opened(Generic[S]):
    """A stream whose first piece has come; every other attribute is that of the SDK's stream."""

    def __init__(self, stream: S, first: object, manager: object = None) -> None:
        self._stream = stream
        self._first = [first]
        self._manager = manager
        self._is_stopped = False
        self.piece_count = 0

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def _add_note(self, error: Exception) -> None:
        if not isinstance(error, StopIteration | StopAsyncIteration):
            pieces = "a piece" if self.piece_count == 1 else f"{self.piece_count} pieces"
            error.add_note(f"Not retried: the stream had given {pieces} before.")


class OpenedStream(_Opened[Iterator[object]]):
    """The stream of a synchronous client, whose first piece has come.

    >>> stream = open_stream_start(iter(["Hel", "lo"]))
    >>> stream.piece_count, list(stream)
    (0, ['Hel', 'lo'])
    """

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> object:
        if self._is_stopped:
            raise StopIteration
        try:
            piece = self._first.pop() if self._first else next(self._stream)
        except Exception as error:
            self._add_note(error)
            raise
        self.piece_count += 1
        return piece

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: *Raised) -> None:  # noqa: PYI036  # REASON: managers want these types
        if isinstance(self._manager, AbstractContextManager):
            self._manager.__exit__(*error)
        else:
            self.close()

    def stop(self) -> None:
        """End the stream for the thread that reads it, which then closes it."""
        self._is_stopped = True

    def close(self) -> None:
        """Close the stream, so that its connection is released."""
        self._first.clear()
        _close(self._stream)


class OpenedAsyncStream(_Opened[AsyncIterator[object]]):
    """Like `OpenedStream`, for the stream of an asynchronous client."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        try:
            piece = self._first.pop() if self._first else await anext(self._stream)
        except Exception as error:
            self._add_note(error)
            raise
        self.piece_count += 1
        return piece

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: *Raised) -> None:  # noqa: PYI036  # REASON: managers want these types
        if isinstance(self._manager, AbstractAsyncContextManager):
            await self._manager.__aexit__(*error)
        else:
            await self.aclose()

    async def aclose(self) -> None:
        """Close the stream, so that its connection is released."""
        self._first.clear()
        await _aclose(self._stream)

    close = aclose


class CallInThread:
    """A call that returns a value or a stream, for a thread; a stream is read up to its first piece.

    Args:
        function: the call.
        stream: the stream that the call returns, if it is open already; it is closed if the call never begins.
        read: reads what the call returned, in the thread, and returns what is to be returned instead; a stream is
            read to its end. It does not get what can only be read in an event loop.

    Attributes:
        has_read: whether `read` was called.
    """

    def __init__(
        self,
        function: Callable[[], object],
        stream: object = None,
        read: Callable[[object], object] | None = None,
    ) -> None:
        self._function = function
        self._read = read
        self._lock = Lock()
        self._is_abandoned = False
        self._stream = stream
        self._opened: OpenedStream | None = None
        self.has_read = False

    def __call__(self) -> object:
        """Make the call, in the thread."""
        with self._lock:
            self._stream = None
        value = self._function()
        if is_stream(value):
            value = self._open(value)
        if self._read is None or isawaitable(value) or is_async_stream(value):
            return value
        self.has_read = True
        try:
            return self._read(value)
        except BaseException:
            if self._opened is not None:
                self._opened.__exit__(None, None, None)
            raise

    def _open(self, source: SyncSource) -> OpenedStream:
        opened = open_stream_start(source)
        with self._lock:
            self._opened, is_abandoned = opened, self._is_abandoned
        if is_abandoned:
            opened.stop()
            opened.__exit__(None, None, None)
        return opened

    def abandon(self) -> None:
        """Close the stream, because nobody waits for it any more; the thread does it if it is not open yet."""
        with self._lock:
            self._is_abandoned, opened = True, self._opened
            stream, self._stream = self._stream, None
        if opened is not None and self._read is not None:
            opened.stop()  # the thread reads it
        elif opened is not None:
            opened.__exit__(None, None, None)
        with ErrorCatcher():
            _close(stream)


def _find_methods(kind: type) -> frozenset[str]:
    """Return which methods of a stream a class has. It is asked for each value of a guarded call, and most have none."""
    # A metaclass may make two classes equal.
    is_plain = type(kind).__hash__ is type.__hash__
    return _find_once(kind) if is_plain else _find_once.__wrapped__(kind)


@lru_cache(maxsize=1024)
def _find_once(kind: type) -> frozenset[str]:
    return frozenset(name for name in _METHODS if hasattr(kind, name))


def is_stream(value: object) -> TypeGuard[SyncSource]:
    """Whether this is a generator, or the stream of an SDK, or the manager that opens one.

    >>> is_stream(open_stream_start(iter("ab"))), is_stream([1]), is_stream(iter([1]))
    (True, False, False)
    """
    methods = _find_methods(type(value))
    if "__exit__" in methods and _is_manager(value):
        return True
    if "__next__" not in methods:
        return False
    return inspect.isgenerator(value) or isinstance(value, OpenedStream) or _has_sdk_field(value)


def is_async_stream(value: object) -> TypeGuard[AsyncSource]:
    """Like `is_stream`, for asynchronous streams."""
    methods = _find_methods(type(value))
    if "__aexit__" in methods and _is_manager(value):
        return True
    if "__anext__" not in methods:
        return False
    return (
        inspect.isasyncgen(value) or isinstance(value, OpenedAsyncStream) or _has_sdk_field(value)
    )


def is_lazy_manager(value: object) -> bool:
    """Whether this is a context manager that sends its request when it is entered, after the call."""
    return type(value).__name__ in _LAZY_MANAGERS


def _is_manager(value: object) -> bool:
    return type(value).__name__.endswith(_MANAGER)


def _has_sdk_field(value: object) -> bool:
    return any(hasattr(value, name) for name in _SDK_FIELDS)


def open_stream_start(source: SyncSource) -> OpenedStream:
    """Read the first piece of a stream, and return the stream with that piece.

    Raises:
        EmptyResponseError: the stream ended without a piece.
    """
    manager = None if isinstance(source, Iterator) else source
    stream = source if isinstance(source, Iterator) else source.__enter__()
    try:
        first = next(stream)
    except BaseException as error:
        with ErrorCatcher():
            _close(stream) if manager is None else manager.__exit__(None, None, None)
        if isinstance(error, StopIteration):
            raise _empty_error() from None
        raise
    return OpenedStream(stream, first, manager)


async def aopen_stream_start(source: AsyncSource) -> OpenedAsyncStream:
    """Like `open_stream_start`, for an asynchronous stream."""
    manager = None if isinstance(source, AsyncIterator) else source
    stream = source if isinstance(source, AsyncIterator) else await source.__aenter__()
    try:
        first = await anext(stream)
    except BaseException as error:
        with ErrorCatcher():
            await (_aclose(stream) if manager is None else manager.__aexit__(None, None, None))
        if isinstance(error, StopAsyncIteration):
            raise _empty_error() from None
        raise
    return OpenedAsyncStream(stream, first, manager)


async def close_opened(value: object) -> bool:
    """Close a stream that nobody will read; return whether the value is one."""
    with ErrorCatcher():
        if isinstance(value, OpenedAsyncStream):
            await value.__aexit__(None, None, None)
        elif isinstance(value, OpenedStream):
            value.__exit__(None, None, None)
    return isinstance(value, OpenedStream | OpenedAsyncStream)


def _empty_error() -> EmptyResponseError:
    return EmptyResponseError("the stream ended before its first piece")


def _close(stream: object) -> None:
    close = getattr(stream, "close", None)
    if callable(close):
        close()


async def _aclose(stream: object) -> None:
    close = getattr(stream, "aclose", None) or getattr(stream, "close", None)
    closing = close() if callable(close) else None
    if isawaitable(closing):
        await closing


@asynccontextmanager
async def open_stream(stream: object, *, blocking: bool) -> AsyncIterator[AsyncIterator[object]]:
    """Open a stream for iteration; it is closed at the end of the block.

    Args:
        stream: the stream, the manager that opens it, or the response of an HTTP client. It may be awaitable, unless
            it blocks.
        blocking: whether it is of a synchronous client; then nothing here waits in an event loop.

    Raises:
        EmptyResponseError: there is no stream.
        UnexpectedTypeError: it is not a stream of such a client.
    """
    from holdfast.calls.http_responses import find_http_response, iterate_http_response

    if not blocking and isawaitable(stream):
        stream = await stream
    if stream is None:
        raise EmptyResponseError("no response stream received")
    stream = find_event_stream(stream)
    if _is_one_response(stream):
        yield _flatten([stream], blocking=True)
        return
    async with AsyncExitStack() as stack:
        response = find_http_response(stream)
        if response is None and not _is_iterable(stream, blocking=blocking):
            stream = await _enter_manager(stack, stream, blocking=blocking)
            response = find_http_response(stream)
        if response is not None:
            stack.push_async_callback(_close_stream, response, blocking=blocking)
            yield iterate_http_response(response, blocking=blocking)
            return
        if not _is_iterable(stream, blocking=blocking):
            # Iterating a blocking stream in an event loop would block the loop.
            if isawaitable(stream):
                await _close_stream(stream, blocking=True)  # so that Python does not warn
            raise UnexpectedTypeError(_STREAM if blocking else _ASYNC_STREAM, type(stream).__name__)
        stack.push_async_callback(_close_stream, stream, blocking=blocking)
        yield _flatten(stream, blocking=blocking)


def _is_iterable(stream: object, *, blocking: bool) -> bool:
    if not blocking:
        return isinstance(stream, AsyncIterable)
    return isinstance(stream, Iterable) and not isinstance(stream, str | bytes)


async def _enter_manager(stack: AsyncExitStack, source: object, *, blocking: bool) -> object:
    if blocking and isinstance(source, AbstractContextManager):
        return stack.enter_context(source)
    if not blocking and isinstance(source, AbstractAsyncContextManager):
        return await stack.enter_async_context(source)
    return source


def _is_one_response(stream: object) -> bool:
    """Whether this is a whole response. The SDKs' models are iterable too, by field."""
    return isinstance(stream, Mapping) or hasattr(type(stream), "model_dump")


async def _flatten(stream: object, *, blocking: bool) -> AsyncIterator[object]:
    """Yield the chunks; a chunk may be the stream of one model turn, as a tool runner gives them."""
    if blocking and isinstance(stream, Iterable):
        for chunk in stream:
            for inner in chunk if isinstance(chunk, Iterator) else (chunk,):
                yield inner
    elif isinstance(stream, AsyncIterable):
        async for chunk in stream:
            if isinstance(chunk, AsyncIterator):
                async for inner in chunk:
                    yield inner
            else:
                yield chunk


async def _close_stream(stream: object, *, blocking: bool) -> None:
    # An error of close() does not matter: the reply is complete, or another error is being raised.
    with ErrorCatcher():
        _close(stream) if blocking else await _aclose(stream)
