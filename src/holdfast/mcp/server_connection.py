"""The connection to one MCP server on one event loop: a task that holds the session open, and opens it anew when it dies.

Calls run in tasks of their own with the context variables of their caller, and never in the task of the session: an
exception that ends the session would cancel them without a word. A call waits for its answer or for the end of the
session, whichever comes first, so it never hangs on a dead one. One new session is opened for all that wait, after a wait
that grows. This module must never repeat a call, and must never raise out of its task.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from holdfast.core.errors import ConfigurationError, ErrorCategory, Landed, ToolFailedError
from holdfast.core.redaction import redact
from holdfast.mcp.call_failures import (
    CONNECTION_CLOSED,
    McpExchange,
    current_exchange,
    explain_failure,
    make_not_sent,
    read_error_code,
)
from holdfast.mcp.elicitation import Continuation
from holdfast.mcp.mcp_options import McpOptions
from holdfast.resilience.breaker.decision import Health, RejectedCall, Ticket
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.breaker.strategy import BreakerOpenError, CircuitBreaker
from holdfast.resilience.clock import Clock, Rng
from holdfast.resilience.retry.backoff import exponential_delay
from holdfast.resilience.system_clock import SystemClock, system_rng

if TYPE_CHECKING:
    from holdfast.mcp.sdk_client import ListedTools, McpSession

T = TypeVar("T")


class OnProgress(Protocol):
    """Is called with each report of progress."""

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Take one report."""


_SDK_CLIENT: Final = "holdfast.mcp.sdk_client"
_FIRST_WAIT: Final = 0.2
_LONGEST_WAIT: Final = 30.0
_SHORT_PATIENCE: Final = 2.0
"""Seconds for which a list of tools waits for a server that could not be reached before."""
_LONGEST_LEAVE: Final = 15.0
"""Seconds for leaving a session, of which the process of a server has some to end."""
_LAST_WORD: Final = 1.0
"""Seconds for an answer that was received just before the session ended."""
_MOST_SILENT: Final = 2
"""Calls in a row without an answer after which a session is taken for dead."""
_SILENCE: Final = 0.9
"""The share of the limit of a call from which on its cancellation counts as silence of the server."""
_BREAKER: Final = BreakerOptions(mode="consecutive", failures=8, open_seconds=5.0)

_log = logging.getLogger("holdfast.mcp")


class _Session:
    """An open session of the SDK, until somebody finds that it has ended."""

    def __init__(self, opened: McpSession) -> None:
        self.opened = opened
        self.ended = asyncio.Event()
        self.silent_calls = 0


