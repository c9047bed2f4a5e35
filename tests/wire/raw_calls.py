"""One call of a tool as each wire sends it, in bytes that no encoder would write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tests.transport.raw import Client, RawServer

from holdfast import Agent
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.runtime.result import Result

MODELS = {
    "openai_chat": "openai:gpt-5.2",
    "openai_responses": "openai-responses:gpt-5.2",
    "anthropic": "anthropic:claude-sonnet-4-5",
    "gemini": "gemini:gemini-3-pro",
}
PATHS = {"openai_chat": "/v1", "openai_responses": "/v1", "anthropic": "", "gemini": "/v1beta"}
Body = Callable[[bytes], bytes]


def _quoted(arguments: bytes) -> bytes:
    """The arguments inside a JSON text; what is not JSON in them stays unchanged."""
    return arguments.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _chat(head: bytes, piece: bytes) -> bytes:
    call = b'{"index":0,%b"function":{%b"arguments":"%b"}}' % (
        (b'"id":"c1","type":"function",', b'"name":"note",', b"")
        if head == b"begin"
        else (b"", b"", _quoted(piece))
    )
    return (
        b'data: {"id":"r","model":"m","object":"chat.completion.chunk","choices":'
        b'[{"index":0,"delta":{"tool_calls":[%b]}}]}\n\n' % call
    )


def chat_streamed(arguments: bytes) -> bytes:
    return (
        _chat(b"begin", b"")
        + _chat(b"", arguments)
        + b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
        + b"data: [DONE]\n\n"
    )


def chat_whole(arguments: bytes) -> bytes:
    call = b'{"id":"c1","type":"function","function":{"name":"note","arguments":"%b"}}'
    return (
        b'{"id":"r","model":"m","object":"chat.completion","choices":[{"index":0,"message":'
        b'{"role":"assistant","content":null,"tool_calls":[%b]},"finish_reason":"tool_calls"}]}'
        % (call % _quoted(arguments))
    )


_ITEM = b'{"type":"function_call","id":"i1","call_id":"c1","name":"note","arguments":"%b"}'


def responses_whole(arguments: bytes) -> bytes:
    item = _ITEM % _quoted(arguments)
    return b'{"id":"r","object":"response","model":"m","status":"completed","output":[%b]}' % item


def responses_streamed(arguments: bytes) -> bytes:
    text = _quoted(arguments)
    events = (
        b'{"type":"response.created","response":{"id":"r","model":"m"}}',
        b'{"type":"response.output_item.added","output_index":0,"item":%b}' % (_ITEM % b""),
        b'{"type":"response.function_call_arguments.delta","output_index":0,"delta":"%b"}' % text,
        b'{"type":"response.function_call_arguments.done","output_index":0,"arguments":"%b"}'
        % text,
        b'{"type":"response.output_item.done","output_index":0,"item":%b}' % (_ITEM % text),
        b'{"type":"response.completed","response":%b}' % responses_whole(arguments),
    )
    return b"".join(b"data: %b\n\n" % event for event in events)


def anthropic_whole(arguments: bytes) -> bytes:
    return (
        b'{"id":"r","type":"message","role":"assistant","model":"m","content":[{"type":"tool_use",'
        b'"id":"c1","name":"note","input":%b}],"stop_reason":"tool_use","usage":{}}' % arguments
    )


def anthropic_streamed(arguments: bytes) -> bytes:
    block = b'{"type":"tool_use","id":"c1","name":"note","input":{}}'
    events = (
        b'{"type":"message_start","message":{"id":"r","model":"m","content":[]}}',
        b'{"type":"content_block_start","index":0,"content_block":%b}' % block,
        b'{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"%b"}}'
        % _quoted(arguments),
        b'{"type":"content_block_stop","index":0}',
        b'{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{}}',
        b'{"type":"message_stop"}',
    )
    return b"".join(b"data: %b\n\n" % event for event in events)


def anthropic_at_once(arguments: bytes) -> bytes:
    """The input stands in the event that begins the block."""
    block = b'{"type":"tool_use","id":"c1","name":"note","input":%b}' % arguments
    events = (
        b'{"type":"message_start","message":{"id":"r","model":"m","content":[]}}',
        b'{"type":"content_block_start","index":0,"content_block":%b}' % block,
        b'{"type":"content_block_stop","index":0}',
        b'{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{}}',
        b'{"type":"message_stop"}',
    )
    return b"".join(b"data: %b\n\n" % event for event in events)


def gemini_whole(arguments: bytes) -> bytes:
    return (
        b'{"responseId":"r","modelVersion":"m","candidates":[{"content":{"role":"model","parts":'
        b'[{"functionCall":{"name":"note","args":%b}}]},"finishReason":"STOP"}]}' % arguments
    )


def gemini_streamed(arguments: bytes) -> bytes:
    return b"data: %b\n\n" % gemini_whole(arguments)


def gemini_array(arguments: bytes) -> bytes:
    return b"[%b]" % gemini_whole(arguments)


BODIES: dict[tuple[str, str], tuple[Body, str]] = {
    ("openai_chat", "whole"): (chat_whole, "application/json"),
    ("openai_chat", "streamed"): (chat_streamed, "text/event-stream"),
    ("openai_responses", "whole"): (responses_whole, "application/json"),
    ("openai_responses", "streamed"): (responses_streamed, "text/event-stream"),
    ("anthropic", "whole"): (anthropic_whole, "application/json"),
    ("anthropic", "streamed"): (anthropic_streamed, "text/event-stream"),
    ("anthropic", "streamed at once"): (anthropic_at_once, "text/event-stream"),
    ("gemini", "whole"): (gemini_whole, "application/json"),
    ("gemini", "streamed"): (gemini_streamed, "text/event-stream"),
    ("gemini", "streamed as an array"): (gemini_array, "application/json"),
}
WAYS = list(BODIES)


async def turn(way: tuple[str, str], arguments: bytes, tool: Any, **options: Any) -> Result[Any]:
    """One turn in which the provider sends that call, byte by byte, and fails every later request."""
    wire, mode = way
    body, kind = BODIES[way]
    sent: list[bytes] = []

    async def serve(client: Client) -> None:
        while await client.request():
            if sent:
                head = b"HTTP/1.1 401 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                await client.send(head)
                return
            sent.append(body(arguments))
            await client.chunked(kind.encode())
            for at in range(len(sent[0])):
                await client.chunk(sent[0][at : at + 1])
            await client.send(b"0\r\n\r\n")

    server = RawServer(serve)
    await server.start()
    try:
        place = f"http://127.0.0.1:{server.port}{PATHS[wire]}"
        agent = Agent(MODELS[wire], base_url=place, api_key="k", tools=[tool], **options)
        if mode == "whole":
            return await agent.run("Note it.")
        async with agent.stream("Note it.") as run:
            async for _ in run:
                pass
            return run.result
    except HoldfastError as error:
        return cast("Result[Any]", error.result)
    finally:
        await server.stop()


def result_of(result: Result[Any]) -> ToolResult:
    """The result that the model got for its call."""
    (found,) = [
        part
        for message in result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    return found


def call_of(result: Result[Any]) -> ToolCall:
    """The call as it stands in the history."""
    (found,) = [
        part for message in result.messages for part in message.parts if isinstance(part, ToolCall)
    ]
    return found
