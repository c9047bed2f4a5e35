import logging
import time

import pytest
from tests.linear import is_linear

from holdfast.calls.call_wording import StatusLine, failure_text, status_text
from holdfast.calls.sdk_errors import classify
from holdfast.codecs.gemini.vocabulary import _FILTERED
from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    FilteredError,
    NoTextError,
    ResponseValidationError,
    ToolFailedError,
    UnterminatedError,
)


def test_the_status_of_each_kind_of_failure() -> None:
    assert (
        status_text(NoTextError("no text in response")) == "⚠️ Empty response: no text in response"
    )
    assert status_text(ResponseValidationError("a", "b")) == (
        "❌ Invalid response structure: expected a, got b"
    )
    assert status_text(OSError("gone")) == "❌ Error: gone"


@pytest.mark.parametrize("reason", ["", "content_filter", *_FILTERED])
def test_a_block_never_advises_to_try_the_same_again(reason: str) -> None:
    error = FilteredError("withheld")
    text = failure_text(error, error.info, reason)
    assert "will not help" in text
    assert "•" in text
    assert text.endswith(reason)
    assert "Rate limiting" not in text


def test_the_advice_follows_the_reason_of_the_block() -> None:
    error = FilteredError("withheld")
    texts = [
        failure_text(error, error.info, reason) for reason in ("RECITATION", "LANGUAGE", "SPII")
    ]
    assert ["summary" in texts[0], "language" in texts[1], "personal" in texts[2]] == [True] * 3


@pytest.mark.parametrize("category", ErrorCategory)
def test_only_a_failed_connection_blames_the_internet(category: ErrorCategory) -> None:
    said = "Please check your internet connection and try again."
    told = failure_text(RuntimeError("x"), ErrorInfo(category=category, safe="x", status=500))
    assert said not in told
    assert told.startswith(
        "An error occurred while communicating with the AI:\nRuntimeError: x\n\n"
    )
    assert len(told.splitlines()) == 4
    alone = failure_text(RuntimeError("x"), ErrorInfo(category=category, safe="x"))
    connection = category in (ErrorCategory.TRANSIENT, ErrorCategory.TIMEOUT)
    assert (said in alone) is connection


def test_each_kind_of_failure_has_words_and_keeps_what_came() -> None:
    for error in (EmptyResponseError("x"), UnterminatedError("cut"), ToolFailedError("pay", "no")):
        text = failure_text(error, classify(error), partial="Half an answer")
        assert text.endswith("received before:\nHalf an answer")
        assert "received" not in failure_text(error, classify(error), partial=" \n")


def test_a_long_exception_is_cut() -> None:
    error = RuntimeError("x" * 1_000_000)
    assert len(failure_text(error, ErrorInfo(category=ErrorCategory.UNKNOWN, safe="x"))) < 3_000


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

    with caplog.at_level(logging.WARNING, "holdfast.calls.call_wording"):
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
