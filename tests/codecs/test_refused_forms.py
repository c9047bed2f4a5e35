"""Which next form a refusal asks for; what an error must not be able to teach."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.linear import is_linear

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.refused_forms import FormChange, SentForm, find_next_form
from holdfast.codecs.wire import Failure
from holdfast.core.messages import Message, Text, user
from holdfast.core.model_request import ModelRequest, ModelSettings, ToolSpec
from holdfast.models.resolve import load_codec

NEW = EndpointProfile(
    system_role="developer", max_tokens_field="max_completion_tokens", parallel_calls="allow"
)
OLD = EndpointProfile()
TOOL = ToolSpec("look", "Look.", {"type": "object", "properties": {"city": {"type": "string"}}})
REQUEST = ModelRequest(
    model="m",
    messages=[user("Hello?")],
    instructions="Be brief.",
    tools=(TOOL,),
    settings=ModelSettings(max_tokens=9),
)


def sent(profile: EndpointProfile, request: ModelRequest = REQUEST, *tried: FormChange) -> SentForm:
    return SentForm(
        request, OpenAIChat(profile).encode(request).body, "openai_chat", profile, tried
    )


def ask(
    error: object, profile: EndpointProfile, request: ModelRequest = REQUEST, status: int = 400
) -> str:
    """Return the change that an error asks for, such as `developer>system`."""
    body = error.encode() if isinstance(error, str) else json.dumps(error).encode()
    change = find_next_form(Failure(status=status, body=body), sent(profile, request))
    return "" if change is None else f"{change.before}>{change.after}"


def of_openai(message: str, param: str | None = None, code: str | None = None) -> object:
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error",
            "param": param,
            "code": code,
        }
    }


# The sources are public threads, unless a row says otherwise.
REFUSED: list[tuple[EndpointProfile, str, object]] = [
    (  # recorded traffic of OpenAI
        OLD,
        "max_tokens>max_completion_tokens",
        of_openai(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "max_tokens",
            "unsupported_parameter",
        ),
    ),
    (  # the same through a gateway that keeps only the text: BerriAI/litellm
        OLD,
        "max_tokens>max_completion_tokens",
        of_openai(
            "litellm.BadRequestError: AzureException - Error code: 400 - {'error': {'message': "
            "\"Unsupported parameter: 'max_tokens' is not supported with this model.\"}}"
        ),
    ),
    (
        NEW,
        "max_completion_tokens>max_tokens",
        of_openai("Unrecognized request argument supplied: max_completion_tokens"),
    ),
    (NEW, "max_completion_tokens>max_tokens", 'json: unknown field "max_completion_tokens"'),
    (
        NEW,
        "max_completion_tokens>max_tokens",
        {"message": "property 'max_completion_tokens' is unsupported"},
    ),
    (
        NEW,
        "max_completion_tokens>max_tokens",
        of_openai("Additional properties are not allowed ('max_completion_tokens' was unexpected)"),
    ),
    (
        NEW,
        "max_completion_tokens>max_tokens",
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "max_completion_tokens"],
                    "msg": "Extra inputs are not permitted",
                    "input": 9,
                }
            ]
        },
    ),
    (  # partITech/php-mistral#76
        OLD,
        "stream_options>",
        {
            "object": "Error",
            "message": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "stream_options"],
                    "msg": "Extra inputs are not permitted",
                    "input": {"include_usage": True},
                }
            ],
            "type": "invalid_request_error",
            "code": 3001,
        },
    ),
    (  # gpustack/gpustack#429: vLLM writes the list of pydantic into a text
        OLD,
        "stream_options>",
        {
            "object": "error",
            "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': "
            "'Extra inputs are not permitted', 'input': {'include_usage': True}}]",
            "code": 400,
        },
    ),
    (  # FlowiseAI/Flowise#2866, Fireworks
        OLD,
        "stream_options>",
        of_openai("Extra inputs are not permitted, field: 'stream_options'"),
    ),
    (  # microsoft/semantic-kernel#10510, Azure AI
        OLD,
        "stream_options>",
        of_openai("Validation error at #/stream_options: Extra inputs are not permitted"),
    ),
    (  # BerriAI/litellm#13825, Bedrock
        OLD,
        "stream_options>",
        of_openai(
            "The model returned the following errors: stream_options: Extra inputs are not permitted"
        ),
    ),
    (
        NEW,
        "parallel_tool_calls>",
        of_openai(
            "litellm.UnsupportedParamsError: ollama does not support parameters: "
            "['parallel_tool_calls'], for model=qwen3. To drop these, set `drop_params=True`"
        ),
    ),
    (NEW, "parallel_tool_calls>", "got an unexpected keyword argument 'parallel_tool_calls'"),
    (NEW, "parallel_tool_calls>", of_openai("This model does not support parallel tool calls.")),
    (
        NEW,
        "parallel_tool_calls>",
        of_openai("Unsupported value: 'parallel_tool_calls'", "parallel_tool_calls"),
    ),
    (  # haru/redmine_ai_helper#242, DashScope
        NEW,
        "developer>system",
        of_openai(
            "developer is not one of ['system', 'assistant', 'user', 'tool', 'function'] - "
            "'messages.['0].role'"
        ),
    ),
    (  # QuantumNous/new-api#5330
        NEW,
        "developer>system",
        of_openai(
            "invalid parameter 'messages[0].role': invalid role 'developer', must be one of: "
            "system, user, assistant, tool",
            "",
            "400002",
        ),
    ),
    (  # peonist-ai/halogen-server#3
        NEW,
        "developer>system",
        of_openai("chat template rejected the request: Unexpected message role."),
    ),
    (  # vastsa/PI-Desktop#30
        NEW,
        "developer>system",
        {"message": "Upstream request failed: [1214] Incorrect role information", "param": ""},
    ),
    (
        NEW,
        "developer>system",
        "messages[0].role: unknown variant `developer`, expected one of `system`, `user`, `tool`",
    ),
    (
        NEW,
        "developer>system",
        of_openai(
            "Invalid value: 'developer'. Supported values are: 'system', 'assistant', 'user'.",
            "messages[0].role",
            "invalid_value",
        ),
    ),
    (
        NEW,
        "developer>system",
        {
            "detail": [
                {
                    "type": "literal_error",
                    "loc": ["body", "messages", 0, "role"],
                    "msg": "Input should be 'system', 'user' or 'assistant'",
                    "input": "developer",
                }
            ]
        },
    ),
    (  # vllm-project/vllm#2964, the chat template of Gemma
        OLD,
        "system>user",
        {"object": "error", "message": "System role not supported", "param": None, "code": 400},
    ),
    (
        OLD,
        "system>user",
        of_openai(
            "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
            "messages[0].role",
            "unsupported_value",
        ),
    ),
    (OLD, "system>user", "Only user and assistant roles are supported!"),
]


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(("profile", "change", "error"), REFUSED)
def test_a_refusal_is_answered_by_the_next_form(
    profile: EndpointProfile, change: str, error: object, status: int
) -> None:
    assert ask(error, profile, status=status) == change


@pytest.mark.parametrize("status", [200, 401, 403, 404, 413, 429, 500, 503])
def test_another_status_teaches_nothing(status: int) -> None:
    for profile, _, error in REFUSED:
        assert ask(error, profile, status=status) == ""


TAUGHT_NOTHING: list[tuple[EndpointProfile, object]] = [
    # Another value of the field was asked for, not another name.
    (
        OLD,
        of_openai("max_tokens is too large: 9. This model supports at most 4 tokens", "max_tokens"),
    ),
    (OLD, of_openai("max_tokens must be less than 5", "max_tokens", "invalid_value")),
    (OLD, of_openai("Unsupported value: 'max_tokens' must be below 5", "max_tokens")),
    (OLD, of_openai("max_tokens above 4096 is not supported", "max_tokens")),
    (OLD, of_openai("max_tokens is not allowed to exceed the limit", "max_tokens")),
    (OLD, of_openai("This model's maximum context length is 9, reduce messages or max_tokens")),
    (OLD, {"detail": [{"type": "int_type", "loc": ["body", "max_tokens"], "msg": "a number"}]}),
    # About something else.
    (OLD, of_openai("System message must be at the beginning.")),
    (OLD, of_openai("The file system is not available")),
    (OLD, of_openai("Conversation roles must alternate user/assistant/user/assistant/...")),
    (NEW, of_openai("Unexpected role 'tool' after role 'user'", "messages[1].role")),
    (NEW, of_openai("Invalid value: 'tool'.", "messages[1].role")),
    (OLD, of_openai("Unknown parameter: 'tools[0].max_tokens'.", "tools[0].max_tokens")),
    (OLD, of_openai("Unknown parameter: 'my_max_tokens'.", "my_max_tokens")),
    (OLD, of_openai("Unsupported value: 'temperature' does not support 9 with this model.")),
    (OLD, of_openai("Invalid schema for function 'look'", "tools[0].function.parameters")),
    (OLD, "<html><title>400</title>Unknown parameter: max_tokens</html>"),
    (OLD, ""),
    (OLD, "{"),
    (OLD, "null"),
    (OLD, [[[[[[[["Unknown parameter: max_tokens"]]]]]]]]),
    # What was not sent, or is not the form of this profile.
    (OLD, of_openai("Unknown parameter: 'parallel_tool_calls'", "parallel_tool_calls")),
    (OLD, of_openai("Unknown parameter: 'max_completion_tokens'", "max_completion_tokens")),
    (OLD, of_openai("invalid role 'developer'")),
]


@pytest.mark.parametrize(("profile", "error"), TAUGHT_NOTHING)
def test_an_error_about_anything_else_teaches_nothing(
    profile: EndpointProfile, error: object
) -> None:
    assert ask(error, profile) == ""


PHRASES = [
    "Unsupported parameter: 'max_tokens' is not supported with this model.",
    "max_tokens: Extra inputs are not permitted",
    "Extra inputs are not permitted, field: 'stream_options'",
    "System role not supported",
    "Only user and assistant roles are supported!",
    "messages[0].role: unknown variant `system`",
]


@pytest.mark.parametrize("phrase", PHRASES)
@pytest.mark.parametrize(
    "wrap",
    [
        "{}",
        "Invalid message content: {!r}",
        'The input was flagged: "{}"',
        "content: {} ... (truncated)",
    ],
)
@pytest.mark.parametrize("place", ["message", "instructions", "tool", "system"])
def test_an_error_that_quotes_the_user_s_text_teaches_nothing(
    phrase: str, wrap: str, place: str
) -> None:
    assert ask(of_openai(phrase), OLD)
    text = f'Somebody wrote: "{phrase}"\nWhat does it mean? é'
    request = REQUEST
    if place == "message":
        request = replace(request, messages=[user(text)])
    elif place == "instructions":
        request = replace(request, instructions=text)
    elif place == "system":
        request = replace(request, messages=[Message("system", (Text(text),)), user("Hi")])
    else:
        request = replace(request, tools=(ToolSpec("look", text, TOOL.schema),))
    for quoted in (phrase, text, text.upper(), json.dumps(text), repr(text), text[:-30]):
        assert ask(of_openai(wrap.format(quoted)), OLD, request) == ""


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"max_tokens": {"type": "integer"}}},
        {"type": "object", "properties": {"field": {"enum": ["max_tokens"]}}},
    ],
)
def test_a_name_that_the_user_s_schema_has_must_stand_in_the_place_of_the_field(
    schema: dict[str, Any],
) -> None:
    request = replace(REQUEST, tools=(ToolSpec("look", "Look.", schema),))
    assert ask(of_openai("Invalid schema: unknown field 'max_tokens'"), OLD, request) == ""
    own = of_openai("Unknown parameter: 'max_tokens'.", "max_tokens", "unknown_parameter")
    assert ask(own, OLD, request) == "max_tokens>max_completion_tokens"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"parallel_tool_calls": True}, of_openai("Unknown parameter: 'parallel_tool_calls'")),
        ({"extra": {"parallel_tool_calls": True}}, "unknown field 'parallel_tool_calls'"),
        ({"extra": {"stream_options": {}}}, "unknown field 'stream_options'"),
        (
            {"max_tokens": None, "extra": {"max_completion_tokens": 9}},
            "unknown field 'max_completion_tokens'",
        ),
        ({"max_tokens": 9, "extra": {"max_tokens": 9}}, "unknown field 'max_completion_tokens'"),
        ({"temperature": 1.0}, of_openai("Unknown parameter: 'temperature'", "temperature")),
        ({"tool_choice": "look"}, of_openai("Unknown parameter: 'tool_choice'", "tool_choice")),
    ],
)
def test_what_the_user_set_has_no_other_form(changed: dict[str, Any], error: object) -> None:
    request = replace(REQUEST, settings=ModelSettings(**changed))
    assert ask(error, NEW, request) == ""


@pytest.mark.parametrize("wire", ["openai_responses", "anthropic", "gemini"])
def test_a_field_that_a_wire_does_not_read_has_no_other_form(wire: str) -> None:
    profile = EndpointProfile(parallel_calls="allow")
    body = load_codec(wire, profile).encode(REQUEST).body
    form = SentForm(REQUEST, body, wire, profile)
    for text in ("unknown field 'max_tokens'", "unknown field 'stream_options'"):
        assert find_next_form(Failure(status=400, body=text.encode()), form) is None
    parallel = Failure(status=400, body=b"unknown field 'parallel_tool_calls'")
    found = find_next_form(parallel, form)
    assert (found is not None) == (wire == "openai_responses")


def test_a_profile_that_forbids_parallel_calls_has_no_other_form() -> None:
    error = "unknown field 'parallel_tool_calls'"
    assert ask(error, NEW) == "parallel_tool_calls>"
    assert ask(error, replace(NEW, parallel_calls="forbid")) == ""


def test_each_form_is_tried_once() -> None:
    error = Failure(status=400, body=b'{"message": "invalid role \'developer\'"}')
    first = find_next_form(error, sent(NEW))
    assert first is not None
    refused = Failure(status=400, body=b"System role not supported")
    second = find_next_form(refused, sent(first.apply(NEW), REQUEST, first))
    assert second == FormChange("system_role", "system", "user")
    nothing = sent(second.apply(NEW), REQUEST, first, second)
    for body in (b"invalid role 'user'", refused.body, error.body):
        assert find_next_form(Failure(status=400, body=body), nothing) is None
    back = FormChange("max_tokens_field", "max_completion_tokens", "max_tokens")
    form = sent(back.apply(NEW), REQUEST, back)
    assert find_next_form(Failure(status=400, body=b"unknown field max_tokens"), form) is None


def test_a_request_without_instructions_has_no_role_to_change() -> None:
    request = replace(REQUEST, instructions="")
    assert ask("System role not supported", OLD, request) == ""
    said = [user('{"role":"system"'), user("Hi")]
    assert ask("System role not supported", OLD, replace(request, messages=said)) == ""
    own = [Message("system", (Text("Be brief."),)), user("Hi")]
    assert ask("System role not supported", OLD, replace(request, messages=own)) == "system>user"


@settings(max_examples=30, deadline=None)
@given(st.one_of(st.binary(), st.text().map(str.encode)), st.binary())
def test_no_bytes_raise(body: bytes, encoded: bytes) -> None:
    form = SentForm(REQUEST, encoded, "openai_chat", OLD)
    change = find_next_form(Failure(status=400, body=body), form)
    assert change is None or change.apply(OLD) != OLD


HOSTILE = [
    "unknown ",
    "max_tokens ",
    "not ",
    "only user, ",
    "messages[",
    "'" * 9,
    "unsupported field ",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_the_time_is_linear(piece: str) -> None:
    form = sent(OLD)

    def seconds(size: int) -> float:
        error = Failure(status=400, body=json.dumps(of_openai(piece * size)).encode())
        began = process_time()
        find_next_form(error, form)
        return process_time() - began

    assert is_linear(seconds, 100, 800)
