import asyncio
import concurrent.futures

import pytest

from holdfast.sdk.caught import Caught, words_of


def test_what_is_no_exception_passes() -> None:
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError):
        with pytest.raises(kind), Caught():
            raise kind


def test_the_cancellation_of_a_future_of_a_thread_passes() -> None:
    with pytest.raises(concurrent.futures.CancelledError), Caught():
        raise concurrent.futures.CancelledError


def test_an_exception_that_cannot_speak_has_no_words() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("cannot speak")

    assert words_of(Mute()) == ""
