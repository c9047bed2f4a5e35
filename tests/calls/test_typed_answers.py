"""Each way in which a typed answer fails, around a function that takes a text."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from holdfast import OutputContext, OutputRejected, StructuredOutput
from holdfast.calls import (
    CallResult,
    ResultKind,
    asend_message,
    resilient,
    send_message,
    send_message_streaming,
)
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    OutputError,
    TruncatedOutputError,
)
from holdfast.testing import no_waits
from holdfast.tools import JsonSchema


@dataclass
class Trip:
    city: str
    nights: int


GOOD = '{"city": "Porto", "nights": 3}'
WRONG = '{"city": "Porto", "nights": "many"}'


def reply(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"content": text, **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }


class Ask:
    """A function of a user that takes a text, and what it was asked."""

    def __init__(self, *script: Any) -> None:
        self.script = script
        self.asked: list[str] = []

    def __call__(self, question: str) -> object:
        self.asked.append(question)
        said = self.script[min(len(self.asked), len(self.script)) - 1]
        if isinstance(said, BaseException):
            raise said
        return reply(said) if isinstance(said, str) else said

    async def later(self, question: str) -> object:
        await asyncio.sleep(0)
        return self(question)


def test_the_text_has_the_schema_and_then_the_problems() -> None:
    ask = Ask(WRONG, GOOD)
    result = send_message(ask, "Plan a trip.", output=Trip)
    assert (result.output, result.attempts, result.usage.total) == (Trip("Porto", 3), 2, 30)
    assert result.require_output().city == "Porto"
    first, second = ask.asked
    assert first.startswith(
        "Plan a trip.\n\nAnswer with nothing but JSON that fits this JSON Schema:"
    )
    assert second.startswith(first)
    assert second.endswith(
        f"Your answer was:\n{WRONG}\n\n"
        "The answer does not have the required form:\n"
        '- nights: must be an integer; got "many"\n'
        "Answer again with the whole corrected JSON value and nothing else."
    )


CALL = {"tool_calls": [{"id": "1", "function": {"name": "look", "arguments": "{}"}}]}


@pytest.mark.parametrize(
    ("said", "kind", "calls"),
    [
        ("no JSON", ResultKind.INVALID, 3),
        (WRONG, ResultKind.INVALID, 3),
        (reply(None, refusal="No."), ResultKind.REFUSED, 1),
        (reply('{"city": "Por', "length"), ResultKind.TRUNCATED, 1),
        (reply(""), ResultKind.EMPTY, 1),
        (reply(None, "content_filter"), ResultKind.BLOCKED, 1),
        (ConnectionError("gone"), ResultKind.ERROR, 1),
        ({"text": GOOD}, ResultKind.INVALID, 1),
    ],
    ids=["no JSON", "wrong type", "refusal", "cut", "empty", "filter", "raises", "no reply"],
)
def test_each_failure_is_told_and_asked_again_only_where_that_helps(
    said: Any, kind: ResultKind, calls: int
) -> None:
    ask = Ask(said)
    result = send_message(ask, "Plan.", output=Trip)
    assert (result.kind, result.ok, result.output, result.text) == (kind, False, None, "")
    assert (len(ask.asked), result.attempts) == (calls, calls)
    assert result.error is not None
    with pytest.raises(type(result.error)):
        result.require_output()


def test_a_wrong_answer_is_kept_as_far_as_it_goes() -> None:
    result = send_message(Ask(WRONG), "Plan.", output=Trip)
    error = result.error
    assert isinstance(error, OutputError)
    assert str(error) == (
        "The answer does not fit the wanted type after 3 tries: "
        'nights: must be an integer; got "many"'
    )
    assert result.category is ErrorCategory.INVALID_RESPONSE
    assert result.best == error.best == {"city": "Porto", "nights": "many"}
    assert error.raw == result.partial_text == WRONG
    assert error.problems == result.problems
    cut = send_message(Ask(reply('{"city": "Por', "length")), "Plan.", output=Trip)
    assert isinstance(cut.error, TruncatedOutputError)
    assert cut.best == {"city": "Por"}


def test_a_call_that_fails_after_a_wrong_answer_keeps_that_answer() -> None:
    result = send_message(Ask(WRONG, ConnectionError("gone")), "Plan.", output=Trip)
    assert (result.kind, result.category) == (ResultKind.ERROR, ErrorCategory.TRANSIENT)
    assert (result.attempts, result.usage.total) == (2, 15)
    assert result.best == {"city": "Porto", "nights": "many"}
    assert [problem.path for problem in result.problems] == ["nights"]


def test_a_call_of_a_tool_is_given_to_the_user() -> None:
    """A function that takes only a text may have offered tools: nobody can know."""
    result = send_message(Ask(reply(None, "tool_calls", **CALL)), "Plan.", output=Trip)
    assert (result.kind, result.output, result.attempts) == (ResultKind.TOOLS, None, 1)
    with pytest.raises(OutputError, match="calls tools"):
        result.require_output()


def test_a_call_of_a_tool_that_nobody_offered_is_a_wrong_answer() -> None:
    script = [reply(None, "tool_calls", **CALL), reply(GOOD)]
    asked: list[Any] = []

    def create(*, messages: Any, response_format: Any = None, tools: Any = None) -> object:
        asked.append(messages)
        return script[len(asked) - 1]

    result = send_message(create, "Plan.", output=Trip)
    assert (result.output, result.attempts) == (Trip("Porto", 3), 2)
    assert "must be JSON, and not a call of 'look'" in asked[1][-1]["content"]


def test_limits_end_the_corrections() -> None:
    once = StructuredOutput(Trip, attempts=1)
    assert send_message(Ask(WRONG), "Plan.", output=once).attempts == 1
    tokens = StructuredOutput(Trip, attempts=9, tokens=20)
    assert send_message(Ask(WRONG), "Plan.", output=tokens).attempts == 3
    with no_waits() as clock:
        slow = Ask(WRONG)

        def ask(question: str) -> object:
            clock.advance(10)
            return slow(question)

        seconds = StructuredOutput(Trip, attempts=9, seconds=15)
        assert send_message(ask, "Plan.", output=seconds).attempts == 3
    raw = send_message(
        Ask("Hm."), "?", output=StructuredOutput(Trip, attempts=2, raw_on_failure=True)
    )
    assert (raw.ok, raw.output, raw.parsed_by, raw.attempts) == (True, "Hm.", "raw", 2)


def test_validators_reject_with_words_for_the_model() -> None:
    seen: list[int] = []

    def short(trip: Trip, context: OutputContext) -> None:
        seen.append(context.failures)
        if trip.nights > 2:
            raise OutputRejected("At most 2 nights.")

    ask = Ask(GOOD, '{"city": "Porto", "nights": 2}')
    result = send_message(ask, "Plan.", output=Trip, validators=[short])
    assert (result.output, seen) == (Trip("Porto", 2), [0, 1])
    assert "- At most 2 nights." in ask.asked[1]


@pytest.mark.parametrize("error", [KeyError("no such city"), StopIteration()])
def test_a_validator_with_a_bug_ends_the_question(error: Exception) -> None:
    def broken(_trip: Trip) -> None:
        raise error

    ask = Ask(GOOD)
    result = send_message(ask, "Plan.", output=Trip, validators=[broken])
    assert (result.kind, result.error, len(ask.asked)) == (ResultKind.ERROR, error, 1)
    returned = send_message(Ask(GOOD), "Plan.", output=Trip, validators=[lambda trip: trip])
    assert "must return None" in str(returned.error)


async def test_validators_may_be_async_where_the_call_is() -> None:
    async def short(trip: Trip) -> None:
        await asyncio.sleep(0)
        if trip.nights > 2:
            raise OutputRejected("At most 2 nights.")

    ask = Ask(GOOD, '{"city": "Porto", "nights": 2}')
    result = await asend_message(ask.later, "Plan.", output=Trip, validators=[short])
    assert result.output == Trip("Porto", 2)
    with pytest.raises(ConfigurationError, match="validators: has an async function"):
        send_message(ask, "Plan.", output=Trip, validators=[short])
    assert len(ask.asked) == 2


async def test_a_cancelled_question_ends_at_once() -> None:
    began = asyncio.Event()

    async def hang(question: str) -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(asend_message(hang, "Plan.", output=Trip))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def book(city: str) -> str:
    return city


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (partial(send_message, Ask(), "?", output=object()), "output: no JSON Schema"),
        (partial(send_message, Ask(), "?", output="Trip"), "output: 'Trip' is not a type"),
        (partial(send_message, Ask(), "?", output=book), "output: 'book' is a function"),
        (
            lambda: send_message(Ask(), "?", output=JsonSchema({"type": "trip"})),
            "JsonSchema.schema",
        ),
        (partial(send_message, lambda: None, output=Trip), "call: has no question"),
        (
            partial(send_message, Ask(), "?", output=StructuredOutput(Trip, mode="native")),
            'output.mode: is "native", and the call has no argument for a schema',
        ),
        (
            partial(send_message, Ask(), "?", output=Trip, validators=[1]),
            "validators[0]: must be a function",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_before_any_call(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make()
    assert words in str(raised.value)


def test_a_schema_of_the_users_own_is_not_replaced() -> None:
    def create(*, messages: Any, response_format: Any = None) -> None:
        raise AssertionError("nothing is sent")

    call = partial(create, response_format={"type": "json_object"})
    with pytest.raises(ConfigurationError, match="call: has response_format already"):
        send_message(call, "?", output=Trip)


def test_a_huge_answer_is_neither_read_for_long_nor_sent_back() -> None:
    junk = '[{"city": ' * 500_000
    ask = Ask(junk, GOOD)
    result = send_message(ask, "Plan.", output=Trip)
    assert result.output == Trip("Porto", 3)
    assert len(ask.asked[1]) < 60_000


def test_a_finished_typed_answer_passes_through() -> None:
    inner = partial(send_message, Ask(WRONG, GOOD), output=Trip)
    result = send_message(inner, "Plan.", output=Trip)
    assert (result.output, result.attempts) == (Trip("Porto", 3), 2)
    plain: CallResult[Any] = send_message(partial(send_message, Ask(GOOD)), "Plan.", output=Trip)
    assert plain.output == Trip("Porto", 3)


def test_retries_around_a_typed_answer_do_not_ask_again_for_wrong_answers() -> None:
    ask = Ask(WRONG)
    with no_waits(), pytest.raises(OutputError) as caught:
        resilient(partial(send_message, ask, output=Trip))("Plan.")
    assert len(ask.asked) == 3
    # A wrong answer leaves nothing in doubt.
    notes = " ".join(caught.value.__notes__)
    assert "as often as the limits of the output allow" in notes
    assert "may have taken effect" not in f"{notes} {caught.value.info.safe}"
    flaky = Ask(ConnectionError("gone"), WRONG, GOOD)
    with no_waits():
        result = resilient(partial(send_message, flaky, output=Trip))("Plan.")
    assert result.output == Trip("Porto", 3)


def test_a_broken_preview_callback_does_not_matter() -> None:
    def chunks(question: str) -> Any:
        yield {"choices": [{"delta": {"content": GOOD[:12]}}]}
        yield {"choices": [{"delta": {"content": GOOD[12:]}, "finish_reason": "stop"}]}

    result = send_message_streaming(chunks, "?", output=Trip, preview_callback=lambda _: 1 / 0)
    assert result.output == Trip("Porto", 3)
