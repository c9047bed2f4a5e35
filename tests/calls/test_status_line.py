import logging
import time

import pytest
from tests.linear import is_linear

from holdfast.calls.status_line import StatusLine


def test_the_preview_is_the_first_fifty_characters_of_all_text() -> None:
    said: list[str] = []
    line = StatusLine(said.append)
    line.show_text("a" * 30 + "\n")
    line.show_text("b" * 19)
    line.show_text("c")
    line.show_text("d" * 1000)
    start = "a" * 30 + " " + "b" * 19
    assert said == ["💭 " + "a" * 30 + " ", f"💭 {start}", *[f"💭 {start}..."] * 2]


def test_a_status_is_shown_for_each_piece_and_each_call() -> None:
    said: list[str] = []
    line = StatusLine(said.append)
    for _ in range(2):
        line.show_text("x" * 60)
        line.show_text("y")
        line.show_tool("search")
        line.show_tool("search")
    assert len(said) == 8


def test_an_exception_of_a_callback_is_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(_: str) -> None:
        raise ValueError("api_key=sk-1234567890abcdef")

    with caplog.at_level(logging.WARNING, "holdfast.calls.status_line"):
        StatusLine(broken).show_text("Hi")
    assert "ValueError" in caplog.text
    assert "sk-1234567890" not in caplog.text


def test_the_preview_costs_the_same_for_the_last_chunk_as_for_the_first() -> None:
    def cost(chunks: int) -> float:
        line = StatusLine(lambda _: None)
        start = time.process_time()
        for _ in range(chunks):
            line.show_text("some words ")
        return time.process_time() - start

    cost(1_000)
    assert is_linear(cost, 5_000, 50_000, slack=3)
