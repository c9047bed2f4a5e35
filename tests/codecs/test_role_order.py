"""Strict providers get alternating roles, whatever a failed turn left in the history."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_chat.encode import alternate_roles
from holdfast.core.messages import Media, Message, Text, ToolCall, ToolResult, assistant, user
from holdfast.core.model_request import ModelRequest
from holdfast.core.transcript import Transcript
from holdfast.models.presets import PRESETS

CALL = Message("assistant", (ToolCall("c1", "look", "{}"),))
RESULT = Message("tool", (ToolResult("c1", "look", (Text("a wall"),)),))
PICTURE = Message("user", (Media("image/png", data=b"1"),))
STRICT = [name for name, preset in PRESETS.items() if preset.profile.alternating_roles]


def roles_sent(name: str, *messages: Message) -> list[tuple[str, object]]:
    request = ModelRequest(model="m", messages=Transcript(messages))
    body = msgspec.json.decode(OpenAIChat(PRESETS[name].profile).encode(request).body)
    return [(entry["role"], entry["content"]) for entry in body["messages"]]


def test_the_strict_providers_are_known() -> None:
    assert {"mistral", "llamacpp", "vllm", "lmstudio", "ollama"} <= set(STRICT)


@pytest.mark.parametrize("name", STRICT)
def test_two_messages_of_the_user_are_sent_as_one(name: str) -> None:
    sent = roles_sent(name, user("My order is 4711."), user("Hello?"))
    assert sent == [("user", "My order is 4711.\n\nHello?")]


@pytest.mark.parametrize("name", STRICT)
def test_an_answer_stands_between_results_and_the_next_message(name: str) -> None:
    sent = roles_sent(name, user("Look."), CALL, RESULT, user("Well?"))
    assert [role for role, _ in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[3][1]


def test_other_providers_get_the_history_as_it_is() -> None:
    assert [role for role, _ in roles_sent("groq", user("a"), user("b"))] == ["user", "user"]


def test_a_history_that_alternates_is_not_copied() -> None:
    history = Transcript([user("a"), assistant("b"), user("c"), CALL, RESULT])
    assert alternate_roles(history) is history


def test_messages_that_are_known_to_alternate_are_not_read_again() -> None:
    known = [user("a"), user("b"), assistant("c"), user("d")]
    assert alternate_roles(known, known_count=4) is known
    assert len(alternate_roles([assistant("a"), user("b"), user("c")], known_count=2)) == 2


def test_a_history_that_another_provider_has_encoded_is_checked() -> None:
    strict = PRESETS["vllm"].profile
    request = ModelRequest(model="m", messages=Transcript([user("a"), user("b")]))
    OpenAIChat(msgspec.structs.replace(strict, alternating_roles=False)).encode(request)
    body = msgspec.json.decode(OpenAIChat(strict).encode(request).body)
    assert [entry["role"] for entry in body["messages"]] == ["user"]


def test_a_message_after_an_encoded_history_is_checked() -> None:
    codec, history = OpenAIChat(PRESETS["vllm"].profile), Transcript([assistant("a"), user("b")])
    request = ModelRequest(model="m", messages=history)
    codec.encode(request)
    history.append(user("c"))
    body = msgspec.json.decode(codec.encode(request).body)
    assert [entry["content"] for entry in body["messages"]] == ["a", "b\n\nc"]


def test_a_picture_keeps_its_place() -> None:
    (joined,) = alternate_roles([user("Look:"), PICTURE, user("What is it?")])
    assert joined.parts == (Text("Look:"), *PICTURE.parts, Text("What is it?"))


@given(st.lists(st.sampled_from([user("a"), assistant("b"), PICTURE, "look"])))
def test_roles_alternate_and_no_part_is_lost(turns: list[Message | str]) -> None:
    messages: list[Message] = []
    for one in turns:
        messages += [CALL, RESULT] if isinstance(one, str) else [one]
    ordered = alternate_roles(messages)
    pairs = list(itertools.pairwise(ordered))
    assert not any(two.role == "user" and one.role in ("user", "tool") for one, two in pairs)
    said = "".join(message.text for message in messages if message.role == "user")
    assert "".join(m.text for m in ordered if m.role == "user").replace("\n\n", "") == said
    assert sum(m.role == "tool" for m in ordered) == sum(m.role == "tool" for m in messages)
