"""What goes to the server, and what is refused before it goes."""

import json
import time
from typing import Any

import pytest
from tests.codecs.gemini.bodies import call, chunk, read, text, whole

from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.gemini.history import UNSIGNED
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    Media,
    Message,
    Opaque,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    system,
    tool_results,
    user,
)
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.core.transcript import Transcript

PNG = b"\x89PNG\r\n\x1a\n..."
SCHEMA = {
    "type": "object",
    "properties": {"city": {"$ref": "#/$defs/c"}},
    "$defs": {"c": {"type": "string"}},
}
WEATHER = ToolSpec("weather", "Current weather.", SCHEMA)


def request(*messages: Message, **fields: Any) -> ModelRequest:
    fields.setdefault("model", "gemini-2.5-flash")
    return ModelRequest(messages=list(messages) or [user("Hi")], **fields)


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    value = json.loads(Gemini().encode(request(*messages, **fields)).body)
    assert isinstance(value, dict)
    return value


def parts(message: Message, **fields: Any) -> Any:
    """The parts of one message that may stand alone."""
    return body(message, user("Go on."), **fields)["contents"][0]["parts"]


def calling(*calls: ToolCall, before: tuple[Any, ...] = ()) -> list[Message]:
    """A call and its result, since a history must have both."""
    results = [ToolResult(item.id, item.name, (Text("done"),)) for item in calls]
    return [user("Go"), assistant(*before, *calls), tool_results(results)]


def test_the_least_request() -> None:
    encoded = Gemini().encode(request(user("Hi"), stream=False))
    assert encoded.path == "/models/gemini-2.5-flash:generateContent"
    assert json.loads(encoded.body) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def test_the_path_of_a_stream_and_of_other_models() -> None:
    def path(model: str) -> str:
        return Gemini().encode(request(model=model)).path

    assert path("gemini-3-pro") == "/models/gemini-3-pro:streamGenerateContent?alt=sse"
    assert path("models/x").startswith("/models/x:")
    assert path("tunedModels/mine").startswith("/tunedModels/mine:")


