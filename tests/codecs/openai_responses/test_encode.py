"""A neutral question becomes a body, or a refusal that names the field, before anything is sent."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_responses.codec import ResponsesCodec
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

Json = dict[str, Any]

WIRE = "openai_responses"
PNG = b"\x89PNG\r\n\x1a\n"
SCHEMA: Mapping[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}
STRICT = {**SCHEMA, "required": ["city"], "additionalProperties": False}
WEATHER = ToolSpec("weather", "The weather", SCHEMA)
ASKED = assistant(ToolCall("call_1", "weather", '{"city": "Porto"}'))
ANSWERED = tool_results([ToolResult("call_1", "weather", (Text("Rain"),))])


def ask(**fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "gpt-5.2", "messages": [user("Hi")], **fields})


def body(request: ModelRequest, profile: EndpointProfile | None = None) -> Json:
    made: Json = json.loads(ResponsesCodec(profile).encode(request).body)
    return made


def sent(*messages: Message, **given: Any) -> list[Json]:
    settings = ModelSettings(extra=given or None)
    made: list[Json] = body(ask(messages=messages, settings=settings))["input"]
    return made


def settings(**given: Any) -> Json:
    return body(ask(tools=(WEATHER,), settings=ModelSettings(**given)))


def refused(request: ModelRequest) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        ResponsesCodec().encode(request)
    return caught.value


def said(role: str, *texts: str) -> Json:
    kind = "output_text" if role == "assistant" else "input_text"
    content = [{"type": kind, "text": text} for text in texts]
    return {"type": "message", "role": role, "content": content}


def test_the_plain_case_keeps_nothing_at_the_server() -> None:
    encoded = ResponsesCodec().encode(ask(instructions="Be brief."))
    assert encoded.path == "/responses"
    assert json.loads(encoded.body) == {
        "model": "gpt-5.2",
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "input": [said("user", "Hi")],
    }
    assert "stream" not in body(ask(stream=False))


@pytest.mark.parametrize(
    ("model", "asked_for"),
    [
        ("gpt-5-nano", True),
        ("o4-mini", True),
        ("openai/gpt-5.2", True),
        ("grok-4", True),
        ("gpt-4o", False),
        ("openai/gpt-4.1-mini", False),
        ("gpt-5-chat-latest", False),
    ],
)
def test_models_that_never_reason_are_not_asked_for_it(model: str, asked_for: bool) -> None:
    assert ("include" in body(ask(model=model))) is asked_for


def test_tools_and_results() -> None:
    made = body(ask(tools=(WEATHER,), messages=[user("Hi"), ASKED, ANSWERED]))
    assert made["tools"] == [
        {
            "type": "function",
            "name": "weather",
            "strict": False,
            "description": "The weather",
            "parameters": SCHEMA,
        }
    ]
    call = {"type": "function_call", "call_id": "call_1", "name": "weather"}
    assert made["input"][1:] == [
        {**call, "arguments": '{"city": "Porto"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "Rain"},
    ]


def test_results_with_pictures() -> None:
    picture = Media("image/png", data=PNG)
    *_, result = sent(
        user("Hi"), ASKED, tool_results([ToolResult("call_1", "weather", (Text("See"), picture))])
    )
    assert result["output"] == [
        {"type": "input_text", "text": "See"},
        {
            "type": "input_image",
            "image_url": "data:image/png;base64,iVBORw0KGgo=",
            "detail": "auto",
        },
    ]


def test_system_messages_keep_their_place() -> None:
    history = [system("One."), user("Hi"), system("Two."), user("Now")]
    made = body(ask(instructions="Zero.", messages=history))
    assert made["instructions"] == "Zero."
    assert [one["role"] for one in made["input"]] == ["system", "user", "system", "user"]
    made = body(ask(messages=history), EndpointProfile(system_role="developer"))
    assert [one["role"] for one in made["input"]] == ["developer", "user", "developer", "user"]


def test_state_goes_back_only_to_its_own_wire() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    own = {"wire": WIRE, "item": {"id": "msg_1", "phase": "commentary"}, "part": {"logprobs": [1]}}
    made = sent(
        user("Hi"),
        assistant(
            Reasoning("ours", None, WIRE, thought),
            Reasoning("theirs", "sig", "anthropic"),
            Reasoning("by hand"),
            Opaque(WIRE, {"type": "web_search_call", "id": "ws_1"}),
            Opaque("anthropic", {"type": "compaction"}),
            Text("One", own),
            Text("plain", {"wire": "anthropic", "citations": [1]}),
            Refusal("No."),
        ),
    )
    assert made[1:] == [
        thought,
        {"type": "web_search_call", "id": "ws_1"},
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "One", "annotations": [], "logprobs": [1]},
                {"type": "output_text", "text": "plain", "annotations": []},
                {"type": "refusal", "refusal": "No."},
            ],
        },
    ]


def test_reasoning_that_only_the_server_could_find_needs_its_memory() -> None:
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    history = [user("Hi"), assistant(Reasoning(wire=WIRE, extra=bare), "Yes"), user("Why?")]
    assert bare not in sent(*history)
    assert bare in sent(*history, store=True)


def test_a_reply_that_was_written_by_hand_holds_its_text_as_a_string() -> None:
    made = sent(user("Hi"), assistant("Yes, ", "it is."), user("Why?"))
    assert made[1] == {"type": "message", "role": "assistant", "content": "Yes, it is."}
    assert sent(assistant(Refusal("No.")), user("Why?"))[0]["content"] == "No."


def test_texts_of_two_messages_stay_two_items() -> None:
    first = Text("One", {"wire": WIRE, "item": {"id": "msg_1"}})
    second = Text("Two", {"wire": WIRE, "item": {"id": "msg_2"}})
    made = sent(user("Hi"), assistant(first, second))
    assert [item.get("id") for item in made[1:]] == ["msg_1", "msg_2"]


def test_calls_go_back_with_their_ids_and_custom_ones_as_text() -> None:
    extra = {"type": "custom_tool_call", "id": "ct_1"}
    history = [
        user("Hi"),
        assistant(
            ToolCall("call_1", "weather", "{}", WIRE, {"id": "fc_1", "namespace": "geo"}),
            ToolCall("call_2", "sql", '{"input": "SELECT 1"}', WIRE, extra),
            ToolCall("call_3", "pay", "{}", "gemini", {"thoughtSignature": "x"}),
        ),
        tool_results([ToolResult(f"call_{n}", "", (Text(str(n)),)) for n in (1, 2, 3)]),
    ]
    own = ModelSettings(extra={"tools": [{"type": "namespace", "name": "geo"}]})
    for messages in (history, Transcript(history)):
        assert "namespace" not in body(ask(messages=messages))["input"][1]
        made = body(ask(messages=messages, settings=own))["input"][1:]
        assert made[0]["namespace"] == "geo"
        assert made[1] == {
            "type": "custom_tool_call",
            "id": "ct_1",
            "call_id": "call_2",
            "name": "sql",
            "input": "SELECT 1",
        }
        assert "thoughtSignature" not in made[2]
        assert [item["type"] for item in made[3:]] == [
            "function_call_output",
            "custom_tool_call_output",
            "function_call_output",
        ]


def test_ids_go_back_as_they_came_unless_the_server_refuses_them() -> None:
    own = "resp_" + "x" * 80 + ":call_0"
    history = [
        user("Hi"),
        assistant(
            ToolCall(own, "weather", "{}", WIRE, {"id": "fc_1"}),
            ToolCall("", "weather"),
            ToolCall("y" * 80, "weather"),
        ),
        tool_results([ToolResult(i, "weather", ()) for i in (own, "", "y" * 80)]),
    ]
    for messages in (history, Transcript(history)):
        made = body(ask(messages=messages))["input"]
        sent_ids = [own[:48], "call", "y" * 48]  # another server of this wire made the first one
        assert [item["call_id"] for item in made[1:4]] == sent_ids
        assert [item["call_id"] for item in made[4:]] == sent_ids


@pytest.mark.parametrize(
    ("messages", "argument", "words"),
    [
        ([], "messages", "no message to reply to"),
        ([assistant(Reasoning("theirs", "s", "gemini"))], "messages", "no message to reply to"),
        ([user("Hi"), ANSWERED], "messages[1]", "call_1"),
        ([user("Hi"), ASKED], "messages[1]", "has no result"),
        ([user(Media("image/png", data=b"GIF89a"))], "messages[0].media", "not image/png"),
        ([user(Media("image/tiff", data=b"II*"))], "messages[0].media", "does not accept"),
        ([user(Media("video/mp4", data=b"1234"))], "messages[0].media", "does not accept"),
        ([user(Media("audio/mpeg", data=b"ID3"))], "messages[0].media", "does not accept"),
        ([user(Media("image/png", url="file:///a"))], "messages[0].media", "is not an http"),
    ],
)
def test_a_history_that_cannot_be_sent_is_refused(
    messages: list[Message], argument: str, words: str
) -> None:
    for history in (messages, Transcript(messages)):
        error = refused(ask(messages=history))
        assert error.argument == argument
        assert words in error.problem


def test_a_user_message_without_content_has_an_empty_text() -> None:
    (item,) = sent(user(""))
    assert item["content"] == ""


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    cut = assistant(Reasoning("Hm.", None, WIRE, thought))
    assert len(sent(user("Hi"), cut, user("Well?"))) == 2


def test_a_call_with_another_id_is_another_item() -> None:
    call = ToolCall("call_1", "weather", "{}", WIRE, {"id": "fc_1", "status": "completed"})
    made = sent(user("Hi"), assistant(call), ANSWERED, assistant(call), ANSWERED)
    assert [item.get("id") for item in made if item["type"] == "function_call"] == ["fc_1", None]


def test_a_history_that_the_server_holds_a_part_of_is_not_judged() -> None:
    made = sent(ANSWERED, previous_response_id="resp_1", store=True)
    assert [item["type"] for item in made] == ["function_call_output"]


def test_a_reply_of_which_nothing_can_be_sent_is_left_out() -> None:
    history = [user("Hi"), assistant(Reasoning("theirs", "s", "gemini")), user("Well?")]
    for messages in (history, Transcript(history)):
        assert body(ask(messages=messages))["input"] == [said("user", "Hi"), said("user", "Well?")]


@pytest.mark.parametrize(
    ("media", "part"),
    [
        (
            Media("image/*", url="https://example.org/a.png"),
            {
                "type": "input_image",
                "image_url": "https://example.org/a.png",
                "detail": "auto",
            },
        ),
        (
            Media("image/png", data=PNG, extra={"wire": WIRE, "detail": "low"}),
            {
                "type": "input_image",
                "image_url": "data:image/png;base64,iVBORw0KGgo=",
                "detail": "low",
            },
        ),
        (
            Media("application/pdf", data=b"%PDF-1.7"),
            {
                "type": "input_file",
                "filename": "file.pdf",
                "file_data": "data:application/pdf;base64,JVBERi0xLjc=",
            },
        ),
        (
            Media("text/csv", url="https://example.org/a.csv"),
            {"type": "input_file", "file_url": "https://example.org/a.csv"},
        ),
    ],
)
def test_pictures_and_files(media: Media, part: Json) -> None:
    ((made,),) = (item["content"] for item in sent(user(media)))
    assert made == part


def test_content_and_items_of_the_users_own() -> None:
    part = Opaque(WIRE, {"type": "input_file", "file_id": "file_1"})
    item = Opaque(WIRE, {"type": "item_reference", "id": "msg_1"})
    made = sent(Message("user", (Text("See"), part, item)))
    assert made[0]["content"][1] == part.data
    assert made[1] == item.data


def test_settings_have_the_names_of_the_wire() -> None:
    made = settings(max_tokens=9, temperature=0.5, top_p=0.9, seed=4, cache=True)
    assert made["max_output_tokens"] == 9
    assert (made["temperature"], made["top_p"]) == (0.5, 0.9)
    assert not made.keys() & {"seed", "reasoning", "max_tokens", "cache"}
    assert settings(reasoning_effort="minimal")["reasoning"] == {"effort": "minimal"}
    assert settings(parallel_tool_calls=False)["parallel_tool_calls"] is False


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_tool_choice_by_word(choice: str) -> None:
    assert settings(tool_choice=choice)["tool_choice"] == choice


def test_tool_choice_by_name() -> None:
    named = {"type": "function", "name": "weather"}
    assert settings(tool_choice="weather")["tool_choice"] == named


@pytest.mark.parametrize(
    ("schema", "strict", "made"),
    [
        (STRICT, True, STRICT),
        ({**SCHEMA, "required": ["city"]}, True, STRICT),
        (STRICT, False, None),
        ({**SCHEMA, "additionalProperties": True}, True, None),
    ],
)
def test_strict_output_is_asked_for_where_the_server_takes_the_schema(
    schema: Json, strict: bool, made: Json | None
) -> None:
    form = body(ask(output=OutputSchema("Place", schema, strict)))["text"]["format"]
    wanted = {"type": "json_schema", "name": "Place", "schema": made or schema}
    assert form == {**wanted, "strict": made is not None}


def test_output_that_is_not_an_object_is_requested_by_an_instruction() -> None:
    made = body(ask(instructions="Be brief.", output=OutputSchema("List", {"type": "array"})))
    assert "text" not in made
    assert made["instructions"].startswith("Be brief.\n\nAnswer with nothing but JSON")


def test_fields_of_the_users_own() -> None:
    extra = {
        "store": True,
        "include": ["message.output_text.logprobs"],
        "tools": [{"type": "web_search"}],
        "reasoning": {"summary": "auto"},
        "prompt_cache_key": "k",
    }
    made = settings(extra=extra, reasoning_effort="low")
    assert made["store"] is True
    assert made["include"] == ["reasoning.encrypted_content", "message.output_text.logprobs"]
    assert [tool["type"] for tool in made["tools"]] == ["function", "web_search"]
    assert made["reasoning"] == {"effort": "low", "summary": "auto"}
    assert made["prompt_cache_key"] == "k"


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"settings": ModelSettings(stop=("END",))}, "settings.stop"),
        ({"settings": ModelSettings(cache_key="k" * 65)}, "settings.cache_key"),
        ({"settings": ModelSettings(tool_choice="required")}, "settings.tool_choice"),
        ({"settings": ModelSettings(tool_choice="absent")}, "settings.tool_choice"),
        ({"settings": ModelSettings(extra={"input": []})}, "settings.extra"),
        ({"settings": ModelSettings(extra={"x": object()})}, "settings.extra"),
        ({"tools": (ToolSpec("a b", "", SCHEMA),)}, "tools"),
        ({"tools": (WEATHER, WEATHER)}, "tools"),
        ({"tools": (ToolSpec("a", "", {"type": "string"}),)}, "tools.a.schema"),
        ({"output": OutputSchema("a b", SCHEMA)}, "output.name"),
        ({"output": OutputSchema("a", {"type": "array", "x": object()})}, "output.schema"),
    ],
)
def test_what_the_wire_cannot_say_is_refused_by_name(fields: Json, argument: str) -> None:
    error = refused(ask(**fields))
    assert error.argument == argument
    assert error.info.landed.value == "no"


def test_half_a_surrogate_pair_does_no_harm() -> None:
    assert sent(user("a\ud800b"))[0]["content"][0]["text"] == "a?b"
