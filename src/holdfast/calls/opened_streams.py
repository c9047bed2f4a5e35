"""Streams that a guarded call returns, read up to their first piece.

Until the first piece came, nobody has seen anything of a stream, so the attempt can be repeated. From
then on the stream belongs to its reader: an error is raised there, with a note, and is not retried.
This module never reads a stream further than its reader asks for.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from threading import Lock
from types import TracebackType
from typing import Self, TypeAlias, TypeGuard

from holdfast.calls.caught_error import ErrorCatcher
from holdfast.core.errors import EmptyResponseError

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
_SDK_FIELDS = ("response", "completion_stream", "until_done")
"""An iterator with one of these is the stream or the tool runner of an SDK. A cursor of a database has none."""

SyncSource: TypeAlias = Iterator[object] | AbstractContextManager[Iterator[object]]
AsyncSource: TypeAlias = AsyncIterator[object] | AbstractAsyncContextManager[AsyncIterator[object]]


class OpenedStream:
    """A stream whose first piece has come; every other attribute is that of the SDK's stream.

    >>> stream = open_stream_start(iter(["Hel", "lo"]))
    >>> stream.piece_count, list(stream)
    (0, ['Hel', 'lo'])
    """

    def __init__(self, stream: Iterator[object], first: object, manager: object = None) -> None:
        self._stream = stream
        self._first = [first]
        self._manager = manager
        self.piece_count = 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> object:
        if self._first:
            piece = self._first.pop()
        else:
            try:
                piece = next(self._stream)
            except StopIteration:
                raise
            except Exception as error:
                _add_note(error, self.piece_count)
                raise
        self.piece_count += 1
        return piece

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(self._manager, AbstractContextManager):
            self._manager.__exit__(kind, error, trace)
        else:
            self.close()

    def close(self) -> None:
        """Close the stream, so that its connection is released."""
        self._first.clear()
        _close(self._stream)


class OpenedAsyncStream:
    """Like `OpenedStream`, for the stream of an asynchronous client."""

    def __init__(
        self, stream: AsyncIterator[object], first: object, manager: object = None
    ) -> None:
        self._stream = stream
        self._first = [first]
        self._manager = manager
        self.piece_count = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        if self._first:
            piece = self._first.pop()
        else:
            try:
                piece = await anext(self._stream)
            except StopAsyncIteration:
                raise
            except Exception as error:
                _add_note(error, self.piece_count)
                raise
        self.piece_count += 1
        return piece

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(self._manager, AbstractAsyncContextManager):
            await self._manager.__aexit__(kind, error, trace)
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
    """

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._lock = Lock()
        self._is_abandoned = False
        self._opened: OpenedStream | None = None

    def __call__(self) -> object:
        """Make the call, in the thread."""
        value = self._function()
        if not is_stream(value):
            return value
        opened = open_stream_start(value)
        with self._lock:
            self._opened, is_abandoned = opened, self._is_abandoned
        if is_abandoned:
            opened.__exit__(None, None, None)
        return opened

    def abandon(self) -> None:
        """Close the stream, because nobody waits for it any more; the thread does it if it is not open yet."""
        with self._lock:
            self._is_abandoned, opened = True, self._opened
        if opened is not None:
            opened.__exit__(None, None, None)


def is_stream(value: object) -> TypeGuard[SyncSource]:
    """Whether this is a generator, or the stream of an SDK, or the manager that opens one.

    >>> is_stream(open_stream_start(iter("ab"))), is_stream([1]), is_stream(iter([1]))
    (True, False, False)
    """
    if inspect.isgenerator(value) or isinstance(value, OpenedStream):
        return True
    if isinstance(value, AbstractContextManager) and _is_manager(value):
        return True
    return isinstance(value, Iterator) and _has_sdk_field(value)


def is_async_stream(value: object) -> TypeGuard[AsyncSource]:
    """Like `is_stream`, for asynchronous streams."""
    if inspect.isasyncgen(value) or isinstance(value, OpenedAsyncStream):
        return True
    if isinstance(value, AbstractAsyncContextManager) and _is_manager(value):
        return True
    return isinstance(value, AsyncIterator) and _has_sdk_field(value)


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


def _add_note(error: Exception, count: int) -> None:
    pieces = "a piece" if count == 1 else f"{count} pieces"
    error.add_note(f"Not retried: the stream had given {pieces} before.")


def _close(stream: object) -> None:
    close = getattr(stream, "close", None)
    if callable(close):
        close()


async def _aclose(stream: object) -> None:
    close = getattr(stream, "aclose", None) or getattr(stream, "close", None)
    closing = close() if callable(close) else None
    if inspect.isawaitable(closing):
        await closing
