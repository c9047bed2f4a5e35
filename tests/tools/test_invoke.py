"""One attempt of one call: not run, failed, out of time, returned; never more than one of these."""

import asyncio
import functools
import json
import logging
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator

from holdfast import ToolContext, ToolError, tool
from holdfast.core.errors import (
    ErrorCategory,
    Landed,
    ToolFailedError,
    tool_failure_text,
)
from holdfast.core.messages import Media, Text, ToolCall
from holdfast.tools import Registry
from holdfast.tools.invoke import Invocation, InvocationOptions, invoke
from holdfast.tools.threads import ToolThreads

CONTEXT: ToolContext[Any] = ToolContext(run_id="r1", key="t1.i0.tool.0", deps={"db": "x"})
SECRET = "sk-live-9a8b7c6d5e4f"
SOON = 60.0

ran: list[object] = []


def refuse_late(n: int) -> int:
    if n == 1:
        raise KeyError(SECRET)
    if n == 2:
        raise ToolError("Ask somebody else.")
    return n


@tool
async def echo(text: str = "") -> str:
    ran.append(text)
    return text


@tool
def echo_in_thread(text: str) -> str:
    return f"{text} {threading.current_thread().name.partition('-tool-')[0]}"


@tool
def positional(a: int, /, ctx: ToolContext, b: int, *, c: int = 3) -> str:
    return f"{a} {b} {c} {ctx.run_id}"


@tool
async def context_only(ctx: ToolContext[dict[str, str]]) -> str:
    return f"{ctx.idempotency_key} {ctx.deps['db']}"


@tool
async def odd_names(_private: int, json: str) -> str:
    return f"{_private}{json}"


@tool
async def fail(kind: str) -> str:
    kinds: dict[str, BaseException] = {
        "key": KeyError(SECRET),
        "value": ValueError(SECRET),
        "tool": ToolError("No flights on that day."),
        "exit": SystemExit(2),
        "ours": ToolFailedError("inner", "x"),
        "timeout": TimeoutError(SECRET),
    }
    raise kinds[kind]


@tool
def fail_in_thread(kind: str) -> str:
    if kind == "exit":
        sys.exit(2)
    if kind == "stop":
        raise StopIteration(SECRET)
    raise ConnectionResetError(SECRET)


@tool
async def validated(n: Annotated[int, AfterValidator(refuse_late)]) -> int:
    ran.append(n)
    return n


@tool
async def unreadable() -> object:
    return object()


@tool
async def picture() -> bytes:
    return b"\x89PNG\r\n\x1a\n"


@tool(result_limit=5)
async def long() -> str:
    return "x" * 50


@tool
def numbers(count: int) -> Iterator[int]:
    yield from range(count)


@tool
async def numbers_later(count: int) -> AsyncIterator[int]:
    for number in range(count):
        yield number


@tool
def endless() -> Iterator[int]:
    try:
        while True:
            yield 1
    finally:
        ran.append("closed")


@tool
async def endless_later() -> AsyncIterator[int]:
    try:
        while True:
            yield 1
    finally:
        ran.append("closed")


async def later() -> str:
    return "later"


@tool
def gives_awaitable() -> Awaitable[str]:
    return later()


REGISTRY = Registry(
    [
        echo,
        echo_in_thread,
        positional,
        context_only,
        odd_names,
        fail,
        fail_in_thread,
        validated,
        unreadable,
        picture,
        long,
        numbers,
        numbers_later,
        endless,
        endless_later,
        gives_awaitable,
    ]
)


@pytest.fixture(autouse=True)
def forget() -> None:
    ran.clear()


async def call(name: str, arguments: Any = "{}", **keywords: Any) -> Invocation:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return await invoke(REGISTRY, ToolCall("c1", name, text), CONTEXT, **keywords)


def told(done: Invocation) -> str:
    assert done.result is not None
    return done.result.text


