"""Watches the event loop: says which route or agent blocked it, and for how long.

While a function computes without a break, the process answers nobody, `/health` included. The loop writes a heartbeat, and a
thread looks at it. A line of the log has the template of a route, the name of an agent and the names of functions. It
must never have a path, an argument or a value: they may be personal.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from weakref import WeakKeyDictionary

from msgspec import Struct

from holdfast.hosting.turns.turn_runner import TASK_PREFIX
from holdfast.server.access.asgi import ASGIApp, Receive, Scope, Send, find_route_path
from holdfast.server.access.responses import name_method, name_route
from holdfast.server.health.prometheus import Metric

BLOCKED_SECONDS = 0.25
"""Seconds for which a loop must be blocked to be named; up to one beat of them is not seen."""

_BEAT_SECONDS = 0.05
_SECONDS_UNTIL_LOOK = 0.1
_SECONDS_UNTIL_ENDLESS = 5.0
_SECONDS_BETWEEN_LINES = 10.0
_MOST_LABELS = 200
_FRAMES = 4
_log = logging.getLogger("holdfast.server.loop")


class LoopWork(Struct, frozen=True):
    """The code that the loop was running.

    Args:
        route: the method and the template of the route of a request; "" if it was no request.
        agent: the name of the agent of a turn; "" if it was no turn.
        functions: the innermost functions and their lines, the last one first.
    """

    route: str = ""
    agent: str = ""
    functions: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return it in words, for a line of the log."""
        who = [
            f"the route {self.route}" if self.route else "",
            self.agent and f"the agent {self.agent!r}",
        ]
        named = " and ".join(filter(None, who)) or "something that is neither a request nor a turn"
        return f"{named}, in {' < '.join(self.functions)}" if self.functions else named


class LoopWatch:
    """Finds out that the event loop of the process is blocked.

    Args:
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._requests: WeakKeyDictionary[asyncio.Task[object], Scope] = WeakKeyDictionary()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread_id = 0
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._seen: tuple[float, LoopWork] | None = None
        self._lines: dict[tuple[str, str], tuple[float, int]] = {}
        """By the code that ran: when the next line may be written, and how many were left out."""
        self.blocked = Metric(
            "holdfast_loop_blocked_total",
            "How often the event loop was blocked for more than 0.25 seconds, by the code that ran.",
            ("route", "agent"),
        )
        self.seconds = Metric(
            "holdfast_loop_blocked_seconds_total",
            "Seconds for which the event loop was blocked, in pieces of more than 0.25, by the code that ran.",
            ("route", "agent"),
        )

    async def read_metrics(self) -> list[Metric]:
        """Return the metrics."""
        return [self.blocked, self.seconds]

    def add_request(self, scope: Scope) -> None:
        """Note which request the current task answers."""
        task = asyncio.current_task()
        if task is not None:
            self._requests[task] = scope

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the running loop by a thread while the block runs."""
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        ended = threading.Event()
        thread = threading.Thread(
            target=self._look_regularly, args=(ended,), name="holdfast-loop-watch", daemon=True
        )
        self._due = 0.0
        self._beat_again()
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(1.0)
            if self._timer is not None:
                self._timer.cancel()

    def _beat_again(self) -> None:
        assert self._loop is not None  # noqa: S101  # REASON: only a watched loop beats
        self.beat()
        self._timer = self._loop.call_later(_BEAT_SECONDS, self._beat_again)

    def beat(self) -> None:
        """Say, on the loop, that it runs; count and log that it was blocked before."""
        now, due, seen = self._monotonic(), self._due, self._seen
        self._due, self._seen = now + _BEAT_SECONDS, None
        blocked = now - due
        if not due or blocked <= BLOCKED_SECONDS:
            return
        work = seen[1] if seen is not None and seen[0] == due else LoopWork()
        labels = (work.route, work.agent)
        if labels not in self._lines and len(self._lines) >= _MOST_LABELS:
            labels = ("other", "")
        self.blocked.add(labels)
        self.seconds.add(labels, blocked)
        self._write_line(labels, now, f"was blocked for {blocked:.2f} s by {work.describe()}")

    def look(self) -> None:
        """Look, in any thread, whether the loop is blocked, and by which code."""
        due, now = self._due, self._monotonic()
        if not due or now - due <= _SECONDS_UNTIL_LOOK or self._seen is not None:
            return
        try:
            work = self._find_work()
        except RuntimeError:  # the loop changed something meanwhile, so it runs
            return
        if self._due == due:  # otherwise the loop runs again, and does something else
            self._seen = (due, work)

    def _look_regularly(self, ended: threading.Event) -> None:
        told = 0.0
        while not ended.wait(_BEAT_SECONDS):
            self.look()
            seen = self._seen
            # A loop that is blocked for ever writes no line itself.
            if seen is None or seen[0] == told:
                continue
            if self._monotonic() - seen[0] > _SECONDS_UNTIL_ENDLESS:
                told = seen[0]
                _log.warning("the event loop is blocked by %s", seen[1].describe())

    def _write_line(self, labels: tuple[str, str], now: float, text: str) -> None:
        next_line, unlogged = self._lines.get(labels, (now, 0))
        if now < next_line:
            self._lines[labels] = (next_line, unlogged + 1)
            return
        more = f"; {unlogged} more times since the last line" if unlogged else ""
        self._lines[labels] = (now + _SECONDS_BETWEEN_LINES, 0)
        _log.warning("the event loop %s%s", text, more)

    def _find_work(self) -> LoopWork:
        task = None if self._loop is None else asyncio.current_task(self._loop)
        functions = tuple(_name_functions(sys._current_frames().get(self._thread_id)))  # noqa: SLF001  # REASON: the only way
        if task is None:
            return LoopWork(functions=functions)
        scope, name = self._requests.get(task), task.get_name()
        agent = name.removeprefix(TASK_PREFIX) if name.startswith(TASK_PREFIX) else ""
        return LoopWork("" if scope is None else _name_request(scope), agent, functions)


def _name_request(scope: Mapping[str, object]) -> str:
    seen = dict(scope)
    return f"{name_method(seen)} {name_route(seen, find_route_path(seen))}"


def _name_functions(frame: FrameType | None) -> Iterator[str]:
    """Yield the innermost functions of a thread, without those of the standard library's loop."""
    count = 0
    while frame is not None and count < _FRAMES:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith("asyncio"):
            yield f"{module}.{frame.f_code.co_qualname}:{frame.f_lineno}"
            count += 1
        frame = frame.f_back


def note_requests(app: ASGIApp, watch: LoopWatch) -> ASGIApp:
    """Return an application whose requests a watch can name."""

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            watch.add_request(scope)
        await app(scope, receive, send)

    return noted
