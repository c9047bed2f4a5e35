"""The provider's own tools: their entries on every wire, and what can be read of their calls."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.test_is_complete import CODECS, provider_of
from tests.corpus import every_row

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.assemble import Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.output_mode import choose_output_method
from holdfast.codecs.wire import Codec
from holdfast.core.deltas import HostedToolFinished, HostedToolStarted
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media, Message, Opaque, Reply, Text, ToolCall, user
from holdfast.models import (
    CodeExecution,
    FileSearch,
    HostedCall,
    HostedTool,
    ImageGeneration,
    ModelRequest,
    ModelSettings,
    OutputSchema,
    ToolSpec,
    UserLocation,
    WebFetch,
    WebSearch,
    find_citations,
    find_hosted_calls,
)
from holdfast.resilience.cache.decision import request_key

WIRES: dict[str, Codec] = {
    "Anthropic": AnthropicCodec(),
    "Responses": ResponsesCodec(),
    "Gemini": Gemini(),
    "Chat Completions": OpenAIChat(),
}
PORTO = UserLocation(city="Porto", country="PT", timezone="Europe/Lisbon")
WEATHER = ToolSpec("weather", "", {"type": "object", "properties": {}})


def ask(*hosted: HostedTool, model: str = "m", **more: Any) -> ModelRequest:
    return ModelRequest(model=model, messages=[user("Hi")], hosted_tools=hosted, **more)


def body(wire: str, request: ModelRequest) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(WIRES[wire].encode(request).body)
    return decoded


APPROXIMATE = {
    "type": "approximate",
    "city": "Porto",
    "country": "PT",
    "timezone": "Europe/Lisbon",
}
ENTRIES: list[tuple[str, HostedTool, dict[str, Any]]] = [
    ("Anthropic", WebSearch(), {"type": "web_search_20250305", "name": "web_search"}),
    (
        "Anthropic",
        WebSearch(max_uses=2, allowed_domains=["a.pt"], user_location=PORTO),
        {
            "type": "web_search_20250305",
            "name": "web_search",
            "max_uses": 2,
            "allowed_domains": ["a.pt"],
            "user_location": APPROXIMATE,
        },
    ),
    (
        "Anthropic",
        WebSearch(blocked_domains=("a.pt",), extra={"type": "web_search_20260209"}),
        {"type": "web_search_20260209", "name": "web_search", "blocked_domains": ["a.pt"]},
    ),
    (
        "Anthropic",
        WebFetch(citations=False, max_content_tokens=900),
        {
            "type": "web_fetch_20250910",
            "name": "web_fetch",
            "max_content_tokens": 900,
            "citations": {"enabled": False},
        },
    ),
    ("Anthropic", CodeExecution(), {"type": "code_execution_20250825", "name": "code_execution"}),
    ("Responses", WebSearch(), {"type": "web_search"}),
    (
        "Responses",
        WebSearch(allowed_domains=["a.pt"], user_location=PORTO, search_context_size="low"),
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["a.pt"]},
            "user_location": APPROXIMATE,
            "search_context_size": "low",
        },
    ),
    ("Responses", CodeExecution(), {"type": "code_interpreter", "container": {"type": "auto"}}),
    (
        "Responses",
        CodeExecution(extra={"container": "cntr_1"}),
        {"type": "code_interpreter", "container": "cntr_1"},
    ),
    (
        "Responses",
        FileSearch(stores=["vs_1"], max_results=3),
        {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3},
    ),
    (
        "Responses",
        ImageGeneration(size="1024x1024", output_format="png"),
        {"type": "image_generation", "size": "1024x1024", "output_format": "png"},
    ),
    ("Gemini", WebSearch(), {"googleSearch": {}}),
    ("Gemini", WebSearch(extra={"excludeDomains": ["a"]}), {"googleSearch": {"excludeDomains": ["a"]}}),
    ("Gemini", WebFetch(), {"urlContext": {}}),
    ("Gemini", CodeExecution(), {"codeExecution": {}}),
    (
        "Gemini",
        FileSearch(stores=["fileSearchStores/a"], max_results=3),
        {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/a"], "topK": 3}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "tool", "entry"), ENTRIES)
def test_a_tool_has_the_entry_of_its_wire(
    wire: str, tool: HostedTool, entry: dict[str, Any]
) -> None:
    assert body(wire, ask(tool))["tools"] == [entry]


@pytest.mark.parametrize(
    ("wire", "tool", "argument"),
    [
        ("Responses", WebSearch(max_uses=2), "WebSearch.max_uses"),
        ("Responses", WebSearch(blocked_domains=["a"]), "WebSearch.blocked_domains"),
        ("Responses", WebFetch(), "tools"),
        ("Anthropic", WebSearch(search_context_size="low"), "WebSearch.search_context_size"),
        ("Anthropic", FileSearch(stores=["a"]), "tools"),
        ("Anthropic", ImageGeneration(), "tools"),
        ("Gemini", WebSearch(allowed_domains=["a"]), "WebSearch.allowed_domains"),
        ("Gemini", WebFetch(citations=False), "WebFetch.citations"),
        ("Gemini", ImageGeneration(), "tools"),
        ("Chat Completions", WebSearch(), "tools"),
        ("Chat Completions", CodeExecution(), "tools"),
    ],
)
def test_what_a_wire_does_not_have_is_an_error_that_names_it(
    wire: str, tool: HostedTool, argument: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        WIRES[wire].encode(ask(tool))
    assert caught.value.argument == argument
    assert f"the {wire} wire" in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: WebSearch(max_uses=0), "WebSearch.max_uses"),
        (lambda: WebSearch(allowed_domains="a.pt"), "WebSearch.allowed_domains"),
        (lambda: WebSearch(allowed_domains=["https://a.pt"]), "WebSearch.allowed_domains"),
        (lambda: WebSearch(allowed_domains=["a"], blocked_domains=["b"]), "WebSearch.blocked_domains"),
        (lambda: WebSearch(user_location={"city": "a"}), "WebSearch.user_location"),  # type: ignore[arg-type]
        (lambda: FileSearch(stores=[]), "FileSearch.stores"),
        (lambda: UserLocation(city=" "), "UserLocation.city"),
        (lambda: ImageGeneration(quality="best"), "ImageGeneration.quality"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_where_it_is_written(make: Any, argument: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert caught.value.argument == argument


def test_functions_come_first_and_the_choice_counts_the_providers_tools() -> None:
    for wire in ("Anthropic", "Responses"):
        both = body(wire, ask(WebSearch(), tools=(WEATHER,)))["tools"]
        assert both[0]["name"] == "weather"
        required = ask(WebSearch(), settings=ModelSettings(tool_choice="required"))
        assert body(wire, required)["tool_choice"] in ("required", {"type": "any"})


def test_anthropic_names_its_betas_once_beside_those_of_the_user() -> None:
    settings = ModelSettings(extra={"betas": ["mine", "code-execution-2025-08-25"]})
    request = ask(CodeExecution(), WebFetch(), settings=settings)
    (header,) = [v for k, v in AnthropicCodec().encode(request).headers if k == "anthropic-beta"]
    assert header == "mine,code-execution-2025-08-25,web-fetch-2025-09-10"
    assert "anthropic-beta" not in dict(AnthropicCodec().encode(ask(WebSearch())).headers)


def test_anthropic_refuses_a_function_with_the_name_of_its_tool() -> None:
    taken = ToolSpec("web_search", "", {"type": "object"})
    with pytest.raises(ConfigurationError, match="Rename your function"):
        AnthropicCodec().encode(ask(WebSearch(), tools=(taken,)))


def test_responses_asks_for_the_results() -> None:
    made = body("Responses", ask(CodeExecution(), FileSearch(stores=["a"]), model="gpt-4o"))
    assert made["include"] == ["code_interpreter_call.outputs", "file_search_call.results"]


def test_gemini_has_functions_beside_its_own_tools_only_from_version_3() -> None:
    made = body("Gemini", ask(WebSearch(), tools=(WEATHER,), model="gemini-3-pro"))
    assert made["toolConfig"]["includeServerSideToolInvocations"] is True
    assert len(made["tools"]) == 2
    with pytest.raises(ConfigurationError, match="before Gemini 3"):
        Gemini().encode(ask(WebSearch(), tools=(WEATHER,), model="gemini-2.5-pro"))
    output = OutputSchema("trip", {"type": "object"})
    for model, mode in (("gemini-2.5-pro", "prompt"), ("gemini-3-pro", "native")):
        request = ask(WebSearch(), model=model, output=output)
        assert choose_output_method("gemini", EndpointProfile(), request).mode == mode


def test_the_encoded_head_is_that_of_the_tools() -> None:
    codec = ResponsesCodec()
    search, code = (WebSearch(),), (CodeExecution(),)
    for hosted in (search, code, search):
        request = ModelRequest(model="m", messages=[user("Hi")], hosted_tools=hosted)
        (entry,) = json.loads(codec.encode(request).body)["tools"]
        assert entry["type"] == ("web_search" if hosted is search else "code_interpreter")


def test_no_two_tools_are_one_to_the_cache() -> None:
    tools: tuple[HostedTool, ...] = (WebSearch(), WebFetch(), CodeExecution(), ImageGeneration())
    requests = [ask(), *[ask(tool) for tool in tools], ask(WebSearch(max_uses=1))]
    assert len({request_key("me")(request) for request in requests}) == len(requests)


@pytest.mark.parametrize(
    "tool", [WebSearch(user_location=PORTO), WebFetch(), CodeExecution(), FileSearch(stores=("a",))]
)
def test_a_tool_can_be_saved_and_read(tool: HostedTool) -> None:
    saved = msgspec.json.encode(tool)
    assert msgspec.json.decode(saved, type=HostedTool) == tool


IMAGE = {"type": "image_generation_call", "id": "ig_1", "status": "completed"}


def test_a_generated_image_is_media_and_a_call() -> None:
    image = Media("image/png", data=b"x", extra={"wire": "openai_responses", "item": IMAGE})
    (one,) = find_hosted_calls(Message("assistant", (image,)))
    assert (one.name, one.finished) == ("image_generation", True)


def test_a_result_in_a_later_message_belongs_to_its_call() -> None:
    begun = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "a"}}
    ended = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    messages = [Message("assistant", (Opaque("anthropic", part),)) for part in (begun, ended)]
    (one,) = find_hosted_calls(messages)
    assert one.finished
    (alone,) = find_hosted_calls(messages[0])
    assert not alone.finished


def test_a_tool_that_only_gemini_3_tells_in_parts_is_counted_once() -> None:
    call = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "a", "args": {"queries": ["x"]}}}
    answer = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "a", "response": {"n": 1}}}
    about = {"groundingMetadata": {"webSearchQueries": ["x"]}}
    parts = (Opaque("gemini", call), Opaque("gemini", answer), Opaque("gemini.metadata", about))
    (one,) = find_hosted_calls(Message("assistant", parts))
    assert (one.name, one.id, one.result) == ("web_search", "a", '{"n":1}')


def test_gemini_counts_bytes_and_citations_count_letters() -> None:
    support = {
        "segment": {"startIndex": 6, "endIndex": 12, "text": "né té"},
        "groundingChunkIndices": [0, 7, "x"],
    }
    chunk = {"web": {"uri": "https://a.pt", "title": "A"}}
    about = {"groundingMetadata": {"groundingChunks": [chunk], "groundingSupports": [support]}}
    message = Message("assistant", (Text("Sí, é né té."), Opaque("gemini.metadata", about)))
    (one,) = find_citations(message)
    assert message.text[one.start : one.end] == "né té"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "id",
                    "name",
                    "input",
                    "content",
                    "tool_use_id",
                    "action",
                    "sources",
                    "outputs",
                    "results",
                    "error",
                    "status",
                    "executableCode",
                    "codeExecutionResult",
                    "toolCall",
                    "toolResponse",
                    "groundingMetadata",
                    "url",
                    "uri",
                    "groundingChunks",
                    "groundingSupports",
                    "webSearchQueries",
                    "segment",
                    "startIndex",
                    "urlMetadata",
                    "urlContextMetadata",
                    "citationMetadata",
                    "citationSources",
                    "citations",
                    "annotations",
                    "part",
                    "item",
                    "url_citation",
                    "start_index",
                    "is_error",
                    "args",
                    "response",
                    "wire",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
KINDS = st.sampled_from(
    ["server_tool_use", "x_tool_result", "web_search_call", "code_interpreter_call", "mcp_call", ""]
)


@pytest.mark.slow  # takes half a second or more
@given(
    wire=st.sampled_from(["anthropic", "openai_responses", "gemini", "gemini.metadata"]),
    kind=KINDS,
    data=st.dictionaries(st.sampled_from(["content", "action", "outputs", "error", "input", "id",
        "executableCode", "toolResponse", "groundingMetadata", "urlContextMetadata",
        "citationMetadata", "item", "part", "annotations", "citations"]), JSON),
)  # fmt: skip
def test_no_block_whatever_makes_reading_fail(wire: str, kind: str, data: dict[str, Any]) -> None:
    parts = (
        Opaque(wire, {"type": kind, **data}),
        Text("Hello", {"wire": wire, **data}),
        Media("image/png", data=b"x", extra={"wire": wire, **data}),
    )
    message = Message("assistant", parts)
    for call in find_hosted_calls(message):
        assert isinstance(call.arguments + call.result, str)
    for source in find_citations(message):
        assert 0 <= source.start <= source.end <= len("Hello") or source.start > source.end


@pytest.mark.slow  # takes half a second or more
def test_recorded_traffic_shows_the_same_calls_live_and_in_the_message() -> None:
    seen: Counter[str] = Counter()
    calls: tuple[HostedCall, ...] = ()
    reply = Reply(())
    for row in every_row():
        codec = CODECS.get(row.dialect)
        marks = (b"server_tool_use", b"_call", b"executableCode", b"toolCall", b"groundingMetadata")
        if codec is None or (row.status or 200) >= 300 or not any(m in row.body for m in marks):
            continue
        for chunk in (len(row.body), 61):
            decoder = codec.make_decoder(row.content_type, provider_of(row))
            assembler, notices = Assembler(EndpointProfile(), codec.name), []
            pieces = [row.body[at : at + chunk] for at in range(0, len(row.body), max(chunk, 1))]
            deltas = [delta for piece in pieces for delta in decoder.feed(piece)]
            for delta in [*deltas, *decoder.close()]:
                assembler.feed(delta)
                if isinstance(delta, HostedToolStarted | HostedToolFinished):
                    notices.append(delta)
            reply = assembler.finish().reply
            calls = find_hosted_calls(reply.message)
            started = [one.name for one in notices if isinstance(one, HostedToolStarted)]
            finished = [one.name for one in notices if isinstance(one, HostedToolFinished)]
            assert reply.usage.hosted_calls == len(started), row.id
            assert sorted(one.name for one in calls if one.finished) == sorted(finished), row.id
            assert {one.name for one in calls} >= set(started), row.id
            assert not {one.name for one in calls} & {
                part.name for part in reply.parts if isinstance(part, ToolCall)
            }, row.id
        seen.update(one.name for one in calls)
        seen["citations"] += len(find_citations(reply.message))
    assert seen["web_search"] > 20
    assert seen["code_execution"] > 20
    assert seen["web_fetch"] > 2
    assert seen["file_search"] > 2
    assert seen["citations"] > 100