async def value(name: str, **arguments: Any) -> str:
    done = await call(name, arguments)
    assert done.error is None
    assert done.info is None
    assert done.result is not None
    assert not done.result.is_error
    assert (done.result.call_id, done.result.name) == ("c1", name)
    return done.result.text


async def test_values_come_back() -> None:
    assert await value("echo", text="hi") == "hi"
    assert await value("echo_in_thread", text="hi") == "hi holdfast"
    assert await value("positional", a=1, b=2) == "1 2 3 r1"
    assert await value("context_only") == "r1:t1.i0.tool.0:0 x"
    assert await value("odd_names", _private=1, json="x") == "1x"
    assert await value("gives_awaitable") == "later"
    assert (await call("picture")).result.content == (  # type: ignore[union-attr]
        Media("image/png", data=b"\x89PNG\r\n\x1a\n"),
    )


async def test_generators_are_collected() -> None:
    assert await value("numbers", count=3) == "[0,1,2]"
    assert await value("numbers_later", count=3) == "[0,1,2]"


@pytest.mark.parametrize("name", ["endless", "endless_later"])
async def test_a_generator_without_end_is_cut_and_closed(name: str) -> None:
    items = json.loads(await value(name))
    assert len(items) == 10_001
    assert items[-1] == "[cut: only the first 10,000 items are shown]"
    assert ran == ["closed"]


async def test_results_are_cut_at_the_tools_limit_or_the_agents() -> None:
    assert told(await call("long")).startswith("xxxxx\n[cut: 45 of 50")
    done = await call("echo", {"text": "x" * 50}, options=InvocationOptions(result_limit=7))
    assert told(done).startswith("xxxxxxx\n[cut: 43 of 50")


async def test_an_unknown_tool_lists_those_that_there_are() -> None:
    done = await call("ecko")
    text = told(done)
    assert text.startswith(
        "Error: Function 'ecko' was not run: there is no such function. Did you mean 'echo'? "
        "The functions are: echo, echo_in_thread, "
    )
    assert done.info is not None
    assert (done.info.category, done.info.landed, done.info.code) == (
        ErrorCategory.CLIENT_ERROR,
        Landed.NO,
        "unknown_tool",
    )
    empty = await invoke(Registry(), ToolCall("c1", "x"), CONTEXT)
    assert "there are no others" in told(empty)


async def test_an_unknown_name_of_any_length_is_cut() -> None:
    done = await call("x\n" * 100_000)
    assert len(told(done)) < 1_000
    assert done.result is not None
    assert done.result.name == "x\n" * 100_000


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('{"text": "hi', "malformed_arguments"),
        ('{"text": "hi"} {}', "malformed_arguments"),
        ('{"text": 5}', "invalid_arguments"),
        ('{"other": 5}', "invalid_arguments"),
        ("[]", "malformed_arguments"),
    ],
)
async def test_a_call_with_bad_arguments_is_not_run(arguments: str, code: str) -> None:
    done = await call("echo", arguments)
    assert ran == []
    assert told(done).startswith("Error: Function 'echo' was not run: its arguments ")
    assert done.result is not None
    assert done.result.is_error
    assert done.error is None
    assert done.info is not None
    assert (done.info.category, done.info.landed, done.info.code) == (
        ErrorCategory.CLIENT_ERROR,
        Landed.NO,
        code,
    )
    assert not done.info.category.is_retryable


@pytest.mark.parametrize("arguments", ['{"text": "hi"}', '{"text": "h', "", "{}"])
async def test_an_unfinished_call_is_not_run_even_when_it_looks_whole(arguments: str) -> None:
    done = await call("echo", arguments, unfinished=True)
    assert ran == []
    assert "cut off by the output limit" in told(done)
    assert done.info is not None
    assert done.info.landed is Landed.NO


