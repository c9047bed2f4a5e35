"""The head of a request, the errors that come before anything is sent, and what is encoded only once."""

import json
from typing import Any

import pytest

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_chat.history import HistoryEncoder
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    Message,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.core.transcript import Transcript

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "Weather in a city.", SCHEMA)


def encode(profile: EndpointProfile | None = None, **fields: Any) -> dict[str, Any]:
    request = ModelRequest(**{"model": "m", "messages": [user("Hi")], **fields})
    encoded = OpenAIChat(profile).encode(request)
    assert encoded.path == "chat/completions"
    body: dict[str, Any] = json.loads(encoded.body)
    return body


def settings(profile: EndpointProfile | None = None, **fields: Any) -> dict[str, Any]:
    body = encode(profile, stream=False, tools=(WEATHER,), settings=ModelSettings(**fields))
    return {key: body[key] for key in body if key not in ("model", "messages", "tools")}


def test_the_least_request() -> None:
    request = ModelRequest(model="m", messages=[user("Hi")], stream=False)
    encoded = OpenAIChat().encode(request)
    assert encoded.body == b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}'
    assert ("content-type", "application/json") in encoded.headers


def test_a_stream_asks_for_its_usage_where_the_provider_takes_that() -> None:
    assert encode()["stream_options"] == {"include_usage": True}
    body = encode(EndpointProfile(stream_usage=False))
    assert body["stream"] is True
    assert "stream_options" not in body


def test_instructions_are_the_first_message_under_the_provider_s_word() -> None:
    for role in ("system", "developer"):
        body = encode(EndpointProfile(system_role=role), instructions="Be brief.")
        assert body["messages"][0] == {"role": role, "content": "Be brief."}


def test_settings_under_their_names() -> None:
    assert settings(
        max_tokens=5,
        temperature=0.0,
        top_p=1,
        stop=("a", "b"),
        seed=7,
        tool_choice="required",
        parallel_tool_calls=False,
        reasoning_effort="low",
    ) == {
        "max_tokens": 5,
        "temperature": 0.0,
        "top_p": 1,
        "stop": ["a", "b"],
        "seed": 7,
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
    }


def test_settings_under_the_names_of_one_provider() -> None:
    profile = EndpointProfile(max_tokens_field="max_completion_tokens", seed_field="random_seed")
    assert settings(profile, max_tokens=5, seed=7) == {"max_completion_tokens": 5, "random_seed": 7}
    thinking = settings(
        EndpointProfile(reasoning="object"), reasoning_effort="low", reasoning_tokens=9
    )
    assert thinking == {"reasoning": {"effort": "low", "max_tokens": 9}}


def test_tools_and_the_choice_of_one() -> None:
    body = encode(tools=(WEATHER,), settings=ModelSettings(tool_choice="weather"))
    function = {"name": "weather", "description": "Weather in a city.", "parameters": SCHEMA}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}


def test_a_tool_without_parameters_has_an_empty_schema() -> None:
    (tool,) = encode(tools=(ToolSpec("now", "", {}),))["tools"]
    assert tool["function"] == {"name": "now", "parameters": {"type": "object", "properties": {}}}


def test_what_only_tools_make_sense_of_is_left_out_without_them() -> None:
    body = encode(settings=ModelSettings(tool_choice="auto", parallel_tool_calls=True))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)


def test_a_wanted_shape() -> None:
    body = encode(output=OutputSchema("Trip", SCHEMA, strict=False))
    described = {"name": "Trip", "schema": SCHEMA, "strict": False}
    assert body["response_format"] == {"type": "json_schema", "json_schema": described}


def test_a_wanted_shape_is_strict_where_strict_mode_takes_it() -> None:
    described = encode(output=OutputSchema("Trip", SCHEMA))["response_format"]["json_schema"]
    assert described["strict"] is True
    assert described["schema"] == {**SCHEMA, "additionalProperties": False}
    open_ended = {**SCHEMA, "additionalProperties": True}
    described = encode(output=OutputSchema("Trip", open_ended))["response_format"]["json_schema"]
    assert (described["strict"], described["schema"]) == (False, open_ended)


