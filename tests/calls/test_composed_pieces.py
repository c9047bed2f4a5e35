"""The pieces in any order around one call come to the same; `conformance/test_pieces_around_clients.py` asks all clients."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.calls.composed_pieces import check_orders
from tests.calls.replies import chat, chat_chunk
from tests.resilience.operations import Bench

from holdfast.calls import (
    CallResult,
    Guard,
    ResultKind,
    arguments_key,
    asend_message,
    asend_message_streaming,
    execute,
    resilient,
    send_message,
    send_message_streaming,
)
from holdfast.core.errors import EmptyResponseError, ErrorInfo
from holdfast.resilience import (
    BreakerOptions,
    BreakerStrategy,
    Cache,
    CacheOptions,
    CallMetrics,
    CircuitBreaker,
    MetricsRecorder,
    Pipeline,
    Retry,
    Store,
)
from holdfast.resilience.retry.options import RetryOptions

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
each_form = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
PAGE = "<!doctype html><title>Sign in</title>"


@pytest.mark.slow  # takes half a second or more
@each_form
@pytest.mark.parametrize("order", ["send(guard(f))", "send(guard(send(f)))"])
async def test_a_fault_is_repeated_in_this_order_as_in_any(order: str, *, streamed: bool) -> None:
    await check_orders("requests", "openai_chat", streamed=streamed, orders=[order])


@pytest.mark.slow  # about a hundred calls over HTTP for each client: 3 to 15 s
@each_form
@pytest.mark.parametrize(
    ("client", "wire"),
    [
        ("sdk", "openai_chat"),
        ("sdk_async", "anthropic"),
        ("chat", "gemini"),
        ("aiohttp", "openai_responses"),
    ],
)
async def test_every_order_makes_the_same_of_a_fault(
    client: str, wire: str, *, streamed: bool
) -> None:
    await check_orders(client, wire, streamed=streamed)


class Replies:
    """Gives these replies in turn, whole or as streams, and counts the calls."""

    def __init__(self, *replies: Any) -> None:
        self.replies, self.calls = list(replies), 0

    def ask(self, question: str = "") -> Any:
        self.calls += 1
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def aask(self, question: str = "") -> Any:
        return self.ask(question)

    def pieces(self) -> Iterator[Any]:
        for piece in self.ask():
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def apieces(self) -> AsyncIterator[Any]:
        for piece in self.pieces():
            yield piece


GOOD = chat("Porto")
CUT = [chat_chunk(content="Por"), ConnectionResetError("cut")]
SILENT = [chat_chunk(content="Por")]
WHOLE_STREAM = [chat_chunk(content="Porto"), chat_chunk("stop")]


class TestTheReaderIsGivenToTheGuard:
    """`send_message` around a function of `resilient`."""

    @pytest.mark.parametrize("bad", [PAGE, None, {"choices": []}, 7, ""], ids=repr)
    def test_what_would_only_be_reported_is_tried_again(self, bad: Any) -> None:
        replies = Replies(bad, GOOD)
        result = send_message(resilient(env=Bench().env)(replies.ask), "Where?")
        assert (result.text, result.attempts, replies.calls) == ("Porto", 2, 2)

    async def test_by_every_way_to_a_guarded_call(self) -> None:
        guard = Guard(Pipeline.of(Retry()), env=Bench().env)

        class Model:
            replies = Replies(*[PAGE, GOOD] * 2)

            @resilient(env=Bench().env)
            async def ask(self, question: str) -> Any:
                return self.replies.ask(question)

        for call in (
            functools.partial(asend_message, guard.call, Replies(PAGE, GOOD).aask, "Where?"),
            functools.partial(asend_message, guard.call, Replies(PAGE, GOOD).ask, "Where?"),
            functools.partial(asend_message, Model().ask, "Where?"),
            functools.partial(asend_message, functools.partial(Model().ask, question="Where?")),
            functools.partial(
                asend_message,
                execute,
                Pipeline.of(Retry(RetryOptions(retry_delay=0))),
                Replies(PAGE, GOOD).aask,
            ),
        ):
            result = await call()
            assert (result.text, result.attempts) == ("Porto", 2)

    @pytest.mark.parametrize("bad", [CUT, SILENT, []], ids=["cut", "silent", "empty"])
    async def test_a_stream_is_repeated_to_its_end(self, bad: Any) -> None:
        replies = Replies(*[bad, WHOLE_STREAM] * 4)
        decorate = resilient(env=Bench().env)
        results = [
            await asyncio.to_thread(send_message_streaming, decorate(replies.pieces)),
            await asyncio.to_thread(
                send_message_streaming, decorate(functools.partial(replies.pieces))
            ),
            await asend_message_streaming(decorate(replies.apieces)),
            await asend_message_streaming(decorate(replies.pieces)),
        ]
        assert [(one.text, one.attempts) for one in results] == [("Porto", 2)] * 4

    def test_the_result_of_the_last_attempt_has_what_came(self) -> None:
        replies = Replies(SILENT, SILENT)
        once = resilient(Retry(RetryOptions(max_retries=1)), env=Bench().env)
        result = send_message_streaming(once(replies.pieces))
        assert (result.kind, result.partial_text) == (ResultKind.UNTERMINATED, "Por")
        assert (result.attempts, result.ok) == (2, False)

    def test_what_no_other_attempt_would_change_is_reported_at_once(self) -> None:
        replies = Replies(chat("Por", "length"))
        result = send_message(resilient(env=Bench().env)(replies.ask))
        assert (result.kind, result.attempts) == (ResultKind.TRUNCATED, 1)

    def test_a_rejected_call_was_not_made(self) -> None:
        breaker = CircuitBreaker("x", BreakerOptions(mode="consecutive", failures=1))
        guarded = resilient(BreakerStrategy(breaker), env=Bench().env)(Replies(PAGE).ask)
        assert send_message(guarded).kind is ResultKind.INVALID
        rejected = send_message(guarded)
        assert (rejected.kind, rejected.attempts) == (ResultKind.ERROR, 0)

    def test_a_lambda_hides_the_guard_which_judges_what_it_knows(self) -> None:
        replies = Replies(PAGE)
        guarded = resilient(env=Bench().env)(replies.ask)
        assert send_message(lambda: guarded("Where?")).kind is ResultKind.INVALID
        assert replies.calls == 1

    def test_a_wrapper_of_the_user_is_not_passed_over(self) -> None:
        guarded = resilient(env=Bench().env)(Replies(GOOD).ask)
        asked: list[str] = []

        @functools.wraps(guarded)
        def counted(question: str) -> Any:
            asked.append(question)
            return guarded(question)

        assert send_message(counted, "Where?").text == "Porto"
        assert asked == ["Where?"]

    def test_a_judge_gets_what_the_function_returned(self) -> None:
        seen: list[object] = []

        def judge(value: object) -> ErrorInfo | None:
            seen.append(value)
            return None

        send_message(resilient(judge=judge, env=Bench().env)(Replies(PAGE, GOOD).ask))
        assert seen == [GOOD]

    def test_a_cache_keeps_what_the_function_returned(self) -> None:
        cache = Cache(Store(CacheOptions()), arguments_key("acme"), lambda _: 1)
        replies = Replies(PAGE, GOOD)
        guarded = resilient(cache, Retry(), env=Bench().env)(replies.ask)
        results = [send_message(guarded, "Where?") for _ in range(2)]
        assert [one.text for one in results] == ["Porto", "Porto"]
        assert guarded("Where?") is GOOD
        assert replies.calls == 2


class TestAttemptsAreNotMultiplied:
    """Guards around guards."""

    @pytest.mark.parametrize(
        ("inner", "outer", "made"), [(3, 3, 4), (0, 3, 4), (1, 3, 4), (3, 0, 4), (3, 1, 4)]
    )
    def test_those_of_an_inner_guard_count_for_the_outer_one(
        self, inner: int, outer: int, made: int
    ) -> None:
        replies = Replies(*[PAGE] * 99)
        within = resilient(Retry(RetryOptions(max_retries=inner)), env=Bench().env)(replies.ask)
        around = resilient(Retry(RetryOptions(max_retries=outer)), env=Bench().env)
        with pytest.raises(Exception, match=r"HTML|expected"):
            around(functools.partial(send_message, within))()
        assert replies.calls == made

    def test_an_exception_that_an_inner_guard_gave_up_is_not_tried_again(self) -> None:
        replies = Replies(*[ConnectionResetError("cut") for _ in range(99)])
        metrics = CallMetrics()
        within = resilient(env=Bench().env)(replies.ask)

        @resilient(Retry(), MetricsRecorder(metrics), env=Bench().env)
        def around() -> Any:
            try:
                return within()
            except ConnectionResetError as error:
                raise RuntimeError("no answer") from error

        with pytest.raises(RuntimeError, match="no answer"):
            around()
        assert (replies.calls, dict(metrics.snapshot().retry_counts)) == (4, {4: 1})

    def test_another_failure_of_the_function_around_it_is_tried_again(self) -> None:
        replies = Replies(*[GOOD] * 4)
        within = resilient(env=Bench().env)(replies.ask)

        @resilient(env=Bench().env)
        def around() -> None:
            within()
            raise ConnectionResetError("of something else")

        with pytest.raises(ConnectionResetError):
            around()
        assert replies.calls == 4


class TestAGuardAlone:
    """`resilient` around a call that nobody else of this library reads."""

    def test_the_empty_reply_of_an_sdk_is_tried_again(self) -> None:
        types = pytest.importorskip("openai.types.chat")
        empty = types.ChatCompletion.construct(choices=[])
        good = types.ChatCompletion.construct(**GOOD)
        cut = types.ChatCompletion.construct(**chat("Por", "length"))
        replies = Replies(empty, good, cut, *[empty] * 4)
        guarded = resilient(env=Bench().env)(replies.ask)
        assert guarded() is good
        assert guarded() is cut
        with pytest.raises(EmptyResponseError):
            guarded()
        assert replies.calls == 7

    def test_a_reply_that_is_not_written_yet_is_returned(self) -> None:
        types = pytest.importorskip("openai.types.responses")
        queued = types.Response.construct(status="queued", output=[])
        assert resilient(env=Bench().env)(Replies(queued).ask)() is queued

    @pytest.mark.parametrize(
        "value", [None, "", PAGE, {"choices": []}, [], {"status": 503}], ids=repr
    )
    def test_any_other_value_is_left_as_it_is(self, value: Any) -> None:
        replies = Replies(value)
        assert resilient(env=Bench().env)(replies.ask)() is value

    def test_the_result_says_how_many_attempts_it_took(self) -> None:
        replies = Replies(PAGE, GOOD)

        @resilient(env=Bench().env)
        def ask() -> CallResult:
            return send_message(replies.ask)

        assert ask().attempts == 2