@pytest.mark.parametrize("model", ["", "a b", "../x", "x?key=1", "x#y"])
def test_a_model_that_cannot_stand_in_a_path(model: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        body(model=model)
    assert caught.value.argument == "model"


def test_instructions_and_leading_system_messages() -> None:
    made = body(system("A"), system("B"), user("Hi"), instructions="I")
    assert made["systemInstruction"] == {"parts": [{"text": "I"}, {"text": "A"}, {"text": "B"}]}
    assert [content["role"] for content in made["contents"]] == ["user"]


def test_a_system_message_inside_the_history_becomes_a_user_message() -> None:
    made = body(user("Hi"), assistant("Ho"), system("Now be brief."), user("Go on"))
    assert [content["role"] for content in made["contents"]] == ["user", "model", "user", "user"]
    assert "systemInstruction" not in made


@pytest.mark.parametrize("messages", [[], [system("Only this")]])
def test_nothing_to_answer(messages: list[Message]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Gemini().encode(ModelRequest(model="gemini-2.5-flash", messages=messages))
    assert caught.value.argument == "messages"


def test_settings() -> None:
    settings = ModelSettings(max_tokens=9, temperature=0.5, top_p=0.9, stop=("END",), seed=7)
    assert body(settings=settings)["generationConfig"] == {
        "maxOutputTokens": 9, "temperature": 0.5, "topP": 0.9, "stopSequences": ["END"], "seed": 7,
    }  # fmt: skip


def test_tools_go_as_json_schema() -> None:
    empty = ToolSpec("now", "The time.", {})
    assert body(tools=(WEATHER, empty))["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "weather",
                    "description": "Current weather.",
                    "parametersJsonSchema": SCHEMA,
                },
                {"name": "now", "description": "The time."},
            ]
        }
    ]


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        (None, {"mode": "VALIDATED"}),
        ("auto", {"mode": "VALIDATED"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("weather", {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
    ],
)
def test_tool_choice(choice: str | None, config: object) -> None:
    made = body(tools=(WEATHER,), settings=ModelSettings(tool_choice=choice))
    assert made["toolConfig"] == {"functionCallingConfig": config}


@pytest.mark.parametrize(
    ("first", "second", "config"),
    [
        (None, None, {"mode": "VALIDATED"}),
        (True, None, {"mode": "VALIDATED"}),
        (None, False, None),
        (False, False, None),
        (True, False, "tools.a.strict"),
    ],
)
def test_schemas_are_enforced_for_all_functions_or_for_none(
    first: bool | None, second: bool | None, config: object
) -> None:
    tools = (ToolSpec("a", "", SCHEMA, first), ToolSpec("b", "", SCHEMA, second))
    if isinstance(config, str):
        with pytest.raises(ConfigurationError) as caught:
            body(tools=tools)
        assert caught.value.argument == config
        return
    made = body(tools=tools)
    assert made.get("toolConfig") == (config and {"functionCallingConfig": config})
    forced = body(tools=tools, settings=ModelSettings(tool_choice="required"))
    assert forced["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


@pytest.mark.parametrize(
    ("argument", "fields"),
    [
        ("settings.tool_choice", {"settings": ModelSettings(tool_choice="required")}),
        ("settings.tool_choice", {"tools": (WEATHER,), "settings": ModelSettings(tool_choice="x")}),
        ("settings.parallel_tool_calls", {"settings": ModelSettings(parallel_tool_calls=False)}),
        ("settings.extra", {"settings": ModelSettings(extra={"contents": []})}),
        ("settings.extra", {"settings": ModelSettings(extra={"labels": object()})}),
        ("tools", {"tools": (WEATHER, WEATHER)}),
        ("tools", {"tools": (ToolSpec("bad name", "", {}),)}),
        ("tools", {"tools": (ToolSpec("x" * 65, "", {}),)}),
        ("tools.t.schema", {"tools": (ToolSpec("t", "", {"properties": {"x": object()}}),)}),
    ],
)
def test_what_the_wire_cannot_say_is_refused(argument: str, fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        body(**fields)
    assert caught.value.argument == argument


@pytest.mark.parametrize(
    ("model", "settings", "config"),
    [
        ("gemini-2.5-flash", {"reasoning_tokens": 512}, {"thinkingBudget": 512, "includeThoughts": True}),
        ("gemini-2.5-flash", {"reasoning_tokens": 0}, {"thinkingBudget": 0, "includeThoughts": False}),
        ("gemini-2.5-pro", {"reasoning_effort": "high"}, {"thinkingBudget": 24576, "includeThoughts": True}),
        ("gemini-2.5-flash", {"reasoning_effort": "none"}, {"thinkingBudget": 0, "includeThoughts": False}),
        ("gemini-3-pro", {"reasoning_effort": "high"}, {"thinkingLevel": "high", "includeThoughts": True}),
        ("gemini-3-flash", {"reasoning_effort": "none"}, {"thinkingLevel": "minimal", "includeThoughts": False}),
        ("gemini-3-pro", {"reasoning_tokens": 9}, {"thinkingBudget": 9, "includeThoughts": True}),
        ("gemini-3-pro", {"reasoning_tokens": 9, "reasoning_effort": "low"}, {"thinkingLevel": "low", "includeThoughts": True}),
        ("gemini-2.5-pro", {"reasoning_tokens": 9, "reasoning_effort": "low"}, {"thinkingBudget": 9, "includeThoughts": True}),
    ],
)  # fmt: skip
def test_thinking(model: str, settings: dict[str, Any], config: object) -> None:
    made = body(model=model, settings=ModelSettings(**settings))
    assert made["generationConfig"] == {"thinkingConfig": config}


def test_output_schema() -> None:
    output = OutputSchema("Trip", SCHEMA)
    assert body(output=output)["generationConfig"] == {
        "responseMimeType": "application/json", "responseJsonSchema": SCHEMA,
    }  # fmt: skip
    newer = body(output=output, tools=(WEATHER,), model="gemini-3-pro-preview")
    assert newer["generationConfig"]["responseJsonSchema"] == SCHEMA


def test_older_models_get_the_schema_as_an_instruction_if_there_are_tools() -> None:
    made = body(output=OutputSchema("Trip", SCHEMA), tools=(WEATHER,), instructions="I")
    assert "generationConfig" not in made
    first, second = made["systemInstruction"]["parts"]
    assert first == {"text": "I"}
    assert json.loads(second["text"].partition("\n")[2]) == SCHEMA


def test_extra_fields_are_merged_and_win() -> None:
    extra = {
        "generationConfig": {"topK": 5, "temperature": 0.1},
        "tools": [{"googleSearch": {}}],
        "safetySettings": [{"category": "X"}],
    }
    settings = ModelSettings(temperature=0.9, max_tokens=3, extra=extra)
    made = body(tools=(WEATHER,), settings=settings)
    assert made["generationConfig"] == {"temperature": 0.1, "maxOutputTokens": 3, "topK": 5}
    assert [list(tool) for tool in made["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert made["safetySettings"] == [{"category": "X"}]


def test_media() -> None:
    made = parts(
        user(
            "See",
            Media("image/png", data=PNG),
            Media("video/mp4", url="gs://b/v", extra={"videoMetadata": {"fps": 1}, "cache": 1}),
            Media("text/plain", url="data:text/plain;base64,aGk="),
        )
    )
    assert made[1]["inlineData"]["mimeType"] == "image/png"
    assert made[2] == {
        "fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"},
        "videoMetadata": {"fps": 1},
    }
    assert made[3] == {"inlineData": {"mimeType": "text/plain", "data": "aGk="}}


def test_a_damaged_picture_is_refused_with_the_place() -> None:
    with pytest.raises(ConfigurationError) as caught:
        body(user("a"), user(Media("image/png", data=b"no picture")))
    assert "messages[1]" in caught.value.argument


def test_a_picture_that_the_model_made_goes_back_as_it_came() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": "iVA="}, "thoughtSignature": "S"}
    reply = read(whole(chunk(part, finish="STOP"))).reply
    assert parts(reply.message) == [part]


def test_parallel_results_are_one_content_in_order() -> None:
    calls = (ToolCall("1", "a", '{"x":1.00}'), ToolCall("", "b", "{}"))
    results = [
        ToolResult("1", "a", (Text('{"n": 1.10}'),)),
        ToolResult("", "b", (Text("boom"),), is_error=True),
    ]
    encoded = Gemini().encode(request(user("Go"), assistant(*calls), tool_results(results)))
    assert b'"args":{"x":1.00}' in encoded.body
    assert b'"response":{"n": 1.10}' in encoded.body
    made = json.loads(encoded.body)["contents"]
    assert [content["role"] for content in made] == ["user", "model", "user"]
    assert made[2]["parts"] == [
        {"functionResponse": {"id": "1", "name": "a", "response": {"n": 1.1}}},
        {"functionResponse": {"name": "b", "response": {"error": "boom"}}},
    ]


@pytest.mark.parametrize(
    ("content", "response"),
    [
        ("plain", {"output": "plain"}),
        ("[1]", {"output": "[1]"}),
        ('{"cut": ', {"output": '{"cut": '}),
        ("", {"output": ""}),
        (' {"a": 1} ', {"a": 1}),
    ],
)
def test_tool_results(content: str, response: object) -> None:
    result = ToolResult("1", "a", (Text(content),))
    made = body(user("Go"), assistant(ToolCall("1", "a")), tool_results([result]))
    assert made["contents"][2]["parts"][0]["functionResponse"]["response"] == response


def test_media_of_results_follow_all_responses() -> None:
    calls = (ToolCall("1", "a"), ToolCall("2", "b"))
    results = [
        ToolResult("1", "a", (Media("image/png", data=PNG),)),
        ToolResult("2", "b", (Text("two"),)),
    ]
    made = body(user("Go"), assistant(*calls), tool_results(results))["contents"][2]["parts"]
    assert [next(iter(part)) for part in made] == [
        "functionResponse",
        "functionResponse",
        "inlineData",
    ]
    assert made[0]["functionResponse"]["response"] == {"output": "The result is attached below."}


@pytest.mark.parametrize("arguments", ["[1]", '{"a": 1', "null", "{" * 100_000])
def test_arguments_that_are_not_an_object_can_be_sent(arguments: str) -> None:
    made = body(*calling(ToolCall("1", "a", arguments)))
    assert made["contents"][1]["parts"][0]["functionCall"]["args"] == {"unparsed": arguments}


@pytest.mark.parametrize(
    ("name", "arguments"), [("a", '{"city": "Por'), ("open tab", "{}"), ("a", "[1]")]
)
def test_a_call_that_is_sent_otherwise_loses_its_signature(name: str, arguments: str) -> None:
    signed = ToolCall("1", name, arguments, "gemini", {"thoughtSignature": "c2ln"})
    part = body(*calling(signed))["contents"][1]["parts"][0]
    assert part.get("thoughtSignature") != "c2ln"


def test_signatures_go_back_on_their_own_part() -> None:
    sent = [
        text("think", thought=True, thoughtSignature="T"),
        text("a"),
        text("b", thoughtSignature="S1"),
        {**call("x", {"n": 1}, id="c"), "thoughtSignature": "S2"},
        call("y", {}),
        text("", thoughtSignature="S3"),
        {"toolCall": {"id": "t"}, "thoughtSignature": "S4"},
    ]
    reply = read(whole(chunk(*sent, finish="STOP"))).reply
    results = [ToolResult(item.id, item.name, (Text("ok"),)) for item in reply.calls]
    made = body(user("Go"), reply.message, tool_results(results), model="gemini-3-pro")
    assert made["contents"][1]["parts"] == sent


def test_state_of_other_wires_stays_at_home() -> None:
    foreign = (
        Reasoning("hm", "sig", "anthropic"),
        Reasoning("hm", "sig", None),
        Opaque("openai_responses", {"type": "x"}),
        Opaque("gemini.metadata", {"groundingMetadata": {}}),
        Text("Hi", {"citations": [1]}),
        Refusal("No."),
    )
    assert parts(assistant(*foreign)) == [{"text": "Hi"}, {"text": "No."}]


def test_a_call_of_another_model_gets_the_stand_in_signature() -> None:
    calls = (
        ToolCall("1", "a", "{}", "openai_chat", {"thoughtSignature": "other"}),
        ToolCall("2", "b"),
    )
    newer = body(*calling(*calls), model="gemini-3-pro")["contents"][1]["parts"]
    assert newer[0]["thoughtSignature"] == UNSIGNED
    assert "thoughtSignature" not in newer[1]
    older = body(*calling(*calls), model="gemini-2.5-pro")["contents"][1]["parts"]
    assert all("thoughtSignature" not in part for part in older)


@pytest.mark.parametrize("message", [assistant(), assistant(Reasoning("x")), user(""), user()])
def test_a_message_of_which_nothing_is_left_is_a_blank(message: Message) -> None:
    assert parts(message) == [{"text": " "}]


def test_calls_at_the_beginning_follow_a_blank_of_the_user() -> None:
    call, result = ToolCall("1", "a"), ToolResult("1", "a", (Text("x"),))
    made = body(assistant(call), tool_results([result]))["contents"]
    assert [content["role"] for content in made] == ["user", "model", "user"]
    assert made[0]["parts"] == [{"text": " "}]


def test_a_reply_at_the_end_is_to_be_continued() -> None:
    made = body(user("Hi"), assistant("One moment."))["contents"]
    assert made[-1] == {"role": "user", "parts": [{"text": "(Go on.)"}]}


@pytest.mark.parametrize(
    "text", ['{"a":' * 70 + "1" + "}" * 70, '{"a": 1e999}', '{"a": 1, "a": 2}']
)
def test_an_object_that_the_server_may_not_read_is_sent_as_text(text: str) -> None:
    call, result = ToolCall("1", "a"), ToolResult("1", "a", (Text(text),))
    made = body(user("Hi"), assistant(call), tool_results([result]))["contents"]
    assert made[-1]["parts"][0]["functionResponse"]["response"] == {"output": text}


def test_half_a_surrogate_is_sent_as_something_that_utf_8_has() -> None:
    assert parts(user("a\ud83db")) == [{"text": "a?b"}]


def test_a_call_without_its_result_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no result"):
        body(user("Go"), assistant(ToolCall("1", "a")))


def test_a_history_that_grew_or_changed_is_checked_again() -> None:
    codec = Gemini()
    transcript = Transcript(calling(ToolCall("1", "a")))
    asked = ModelRequest(model="gemini-3-pro", messages=transcript)
    codec.encode(asked)
    transcript.append(assistant(ToolCall("2", "b")))
    with pytest.raises(ConfigurationError, match="no result") as caught:
        codec.encode(asked)
    assert caught.value.argument == "messages[3]"
    transcript.truncate(2)
    transcript.append(user("Never mind"))
    with pytest.raises(ConfigurationError, match="no result"):
        codec.encode(asked)


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-3-pro"])
def test_a_transcript_encodes_to_the_same_bytes(model: str) -> None:
    history = [system("S"), *calling(ToolCall("1", "a", '{"x": 1}')), user("And?")]
    transcript = Transcript(history)
    codec = Gemini()
    plain = codec.encode(request(*history, model=model))
    assert codec.encode(ModelRequest(model=model, messages=transcript)) == plain
    transcript.append(assistant("Done."))
    longer = codec.encode(ModelRequest(model=model, messages=transcript))
    assert longer == codec.encode(request(*transcript, model=model))
    assert longer.body.startswith(plain.body[:-2])


def test_the_head_is_cached_and_never_stale() -> None:
    codec = Gemini()
    shared = request(instructions="I", tools=(WEATHER,), settings=ModelSettings(seed=1))
    first = codec.encode(shared)
    assert codec.encode(shared) == first
    for other in (
        request(instructions="J"),
        request(instructions="I", tools=(WEATHER,)),
        request(system("S"), user("Hi"), instructions="I"),
        request(model="gemini-3-pro", settings=ModelSettings(reasoning_effort="low")),
    ):
        assert codec.encode(other) == Gemini().encode(other)
    assert codec.encode(shared) == first


def test_a_longer_history_costs_no_more_than_its_bytes() -> None:
    """Encoding a long history again costs far less than encoding it the first time."""
    transcript = Transcript([user("word " * 50) for _ in range(4_000)])
    codec = Gemini()
    asked = ModelRequest(model="gemini-3-pro", messages=transcript)

    def seconds() -> float:
        began = time.process_time()
        codec.encode(asked)
        return time.process_time() - began

    first = seconds()
    assert min(seconds() for _ in range(5)) < first / 3
