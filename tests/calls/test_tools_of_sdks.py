"""SDKs that run tools by themselves: several model turns come in one stream, and the last is the answer."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.calls.replies import call as gemini_call
from tests.calls.replies import gemini, message, message_events, text

from holdfast.calls import (
    CallResult,
    ResponseHandler,
    ResponseReader,
    ResultKind,
    asend_message_streaming,
    send_message,
    send_message_streaming,
)
from holdfast.testing import Emulator
from holdfast.testing.emulator import DropAfter, NoTerminator, call, thinking

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
]

LOOK = call("look", {"name": "x"})
TURNS: dict[str, list[Any]] = {
    "one call": [LOOK, "It is there."],
    "text before the call": [("I look.", LOOK), "It is there."],
    "two turns of calls": [LOOK, (thinking("Hm."), call("find", {"name": "y"})), "It is there."],
    "two calls in a turn": [(LOOK, call("find", {"name": "y"})), "It is there."],
}
each_script = pytest.mark.parametrize("script", TURNS.values(), ids=TURNS)


def look(name: str) -> str:
    """Look something up.

    Args:
        name: what to look up.
    """
    return f"found {name}"


def find(name: str) -> str:
    """Find something.

    Args:
        name: what to find.
    """
    return f"found {name}"


Start = Callable[[], Any]

_clients: list[Any] = []


@pytest.fixture(autouse=True)
def _close_clients() -> Iterator[None]:
    yield
    while _clients:
        _clients.pop().close()


def gemini_config(genai: Any, **calling: Any) -> Any:
    types = genai.types
    automatic = types.AutomaticFunctionCallingConfig(**calling) if calling else None
    return types.GenerateContentConfig(tools=[look, find], automatic_function_calling=automatic)


def chat(provider: Emulator) -> Start:
    genai = pytest.importorskip("google.genai")
    client = gemini_client(genai, provider)
    talk = client.chats.create(model="demo", config=gemini_config(genai))
    return lambda: talk.send_message_stream("go")


def models(provider: Emulator, **calling: Any) -> Start:
    genai = pytest.importorskip("google.genai")
    client = gemini_client(genai, provider)
    config = gemini_config(genai, **calling)
    return lambda: client.models.generate_content_stream(model="demo", contents="go", config=config)


def ignoring(provider: Emulator) -> Start:
    return models(provider, ignore_call_history=True)


def gemini_client(genai: Any, provider: Emulator) -> Any:
    base = provider.base_url_for("gemini").removesuffix("/v1beta")
    client = genai.Client(api_key="any", http_options=genai.types.HttpOptions(base_url=base))
    _clients.append(client)
    return client


def runner(provider: Emulator, *, streamed: bool = False) -> Start:
    anthropic = pytest.importorskip("anthropic")
    base = provider.base_url_for("anthropic")
    client = anthropic.Anthropic(base_url=base, api_key="any", max_retries=0)
    _clients.append(client)
    tools = [anthropic.beta_tool(look), anthropic.beta_tool(find)]
    return lambda: client.beta.messages.tool_runner(
        model="demo",
        max_tokens=99,
        tools=tools,
        messages=[{"role": "user", "content": "go"}],
        stream=streamed,
    )


def streaming_runner(provider: Emulator) -> Start:
    return runner(provider, streamed=True)


STARTS = [chat, models, ignoring, runner, streaming_runner]
each_start = pytest.mark.parametrize("start", STARTS)


async def stream(start: Start, **known: Any) -> CallResult:
    return await asyncio.to_thread(send_message_streaming, start, **known)


@pytest.mark.slow  # takes half a second or more
@each_script
@each_start
async def test_the_answer_is_that_of_the_last_turn(
    start: Callable[[Emulator], Start], script: list[Any]
) -> None:
    shown: list[str] = []
    async with Emulator(script) as provider:
        result = await asyncio.to_thread(
            lambda: send_message_streaming(start(provider), status_callback=shown.append)
        )
        assert len([one for one in provider.requests if not one.problem]) == len(script)
    assert (result.kind, result.text) == (ResultKind.TEXT, "It is there."), result
    assert result.tool_calls == ()
    assert "🔧 Using look..." in shown
    assert ("🔧 Using find..." in shown) is ("find" in str(script))


@pytest.mark.slow  # takes half a second or more
@each_start
async def test_the_tokens_of_all_turns_are_counted(start: Callable[[Emulator], Start]) -> None:
    async with Emulator([LOOK, "It is there."]) as provider:
        both = await asyncio.to_thread(lambda: send_message_streaming(start(provider)))
    async with Emulator(["It is there."]) as provider:
        last = await asyncio.to_thread(lambda: send_message_streaming(start(provider)))
    assert both.usage.input > last.usage.input
    assert both.usage.output > last.usage.output


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("fault", [DropAfter(1), NoTerminator()], ids=["cut", "unfinished"])
@each_start
async def test_a_last_turn_that_breaks_is_no_answer(
    start: Callable[[Emulator], Start], fault: Any
) -> None:
    async with Emulator([("I look.", LOOK), "It is there."], faults=[None, fault]) as provider:
        result = await asyncio.to_thread(lambda: send_message_streaming(start(provider)))
    if start is runner and isinstance(fault, NoTerminator):
        assert result.ok  # a whole message has no end marker that could be missing
        return
    assert (result.ok, result.text) == (False, ""), result


@pytest.mark.slow  # takes half a second or more
@each_start
async def test_the_calls_of_the_last_turn_are_those_to_run(
    start: Callable[[Emulator], Start],
) -> None:
    async with Emulator([LOOK, call("unknown", {})]) as provider:
        result = await asyncio.to_thread(lambda: send_message_streaming(start(provider)))
    if start in (runner, streaming_runner):
        assert (
            not result.ok
        )  # the runner asks again with the error of the call, and the script is over
        return
    assert not result.tool_calls or [one.name for one in result.tool_calls] == ["unknown"]


@pytest.mark.slow  # takes half a second or more
async def test_the_asynchronous_runner_and_chat_give_the_same() -> None:
    anthropic = pytest.importorskip("anthropic")

    @anthropic.beta_async_tool  # type: ignore[untyped-decorator]
    async def look(name: str) -> str:
        """Look something up."""
        return f"found {name}"

    for streamed in (False, True):
        async with Emulator([LOOK, "It is there."]) as provider:
            base = provider.base_url_for("anthropic")
            client = anthropic.AsyncAnthropic(base_url=base, api_key="any", max_retries=0)
            start = functools.partial(
                client.beta.messages.tool_runner,
                model="demo",
                max_tokens=99,
                tools=[look],
                messages=[{"role": "user", "content": "go"}],
                stream=streamed,
            )
            result = await asend_message_streaming(start)
            await client.close()
        assert (result.ok, result.text) == (True, "It is there."), result
    genai = pytest.importorskip("google.genai")
    async with Emulator([LOOK, "It is there."]) as provider:
        client = gemini_client(genai, provider)
        talk = client.aio.chats.create(model="demo", config=gemini_config(genai))
        result = await asend_message_streaming(lambda: talk.send_message_stream("go"))
    assert (result.ok, result.text) == (True, "It is there."), result


@pytest.mark.slow  # takes half a second or more
async def test_a_runner_where_a_response_was_wanted_is_named() -> None:
    async with Emulator([LOOK, "It is there."]) as provider:
        result = await asyncio.to_thread(lambda: send_message(runner(provider)))
        assert provider.requests == []
    assert (result.kind, "BetaToolRunner" in result.user_message) == (ResultKind.INVALID, True)


def turn(words: str, reply_id: str, *calls: str, finish: str | None = "STOP") -> Any:
    parts = [*([text(words)] if words else []), *(gemini_call(name) for name in calls)]
    return gemini(*parts, finish=finish, responseId=reply_id)


def answer(*chunks: Any) -> CallResult:
    return send_message_streaming(lambda: iter(chunks))


def test_two_replies_without_a_call_between_them_are_no_answer() -> None:
    assert not answer(turn("One", "a"), turn("Two", "b")).ok
    begun = message({"type": "text", "text": "One"})
    assert not answer(begun, {**begun, "id": "m2"}).ok


def test_a_turn_that_continues_a_cut_one_is_one_reply() -> None:
    # google-genai clears the finish reason of a reply that it continues by itself.
    assert answer(turn("Half", "a", finish=None), turn(" and half", "b")).text == "Half and half"


def test_a_paused_turn_is_continued_by_the_next() -> None:
    first, second = message_events(["Hel"], "pause_turn"), message_events(["lo"])
    second[0] = {**second[0], "message": {**second[0]["message"], "id": "m2"}}
    assert answer(*first, *second).text == "Hello"


def test_calls_are_named_by_their_own_turn() -> None:
    handler = ResponseHandler(reader=ResponseReader(tools=["b"]))
    names = [
        chunk.tool_name
        for one in (turn("", "r1", "a"), turn("", "r2", "b"))
        if (chunk := handler.process_chunk(one)) is not None
    ]
    assert names == ["a", "b"]
    assert [one.name for one in handler.result().tool_calls] == ["b"]


def test_the_text_of_an_earlier_turn_is_no_answer() -> None:
    def chunks() -> Iterator[Any]:
        yield turn("I look.", "r1", "a")
        yield turn("", "r2")

    result = send_message_streaming(chunks)
    assert result.text == ""
    assert "I look." not in result.user_message


# google-genai runs the tools of a streamed reply itself, and streams the next reply after it.


def make_client(provider: Emulator) -> tuple[Any, dict[str, Any]]:
    genai = pytest.importorskip("google.genai")
    options = genai.types.HttpOptions(base_url=provider.base_url.removesuffix("/v1"))
    config = genai.types.GenerateContentConfig(tools=[look])
    request = {"model": "gemini-2.5-flash", "contents": "go", "config": config}
    return genai.Client(api_key="any", http_options=options), request


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("streamed", [True, False])
async def test_automatic_function_calling_gives_the_text_after_the_tool(*, streamed: bool) -> None:
    async with Emulator([call("look", {"name": "x"}), "it is there"]) as provider:
        client, request = make_client(provider)
        models, shown = client.models, []
        if streamed:
            result = await asyncio.to_thread(
                lambda: send_message_streaming(
                    lambda: models.generate_content_stream(**request), status_callback=shown.append
                )
            )
            assert "🔧 Using look..." in shown
        else:
            result = await asyncio.to_thread(
                lambda: send_message(lambda: models.generate_content(**request))
            )
        second = provider.requests[1].body["contents"][-1]["parts"][0]
    assert (result.ok, result.text) == (True, "it is there")
    assert second["functionResponse"]["response"] == {"result": "found x"}
    assert not [line for line in shown if line[0] in "❌⚠"]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_streamed_chat_with_tools_is_read_message_after_message(*, is_async: bool) -> None:
    script = [call("look", {"name": "x"}), "it is there", call("look", {"name": "y"}), "so is y"]
    results, shown = [], []
    async with Emulator(script) as provider:
        client, request = make_client(provider)
        chats = client.aio.chats if is_async else client.chats
        chat = chats.create(model=request["model"], config=request["config"])
        for question in ("x?", "y?"):
            if is_async:
                stream = chat.send_message_stream
                result = await asend_message_streaming(
                    stream, question, status_callback=shown.append
                )
            else:
                result = await asyncio.to_thread(
                    send_message_streaming,
                    chat.send_message_stream,
                    question,
                    status_callback=shown.append,
                )
            results.append((result.ok, result.text))
        assert len(provider.requests) == 4
    assert results == [(True, "it is there"), (True, "so is y")]
    assert shown.count("🔧 Using look...") == 2
    assert not [line for line in shown if line[0] in "❌⚠"]


@pytest.mark.slow  # takes half a second or more
async def test_an_asynchronous_stream_gives_the_text_after_the_tool() -> None:
    async with Emulator([call("look", {"name": "x"}), "it is there"]) as provider:
        client, request = make_client(provider)
        result = await asend_message_streaming(
            lambda: client.aio.models.generate_content_stream(**request)
        )
    assert (result.ok, result.text) == (True, "it is there")
