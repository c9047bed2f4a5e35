"""Connections of unknown callers make room for new ones, the oldest first and not within their first second."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from holdfast.server.access.connections import SECONDS_TO_BE_KNOWN, _UnknownCallers


class Loop:
    """An event loop whose time a test moves."""

    def __init__(self) -> None:
        self.now = 10.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, act: Callable[..., None], *arguments: Any) -> object:
        self.timers.append((self.now + seconds, lambda: act(*arguments)))
        return object()

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        due = [act for at, act in self.timers if at <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for act in due:
            act()


def connect(loop: Loop, ended: list[str], name: str) -> Any:
    transport = SimpleNamespace(abort=lambda: ended.append(name))
    return type("Connection", (), {"loop": loop, "transport": transport})()


def test_the_oldest_connections_end_after_their_first_second_and_in_one_look() -> None:
    loop, ended = Loop(), list[str]()
    callers = _UnknownCallers(most=1)
    for name in ("first", "second", "third"):
        callers.add(connect(loop, ended, name))
        loop.now += 0.25
    assert ended == []
    assert len(loop.timers) == 1
    loop.pass_by(SECONDS_TO_BE_KNOWN - 0.75)
    assert ended == ["first"]
    loop.pass_by(0.25)
    assert ended == ["first", "second"]
    loop.pass_by(5.0)
    assert (len(callers), loop.timers) == (1, [])


def test_an_old_connection_ends_at_once_when_another_one_comes() -> None:
    loop, ended = Loop(), list[str]()
    callers = _UnknownCallers(most=1)
    callers.add(connect(loop, ended, "first"))
    loop.pass_by(SECONDS_TO_BE_KNOWN)
    callers.add(connect(loop, ended, "second"))
    assert ended == ["first"]


def test_a_caller_that_became_known_is_not_counted() -> None:
    loop, ended = Loop(), list[str]()
    callers = _UnknownCallers(most=1)
    known = connect(loop, ended, "first")
    callers.add(known)
    callers.discard(known)
    loop.pass_by(SECONDS_TO_BE_KNOWN)
    callers.add(connect(loop, ended, "second"))
    assert ended == []
    assert len(callers) == 1