def test_a_provider_without_a_role_for_instructions_gets_them_in_user_messages() -> None:
    profile = EndpointProfile(system_role="user")
    history = [
        Message("system", (Text("In English."),)),
        user("One?"),
        assistant(ToolCall("c1", "f", "{}")),
        tool_results([ToolResult("c1", "f", (Text("done"),))]),
        Message("system", (Text("Now in French."),)),
        user("Two?"),
    ]
    body = encode(profile, instructions="Be brief.", messages=history)
    roles = ["user", "assistant", "tool", "assistant", "user"]
    assert [one["role"] for one in body["messages"]] == roles
    assert body["messages"][0]["content"] == "Be brief.\n\nIn English.\n\nOne?"
    assert body["messages"][-1]["content"] == "Now in French.\n\nTwo?"
    # A transcript that was encoded for another role is encoded again.
    shared = Transcript(history)
    assert encode(messages=shared)["messages"][0]["role"] == "system"
    assert encode(profile, instructions="Be brief.", messages=shared) == body
    wanted = OutputSchema("Trip", SCHEMA, mode="prompt")
    asked = encode(profile, messages=[user("Go.")], output=wanted)["messages"]
    assert len(asked) == 1
    assert asked[0]["content"].startswith("Answer with nothing but JSON")
    assert asked[0]["content"].endswith("\n\nGo.")


@pytest.mark.parametrize("schema", [{"type": "array", "items": {}}, {"anyOf": [SCHEMA]}])
def test_an_output_that_is_not_an_object_is_requested_by_an_instruction(
    schema: dict[str, Any],
) -> None:
    body = encode(output=OutputSchema("Trips", schema))
    assert "response_format" not in body
    assert json.loads(body["messages"][0]["content"].rpartition("\n")[2]) == schema


def test_an_output_for_a_provider_with_only_json_mode() -> None:
    profile = EndpointProfile(response_format="json_object")
    body = encode(profile, output=OutputSchema("Trip", SCHEMA), instructions="Be brief.")
    assert body["response_format"] == {"type": "json_object"}
    told = body["messages"][0]["content"]
    assert told.startswith("Be brief.\n\nAnswer with nothing but JSON")
    assert json.loads(told.rpartition("\n")[2]) == SCHEMA


def test_extra_fields_go_in_as_they_are() -> None:
    body = encode(settings=ModelSettings(temperature=1, extra={"top_k": 4, "temperature": 0}))
    assert (body["top_k"], body["temperature"]) == (4, 0)


ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("no messages", {"messages": []}, "messages: is empty"),
    ("a budget", {"settings": ModelSettings(reasoning_tokens=5)}, "settings.reasoning_tokens"),
    ("no such tool", {"settings": ModelSettings(tool_choice="x")}, "settings.tool_choice"),
    ("no tools", {"settings": ModelSettings(tool_choice="required")}, "settings.tool_choice"),
    ("a name", {"tools": (ToolSpec("a b", "", {}),)}, "tools"),
    ("two of a name", {"tools": (WEATHER, WEATHER)}, "tools"),
    ("a schema", {"tools": (ToolSpec("a", "", {"type": "string"}),)}, "tools.a.schema"),
    ("no json wanted", {"output": OutputSchema("a", {"x": object()})}, "output.schema"),
    ("a wanted name", {"output": OutputSchema("a b", SCHEMA)}, "output.name"),
    ("a field of ours", {"settings": ModelSettings(extra={"messages": []})}, "settings.extra"),
    ("no json", {"settings": ModelSettings(extra={"a": object()})}, "settings.extra"),
    ("no json in a schema", {"tools": (ToolSpec("a", "", {"x": object()}),)}, "tools.a.schema"),
]


