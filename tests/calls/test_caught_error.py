import asyncio
import concurrent.futures

import pytest

from holdfast.calls.caught_error import ErrorCatcher, exception_text


def test_exits_and_interrupts_are_raised() -> None:
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
        with pytest.raises(kind), ErrorCatcher():
            raise kind


def test_the_cancellation_of_a_future_of_a_thread_passes() -> None:
    with pytest.raises(concurrent.futures.CancelledError), ErrorCatcher():
        raise concurrent.futures.CancelledError


def test_an_exception_that_cannot_speak_has_no_words() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("cannot speak")

    assert exception_text(Mute()) == ""
