"""Messages on this wire: each part, each translation, and ids that a server takes."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.openai_chat.bodies import call, read, whole

from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.history import HistoryEncoder
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

PNG = b"\x89PNG\r\n\x1a\n"
PNG_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


def wire(message: Message, profile: EndpointProfile | None = None) -> list[dict[str, Any]]:
    encoded = HistoryEncoder(profile or EndpointProfile()).encode(message)
    found: list[dict[str, Any]] = json.loads(b"[" + encoded + b"]")
    return found


def one(message: Message, profile: EndpointProfile | None = None) -> dict[str, Any]:
    (found,) = wire(message, profile)
    return found


GOLDEN: list[tuple[Message, dict[str, Any]]] = [
    (user("Hi"), {"role": "user", "content": "Hi"}),
    (system("Be."), {"role": "system", "content": "Be."}),
    (assistant("Hello"), {"role": "assistant", "content": "Hello"}),
    (assistant("a", "b"), {"role": "assistant", "content": "ab"}),
    (assistant(), {"role": "assistant", "content": ""}),
    (assistant(Reasoning("Hm"), "x"), {"role": "assistant", "content": "x"}),
    (assistant(Refusal("No")), {"role": "assistant", "content": None, "refusal": "No"}),
    (assistant(Opaque("anthropic", {"a": 1}), "x"), {"role": "assistant", "content": "x"}),
    (assistant(Opaque("openai_chat", {"annotations": [1]}), "x"), {"role": "assistant", "content": "x"}),
    (
        user("a", "b"),
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    ),
    (
        user("Look", Media("image/png", data=PNG)),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": PNG_URL}},
            ],
        },
    ),
    (
        user(Media("image/*", url="https://example.org/a", extra={"detail": "low"})),
        {
            "role": "user",
            "content": [
                {
                    "type": "image_url",
                    "image_url": {"url": "https://example.org/a", "detail": "low"},
                }
            ],
        },
    ),
    (
        user(Media("audio/mpeg", data=b"abc")),
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": "YWJj", "format": "mp3"}}],
        },
    ),
    (
        user(Media("application/pdf", data=b"%PDF-1", name="a.pdf")),
        {
            "role": "user",
            "content": [
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"},
                }
            ],
        },
    ),
    (
        Message("user", (Text("Hi", {"cache_control": {"type": "ephemeral"}}),)),
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}],
        },
    ),
]  # fmt: skip


@pytest.mark.parametrize(("message", "wanted"), GOLDEN)
def test_each_part_has_its_form(message: Message, wanted: dict[str, Any]) -> None:
    assert one(message) == wanted


def test_calls_and_their_results() -> None:
    found = one(assistant("Let me see", ToolCall("a", "f", '{"x": 1}'), ToolCall("b", "g")))
    assert found["content"] == "Let me see"
    assert found["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    results = tool_results([ToolResult("a", "f", (Text("1"),)), ToolResult("b", "g", ())])
    assert wire(results) == [
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": ""},
    ]


def test_malformed_arguments_go_back_inside_of_an_object() -> None:
    found = one(assistant(ToolCall("a", "f", '{"x": ')))
    arguments = found["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"unparsed": '{"x": '}
    assert found["content"] is None


def test_media_of_results_follow_in_a_user_message() -> None:
    picture = Media("image/png", data=PNG)
    results = tool_results(
        [ToolResult("a", "shot", (picture,)), ToolResult("b", "f", (Text("2"), picture))]
    )
    first, second, third = wire(results)
    assert (first["role"], second["content"], third["role"]) == ("tool", "2", "user")
    assert [block["type"] for block in third["content"]] == ["text", "image_url"] * 2
    inline = wire(results, EndpointProfile(media_in_results=True))
    assert len(inline) == 2
    assert inline[0]["content"] == [{"type": "image_url", "image_url": {"url": PNG_URL}}]


class TestReasoning:
    DETAILS = ({"type": "reasoning.text", "text": "Hm", "signature": "s"},)
    PART = Reasoning("Hm", None, "openai_chat", {"reasoning_details": list(DETAILS)})

    def test_it_is_dropped_if_no_field_is_configured(self) -> None:
        assert one(assistant(self.PART, "x")) == {"role": "assistant", "content": "x"}

    def test_it_goes_back_under_the_provider_s_name(self) -> None:
        profile = EndpointProfile(reasoning_field="reasoning", state_fields=("reasoning_details",))
        found = one(assistant(self.PART, "x"), profile)
        assert (found["reasoning"], found["reasoning_details"]) == ("Hm", list(self.DETAILS))
        found = one(assistant(self.PART, "x"), EndpointProfile(reasoning_field="reasoning_content"))
        assert (found["reasoning_content"], "reasoning_details" in found) == ("Hm", False)

    def test_it_goes_back_as_blocks(self) -> None:
        found = one(
            assistant(Reasoning("Hm", "s", "openai_chat"), "x"),
            EndpointProfile(reasoning_field="content"),
        )
        assert found["content"] == [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}], "signature": "s"},
            {"type": "text", "text": "x"},
        ]

    def test_the_state_of_another_wire_stays_there(self) -> None:
        profile = EndpointProfile(
            reasoning_field="reasoning", state_fields=("reasoning_details", "k")
        )
        foreign = Reasoning("Hm", "s", "anthropic", {"k": 1})
        assert one(assistant(foreign, "x"), profile) == {"role": "assistant", "content": "x"}

    def test_details_of_two_parts_are_joined(self) -> None:
        profile = EndpointProfile(state_fields=("reasoning_details",))
        found = one(assistant(self.PART, "x", self.PART), profile)
        assert found["reasoning_details"] == [*self.DETAILS, *self.DETAILS]

    @pytest.mark.parametrize(
        "message",
        [
            {"content": "x", "reasoning": "Hm", "reasoning_details": list(DETAILS)},
            {"content": "x", "extra_content": {"google": {"thought_signature": "s"}}},
            {
                "content": None,
                "tool_calls": [call("f", "{}", id="a", extra_content={"google": {"k": "s"}})],
            },
        ],
    )
    def test_what_a_reply_says_goes_back_as_it_came(self, message: dict[str, Any]) -> None:
        profile = EndpointProfile(
            reasoning_field="reasoning", state_fields=("reasoning_details", "extra_content")
        )
        reply = read(whole(message, "stop")).reply
        assert one(reply.message, profile) == {"role": "assistant", **message}


def test_sound_goes_back_by_its_id() -> None:
    sound = Media("audio/wav", data=b"RIFF", extra={"id": "a1", "transcript": "Hi"})
    spoken = assistant(Text("Hi", {"transcript": True}), sound)
    by_id = EndpointProfile(audio_by_id=True)
    assert one(spoken, by_id) == {"role": "assistant", "content": None, "audio": {"id": "a1"}}
    assert one(spoken) == {"role": "assistant", "content": "Hi"}


def test_a_provider_that_requires_reasoning_gets_an_empty_one() -> None:
    strict = EndpointProfile(reasoning_field="reasoning_content", reasoning_required=True)
    assert one(assistant("Hi"), strict)["reasoning_content"] == ""
    own = assistant(Reasoning("Hm.", wire="openai_chat"), "Hi")
    assert one(own, strict)["reasoning_content"] == "Hm."
    assert "reasoning_content" not in one(assistant("Hi"))


class TestIds:
    @staticmethod
    def _ids(given: list[str], profile: EndpointProfile | None = None) -> list[str]:
        made = one(assistant(*(ToolCall(each, "f") for each in given)), profile)
        results = tool_results([ToolResult(each, "f", (Text("r"),)) for each in given])
        called = [entry["id"] for entry in made["tool_calls"]]
        assert [found["tool_call_id"] for found in wire(results, profile)] == called
        return called

    def test_good_ids_stay(self) -> None:
        assert self._ids(["a", "call_b"]) == ["a", "call_b"]

    @given(
        st.lists(st.sampled_from(["", "a", "b", "call_1", "x" * 80, "é"]), min_size=1, max_size=5)
    )
    def test_every_call_has_an_id_of_its_own_and_its_result_the_same(
        self, given: list[str]
    ) -> None:
        ids = self._ids(given)
        assert len(set(ids)) == len(ids)
        assert all(0 < len(each) <= 40 for each in ids)
        assert self._ids(given) == ids

    def test_ids_of_one_length(self) -> None:
        """Mistral takes nine letters and digits and nothing else."""
        profile = EndpointProfile(call_id_length=9)
        ids = self._ids(["abcdefghi", "call_1", "", "call_1"], profile)
        assert ids[0] == "abcdefghi"
        assert all(len(each) == 9 and each.isalnum() for each in ids)
        assert len(set(ids)) == 4


ERRORS: list[tuple[Message, str]] = [
    (Message("user", ()), "parts"),
    (Message("tool", ()), "parts"),
    (Message("user", (Refusal("x"),)), "parts"),
    (user(Media("png", data=PNG)), "media_type"),
    (user(Media("image/*", data=PNG)), "media_type"),
    (user(Media("image/png", data=b"GIF89a")), "media"),
    (user(Media("image/png", data=b"")), "media"),
    (user(Media("image/png", url="data:image/png;base64,???")), "media"),
    (user(Media("audio/flac", data=b"fLaC")), "media_type"),
    (user(Media("application/pdf", url="https://example.org/a.pdf")), "url"),
]


@pytest.mark.parametrize(("message", "argument"), ERRORS)
def test_what_has_no_form_is_refused_and_named(message: Message, argument: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        wire(message)
    assert caught.value.argument == argument


def test_half_an_emoji_does_not_stop_a_run() -> None:
    assert one(user("a\ud83d"))["content"] == "a?"