async def test_what_a_tool_raises_stays_an_object() -> None:
    done = await call("fail", {"kind": "key"})
    assert done.result is None
    assert isinstance(done.error, KeyError)
    assert done.info is not None
    assert done.info.category is ErrorCategory.PROGRAMMING
    assert done.info.landed is Landed.UNKNOWN
    assert (await call("fail", {"kind": "value"})).info.category is ErrorCategory.UNKNOWN  # type: ignore[union-attr]


async def test_what_a_thread_raises_stays_an_object() -> None:
    done = await call("fail_in_thread", {"kind": "reset"})
    assert isinstance(done.error, ConnectionResetError)
    assert done.info is not None
    assert done.info.category is ErrorCategory.TRANSIENT


async def test_an_iterator_that_ran_dry_is_a_programming_error() -> None:
    done = await call("fail_in_thread", {"kind": "stop"})
    assert done.info is not None
    assert done.info.category is ErrorCategory.PROGRAMMING


async def test_our_own_errors_keep_what_they_know() -> None:
    done = await call("fail", {"kind": "ours"})
    assert isinstance(done.error, ToolFailedError)
    assert done.info is done.error.info


async def test_a_tool_error_is_sent_unchanged_and_not_retried() -> None:
    done = await call("fail", {"kind": "tool"})
    assert told(done) == "No flights on that day."
    assert done.result is not None
    assert done.result.is_error
    assert isinstance(done.error, ToolError)
    assert done.info is not None
    assert not done.info.category.is_retryable


@pytest.mark.parametrize("name", ["fail", "fail_in_thread"])
async def test_a_tool_cannot_end_the_process(name: str) -> None:
    done = await call(name, {"kind": "exit"})
    assert isinstance(done.error, ToolFailedError)
    assert isinstance(done.error.__cause__, SystemExit)
    assert done.info is not None
    assert done.info.category is ErrorCategory.PROGRAMMING


async def test_an_interrupt_passes() -> None:
    @tool
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await invoke(Registry([interrupted]), ToolCall("1", "interrupted"), CONTEXT)


async def test_a_validator_that_breaks_is_a_failure_before_the_act() -> None:
    done = await call("validated", {"n": 1})
    assert ran == []
    assert done.result is None
    assert isinstance(done.error, KeyError)
    assert done.info is not None
    assert (done.info.category, done.info.landed) == (ErrorCategory.PROGRAMMING, Landed.NO)
    assert told(await call("validated", {"n": 2})) == "Ask somebody else."
    assert ran == []


async def test_a_result_without_a_form_says_that_the_function_ran() -> None:
    done = await call("unreadable")
    assert told(done) == (
        "Error: Function 'unreadable' ran, but a result of type object has no JSON form."
    )
    assert done.info is not None
    assert (done.info.category, done.info.landed) == (ErrorCategory.PROGRAMMING, Landed.UNKNOWN)


