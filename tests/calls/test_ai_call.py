"""Seed 003: what the call with parsing did, what it claimed to do, and each of its flaws."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs
from tests.calls.replies import Json, chat, gemini, item, message, responses, text
from tests.calls.vendors import whole_maker

from holdfast import StructuredOutput
from holdfast.calls.call_plan import CallOutcome
from holdfast.calls.call_result import CallResult, ResultKind
from holdfast.calls.session_log import current_session, session_scope
from holdfast.compat.ai_call import (
    CallOptions,
    async_retry_ai_call_with_parsing,
    async_retry_rereg_ai_call_with_parsing,
    get_retry_config,
    retry_ai_call_with_parsing,
    retry_rereg_ai_call_with_parsing,
)
from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.core.messages import Reply, ReplyKind, Text
from holdfast.resilience.breaker.strategy import BreakerOpenError
from holdfast.resilience.limiter.strategy import LimiterError
from holdfast.resilience.metrics import CallMetrics

GOOD = '{"agent_final_response": "Hello", "routine_number": 2}'
UNREAD = "Error: Could not parse ai AI response for frontend."


class Desk:
    """A clock that only waiting moves, a scripted callable, and what became of the call."""

    def __init__(self, *script: Any, **options: Any) -> None:
        self.script = list(script)
        self.calls = 0
        self.waits: list[float] = []
        self.time = 0.0
        self.outcomes: list[CallOutcome] = []
        self.options = CallOptions(
            sleep=self.sleep,
            asleep=self.asleep,
            monotonic=lambda: self.time,
            on_outcome=self.outcomes.append,
            **options,
        )

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        said = self.script[min(self.calls, len(self.script)) - 1]
        if isinstance(said, BaseException):
            raise said
        return said

    async def later(self, *args: Any) -> Any:
        await asyncio.sleep(0)
        return self(*args)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)

    def ask(self, **settings: Any) -> tuple[bool, object, str, int | None]:
        return retry_ai_call_with_parsing(self, options=self.options, **settings)

    def ask_again(self, **settings: Any) -> tuple[bool, object, str]:
        return retry_rereg_ai_call_with_parsing(self, options=self.options, **settings)

    @property
    def outcome(self) -> CallOutcome:
        return self.outcomes[-1]


def namespace(words: str) -> Any:
    return SimpleNamespace(output=[SimpleNamespace(content=[SimpleNamespace(text=words)])])


# What must come out as the seed says.


def test_a_call_that_always_raises_waits_one_two_and_four_seconds() -> None:
    desk = Desk(OSError("gone"))
    answer = desk.ask(call_type="Registration")
    assert answer == (False, None, "Error: Registration AI call failed after 4 attempts", None)
    assert (desk.calls, desk.waits) == (4, [1.0, 2.0, 4.0])


def test_the_other_three_error_texts() -> None:
    bad = {"output": [], "id": "r"}
    assert Desk(bad).ask(call_type="Photo Upload")[2] == (
        "Error: Could not parse photo upload AI response for frontend."
    )
    assert Desk(OSError()).ask_again() == (
        False,
        None,
        "Error: Re-registration AI call failed after 4 attempts",
    )
    assert Desk(bad).ask_again() == (
        False,
        bad,
        "Error: Could not parse re-registration AI response for frontend.",
    )


def test_no_wait_before_the_first_attempt_or_after_the_last() -> None:
    assert Desk(responses(item(GOOD))).waits == []
    for retries in range(4):
        desk = Desk(OSError())
        desk.ask(max_retries=retries, delay=0.5)
        assert desk.calls == retries + 1
        assert desk.waits == [0.5 * 2**n for n in range(retries)]


def test_the_arguments_reach_the_callable() -> None:
    seen: list[tuple[Any, ...]] = []

    def call(*args: Any) -> str:
        seen.append(args)
        return GOOD

    assert retry_ai_call_with_parsing(call, "agent", ["history"], session_id="s")[0]
    assert seen == [("agent", ["history"])]


async def test_the_arguments_reach_the_callable_at_every_attempt() -> None:
    """Also after an exception, and after an answer that cannot be read."""
    seen: list[tuple[Any, ...]] = []
    answers = [GOOD]

    def call(*args: Any) -> object:
        seen.append(args)
        if len(seen) == 1:
            raise OSError("gone")
        return SimpleNamespace() if len(seen) == 2 else answers[0]

    async def no_wait(seconds: float) -> None:
        pass

    options = CallOptions(sleep=lambda _: None, asleep=no_wait)
    each = [("agent", ["history"])] * 3
    answer = await asyncio.to_thread(
        retry_ai_call_with_parsing, call, "agent", ["history"], options=options
    )
    assert (answer[0], seen) == (True, each)
    seen.clear()
    again = await async_retry_ai_call_with_parsing(call, "agent", ["history"], options=options)
    assert (again[0], seen) == (True, each)
    seen.clear()
    answers[0] = '{"agent_final_response": "Hello"}'
    three = await asyncio.to_thread(
        retry_rereg_ai_call_with_parsing, call, "agent", ["history"], options=options
    )
    assert (three[0], seen) == (True, each)


RESPONSES: list[Callable[[], Any]] = [
    lambda: responses(item(GOOD)),
    lambda: whole_maker("openai_responses")(responses(item(GOOD))),
    lambda: namespace(GOOD),
    lambda: SimpleNamespace(output_text=GOOD),
    lambda: Reply((Text(GOOD),)),
    lambda: GOOD,
    lambda: chat(GOOD),
    lambda: gemini(text(GOOD)),
    lambda: message({"type": "text", "text": GOOD}),
]


@pytest.mark.parametrize("make", RESPONSES)
def test_an_answer_is_read_from_whatever_holds_it(make: Callable[[], Any]) -> None:
    response = make()
    assert Desk(response).ask() == (True, response, "Hello", 2)
    plain_answer = '{"agent_final_response": "Hello"}'
    assert Desk({"output_text": plain_answer}).ask_again()[2] == "Hello"


def test_a_routine_is_optional_and_only_there_when_it_was_named() -> None:
    for words in (
        '{"agent_final_response": "Hi"}',
        '{"agent_final_response": "Hi", "routine_number": null}',
    ):
        assert Desk(responses(item(words))).ask()[2:] == ("Hi", None)


def test_text_that_is_not_json_counts_as_an_answer() -> None:
    for words in ("Just text", "[1, 2]", "42", '"quoted"', '{"agent_final_response": "cut'):
        desk = Desk(responses(item(words)))
        assert desk.ask()[2:] == (words, None)
        assert desk.calls == 1
        assert desk.outcome.answer is not None
        assert desk.outcome.answer.parsed_by == "raw_text"
        assert Desk({"output_text": words}).ask_again()[::2] == (True, words)


def test_raw_text_can_be_repeated_instead() -> None:
    script = [responses(item("Just text")), responses(item(GOOD))]
    assert Desk(*script, raw_text="refuse").ask()[2:] == ("Hello", 2)
    assert Desk(*script, raw_text="prose").ask()[2:] == ("Just text", None)
    cut = responses(item('{"agent_final_response": "cut'))
    desk = Desk(cut, responses(item(GOOD)), raw_text="prose")
    assert desk.ask()[2:] == ("Hello", 2)
    assert desk.waits == [1.0]


def test_json_in_a_fence_or_in_prose_is_read() -> None:
    for words in (f"```json\n{GOOD}\n```", f"Here you are: {GOOD}"):
        desk = Desk(responses(item(words)))
        assert desk.ask()[2:] == ("Hello", 2)
        assert desk.outcome.answer is not None
        assert desk.outcome.answer.parsed_by == "embedded"


def test_re_registration_reads_output_text_first_and_then_the_items() -> None:
    answer = '{"agent_final_response": "from %s"}'
    both = {"output_text": answer % "text", "output": [item(answer % "items")]}
    assert Desk(both).ask_again()[2] == "from text"
    assert Desk({**both, "output_text": ""}).ask_again()[2] == "from items"
    assert Desk({**both, "output_text": "raw"}).ask_again()[2] == "raw"


def test_the_lines_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "holdfast.calls.call_plan"):
        Desk(OSError("gone"), responses(), responses(item("raw"))).ask(
            session_id="s1", call_type="Registration", max_retries=2
        )
        Desk(OSError("gone")).ask(session_id="s1", max_retries=0)
    head = "--- Session [s1] "
    assert [record.message for record in caplog.records] == [
        f"{head}Registration AI call attempt 1/3 ---",
        f"{head}Registration AI call error on attempt 1: gone ---",
        f"{head}Retrying in 1.0 seconds... ---",
        f"{head}Registration AI call attempt 2/3 ---",
        f"{head}Parse error on attempt 2: Empty response: no text in response ---",
        f"{head}Retrying in 2.0 seconds... ---",
        f"{head}Registration AI call attempt 3/3 ---",
        f"{head}JSON decode error on attempt 3: the answer: is not JSON: Expecting value (line 1, column 1) ---",
        f"{head}Successfully parsed Registration AI response (raw_text) ---",
        f"{head}AI AI call attempt 1/1 ---",
        f"{head}AI AI call error on attempt 1: gone ---",
        f"{head}All 1 attempts failed, returning error ---",
    ]


# Its flaws.


@pytest.mark.parametrize(
    "error", [{"error": "Rate limit reached"}, {"error": {"message": "overloaded", "code": 529}}]
)
def test_an_error_that_is_returned_is_an_error_and_has_the_backoff(error: Json) -> None:
    # Seed: four calls at once on a 429, and "failed unexpectedly".
    desk = Desk(error)
    assert desk.ask() == (False, None, "Error: AI AI call failed after 4 attempts", None)
    assert (desk.calls, desk.waits) == (4, [1.0, 2.0, 4.0])
    assert desk.outcome.kind is ResultKind.ERROR
    recovered = Desk(error, responses(item(GOOD)))
    assert recovered.ask()[2:] == ("Hello", 2)
    assert recovered.waits == [1.0]


@pytest.mark.parametrize(
    "words",
    [
        '{"routine_number": 2}',
        "{}",
        '{"agent_final_response": "", "routine_number": 1}',
        '{"agent_final_response": "Hi", "routine_number": 0}',
        '{"agent_final_response": "Hi", "routine_number": -1}',
        '{"agent_final_response": "Hi", "routine_number": "2"}',
        '{"agent_final_response": "Hi", "routine_number": true}',
        '{"agent_final_response": null}',
        '{"agent_final_response": "Hi", "more": 1}',
    ],
)
def test_an_object_of_the_wrong_form_is_repeated_with_backoff(words: str) -> None:
    # Seed: repeated at once when a field was missing, and else accepted.
    response = responses(item(words))
    desk = Desk(response)
    assert desk.ask() == (False, response, UNREAD, None)
    assert desk.waits == [1.0, 2.0, 4.0]
    assert desk.outcome.kind is ResultKind.INVALID
    assert words not in desk.outcome.error_text


def test_json_without_the_field_is_not_shown_to_a_user() -> None:
    # Seed: re-registration took the raw JSON for an answer.
    desk = Desk({"output_text": '{"secret": 1}'})
    assert desk.ask_again()[0] is False
    assert desk.waits == [1.0, 2.0, 4.0]
    assert (
        Desk({"output_text": '{"agent_final_response": "x", "routine_number": 1}'}).ask_again()[0]
        is False
    )


def test_the_first_output_item_may_be_reasoning_or_a_call() -> None:
    # Seed: four calls at once, and "failed unexpectedly".
    before: list[Json] = [
        {"type": "reasoning", "id": "rs", "summary": []},
        {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
        {"type": "web_search_call", "id": "ws", "status": "completed"},
    ]
    for first in before:
        made = whole_maker("openai_responses")(responses(first, item(GOOD)))
        for response in (responses(first, item(GOOD)), made):
            assert Desk(response).ask()[2:] == ("Hello", 2)


def test_an_answer_may_be_the_second_of_two_messages() -> None:
    assert Desk(responses(item("Let me see."), item(GOOD))).ask()[2:] == ("Hello", 2)


def test_a_response_without_text_is_repeated_with_backoff() -> None:
    function = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    for response in (None, responses(), responses(function), {}, 7, object(), {"colour": "red"}):
        desk = Desk(response)
        assert desk.ask()[::3] == (False, None)
        assert desk.waits == [1.0, 2.0, 4.0]
        assert desk.outcome.kind in (ResultKind.EMPTY, ResultKind.INVALID)


def refusal() -> Json:
    content = [{"type": "refusal", "refusal": "I cannot help"}]
    return responses({"type": "message", "role": "assistant", "content": content})


def cut() -> Json:
    return responses(
        item('{"agent_final'),
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
    )


@pytest.mark.parametrize(
    ("make", "kind"), [(refusal, ResultKind.REFUSED), (cut, ResultKind.TRUNCATED)]
)
def test_refused_and_cut_replies_are_kinds_of_their_own(
    make: Callable[[], Json], kind: ResultKind
) -> None:
    for response in (make(), whole_maker("openai_responses")(make())):
        desk = Desk(response)
        assert desk.ask() == (False, response, UNREAD, None)
        assert (desk.outcome.kind, desk.calls) == (kind, 1)
        assert desk.ask_again()[0] is False


def test_a_cut_reply_of_holdfast_is_not_an_answer() -> None:
    desk = Desk(Reply((Text(GOOD),), kind=ReplyKind.TRUNCATED))
    assert desk.ask()[0] is False
    assert desk.outcome.kind is ResultKind.TRUNCATED


@pytest.mark.parametrize(
    "wrong",
    [{"max_retries": -1}, {"max_retries": 1.5}, {"delay": -1.0}, {"delay": float("nan")}],
)
def test_numbers_out_of_range_are_refused_before_any_call(wrong: dict[str, Any]) -> None:
    desk = Desk(GOOD)
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        desk.ask(**wrong)
    with pytest.raises(ConfigurationError):
        desk.ask_again(**wrong)
    assert desk.calls == 0


def test_an_error_text_is_never_an_answer() -> None:
    desk = Desk(OSError("gone"))
    desk.ask()
    assert (desk.outcome.success, desk.outcome.answer) == (False, None)
    assert desk.outcome.error_text.startswith("Error: ")
    good = Desk(GOOD)
    good.ask()
    assert (good.outcome.success, good.outcome.error_text) == (True, "")


def test_an_asynchronous_function_is_refused_by_the_blocking_call() -> None:
    desk = Desk(GOOD)
    with pytest.raises(ConfigurationError, match="async_"):
        retry_ai_call_with_parsing(desk.later, options=desk.options)


def test_an_object_that_fails_when_it_is_read_is_not_readable() -> None:
    class Broken:
        def model_dump(self, **_: object) -> dict[str, object]:
            raise ValueError("broken")

    broken = Broken()
    assert Desk(broken).ask() == (False, broken, UNREAD, None)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, asyncio.CancelledError])
def test_exits_and_interrupts_are_not_repeated(kind: type[BaseException]) -> None:
    desk = Desk(kind())
    with pytest.raises(kind):
        desk.ask()
    assert desk.calls == 1


# Beyond it.


def test_by_category_a_permanent_error_is_not_retried() -> None:
    desk = Desk(RuntimeError("Error code: 401 - bad key"), by_category=True)
    assert desk.ask()[2] == "Error: AI AI call failed after 1 attempts"
    assert desk.outcome.info is not None
    assert desk.outcome.info.category is ErrorCategory.AUTH_ERROR
    told = Desk(
        RuntimeError("Error code: 429 - Rate limit. Try again in 9s."), GOOD, by_category=True
    )
    assert told.ask()[2] == "Hello"
    assert told.waits == [9.0]


def test_no_attempt_begins_after_the_deadline() -> None:
    desk = Desk(OSError("gone"), deadline=3.0)
    assert desk.ask()[2] == "Error: AI AI call failed after 2 attempts"
    assert desk.waits == [1.0]


def test_a_call_that_would_wait_longer_than_allowed_is_not_tried_again() -> None:
    limited = RuntimeError("Error code: 429 - Rate limit. Try again in 9s.")
    desk = Desk(limited, GOOD, by_category=True, longest_wait=4.0)
    assert desk.ask()[2] == "Error: AI AI call failed after 1 attempts"
    assert desk.waits == []


@pytest.mark.parametrize("seconds", [0.0, 0.5, 60.0])
def test_a_call_that_must_not_wait_for_an_open_breaker_fails_at_once(seconds: float) -> None:
    desk = Desk(BreakerOpenError("gpt", seconds), GOOD, by_category=True, max_breaker_wait=0)
    assert desk.ask()[2] == "Error: AI AI call failed after 1 attempts"
    assert desk.waits == []
    assert isinstance(desk.outcome.error, BreakerOpenError)


def test_a_call_waits_for_rejections_as_long_as_it_may_in_all() -> None:
    rejected = LimiterError("the queue is full", 2.0)
    down = OSError("gone")  # was sent, so its wait does not count
    desk = Desk(down, rejected, rejected, GOOD, by_category=True, max_breaker_wait=4.0)
    assert desk.ask()[2] == "Error: AI AI call failed after 3 attempts"
    assert desk.waits == [1.0, 2.0]
    desk = Desk(down, rejected, rejected, GOOD, by_category=True, max_breaker_wait=6.0)
    assert desk.ask()[2] == "Hello"
    assert desk.waits == [1.0, 2.0, 4.0]


def test_metrics_count_every_call_by_its_kind() -> None:
    metrics = CallMetrics()
    Desk(OSError("gone"), GOOD, metrics=metrics).ask(call_type="Photo Upload")
    Desk(OSError("gone"), metrics=metrics).ask(call_type="photo upload", max_retries=0)
    seen = metrics.snapshot("photo_upload")
    assert (seen.total_calls, seen.successful_calls, seen.retry_counts) == (2, 1, {1: 1, 2: 1})
    assert seen.response_times == (1.0, 0.0)
    assert seen.error_types == {"transient": 1}


def test_the_table_of_call_types_is_made_of_named_arguments() -> None:
    desk = Desk(OSError("gone"))
    desk.ask(call_type="payment", **get_retry_config("payment"))
    assert desk.waits == [0.5, 1.0]


# The asynchronous twins.


async def test_the_twins_agree_on_everything_but_one_text() -> None:
    scripts: list[list[Any]] = [
        [GOOD],
        [OSError("gone"), GOOD],
        [OSError("gone")],
        [{"error": "x"}],
        [responses(item("raw"))],
        [responses(), refusal()],
        [None],
    ]
    for script in scripts:
        one, two, again, twin = (Desk(*script) for _ in range(4))
        blocking = await asyncio.to_thread(one.ask)
        waiting = await async_retry_ai_call_with_parsing(two.later, options=two.options)
        assert waiting[2] == blocking[2].replace("Error: AI AI call", "Error: AI call")
        assert (waiting[:2], waiting[3], two.waits) == (blocking[:2], blocking[3], one.waits)
        expected = await asyncio.to_thread(again.ask_again)
        found = await async_retry_rereg_ai_call_with_parsing(twin.later, options=twin.options)
        assert (found, twin.waits) == (expected, again.waits)


async def test_the_text_of_the_seed_for_a_failed_asynchronous_call() -> None:
    desk = Desk(OSError("gone"))
    found = await async_retry_ai_call_with_parsing(
        desk.later, call_type="Registration", options=desk.options
    )
    assert found == (False, None, "Error: AI call failed after 4 attempts", None)


async def test_the_asynchronous_call_accepts_a_blocking_function() -> None:
    assert (await async_retry_ai_call_with_parsing(lambda: GOOD))[2:] == ("Hello", 2)


async def test_a_cancelled_call_and_a_cancelled_wait_are_not_repeated() -> None:
    started = asyncio.Event()

    async def forever(*_: object) -> None:
        started.set()
        await asyncio.Event().wait()

    async def fails() -> None:
        raise OSError("gone")

    options = CallOptions(asleep=forever)
    for call in (forever, fails):
        started.clear()
        task = asyncio.ensure_future(async_retry_ai_call_with_parsing(call, options=options))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


# Sessions.


async def test_sessions_that_run_at_once_do_not_mix(caplog: pytest.LogCaptureFixture) -> None:
    both = asyncio.Barrier(2)
    seen: dict[str, str] = {}

    async def call(name: str) -> str:
        await both.wait()
        seen[name] = current_session()
        await both.wait()
        return GOOD

    with caplog.at_level(logging.INFO, "holdfast.calls.call_plan"):
        await asyncio.gather(
            *(async_retry_ai_call_with_parsing(call, name, session_id=name) for name in "ab")
        )
    assert seen == {"a": "a", "b": "b"}
    assert current_session() == "unknown"
    assert sum("[a]" in record.message for record in caplog.records) == 2


def test_the_session_of_the_context_is_used_by_default() -> None:
    seen: list[str] = []

    def call() -> str:
        seen.append(current_session())
        return GOOD

    with session_scope("alice"):
        retry_ai_call_with_parsing(call)
        retry_ai_call_with_parsing(call, session_id="bob")
        assert current_session() == "alice"
    assert seen == ["alice", "bob"]


def test_options_are_checked() -> None:
    for wrong in ({"raw_text": "maybe"}, {"deadline": -1}):
        with pytest.raises(ConfigurationError, match="options"):
            CallOptions(**wrong)


async def test_a_waiting_asynchronous_call_does_not_block_others() -> None:
    # Seed 2.7: `time.sleep` and a blocking client inside asynchronous handlers; one retry froze all.
    waiting, free = asyncio.Event(), asyncio.Event()

    async def until_free(_: float) -> None:
        waiting.set()
        await free.wait()

    async def fails_once() -> str:
        if not waiting.is_set():
            raise OSError("gone")
        return GOOD

    slow = asyncio.ensure_future(
        async_retry_ai_call_with_parsing(fails_once, options=CallOptions(asleep=until_free))
    )
    await waiting.wait()
    assert (await async_retry_ai_call_with_parsing(lambda: GOOD))[2] == "Hello"
    assert not slow.done()
    free.set()
    assert (await slow)[2:] == ("Hello", 2)


def test_what_an_exception_says_never_reaches_the_person() -> None:
    # Seed 2.7: the raw text of an exception was sent to the client.
    for error in (OSError("password=hunter2"), ValueError("SELECT * FROM players")):
        desk = Desk(error)
        assert desk.ask()[2] == "Error: AI AI call failed after 4 attempts"
        assert str(error) not in desk.outcome.error_text


def test_a_failure_says_whether_trying_later_makes_sense() -> None:
    # Seed 2.7: errors had no kind, and a client could not tell one that passes from a final one.
    for error, retryable in (
        (RuntimeError("Error code: 429 - Rate limit reached"), True),
        (RuntimeError("Error code: 401 - bad key"), False),
    ):
        desk = Desk(error)
        desk.ask()
        assert desk.outcome.info is not None
        assert desk.outcome.info.category.is_retryable is retryable


# With a type of the user.


@dataclass
class Trip:
    city: str
    nights: int


def test_a_type_of_the_user_takes_the_place_of_the_seeds_object() -> None:
    asked: list[str] = []
    desk = Desk(OSError("gone"), chat('{"city": "Porto"}'), chat('{"city": "Porto", "nights": 3}'))

    def call(question: str) -> Any:
        asked.append(question)
        return desk(question)

    options = structs.replace(desk.options, output=Trip)
    ok, response, answer, routine = retry_ai_call_with_parsing(call, "Plan.", options=options)
    assert (ok, answer, routine) == (True, Trip("Porto", 3), None)
    assert isinstance(response, CallResult)
    assert (desk.calls, desk.waits) == (3, [1.0])
    assert "- nights: is required (an integer)" in asked[2]
    assert desk.outcome.attempts == 2


def test_a_wrong_answer_of_a_type_is_not_asked_for_again_by_the_retry() -> None:
    desk = Desk(chat("no"), output=StructuredOutput(Trip, attempts=2))
    ok, _, text, _ = retry_ai_call_with_parsing(desk, "Plan.", options=desk.options)
    assert (ok, text, desk.calls) == (False, UNREAD, 2)
    assert desk.outcome.kind is ResultKind.INVALID


async def test_a_blocking_call_of_a_type_does_not_block_the_loop() -> None:
    desk = Desk(chat("no"), chat('{"city": "Porto", "nights": 3}'), output=Trip)
    threads: list[int] = []

    def call(question: str) -> Any:
        threads.append(get_ident())
        return desk(question)

    for made in (call, desk.later):
        desk.calls = 0
        answer = await async_retry_ai_call_with_parsing(made, "Plan.", options=desk.options)
        assert answer[2] == Trip("Porto", 3)
    assert get_ident() not in threads


def test_a_type_without_a_schema_is_refused_before_any_call() -> None:
    desk = Desk(chat("no"), output=object())
    with pytest.raises(ConfigurationError, match="no JSON Schema"):
        retry_ai_call_with_parsing(desk, "Plan.", options=desk.options)
    assert desk.calls == 0