class ServerConnection:
    """The connection to a server, for any number of turns of one agent.

    Args:
        server: the name of the server.
        options: its address, timeouts and limits.
        clock: for the waits between attempts to connect.
        rng: for their jitter.
    """

    def __init__(
        self,
        server: str,
        options: McpOptions,
        clock: Clock | None = None,
        rng: Rng = system_rng,
    ) -> None:
        self.server = server
        self.options = options
        self.made: dict[bytes, object] = {}
        """What was made of descriptions of tools, by their digest."""
        self.reported: object = None
        """The facts about the tools in the last notice."""
        self._clock = clock or SystemClock()
        self._rng = rng
        self._breaker = CircuitBreaker(f"mcp:{server}", _BREAKER)
        self._places = asyncio.Semaphore(options.limits.concurrent)
        self._wanted = asyncio.Event()
        self._has_sdk = asyncio.Event()
        """Set when the SDK is imported, which takes seconds of this process and is no delay of a server."""
        self._session: _Session | None = None
        self._waiting: set[asyncio.Future[_Session]] = set()
        self._failures = 0
        self._next_try = 0.0
        self._is_closing = False
        self._list: ListedTools | None = None
        self._listed_at = 0.0
        self._is_list_stale = False
        self._listing: asyncio.Task[ListedTools | None] | None = None
        self._is_known = False
        """Whether it was reached, and has not been away for long."""
        self.problem = "it is not connected yet"
        """Why there is no session."""

    @asynccontextmanager
    async def run(self) -> AsyncIterator[ServerConnection]:
        """Begin to connect, and yield at once; the session is left at the end."""
        task = asyncio.create_task(self._supervise(), name=f"mcp-{self.server}")
        self._wanted.set()
        try:
            yield self
        finally:
            self._is_closing = True
            self._end_session(self._session, "it was closed")
            self._wanted.set()
            if self._listing is not None:
                self._listing.cancel()
            if self._session is None:
                task.cancel()  # it connects or waits
            await asyncio.wait([task])
            self._fail_waiting("it was closed")

    async def _supervise(self) -> None:
        try:
            # In a thread, because the SDK takes seconds to import.
            await asyncio.to_thread(import_module, _SDK_CLIENT)
        except Exception as error:  # noqa: BLE001  # REASON: the next attempt to connect meets it again
            _log.warning("the SDK of MCP cannot be imported: %s", redact(f"{error}"))
        finally:
            self._has_sdk.set()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._is_closing:
                return
            if self._failures:
                await self._clock.sleep(max(0.0, self._next_try - self._clock.monotonic()))
            try:
                await self._hold_session()
            except asyncio.CancelledError as error:
                if self._is_closing:
                    raise
                self._record_failure(error)  # a library below has cancelled this task
            except Exception as error:  # noqa: BLE001  # REASON: a server may break anything of its client
                self._record_failure(error)

    async def _hold_session(self) -> None:
        """Open a session, and hold it until it ends."""
        sdk: Any = import_module(_SDK_CLIENT)
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(self.options.timeouts.start):
                opened: McpSession = await stack.enter_async_context(
                    sdk.open_session(self.server, self.options, self._record_change)
                )
            session = self._session = _Session(opened)
            self._failures = 0
            self._is_known = True
            self._is_list_stale = True
            for one in self._waiting:
                if not one.done():
                    one.set_result(session)
            self._waiting.clear()
            try:
                await self._wait_for_end(session)
            finally:
                self._end_session(session, opened.problem or "the session ended")
            if not self._is_closing:
                text = "the session with MCP server %s has ended: %s"
                _log.warning(text, self.server, self.problem)
            with suppress(TimeoutError):
                async with asyncio.timeout(
                    _LONGEST_LEAVE
                ):  # a silent server must not delay its successor
                    await stack.aclose()

    async def _wait_for_end(self, session: _Session) -> None:
        events = [session.ended]
        if session.opened.ended is not None:
            events.append(session.opened.ended)
        tasks = [asyncio.create_task(one.wait()) for one in events]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in tasks:
                one.cancel()

    def _record_failure(self, error: BaseException) -> None:
        wait = exponential_delay(
            min(self._failures, 16),
            base=_FIRST_WAIT,
            multiplier=2.0,
            cap=_LONGEST_WAIT,
            rng=self._rng,
        )
        self._failures += 1
        self._next_try = self._clock.monotonic() + wait
        limit = self.options.timeouts.start
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, TimeoutError):
            reason = f"it did not answer within {limit:g} s"
        elif isinstance(error, ConfigurationError):
            reason = str(error)
        elif isinstance(error, BaseExceptionGroup):
            reason = "; ".join(f"{type(one).__name__}: {one}" for one in _list_leaves(error)[:3])
        self._end_session(self._session, redact(reason))
        self.problem = redact(reason)
        _log.warning("MCP server %s cannot be reached: %s", self.server, self.problem)
        self._fail_waiting(self.problem, may_pass=not isinstance(error, ConfigurationError))

    def _fail_waiting(self, problem: str, *, may_pass: bool = False) -> None:
        for one in self._waiting:
            if not one.done():
                one.set_exception(_NoSessionError(problem, may_pass=may_pass))
                one.exception()  # nobody may wait any more
        self._waiting.clear()

    def _end_session(self, session: _Session | None, problem: str) -> None:
        """Note that a session has ended; its task leaves it, and the next use opens another one."""
        if session is None:
            return
        session.ended.set()
        if self._session is session:
            self._session = None
            self.problem = problem

    def _record_change(self) -> None:
        self._is_list_stale = True

    async def connect(self, patience: float) -> _Session:
        """Return the session, and wait for it.

        Args:
            patience: for how many seconds.

        Raises:
            _NoSessionError: there is none, and the present attempt to open one failed or takes longer.
        """
        session = self._session
        if session is not None and not session.ended.is_set():
            gone = session.opened.ended
            if gone is None or not gone.is_set():
                return session
            self._end_session(session, session.opened.problem)
        if self._is_closing:
            raise _NoSessionError("it was closed")
        await self._has_sdk.wait()
        future: asyncio.Future[_Session] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        self._wanted.set()
        try:
            async with asyncio.timeout(patience):
                return await future
        except TimeoutError:
            raise _NoSessionError(self.problem) from None
        finally:
            self._waiting.discard(future)

    async def list_tools(self, *, begins_turn: bool) -> ListedTools | None:
        """Return the tools of the server; None if it cannot be reached now.

        A list holds until its time to live is over or the server says that it has changed. The list of a server that
        says neither is made anew for each turn.

        Args:
            begins_turn: whether this is the first list of a turn.
        """
        if self._failures and self._clock.monotonic() < self._next_try:
            return None
        if self._listing is None:
            if self._has_list(begins_turn):
                return self._list
            self._listing = asyncio.create_task(self._fetch_list())
            self._listing.add_done_callback(self._forget_listing)
        return await asyncio.shield(self._listing)

    def _forget_listing(self, task: asyncio.Task[ListedTools | None]) -> None:
        if self._listing is task:
            self._listing = None

    def _has_list(self, begins_turn: bool) -> bool:
        session, listed = self._session, self._list
        if session is None or session.ended.is_set() or listed is None or self._is_list_stale:
            return False
        if listed.ttl is not None:
            return self._clock.monotonic() < self._listed_at + listed.ttl
        return session.opened.announces_changes or not begins_turn

    async def _fetch_list(self) -> ListedTools | None:
        """Return a new list of the server.

        A server that was reached before is given its time to start again. One that never was, or did not come back in
        that time, is tried in the background.
        """
        await self._has_sdk.wait()
        is_known, now = self._is_known, self._clock.monotonic()
        patience = self.options.timeouts.start if not self._failures else _SHORT_PATIENCE
        deadline = now + min(patience, self.options.timeouts.start)
        while True:
            exchange = McpExchange()
            session: _Session | None = None
            left = max(0.0, deadline - self._clock.monotonic())
            try:
                session = await self.connect(left)
                self._is_list_stale = False
                listed = await self._send(session, exchange, self._make_list_request(session), left)
            except _NoSessionError as error:
                self.problem = str(error)
                is_over = not is_known or not error.may_pass
            except Exception as error:  # noqa: BLE001  # REASON: a server may send anything
                self._is_list_stale = True
                problem = f"its tools cannot be listed: {type(error).__name__}: {error}"
                self.problem = redact(problem)
                is_over = not _is_connection_lost(error, exchange)
                self._end_session(session, self.problem)
            else:
                self._list, self._listed_at = listed, self._clock.monotonic()
                return listed
            if is_over or self._clock.monotonic() >= deadline:
                _log.warning("MCP server %s: %s", self.server, self.problem)
                self._is_known = False
                return None

    def _make_list_request(self, session: _Session) -> Callable[[], Awaitable[ListedTools]]:
        return lambda: session.opened.list_tools(self.options.limits.tools)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, object],
        on_progress: OnProgress | None = None,
        *,
        continuation: Continuation | None = None,
        is_once: bool = True,
    ) -> Any:
        """Call a tool, and return its result as the SDK reads it.

        Args:
            name: the tool, as the server names it.
            arguments: the arguments.
            on_progress: called with each report of progress.
            continuation: the answers to a result that asked for input.
            is_once: it must run once at most, so it goes out on a new connection: a kept one that ends does not say
                whether its server has begun to work.

        Raises:
            ToolError: the server refused the call.
            ToolFailedError: there is no answer; its `info.landed` says whether the call may have taken effect.
            BreakerOpenError: the server has failed too often; nothing was sent.
        """
        ticket = self._admit()
        health: Health = "ignored"
        try:
            async with self._places:
                try:
                    session = await self.connect(self.options.timeouts.start)
                except _NoSessionError as error:
                    health = "unwell"
                    raise make_not_sent(self.server, name, str(error)) from None
                exchange = McpExchange(is_once=is_once)
                began = self._clock.monotonic()
                try:
                    result = await self._send(
                        session,
                        exchange,
                        lambda: session.opened.call_tool(
                            name, arguments, on_progress, continuation
                        ),
                        None,
                    )
                except asyncio.CancelledError:
                    if self._record_silence(session, self._clock.monotonic() - began):
                        health = "unwell"
                    raise
                except Exception as error:
                    failure = explain_failure(error, exchange, self.server, name)
                    health = self._judge(session, error, exchange, failure)
                    raise failure from error
                session.silent_calls = 0
                health = "well"
                return result
        finally:
            self._breaker.record_outcome(ticket, health, now=self._clock.monotonic())

    async def ask(self, use: Callable[[McpSession], Awaitable[T]], what: str) -> T:
        """Send a request that changes nothing, such as that for a resource.

        Args:
            use: sends it.
            what: names it in errors.

        Raises:
            ToolError: the server refused it.
            ToolFailedError: there is no answer.
        """
        exchange = McpExchange()
        try:
            session = await self.connect(self.options.timeouts.start)
            return await self._send(
                session, exchange, lambda: use(session.opened), self.options.timeouts.call
            )
        except _NoSessionError as error:
            raise make_not_sent(self.server, what, str(error)) from None
        except Exception as error:
            raise explain_failure(error, exchange, self.server, what) from error

    def _admit(self) -> Ticket:
        answer, _ = self._breaker.admit(self._clock.monotonic())
        if isinstance(answer, RejectedCall):
            raise BreakerOpenError(f"MCP server {self.server}", answer.retry_after)
        return answer

    def _record_silence(self, session: _Session, seconds: float) -> bool:
        """Note that a call was given up; return whether the server was silent all the time."""
        limit = self.options.timeouts.call
        if limit is None or seconds < limit * _SILENCE:
            return False
        session.silent_calls += 1
        if session.silent_calls >= _MOST_SILENT:
            self._end_session(session, f"it did not answer {session.silent_calls} calls in a row")
        return True

    def _judge(
        self, session: _Session, error: Exception, exchange: McpExchange, failure: Exception
    ) -> Health:
        """Return what a failed call shows of the health of the server, and end a session that is over."""
        if not isinstance(failure, ToolFailedError):
            session.silent_calls = 0
            return "well"  # it answered
        code, _ = read_error_code(error)
        is_gone = isinstance(error, _SessionEndedError) or exchange.status == 404
        if is_gone or (code == CONNECTION_CLOSED and exchange.status is None):
            self._end_session(session, failure.info.private or "the session ended")
        refused = failure.info.landed is Landed.NO and exchange.status in (400, 401, 403, 404, 405)
        is_temporary = failure.info.category is not ErrorCategory.CLIENT_ERROR
        return "unwell" if is_temporary and not refused else "ignored"

    async def _send(
        self,
        session: _Session,
        exchange: McpExchange,
        send: Callable[[], Awaitable[T]],
        seconds: float | None,
    ) -> T:
        """Return the answer to a request, of a task that has the caller's context variables.

        Args:
            session: the session.
            exchange: is passed down to the transport.
            send: sends the request.
            seconds: the limit; None for that of the caller.

        Raises:
            _SessionEndedError: the session ended first.
        """
        context = contextvars.copy_context()
        context.run(current_exchange.set, exchange)
        task = asyncio.create_task(_await(send), context=context)
        ended = asyncio.create_task(session.ended.wait())
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
                if not task.done():
                    await asyncio.wait({task}, timeout=_LAST_WORD)
            if task.done() and not task.cancelled():
                return task.result()
            raise _SessionEndedError(self.problem)
        finally:
            ended.cancel()
            if not task.done():
                task.cancel()  # the SDK tells the server
                with suppress(Exception):
                    await asyncio.wait({task}, timeout=_LAST_WORD)
            if task.done() and not task.cancelled():
                task.exception()  # looked at


async def _await(send: Callable[[], Awaitable[T]]) -> T:
    return await send()


class _NoSessionError(Exception):
    """There is no session with the server; `may_pass` says whether the next attempt may open one."""

    def __init__(self, problem: str, *, may_pass: bool = False) -> None:
        super().__init__(problem)
        self.may_pass = may_pass


class _SessionEndedError(ConnectionError):
    """The session ended while a call waited for its answer."""


def _is_connection_lost(error: Exception, exchange: McpExchange) -> bool:
    """Whether a request failed because of its connection, and not by its answer."""
    code, _ = read_error_code(error)
    no_answer = exchange.failure is not None or not exchange.is_sent or exchange.status == 404
    return no_answer or isinstance(error, _SessionEndedError) or code == CONNECTION_CLOSED


def _list_leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return the exceptions of a group and of the groups in it."""
    leaves: list[BaseException] = []
    for one in group.exceptions:
        leaves += _list_leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return leaves