class Stuck:
    """A sync and an async tool that wait until the test lets them go."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.opened = threading.Event()
        self.cancelled = False
        self.returned = False
        self.registry = Registry([tool(self.in_thread), tool(timeout=0.02)(self.on_loop)])
        self.pool = ToolThreads(1)

    def in_thread(self) -> str:
        self.began.set()
        self.opened.wait(SOON)
        self.returned = True
        return "late"

    async def on_loop(self) -> str:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "never"

    async def call(self, name: str, timeout: float | None = None) -> Invocation:
        return await invoke(
            self.registry,
            ToolCall("c1", name),
            CONTEXT,
            timeout=timeout,
            options=InvocationOptions(threads=self.pool),
        )


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(("name", "said"), [("in_thread", "0.5"), ("on_loop", "0.0")])
async def test_a_timeout_has_its_exact_words(name: str, said: str) -> None:
    stuck = Stuck()
    done = await stuck.call(name, timeout=0.5)  # a thread on a busy machine begins late
    assert done.result is None
    assert isinstance(done.error, TimeoutError)
    assert str(done.error) == f"Function '{name}' timed out after {said} seconds"
    assert done.info is not None
    assert (done.info.category, done.info.landed) == (ErrorCategory.TIMEOUT, Landed.UNKNOWN)
    stuck.opened.set()


async def test_the_tools_own_timeout_comes_before_the_agents() -> None:
    stuck = Stuck()
    async with asyncio.timeout(SOON):
        done = await stuck.call("on_loop", timeout=3_600)
    assert stuck.cancelled
    assert isinstance(done.error, TimeoutError)


async def test_a_call_that_timed_out_in_the_queue_has_not_landed() -> None:
    stuck = Stuck()
    first = asyncio.ensure_future(stuck.call("in_thread"))
    while not stuck.began.is_set():
        await asyncio.sleep(0.001)
    done = await stuck.call("in_thread", timeout=0.02)
    assert done.info is not None
    assert (done.info.category, done.info.landed) == (ErrorCategory.TIMEOUT, Landed.NO)
    stuck.opened.set()
    assert told(await first) == "late"


async def test_a_timeout_of_the_tool_itself_is_its_own_exception() -> None:
    done = await call("fail", {"kind": "timeout"}, timeout=60)
    assert str(done.error) == SECRET
    assert done.info is not None
    assert done.info.category is ErrorCategory.TIMEOUT
    assert SECRET not in done.info.safe


@pytest.mark.parametrize("name", ["in_thread", "on_loop"])
@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_cancellation_passes_and_releases_the_caller(
    name: str, timeout: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = Stuck()
    registry = Registry([stuck.in_thread, stuck.on_loop])
    task = asyncio.ensure_future(
        invoke(
            registry,
            ToolCall("c1", name),
            CONTEXT,
            timeout=timeout,
            options=InvocationOptions(threads=stuck.pool),
        )
    )
    while not stuck.began.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not stuck.returned
    if name == "in_thread":
        assert stuck.pool.abandoned_tools == ("in_thread",)
        with caplog.at_level(logging.WARNING, "holdfast.tools"):
            stuck.opened.set()
            while stuck.pool.abandoned_tools or not caplog.messages:
                await asyncio.sleep(0.001)
    else:
        assert stuck.cancelled


async def test_eight_calls_at_once() -> None:
    done = await asyncio.gather(
        *(call("echo_in_thread" if n % 2 else "echo", {"text": str(n)}) for n in range(8))
    )
    assert [told(one)[0] for one in done] == [str(n) for n in range(8)]


async def test_a_wrapped_function_that_gives_a_coroutine_is_awaited() -> None:
    @functools.wraps(later)
    def wrapper() -> Any:
        return later()

    done = await invoke(Registry([wrapper]), ToolCall("1", "later"), CONTEXT)
    assert told(done) == "later"


secrets = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=12, max_size=30)


@given(secrets, st.sampled_from([KeyError, ValueError, ConnectionError, Exception, SystemExit]))
def test_no_secret_of_an_exception_is_in_any_public_text(
    secret: str, kind: type[BaseException]
) -> None:
    @tool
    async def leak() -> None:
        raise kind(f"password={secret}")

    done = asyncio.run(invoke(Registry([leak]), ToolCall("1", "leak"), CONTEXT))
    assert done.result is None
    assert done.info is not None
    assert secret not in repr(done.info)
    assert secret not in done.info.private
    assert secret not in tool_failure_text("leak", str(done.error), detailed=True)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["text", "a", "b", "c", "ctx", "_private", "json"])
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["echo", "positional", "odd_names", "validated", "nobody"]), junk | st.text()
)
def test_nothing_that_a_model_writes_raises(name: str, written: Any) -> None:
    async def act() -> Invocation:
        text = written if isinstance(written, str) else json.dumps(written)
        return await invoke(REGISTRY, ToolCall("c1", name, text), CONTEXT)

    done = asyncio.run(act())
    assert done.result is not None or done.error is not None
    if done.result is not None:
        assert all(isinstance(part, Text) for part in done.result.content)
        done.result.text.encode()
