"""A neutral question becomes a body, or a refusal that names the field, before anything is sent."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.anthropic.encode import DEFAULT_MAX_TOKENS
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

PNG = b"\x89PNG\r\n\x1a\n rest"
SCHEMA: Mapping[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = ToolSpec("weather", "The weather", SCHEMA)
ASKED = assistant(ToolCall("toolu_1", "weather", '{"city": "Porto"}'))
ANSWERED = tool_results([ToolResult("toolu_1", "weather", (Text("Rain"),))])


def ask(**fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": "claude-sonnet-4-5", "messages": [user("Hi")], **fields})


def body(request: ModelRequest) -> Json:
    made: Json = json.loads(AnthropicCodec().encode(request).body)
    return made


def sent(*messages: Message) -> list[Json]:
    return [one["content"] for one in body(ask(messages=messages))["messages"]]


def settings(**given: Any) -> Json:
    return body(ask(tools=(WEATHER,), settings=ModelSettings(**given)))


def refused(request: ModelRequest) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        AnthropicCodec().encode(request)
    return caught.value


def test_the_plain_case() -> None:
    encoded = AnthropicCodec().encode(ask(instructions="Be brief."))
    assert json.loads(encoded.body) == {
        "model": "claude-sonnet-4-5",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "stream": True,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    assert ("anthropic-version", "2023-06-01") in encoded.headers
    assert "stream" not in body(ask(stream=False))


def test_tools_and_results() -> None:
    made = body(ask(tools=(WEATHER,), messages=[user("Hi"), ASKED, ANSWERED]))
    assert made["tools"] == [
        {"name": "weather", "description": "The weather", "input_schema": SCHEMA}
    ]
    use = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Porto"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain"}
    assert [one["role"] for one in made["messages"]] == ["user", "assistant", "user"]
    assert made["messages"][1]["content"] == [use]
    assert made["messages"][2]["content"] == [result]


def test_results_of_one_iteration_are_one_message() -> None:
    calls = assistant(ToolCall("a", "weather"), ToolCall("b", "weather"), ToolCall("c", "weather"))
    results = tool_results(
        [
            ToolResult("a", "weather", (Text("no"),), is_error=True),
            ToolResult("b", "weather", (Text("see"), Media("image/png", data=PNG))),
            ToolResult("c", "weather", ()),
        ]
    )
    *_, content = sent(user("Hi"), calls, results)
    image = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgogcmVzdA=="}
    assert content == [
        {"type": "tool_result", "tool_use_id": "a", "content": "no", "is_error": True},
        {
            "type": "tool_result",
            "tool_use_id": "b",
            "content": [{"type": "text", "text": "see"}, {"type": "image", "source": image}],
        },
        {"type": "tool_result", "tool_use_id": "c"},
    ]


def test_system_messages_first_are_instructions_and_later_ones_are_marked_text() -> None:
    made = body(
        ask(
            instructions="One.",
            messages=[system("Two."), user("Hi"), system("In French."), user("Now")],
        )
    )
    assert made["system"] == "One.\n\nTwo."
    texts = [one["content"][0]["text"] for one in made["messages"]]
    assert texts == ["Hi", "<system>\nIn French.\n</system>", "Now"]
    assert {one["role"] for one in made["messages"]} == {"user"}


@pytest.mark.parametrize(
    ("arguments", "sent_as"),
    [
        ("", {}),
        ("  ", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": ', {"unparsed": '{"a": '}),
        ("[1]", {"unparsed": "[1]"}),
        ('"text"', {"unparsed": '"text"'}),
        ('{"a":\ud800}', {"unparsed": '{"a":?}'}),
    ],
)
def test_arguments_are_always_an_object(arguments: str, sent_as: Json) -> None:
    content = sent(user("Hi"), assistant(ToolCall("toolu_1", "weather", arguments)), ANSWERED)
    assert content[1][0]["input"] == sent_as


def test_arguments_keep_every_digit() -> None:
    exact = '{"n": 1.10000000000000000001, "i": 123456789012345678901234567890}'
    history = [user("Hi"), assistant(ToolCall("toolu_1", "weather", exact)), ANSWERED]
    assert exact.encode() in AnthropicCodec().encode(ask(messages=history)).body


def test_state_goes_back_only_to_its_own_wire() -> None:
    content = sent(
        user("Hi"),
        assistant(
            Reasoning("ours", "c2ln", "anthropic"),
            Reasoning(wire="anthropic", extra={"type": "redacted_thinking", "data": "x"}),
            Reasoning("unsigned", None, "anthropic"),
            Reasoning("theirs", "sig", "gemini"),
            Reasoning("by hand"),
            Opaque("anthropic", {"type": "compaction", "content": "c"}),
            Opaque("openai_responses", {"type": "web_search_call"}),
            Text("cited", {"wire": "anthropic", "citations": [{"type": "t"}]}),
            Text("plain", {"wire": "openai_responses", "item": {"id": "msg_1"}}),
            Text("  \n"),
            Refusal("No."),
        ),
    )
    assert content[1] == [
        {"type": "thinking", "thinking": "ours", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "compaction", "content": "c"},
        {"type": "text", "text": "cited", "citations": [{"type": "t"}]},
        {"type": "text", "text": "plain"},
        {"type": "text", "text": "No."},
    ]


def test_a_reply_of_which_nothing_can_be_sent_is_left_out() -> None:
    history = [user("Hi"), assistant(Reasoning("theirs", "s", "gemini")), user("Well?")]
    for messages in (history, Transcript(history)):
        texts = [one["content"][0]["text"] for one in body(ask(messages=messages))["messages"]]
        assert texts == ["Hi", "Well?"]


def test_ids_that_the_server_refuses_are_replaced_on_both_sides() -> None:
    history = [
        user("Hi"),
        assistant(ToolCall("", "weather"), ToolCall("call:1", "weather")),
        tool_results([ToolResult("", "weather", ()), ToolResult("call:1", "weather", ())]),
        assistant(ToolCall("call_1", "weather"), ToolCall("call_1", "weather")),
        tool_results([ToolResult("call_1", "weather", ()), ToolResult("call_1", "weather", ())]),
    ]
    for messages in (history, Transcript(history)):
        made = [one["content"] for one in body(ask(messages=messages))["messages"]]
        uses = [block["id"] for block in made[1] + made[3]]
        assert uses == ["call", "call_1", "call_1_2", "call_1_3"]
        assert [block["tool_use_id"] for block in made[2] + made[4]] == uses


@pytest.mark.parametrize(
    ("messages", "argument", "words"),
    [
        ([], "messages", "no message to reply to"),
        ([system("Be brief.")], "messages", "no message to reply to"),
        ([user("Hi"), ANSWERED], "messages[1]", "toolu_1"),
        ([user("Hi"), ASKED], "messages[1]", "has no result"),
        ([user("Hi"), ASKED, user("Well?")], "messages[1]", "has no result"),
        ([user("Hi"), ASKED, ANSWERED, ANSWERED], "messages[3]", "has no open call"),
        ([user("Hi"), Message("user", ASKED.parts)], "messages[1]", "role is user"),
        ([user("Hi"), Message("assistant", ANSWERED.parts)], "messages[1]", "is assistant"),
        ([user(Media("image/png", data=b"GIF89a"))], "messages[0].media", "not image/png"),
        ([user(Media("image/png", data=b""))], "messages[0].media", "empty"),
        ([user(Media("image/tiff", data=b"II*"))], "messages[0].media", "does not accept"),
        ([user(Media("audio/wav", data=b"RIFF"))], "messages[0].media", "does not accept"),
        ([user(Media("image/png", url="file:///a"))], "messages[0].media", "is not an http"),
        ([user(Media("image/png", url="data:x"))], "messages[0].media", "not base64"),
        ([user(Media("text/plain", data=b"\xff"))], "messages[0].media", "UTF-8"),
    ],
)
def test_a_history_that_cannot_be_sent_is_refused(
    messages: list[Message], argument: str, words: str
) -> None:
    for history in (messages, Transcript(messages)):
        error = refused(ask(messages=history))
        assert error.argument == argument
        assert words in error.problem


@pytest.mark.parametrize(
    ("media", "block"),
    [
        (
            Media("image/jpg", data=b"\xff\xd8\xff"),
            {"type": "image", "source": {"media_type": "image/jpeg", "data": "/9j/"}},
        ),
        (
            Media("image/*", url="https://example.org/a.png"),
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        ),
        (
            Media("image/png", url="data:image/png;base64,iVBORw0KGgo="),
            {"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo="}},
        ),
        (
            Media("application/pdf", data=b"%PDF-1.7", name="Plan"),
            {"type": "document", "title": "Plan", "source": {"data": "JVBERi0xLjc="}},
        ),
        (
            Media("text/csv", data=b"a,b"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain"}},
        ),
    ],
)
def test_pictures_and_files(media: Media, block: Json) -> None:
    ((made,),) = sent(user(media))
    assert made["source"].items() >= block.pop("source").items()
    assert made.items() >= block.items()


def test_settings_have_the_names_of_the_wire() -> None:
    made = settings(max_tokens=9, temperature=0.5, stop=("END",), seed=4)
    assert made["max_tokens"] == 9
    assert made["temperature"] == 0.5
    assert settings(top_p=0.9)["top_p"] == 0.9
    assert made["stop_sequences"] == ["END"]
    assert "seed" not in made


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "weather"}, {"type": "tool", "name": "weather"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": "required", "parallel_tool_calls": True},
            {"type": "any", "disable_parallel_tool_use": False},
        ),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
    ],
)
def test_tool_choice(given: Json, choice: Json) -> None:
    assert settings(**given)["tool_choice"] == choice


def test_settings_about_tools_mean_nothing_without_tools() -> None:
    given = ModelSettings(tool_choice="auto", parallel_tool_calls=False)
    assert "tool_choice" not in body(ask(settings=given))


@pytest.mark.parametrize(
    ("model", "given", "made"),
    [
        ("claude-sonnet-4-5", {"reasoning_effort": "low"}, 2048),
        ("claude-3-7-sonnet-20250219", {"reasoning_effort": "high"}, 16384),
        ("claude-opus-4-20250514", {"reasoning_effort": "minimal"}, 1024),
        ("minimax-m2", {"reasoning_effort": "medium"}, 8192),
        ("claude-opus-4-7", {"reasoning_tokens": 3000}, 3000),
    ],
)
def test_a_thinking_budget_leaves_room_for_the_answer(model: str, given: Json, made: int) -> None:
    encoded = body(ask(model=model, settings=ModelSettings(**given)))
    assert encoded["thinking"] == {"type": "enabled", "budget_tokens": made}
    assert encoded["max_tokens"] == DEFAULT_MAX_TOKENS + made


def test_newer_models_take_effort_as_a_word() -> None:
    for model in ("claude-opus-4-6", "claude-sonnet-5", "us.anthropic.claude-fable-5-1-v1:0"):
        encoded = body(ask(model=model, settings=ModelSettings(reasoning_effort="minimal")))
        assert encoded["thinking"] == {"type": "adaptive"}
        assert encoded["output_config"] == {"effort": "low"}
        assert encoded["max_tokens"] == DEFAULT_MAX_TOKENS


@pytest.mark.parametrize("given", [{"reasoning_effort": "none"}, {"reasoning_tokens": 0}])
def test_no_thinking(given: Json) -> None:
    assert settings(**given)["thinking"] == {"type": "disabled"}


def test_structured_output_is_the_servers_own_where_it_has_one() -> None:
    output = OutputSchema("Place", {**SCHEMA, "required": ["city"]})
    made = body(ask(output=output, settings=ModelSettings(extra={"output_config": {"x": 1}})))
    form: Json = {"type": "json_schema"}
    form["schema"] = {**SCHEMA, "required": ["city"], "additionalProperties": False}
    assert made["output_config"] == {"format": form, "x": 1}
    for old in (
        ask(output=output, model="claude-3-5-haiku-20241022", instructions="Be brief."),
        ask(output=OutputSchema("Place", SCHEMA, strict=False), instructions="Be brief."),
    ):
        made = body(old)
        assert "output_config" not in made
        assert made["system"].startswith("Be brief.\n\nAnswer with nothing but JSON")
        assert '"city"' in made["system"]


def test_the_cache_is_marked_at_the_ends_of_the_tools_the_head_and_the_history() -> None:
    mark = {"type": "ephemeral"}
    on = ModelSettings(cache=True)
    messages = Transcript([user("Hi"), ASKED, ANSWERED])
    codec = AnthropicCodec()
    for _ in range(2):
        request = ask(instructions="Be brief.", tools=(WEATHER,), messages=messages, settings=on)
        made = json.loads(codec.encode(request).body)
        assert made["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
        assert made["tools"][-1]["cache_control"] == mark
        marked = [b for one in made["messages"] for b in one["content"] if "cache_control" in b]
        assert marked == [made["messages"][2]["content"][-1]]
    without_system = body(ask(tools=(WEATHER,), settings=on))
    assert without_system["tools"][-1]["cache_control"] == mark


def test_fields_of_the_users_own() -> None:
    extra = {
        "top_k": 5,
        "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        "betas": ["a-2025-01-01", "b-2025-02-02"],
    }
    request = ask(tools=(WEATHER,), settings=ModelSettings(extra=extra, tool_choice="web_search"))
    encoded = AnthropicCodec().encode(request)
    made = json.loads(encoded.body)
    assert made["top_k"] == 5
    assert [tool["name"] for tool in made["tools"]] == ["weather", "web_search"]
    assert "betas" not in made
    assert ("anthropic-beta", "a-2025-01-01,b-2025-02-02") in encoded.headers


@pytest.mark.parametrize(
    ("fields", "argument"),
    [
        ({"settings": ModelSettings(temperature=1.5)}, "settings.temperature"),
        ({"settings": ModelSettings(stop=(" ",))}, "settings.stop"),
        ({"settings": ModelSettings(temperature=0.5, top_p=0.9)}, "settings.top_p"),
        (
            {"settings": ModelSettings(temperature=0.5, reasoning_tokens=2000)},
            "settings.temperature",
        ),
        (
            {
                "settings": ModelSettings(tool_choice="required", reasoning_tokens=2000),
                "tools": (WEATHER,),
            },
            "settings.tool_choice",
        ),
        ({"settings": ModelSettings(reasoning_tokens=100)}, "settings.reasoning_tokens"),
        (
            {"settings": ModelSettings(reasoning_tokens=2000, max_tokens=2000)},
            "settings.max_tokens",
        ),
        ({"settings": ModelSettings(tool_choice="required")}, "settings.tool_choice"),
        ({"settings": ModelSettings(tool_choice="absent")}, "settings.tool_choice"),
        ({"settings": ModelSettings(extra={"messages": []})}, "settings.extra"),
        ({"settings": ModelSettings(extra={"x": object()})}, "settings.extra"),
        ({"tools": (ToolSpec("a b", "", SCHEMA),)}, "tools"),
        ({"tools": (WEATHER, WEATHER)}, "tools"),
        ({"tools": (ToolSpec("a", "", {"type": "string"}),)}, "tools.a.schema"),
        ({"tools": (ToolSpec("a", "", {"x": object()}),)}, "tools.a.schema"),
        ({"output": OutputSchema("a", {"x": object()})}, "output.schema"),
    ],
)
def test_what_the_wire_cannot_say_is_refused_by_name(fields: Json, argument: str) -> None:
    error = refused(ask(**fields))
    assert error.argument == argument
    assert error.info.landed.value == "no"


def test_what_is_new_is_checked_against_what_was_sent() -> None:
    history = Transcript([user("Hi"), ASKED, ANSWERED])
    codec = AnthropicCodec()
    codec.encode(ask(messages=history))
    history.append(ASKED)
    history.append(ANSWERED)
    made = json.loads(codec.encode(ask(messages=history)).body)["messages"]
    assert [one["content"][0]["id"] for one in made[1::2]] == ["toolu_1", "toolu_1_2"]
    history.append(ASKED)
    assert refused(ask(messages=history)).argument == "messages[5]"


def test_half_a_surrogate_pair_does_no_harm() -> None:
    assert sent(user("a\ud800b"))[0][0]["text"] == "a?b"


def test_the_container_is_named_while_code_waits_for_a_result() -> None:
    kept = Opaque("anthropic", {"container": {"id": "container_1"}})
    waiting = [user("Hi"), Message("assistant", (*ASKED.parts, kept)), ANSWERED]
    assert body(ask(messages=waiting))["container"] == "container_1"
    assert "container" not in body(ask(messages=[*waiting, assistant("Rain"), user("Ok")]))
    own = ModelSettings(extra={"container": "mine"})
    assert body(ask(messages=waiting, settings=own))["container"] == "mine"


def test_a_user_message_without_content_is_a_line_of_text() -> None:
    said = [{"type": "text", "text": "(The message is empty.)"}]
    assert sent(user("  "), system(" "), user("Hi"))[0] == said


def test_a_failed_result_without_a_message_is_a_line_of_text() -> None:
    failed = ToolResult("toolu_1", "weather", (Text(" "),), is_error=True)
    (block,) = sent(user("Hi"), ASKED, tool_results([failed]))[2]
    assert block["content"] == "(It failed without a message.)"


def test_a_call_of_the_server_without_a_result_is_sent_only_while_it_waits() -> None:
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    paused = assistant("Let me look.", Opaque("anthropic", call))
    said = [{"type": "text", "text": "Let me look."}]
    history = Transcript([user("Hi"), paused])
    codec = AnthropicCodec()

    def blocks() -> list[Json]:
        return [
            one["content"]
            for one in json.loads(codec.encode(ask(messages=history)).body)["messages"]
        ]

    assert blocks()[1] == [*said, call]
    history.append(user("Never mind."))
    assert blocks()[1] == said
    history.append(assistant("Well."))
    history.append(user("And now?"))
    assert blocks()[1] == said


def test_a_reply_that_paused_elsewhere_is_not_taken_for_the_beginning_of_one() -> None:
    history = [user("Hi"), assistant("One moment. ")]
    assert sent(*history)[-1] == [{"type": "text", "text": "(Go on.)"}]
    assert len(sent(user("Hi"), assistant("One moment."))) == 2
    unsent = assistant(Reasoning("", wire="openai_responses"))
    for after in ([], [unsent], [unsent, unsent]):
        paused = [user("Hi"), assistant("One moment."), *after]
        newer = body(ask(model="claude-opus-4-6", messages=paused))
        assert newer["messages"][-1]["role"] == "user"


def test_a_picture_in_a_system_message_is_sent() -> None:
    (block,) = sent(user("Hi"), Message("system", (Media("image/png", data=PNG),)))[1]
    assert block["type"] == "image"


def test_thinking_is_off_after_calls_of_another_model_whatever_follows_that_is_not_sent() -> None:
    calls = [user("Hi"), ASKED, ANSWERED, assistant(Reasoning("Hm.")), user("And?")]
    made = body(ask(messages=calls, settings=ModelSettings(reasoning_tokens=2048)))
    assert made["thinking"] == {"type": "disabled"}


def test_a_history_of_nothing_that_can_be_sent_is_refused() -> None:
    for messages in ([], [assistant(Reasoning("theirs", "s", "gemini"))]):
        on = ModelSettings(cache=True)
        assert refused(ask(messages=messages, settings=on)).argument == "messages"