@pytest.mark.parametrize(("fields", "said"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_what_cannot_be_sent_is_refused_and_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        encode(**fields)
    assert str(caught.value).startswith(said)
    assert caught.value.info.landed.value == "no"


CALL = ToolCall("a", "weather", "{}")
RESULT = ToolResult("a", "weather", (Text("Rain"),))


class TestPairs:
    """A history whose calls and results do not match is refused before it is sent."""

    BROKEN: tuple[tuple[list[Message], str], ...] = (
        ([user("Hi"), tool_results([RESULT])], "messages[1]"),
        ([user("Hi"), assistant(CALL)], "messages[1]"),
        ([user("Hi"), assistant(CALL), user("Well?")], "messages[1]"),
        ([user("Hi"), assistant(CALL, ToolCall("b", "f")), tool_results([RESULT])], "messages[1]"),
        ([user("Hi"), assistant(CALL), tool_results([RESULT, RESULT])], "messages[2]"),
        ([user("Hi"), Message("user", (CALL,))], "messages[1]"),
    )

    @pytest.mark.parametrize(("messages", "place"), BROKEN)
    @pytest.mark.parametrize("kept", [list, Transcript])
    def test_it_is_refused_each_time(self, messages: list[Message], place: str, kept: Any) -> None:
        codec = OpenAIChat()
        request = ModelRequest(model="m", messages=kept(messages))
        for _ in range(2):
            with pytest.raises(ConfigurationError) as caught:
                codec.encode(request)
            assert caught.value.argument == place

    @pytest.mark.parametrize(("messages", "place"), BROKEN)
    def test_it_is_refused_when_it_breaks_later(self, messages: list[Message], place: str) -> None:
        codec = OpenAIChat()
        history = Transcript(messages[:1])
        codec.encode(ModelRequest(model="m", messages=history))
        for message in messages[1:]:
            history.append(message)
        with pytest.raises(ConfigurationError) as caught:
            codec.encode(ModelRequest(model="m", messages=history))
        assert caught.value.argument == place

    def test_it_is_refused_after_the_results_were_cut_off(self) -> None:
        codec = OpenAIChat()
        history = Transcript([user("Hi"), assistant(CALL), tool_results([RESULT])])
        request = ModelRequest(model="m", messages=history)
        codec.encode(request)
        history.truncate(2)
        with pytest.raises(ConfigurationError, match=r"messages\[1\]"):
            codec.encode(request)
        history.append(user("Well?"))
        with pytest.raises(ConfigurationError, match=r"messages\[1\]"):
            codec.encode(request)


class TestOnce:
    def test_a_message_is_encoded_once_in_a_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        count = 0
        plain = HistoryEncoder.encode

        def counted(self: HistoryEncoder, message: Message) -> bytes:
            nonlocal count
            count += 1
            return plain(self, message)

        monkeypatch.setattr(HistoryEncoder, "encode", counted)
        codec = OpenAIChat()
        history = Transcript([user("Hi")])
        for turn in range(50):
            request = ModelRequest(model="m", messages=history, tools=(WEATHER,))
            assert len(json.loads(codec.encode(request).body)["messages"]) == len(history)
            history.append(assistant(f"answer {turn}"))
            history.append(user("More"))
        assert count == 1 + 49 * 2

    def test_pairs_are_checked_once_in_a_run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[int] = []

        def counted(messages: Any, _takes: Any) -> bool:
            seen.append(len(messages))
            return True

        monkeypatch.setattr("holdfast.codecs.pairing.check_pairs", counted)
        codec = OpenAIChat()
        history = Transcript([user("Hi")])
        for _ in range(50):
            codec.encode(ModelRequest(model="m", messages=history))
            history.append(assistant(CALL))
            history.append(tool_results([RESULT]))
        assert max(seen) <= 4

    def test_the_head_is_encoded_once_for_each_question(self) -> None:
        codec = OpenAIChat()
        tools, options = (WEATHER,), ModelSettings(seed=1)

        def ask(model: str, text: str) -> bytes:
            request = ModelRequest(
                model=model, messages=[user(text)], tools=tools, settings=options
            )
            return codec.encode(request).body

        first, other = ask("a", "x"), ask("b", "x")
        heads = codec._encoder._heads._recent
        assert (ask("a", "x"), ask("b", "x")) == (first, other)
        assert codec._encoder._heads._recent is heads
        assert all(len(head.request.messages) == 0 for head in heads)
        for number in range(50):
            ask(str(number), "x")
        assert len(codec._encoder._heads._recent) == 8

    def test_a_fork_is_encoded_as_itself(self) -> None:
        codec = OpenAIChat()
        history = Transcript([user("Hi"), assistant("Hello")])
        codec.encode(ModelRequest(model="m", messages=history))
        branch = history.fork()
        branch.append(user("B"))
        history.append(user("A"))
        for kept, text in ((branch, "B"), (history, "A")):
            body = json.loads(codec.encode(ModelRequest(model="m", messages=kept)).body)
            assert body["messages"][-1]["content"] == text

    def test_two_accents_do_not_share_their_bytes(self) -> None:
        history = Transcript([Message("system", (Text("S"),)), user("Hi")])
        for role in ("system", "developer"):
            body = OpenAIChat(EndpointProfile(system_role=role)).encode(
                ModelRequest(model="m", messages=history)
            )
            assert json.loads(body.body)["messages"][0]["role"] == role
