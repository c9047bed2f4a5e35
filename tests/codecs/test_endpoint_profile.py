"""Profiles of endpoints: what is refused, and the way from and to data."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.codecs.endpoint_profile import EndpointProfile, ProfileChanges, ThinkingTag
from holdfast.codecs.wire import Codec
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Media, Text, ToolCall, ToolResult, assistant, tool_results, user
from holdfast.core.model_request import ModelRequest, ModelSettings, OutputSchema, ToolSpec
from holdfast.models.presets import PRESETS
from holdfast.models.resolve import load_codec

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini")
FIELDS = EndpointProfile.__struct_fields__
HINTS = get_type_hints(EndpointProfile)


def values_of(field: str) -> list[Any]:
    """Some values that a field may have."""
    special: dict[str, list[Any]] = {
        "thinking_tags": [(), ("<think>", "[THINK]")],
        "state_fields": [(), ("reasoning_details", "extra_content")],
        "output_dialect": ["", "llguidance"],
        "tool_dialect": ["", "llama_cpp"],
        "strict_models": ["", "gpt-oss"],
        "call_id_length": [0, 9],
    }
    if field in special:
        return special[field]
    return [*get_args(HINTS[field])] or [False, True]


PROFILES = st.builds(EndpointProfile, **{name: st.sampled_from(values_of(name)) for name in FIELDS})


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("system_role", "sytem", 'must be "system", "developer" or "user"; got \'sytem\''),
        ("max_tokens_field", "max_new", '"max_tokens" or "max_completion_tokens"'),
        ("images", False, '"any", "inline" or "none"'),
        ("stream_usage", "yes", "must be True or False"),
        ("call_id_length", -1, "must be at least 0"),
        ("state_fields", [1], "must be"),
        ("output_dialect", "llama", "Known are openai_strict, "),
        ("tool_dialect", "x", "is not a dialect"),
        ("strict_models", "(", "is not a regular expression"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(
    field: str, value: object, words: str
) -> None:
    kind: Any = EndpointProfile
    ways: list[Callable[[], object]] = [
        lambda: kind(**{field: value}),
        lambda: kind().change_fields({field: value}),
    ]
    for make in ways:
        with pytest.raises(ConfigurationError) as caught:
            make()
        assert caught.value.argument.partition("[")[0] == f"profile.{field}"
        assert words in str(caught.value)


def test_an_unknown_field_gets_the_nearest_or_all() -> None:
    with pytest.raises(ConfigurationError, match="Did you mean max_tokens_field"):
        EndpointProfile().change_fields({"max_token_field": "max_tokens"})
    with pytest.raises(ConfigurationError, match=f"Known are {', '.join(FIELDS)}"):
        EndpointProfile().change_fields({"zzz": 1})


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=30, deadline=None)
@given(PROFILES, PROFILES)
def test_changes_lead_from_one_profile_to_another(
    before: EndpointProfile, after: EndpointProfile
) -> None:
    changes = after.list_changes(before)
    assert before.change_fields(json.loads(json.dumps(changes))) == after
    assert before.list_changes(before) == {}
    text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in changes.items())
    assert before.change_fields(tomllib.loads(text)) == after


def test_the_changes_are_typed_as_the_fields() -> None:
    declared = get_type_hints(ProfileChanges)
    assert declared.pop("like") is str
    lists = {"state_fields": Sequence[str], "thinking_tags": Sequence[ThinkingTag]}
    assert declared == {**HINTS, **lists}


TOOL = ToolSpec("f", "", {"type": "object", "properties": {}})
REQUEST = ModelRequest(
    model="m",
    messages=[
        user("Look", Media("image/png", url="https://example.org/a.png")),
        assistant(ToolCall("c1", "f", "{}")),
        tool_results([ToolResult("c1", "f", (Text("done"),))]),
    ],
    instructions="Be brief.",
    tools=(TOOL,),
    output=OutputSchema("O", {"type": "object", "properties": {}}, mode="native"),
    settings=ModelSettings(max_tokens=9),
)


def encode(wire: str, profile: EndpointProfile) -> tuple[bytes, bool] | str:
    codec: Codec = load_codec(wire, profile)
    try:
        return codec.encode(REQUEST).body, codec.can_continue(REQUEST)
    except ConfigurationError as error:
        return str(error)


@pytest.mark.parametrize("wire", WIRES)
def test_a_field_that_a_wire_does_not_read_is_refused(wire: str) -> None:
    profile = EndpointProfile()
    usual = encode(wire, profile)
    refused: dict[str, str] = {}
    for field in FIELDS:
        for value in values_of(field):
            changed = replace(profile, **{field: value})
            try:
                assert profile.change_fields({field: value}, wire) == changed
            except ConfigurationError as error:
                refused[field] = str(error)
                assert encode(wire, changed) == usual
    assert all(f"{field}: has no effect on the wire {wire}" in refused[field] for field in refused)
    assert list(refused) == ["tool_search"] if wire == "openai_chat" else len(refused) > 1


def test_the_fields_of_presets_have_an_effect() -> None:
    for preset in PRESETS.values():
        changes = preset.profile.list_changes()
        assert EndpointProfile().change_fields(changes, preset.wire) == preset.profile


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize(
    ("chosen", "wanted", "sent"),
    [("", None, None), ("allow", None, True), ("forbid", None, False), ("forbid", True, True)],
)
def test_parallel_calls_of_the_profile_give_way_to_the_user_s(
    wire: str, chosen: Any, wanted: bool | None, sent: bool | None
) -> None:
    request = replace(REQUEST, settings=ModelSettings(parallel_tool_calls=wanted))
    codec = load_codec(wire, EndpointProfile(parallel_calls=chosen))
    assert json.loads(codec.encode(request).body).get("parallel_tool_calls") is sent
    alone = json.loads(codec.encode(replace(request, tools=(), messages=[user("Hi")])).body)
    assert "parallel_tool_calls" not in alone


PNG = b"\x89PNG\r\n\x1a\n"
AT_URL = Media("image/png", url="https://example.org/a.png")
INLINE = Media("image/png", data=PNG)
FILE = Media("application/pdf", data=b"%PDF-1.4")


@pytest.mark.parametrize("in_result", [False, True])
@pytest.mark.parametrize(
    ("images", "media", "words"),
    [
        ("any", AT_URL, ""),
        ("inline", INLINE, ""),
        ("inline", AT_URL, "takes images only inline"),
        ("none", INLINE, "takes no images"),
        ("none", AT_URL, "takes no images"),
        ("none", FILE, ""),
    ],
)
def test_an_image_that_the_endpoint_does_not_take_is_refused_and_not_dropped(
    images: Any, media: Media, words: str, in_result: bool
) -> None:
    messages = [user("Look", media)]
    if in_result:
        call = ToolCall("c1", "f", "{}")
        messages = [user("Look"), assistant(call), tool_results([ToolResult("c1", "f", (media,))])]
    request = ModelRequest(model="m", messages=messages)
    codec = load_codec("openai_chat", EndpointProfile(images=images))
    if words:
        with pytest.raises(ConfigurationError, match=words):
            codec.encode(request)
    else:
        assert b"image_url" in codec.encode(request).body or media is FILE
