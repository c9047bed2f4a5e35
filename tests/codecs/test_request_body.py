"""The JSON of a request: encoding of any text, merging of the user's fields, caching of heads."""

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.codecs.request_body import (
    HeadCache,
    HeadParts,
    check_tools,
    count_encoded,
    encode_history,
    leading_system_texts,
    merge_extra,
    to_json,
)
from holdfast.codecs.schemas.rewriting import RewriteNode, Rewritings
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message, assistant, system, user
from holdfast.core.model_request import ModelRequest, ModelSettings, ToolSpec
from holdfast.core.transcript import Form, Transcript

ASKED = ModelRequest(model="m", messages=[user("Hi")])


def test_half_pairs_are_replaced_wherever_they_are() -> None:
    value = {"\ud800": ["a\udc00", ("b", {"c": "\ud83d\ude00"})]}
    assert to_json("x", value) == b'{"?":["a?",["b",{"c":"??"}]]}'


@pytest.mark.parametrize("value", [object(), {1: object()}, {"a": {"b": {1, object()}}}])
def test_what_json_cannot_say_names_its_argument(value: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        to_json("settings.extra", value)
    assert caught.value.argument == "settings.extra"


def test_a_head_is_made_once_for_the_same_request_and_holds_no_conversation() -> None:
    heads, made = HeadCache(), []
    changes = Rewritings({"a": RewriteNode()})

    def encode() -> HeadParts:
        made.append(1)
        return b"head", changes

    for _ in range(3):
        head = heads.get(replace(ASKED, messages=[user("Other")]), (), encode)
        assert head.encoded == b"head"
        assert head.rewritings is changes
    assert len(made) == 1
    assert all(not head.request.messages for head in heads._recent)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"instructions": "Be brief."},
        {"tools": (ToolSpec("a", "", {}),)},
        {"settings": ModelSettings(max_tokens=1)},
        {"stream": False},
    ],
)
def test_another_request_gets_another_head(change: dict[str, Any]) -> None:
    heads = HeadCache()

    def get(request: ModelRequest, system: tuple[str, ...], encoded: bytes) -> bytes:
        return heads.get(request, system, lambda: (encoded, None)).encoded

    assert get(ASKED, (), b"first") == b"first"
    assert get(replace(ASKED, **change), (), b"second") == b"second"
    assert get(ASKED, ("system",), b"third") == b"third"
    assert get(ASKED, (), b"fourth") == b"first"


def test_a_bad_message_is_named_by_its_number() -> None:
    def encode(message: Message) -> bytes:
        if message.role == "assistant":
            raise ConfigurationError("parts", "are bad", fix="mend them")
        return b"{}"

    messages = [user("Hi"), assistant("No")]
    for history in (messages, Transcript(messages)):
        with pytest.raises(ConfigurationError) as caught:
            encode_history(history, Form("key", encode))
        assert str(caught.value) == "messages[1].parts: are bad. mend them"
    assert encode_history(messages[:1] * 2, Form("key", encode), b"[", b"]") == b"[{},{}]"


def test_a_history_of_which_nothing_is_left_is_refused() -> None:
    for form in (Form("key", lambda _: b""), Form("key", lambda _: b"{}", skip=1)):
        with pytest.raises(ConfigurationError, match="holds no message to reply to"):
            encode_history([user("Hi")], form, b"[", b"]")


def test_a_bad_message_that_is_skipped_is_not_looked_at() -> None:
    def encode(message: Message) -> bytes:
        if message.role == "system":
            raise ConfigurationError("parts", "are bad")
        return b"{}"

    assert encode_history([system("a"), user("Hi")], Form("key", encode, skip=1)) == b"{}"


def test_a_transcript_remembers_what_it_encoded() -> None:
    history = Transcript([user("Hi"), user("Ho")])
    assert count_encoded(history, "key") == 0
    encode_history(history, Form("key", lambda _: b"{}"))
    assert count_encoded(history, "key") == 2
    assert count_encoded(history, "other") == 0
    assert count_encoded(list(history), "key") == 0


def test_leading_system_messages() -> None:
    assert leading_system_texts([system("a"), system("b"), user("c"), system("d")]) == ("a", "b")


def test_a_reserved_field_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must not replace 'model'"):
        merge_extra({}, {"model": "x"}, ("model",))


def test_objects_gain_fields_and_other_values_are_replaced() -> None:
    body: dict[str, object] = {"a": {"x": 1, "y": 1}, "b": 1, "c": [1]}
    merge_extra(body, {"a": {"y": 2}, "b": None, "c": (2,), "d": 3}, ())
    assert body == {"a": {"x": 1, "y": 2}, "b": None, "c": [1, 2], "d": 3}


def test_a_choice_may_name_a_tool_of_the_users_own_fields() -> None:
    extra = {"tools": [{"type": "web_search", "name": "search"}, {"type": "mcp"}, "odd"]}
    check_tools((), "search", extra)
    with pytest.raises(ConfigurationError, match="no tool is named 'seek'"):
        check_tools((), "seek", extra)
