"""Every shape of a Chat Completions body, as documented and as it was met."""

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.openai_chat.bodies import (
    DONE,
    STREAM,
    as_stream,
    assemble,
    call,
    chunk,
    deltas,
    event,
    read,
    stream,
    whole,
)
from tests.codecs.reading import JSON_VALUES
from tests.corpus import byte_by_byte

from holdfast.codecs.gemini.vocabulary import MISTAKES as GEMINI_MISTAKES
from holdfast.codecs.json_text import read_strict_json
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_chat.decode import ChatDecoder
from holdfast.codecs.openai_chat.errors import classify
from holdfast.codecs.openai_chat.vocabulary import MISTAKES, NATIVE_REASONS
from holdfast.core.deltas import (
    ErrorReceived,
    NoChoices,
    NotAReply,
    ReplyFinished,
    ReplyStarted,
    StreamEnded,
    TextDelta,
    ToolCallDelta,
)
from holdfast.core.errors import (
    ErrorCategory,
    InvalidStructureError,
    MissingAttributeError,
    NoCandidatesError,
    UnexpectedTypeError,
)
from holdfast.core.messages import (
    FinishReason,
    Media,
    Opaque,
    Reasoning,
    Refusal,
    ReplyKind,
    Text,
    ToolCall,
    Usage,
)

JSON = "application/json"
HELLO = stream(
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo"}),
    chunk({}, "stop"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
)


def test_a_stream_of_text_gives_its_pieces_as_they_came() -> None:
    assert deltas(HELLO)[:3] == [ReplyStarted("c1", "m1"), TextDelta("Hel"), TextDelta("lo")]
    assert deltas(HELLO)[3] == ReplyFinished(FinishReason.STOP, "stop")
    assert deltas(HELLO)[-1] == StreamEnded()


def test_a_whole_reply_and_its_stream_are_the_same_reply() -> None:
    body = whole({"content": "Hello"}, usage={"prompt_tokens": 3, "completion_tokens": 2})
    assert read(body, JSON).reply == read(HELLO).reply


def test_every_byte_may_come_alone() -> None:
    assert read(byte_by_byte(HELLO)).reply == read(HELLO).reply


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_line_endings_change_nothing(end: str) -> None:
    assert read(HELLO.replace(b"\n", end.encode())).reply == read(HELLO).reply


def test_comments_between_chunks_are_not_content() -> None:
    body = b": OPENROUTER PROCESSING\n\n" + HELLO.replace(b"data", b": ping\n\ndata")
    assert read(body).reply == read(HELLO).reply


def test_a_stream_without_its_last_blank_line_is_whole() -> None:
    assert read(HELLO.rstrip(b"\n")).reply == read(HELLO).reply


def test_nothing_after_the_end_marker_counts() -> None:
    assert read(HELLO + stream(chunk({"content": " again"}))).reply == read(HELLO).reply
    assert read([HELLO, stream(chunk({"content": " again"}))]).reply == read(HELLO).reply


class TestBodyKind:
    """Judged by the first bytes, and only then by the content type."""

    @pytest.mark.parametrize("content_type", [JSON, "", "text/plain", STREAM])
    def test_an_event_stream_under_any_type(self, content_type: str) -> None:
        assert read(HELLO, content_type).reply.text == "Hello"
        assert read(byte_by_byte(b"\xef\xbb\xbf\n\n" + HELLO), content_type).reply.text == "Hello"

    @pytest.mark.parametrize("content_type", [JSON, "", "text/html", STREAM])
    def test_a_whole_reply_under_any_type(self, content_type: str) -> None:
        body = whole({"content": "Hello"})
        assert read(body, content_type).reply.text == "Hello"
        assert read(byte_by_byte(b"\xef\xbb\xbf \n" + body), content_type).reply.text == "Hello"

    @pytest.mark.parametrize("content_type", [JSON, STREAM])
    @pytest.mark.parametrize(
        ("body", "got"),
        [
            (b"<html><body>Bad gateway</body></html>", "HTML page"),
            (b"upstream connect error", "plain text"),
            (b'{"id": "c1", "choices": [{"mess', "cut or malformed JSON"),
            (b'["a", "b"]', "array"),
        ],
    )
    def test_the_error_for_an_invalid_body_names_its_kind(
        self, content_type: str, body: bytes, got: str
    ) -> None:
        for pieces in (body, byte_by_byte(body)):
            result = read(pieces, content_type)
            assert result.reply.kind is ReplyKind.NOT_A_REPLY
            assert isinstance(result.error, UnexpectedTypeError)
            assert result.error.info.category is ErrorCategory.INVALID_RESPONSE
            assert result.error.got == got

    def test_an_empty_body_is_not_a_reply_and_an_empty_stream_was_cut(self) -> None:
        assert read(b"", JSON).reply.kind is ReplyKind.NOT_A_REPLY
        assert read(b": ping\n\n").reply.kind is ReplyKind.UNTERMINATED

    def test_the_text_of_a_foreign_body_is_not_shown(self) -> None:
        assert "hunter2" not in str(read(b"<p>password hunter2</p>", JSON).error)


class TestOtherJson:
    def test_an_object_of_another_shape_lacks_its_choices(self) -> None:
        for body in (b'{"type": "message", "content": []}', stream({"type": "message_start"})):
            result = read(body)
            assert isinstance(result.error, MissingAttributeError)
            assert str(result.error).endswith("expected choices attribute, got missing")

    def test_no_choices_is_a_typed_error_and_never_an_index_error(self) -> None:
        for body in (
            b'{"id": "c1", "choices": []}',
            b'{"id": "c1", "choices": null}',
            stream({"id": "c1", "choices": []}),
        ):
            assert NoChoices() in deltas(body)
            result = read(body)
            assert isinstance(result.error, NoCandidatesError)
            assert result.reply.kind is ReplyKind.EMPTY

    @pytest.mark.parametrize("choices", [{"a": 1}, "x", 7, True])
    def test_choices_of_another_type(self, choices: object) -> None:
        result = read(json.dumps({"choices": choices}).encode())
        assert isinstance(result.error, InvalidStructureError)

    @pytest.mark.parametrize(
        "message", [3, "x", [1], {"content": 5}, {"content": [7]}, {"tool_calls": [1]}]
    )
    def test_wrong_types_inside_are_not_a_reply_and_do_not_crash(self, message: object) -> None:
        for body in (whole(message), stream(chunk(message), chunk({}, "stop"))):
            assert read(body).reply.kind is ReplyKind.NOT_A_REPLY

    def test_a_choice_without_a_message(self) -> None:
        assert isinstance(read(b'{"choices": [{"index": 0}]}').error, MissingAttributeError)

    def test_a_choice_that_a_filter_emptied(self) -> None:
        body = b'{"choices": [{"index": 0, "finish_reason": "content_filter"}]}'
        assert read(body).reply.kind is ReplyKind.FILTERED

    def test_chunks_that_only_report_on_a_filter_are_passed_over(self) -> None:
        report = {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": {}}]}
        body = stream(
            {"id": "", "model": "", "choices": []}, report, chunk({"content": "a"}, "stop")
        )
        assert read(body).reply.text == "a"
        assert read(body).reply.model == "m1"

    def test_one_line_that_is_not_json_makes_the_reply_invalid(self) -> None:
        body = event(chunk({"content": "a"})) + b"data: {oops\n\n" + event(chunk({}, "stop"))
        result = read(body + DONE)
        assert result.reply.kind is ReplyKind.NOT_A_REPLY
        assert result.reply.text == "a"

    def test_a_line_that_is_not_json_after_the_finish_reason_is_skipped(self) -> None:
        body = event(chunk({"content": "a"}, "stop")) + b"data: {oops\n\n" + DONE
        assert read(body).reply.kind is ReplyKind.COMPLETE

    def test_signs_of_life_under_a_name_of_their_own(self) -> None:
        body = b"event: keepalive\ndata: still here\n\n" + HELLO
        assert read(body).reply.text == "Hello"


ERROR = {"error": {"message": "Overloaded, try again", "code": 503}}


class TestErrors:
    @pytest.mark.parametrize(
        "body",
        [
            json.dumps(ERROR).encode(),
            json.dumps([ERROR]).encode(),
            stream(ERROR),
            stream(chunk({"content": "alpha"}), ERROR),
            event(ERROR["error"], name="error"),
            stream(chunk({"content": "alpha"}, "error"), done=False) + event(ERROR),
            stream({"object": "error", "message": "Overloaded", "type": "x"}),
            stream({"choices": [{"index": 0, "delta": {}, "finish_reason": "error", **ERROR}]}),
            b'{"detail": "Overloaded"}',
            b'{"error": "Overloaded"}',
        ],
    )
    def test_an_error_inside_a_success_is_an_error(self, body: bytes) -> None:
        assert any(isinstance(delta, ErrorReceived) for delta in deltas(body))
        result = read(body)
        assert result.reply.kind is ReplyKind.ERROR_REPLY
        assert result.error is not None
        assert result.error.partial == result.reply

    def test_an_overload_as_the_first_event_may_be_retried(self) -> None:
        """Nothing was emitted yet, and the next attempt may succeed."""
        result = read(stream({"error": {"message": "overloaded", "type": "server_error"}}))
        assert result.error is not None
        assert result.error.info.category.is_retryable

    def test_finish_reason_error_is_never_rewritten_to_stop(self) -> None:
        """D16."""
        for body in (whole({"content": "a"}, "error"), stream(chunk({"content": "a"}, "error"))):
            result = read(body)
            assert result.reply.kind is ReplyKind.ERROR_REPLY
            assert result.reply.raw_finish == "error"
            assert result.error is not None

    def test_an_error_body_while_streaming_is_never_an_empty_success(self) -> None:
        """D8, D16."""
        for body in (b'{"error": {"message": "no"}}', b"<html>no</html>", stream({"error": "no"})):
            assert read(body).error is not None


class TestContent:
    def test_blocks_of_thinking_and_text(self) -> None:
        thinking = {
            "type": "thinking",
            "thinking": [{"type": "text", "text": "Hm"}],
            "signature": "s",
        }
        content = [thinking, {"type": "text", "text": "Hi"}, {"type": "reference", "ids": [1]}]
        reply = read(whole({"content": content})).reply
        kept = Opaque("openai_chat", {"content_blocks": [content[2]]})
        assert reply.parts == (Reasoning("Hm", "s", "openai_chat"), Text("Hi"), kept)
        assert read(stream(chunk({"content": content}, "stop"))).reply == reply

    @pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
    def test_reasoning_in_its_several_fields(self, field: str) -> None:
        reply = read(whole({field: "Hm", "content": "Hi"})).reply
        assert reply.parts == (Reasoning("Hm"), Text("Hi"))
        streamed = stream(
            chunk({field: "H"}), chunk({field: "m"}), chunk({"content": "Hi"}, "stop")
        )
        assert read(streamed).reply == reply

    def test_reasoning_in_two_fields_counts_once(self) -> None:
        reply = read(whole({"reasoning": "Hm", "reasoning_content": "Hm", "content": "Hi"})).reply
        assert reply.parts[0] == Reasoning("Hm")

    def test_details_of_reasoning_are_joined_and_stored(self) -> None:
        def detail(**fields: object) -> dict[str, object]:
            return {"type": "reasoning.text", "index": 0, **fields}

        streamed = stream(
            chunk({"reasoning": "H", "reasoning_details": [detail(text="H")]}),
            chunk({"reasoning": "m", "reasoning_details": [detail(text="m")]}),
            chunk({"reasoning_details": [detail(text=None, signature="sig")]}),
            chunk({"content": "Hi"}),
            chunk({}, "stop"),
        )
        message = {
            "reasoning": "Hm",
            "reasoning_details": [detail(text="Hm", signature="sig")],
            "content": "Hi",
        }
        reply = read(whole(message)).reply
        assert read(streamed).reply == reply
        extra = {"reasoning_details": [detail(text="Hm", signature="sig")]}
        assert reply.parts == (Reasoning("Hm", None, "openai_chat", extra), Text("Hi"))

    def test_two_details_of_a_whole_reply_stay_two(self) -> None:
        details = [{"type": "reasoning.summary", "summary": word} for word in ("a", "b")]
        part = read(whole({"reasoning_details": details, "content": "x"})).reply.parts[0]
        assert isinstance(part, Reasoning)
        assert part.text == "ab"
        assert part.extra == {"reasoning_details": details}

    def test_content_that_is_an_object_is_its_json(self) -> None:
        assert json.loads(read(whole({"content": {"title": "A"}})).reply.text) == {"title": "A"}

    def test_a_refusal_is_separate_from_text(self) -> None:
        for body in (
            whole({"content": None, "refusal": "I cannot"}),
            stream(chunk({"refusal": "I can"}), chunk({"refusal": "not"}), chunk({}, "stop")),
        ):
            reply = read(body).reply
            assert reply.kind is ReplyKind.REFUSED
            assert reply.parts == (Refusal("I cannot"),)

    def test_sound_is_put_together_from_its_fragments(self) -> None:
        sound = b"RIFF" + bytes(range(50))
        text = base64.b64encode(sound).decode()
        streamed = stream(
            chunk({"audio": {"id": "a1", "transcript": "He"}}),
            chunk({"audio": {"data": text[:16], "transcript": "llo"}}),
            chunk({"audio": {"data": text[16:], "expires_at": 9}}),
            chunk({}, "stop"),
        )
        audio = {"id": "a1", "data": text, "transcript": "Hello", "expires_at": 9}
        reply = read(whole({"content": None, "audio": audio})).reply
        assert read(streamed).reply == reply
        spoken, part = reply.parts
        assert isinstance(part, Media)
        assert (reply.text, spoken.text) == ("Hello", "Hello")
        assert (part.media_type, part.data) == ("audio/wav", sound)
        assert part.extra == {"id": "a1", "transcript": "Hello", "expires_at": 9}

    def test_pictures(self) -> None:
        url = "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode()
        image = {"type": "image_url", "image_url": {"url": url}}
        reply = read(whole({"content": None, "images": [image]})).reply
        assert reply.parts == (Media("image/png", data=b"\x89PNG"),)
        assert reply.kind is ReplyKind.COMPLETE

    def test_annotations_are_stored_unchanged(self) -> None:
        notes = [{"type": "url_citation", "url_citation": {"url": "https://example.org"}}]
        reply = read(whole({"content": "Hi", "annotations": notes})).reply
        assert reply.parts == (Text("Hi"), Opaque("openai_chat", {"annotations": notes}))

    def test_only_the_first_choice_counts_and_the_others_are_counted(self) -> None:
        other = {"index": 1, "delta": {"content": "B"}, "finish_reason": None}
        first = {"index": 0, "delta": {"content": "A"}, "finish_reason": "stop"}
        decoder = OpenAIChat().make_decoder(STREAM)
        found = decoder.feed(stream({"choices": [other, first]}, {"choices": [other]}))
        assert assemble(found).reply.text == "A"
        assert decoder.other_choices == 2

    def test_a_provider_that_sends_delta_and_message_at_once(self) -> None:
        choice = {"index": 0, "delta": {"content": "lo"}, "message": {"content": "Hello"}}
        first = {**choice, "delta": {"content": "Hel"}, "message": {"content": "Hel"}}
        last = {**choice, "delta": {"content": ""}, "finish_reason": "stop"}
        body = stream(*({"choices": [one]} for one in (first, choice, last)))
        assert read(body).reply.text == "Hello"
        assert read(json.dumps({"choices": [last]}).encode()).reply.text == "Hello"

    def test_half_an_emoji_and_a_broken_character_cost_one_character(self) -> None:
        body = stream(chunk({"content": "a"}), done=False)
        body += event(chunk({"content": "X"})).replace(b'"X"', b'"\\ud83d\\\\ud83d\xff"')
        reply = read(body + stream(chunk({"content": "b"}, "stop"))).reply
        assert reply.text == "a\ufffd\\ud83d\ufffdb"
        assert reply.kind is ReplyKind.COMPLETE


class TestUsage:
    @pytest.mark.parametrize(
        ("usage", "wanted"),
        [
            (
                {
                    "prompt_tokens": 9,
                    "completion_tokens": 5,
                    "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                    "completion_tokens_details": {"reasoning_tokens": 3},
                },
                Usage(9, 5, 4, 1, 3),
            ),
            ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, Usage(9, 0, 4)),
            ({"prompt_tokens": 9.0, "completion_tokens": None}, Usage(9)),
            ({"prompt_tokens": -1, "completion_tokens": True}, Usage()),
            ({"prompt_tokens": "9", "completion_tokens_details": []}, Usage()),
            ({"prompt_tokens": 10**40}, Usage(2**53)),
        ],
    )
    def test_tokens_of_many_providers(self, usage: object, wanted: Usage) -> None:
        assert read(whole({"content": "a"}, usage=usage)).reply.usage == wanted

    def test_a_later_usage_replaces_an_earlier_one(self) -> None:
        body = stream(
            chunk({"content": "a"}, usage={"prompt_tokens": 9, "completion_tokens": 1}),
            chunk({"content": "b"}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 2}),
            {"choices": [], "usage": None},
        )
        assert read(body).reply.usage == Usage(9, 2)

    def test_usage_in_its_odd_places(self) -> None:
        used = {"prompt_tokens": 1, "completion_tokens": 2}
        assert read(whole({"content": "a"}, x_groq={"usage": used})).reply.usage == Usage(1, 2)
        choice = {"delta": {"content": "a"}, "finish_reason": "stop", "usage": used}
        assert read(stream({"choices": [choice]})).reply.usage == Usage(1, 2)


class TestFinish:
    @pytest.mark.parametrize(
        ("raw", "reason"),
        [
            ("stop", FinishReason.STOP),
            ("STOP", FinishReason.STOP),
            ("eos", FinishReason.STOP),
            ("tool_calls", FinishReason.TOOL_CALLS),
            ("model_length", FinishReason.LENGTH),
            ("guardrail_intervened", FinishReason.REFUSAL),
            ("content_filter", FinishReason.CONTENT_FILTER),
            ("insufficient_system_resource", FinishReason.ERROR),
            ("something_new", FinishReason.UNKNOWN),
        ],
    )
    def test_every_finish_reason_is_translated_and_stored(
        self, raw: str, reason: FinishReason
    ) -> None:
        reply = read(whole({"content": "a"}, raw)).reply
        assert (reply.finish, reply.raw_finish) == (reason, raw)

    def test_a_new_word_does_not_spoil_a_reply(self) -> None:
        assert read(whole({"content": "a"}, "something_new")).error is None

    def test_a_gateway_that_hides_the_cut_is_not_trusted(self) -> None:
        choice = {
            "message": {"tool_calls": [call("pay", '{"amount": 5, "to": "bo', id="a")]},
            "finish_reason": "tool_calls",
            "native_finish_reason": "max_output_tokens",
        }
        reply = read(json.dumps({"choices": [choice]}).encode()).reply
        assert reply.kind is ReplyKind.TRUNCATED

    @pytest.mark.parametrize(
        ("raw", "native", "kind"),
        [
            # The server's word, the vendor's word, and the truth.
            ("stop", "completed", ReplyKind.COMPLETE),
            ("stop", "end_turn", ReplyKind.COMPLETE),
            ("stop", "moon_phase", ReplyKind.COMPLETE),
            ("stop", 7, ReplyKind.COMPLETE),
            ("stop", "MAX_TOKENS", ReplyKind.TRUNCATED),
            ("stop", "max_tokens", ReplyKind.TRUNCATED),
            ("stop", "model_context_window_exceeded", ReplyKind.TRUNCATED),
            ("stop", "PROHIBITED_CONTENT", ReplyKind.FILTERED),
            ("stop", "content_filtered", ReplyKind.FILTERED),
            ("stop", "sensitive", ReplyKind.FILTERED),
            ("stop", "ERROR_TOXIC", ReplyKind.FILTERED),
            ("stop", "refusal", ReplyKind.REFUSED),
            ("stop", "pause_turn", ReplyKind.PAUSED),
            ("stop", "MALFORMED_FUNCTION_CALL", ReplyKind.ERROR_REPLY),
            ("stop", "abort", ReplyKind.ERROR_REPLY),
            ("tool_calls", "STOP", ReplyKind.COMPLETE),
            ("error", "MALFORMED_FUNCTION_CALL", ReplyKind.ERROR_REPLY),
            ("error", "SAFETY", ReplyKind.FILTERED),
            ("error", "length", ReplyKind.TRUNCATED),
            ("error", "stop", ReplyKind.ERROR_REPLY),
            ("other", "STOP", ReplyKind.COMPLETE),
            ("length", "STOP", ReplyKind.TRUNCATED),
            ("content_filter", "STOP", ReplyKind.FILTERED),
            (None, "STOP", ReplyKind.COMPLETE),
            (None, "MAX_TOKENS", ReplyKind.TRUNCATED),
            ("", "max_output_tokens", ReplyKind.TRUNCATED),
            (None, "SAFETY", ReplyKind.FILTERED),
            (None, "moon_phase", ReplyKind.UNTERMINATED),
            (None, None, ReplyKind.UNTERMINATED),
        ],
    )
    def test_the_truth_of_a_vendor_wins_over_the_word_of_a_gateway(
        self, raw: object, native: object, kind: ReplyKind
    ) -> None:
        ends = {"finish_reason": raw, "native_finish_reason": native}
        start = chunk({"content": "a", "role": "assistant"}, native_finish_reason=None)
        streamed = read(
            stream(start, {"choices": [{"index": 0, "delta": {"content": ""}, **ends}]})
        )
        body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"}, **ends}]}
        at_once = read(json.dumps(body).encode())
        assert streamed.reply.kind is kind
        if kind is not ReplyKind.UNTERMINATED:  # a whole body has ended
            assert at_once.reply.kind is kind
            assert streamed.reply.raw_finish == at_once.reply.raw_finish == (raw or native)

    def test_a_mistake_of_the_model_may_be_tried_again(self) -> None:
        choice = {
            "message": {"content": ""},
            "finish_reason": "error",
            "native_finish_reason": "MALFORMED_FUNCTION_CALL",
        }
        error = read(json.dumps({"choices": [choice]}).encode()).error
        assert error is not None
        assert error.info.category is ErrorCategory.INVALID_RESPONSE
        assert error.info.code == "malformed_function_call"
        assert "MALFORMED_FUNCTION_CALL" in error.info.safe

    def test_a_word_means_the_same_for_all_vendors(self) -> None:
        meanings: dict[str, set[FinishReason]] = {}
        for words in NATIVE_REASONS.values():
            for word, reason in words.items():
                meanings.setdefault(word.lower(), set()).add(reason)
        assert {word for word, reasons in meanings.items() if len(reasons) > 1} == set()
        assert {word for word in MISTAKES if meanings.get(word) != {FinishReason.ERROR}} == set()
        gemini = {word.lower() for word in GEMINI_MISTAKES}
        assert gemini <= MISTAKES


def test_the_short_way_and_the_careful_way_read_the_same() -> None:
    class Careful(ChatDecoder):
        def _read_plain(self, payload: bytes, out: object) -> bool:
            return False

    values = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Hm", "content": None}),
        chunk({"content": "a"}, obfuscation="xyz"),
        chunk({"content": "", "tool_calls": [call("f", "", index=0, id="x")]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ""}, "new": 1}]}),
        chunk({"content": "b", "tool_calls": [{"index": 0, "function": {"arguments": " "}}]}),
        chunk({"content": "", "reasoning": "z", "tool_calls": []}),
        chunk({"content": "c", "refusal": "no"}),
        chunk({"content": "d"}, usage={"prompt_tokens": 1}),
        chunk({"content": "e"}, "stop"),
    ]
    careful = Careful(STREAM, classify)
    assert careful.feed(stream(*values)) == deltas(stream(*values))


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MESSAGES = st.fixed_dictionaries(
    {"content": st.none() | WORDS},
    optional={
        "reasoning_content": WORDS,
        "refusal": st.none() | WORDS,
        "tool_calls": st.lists(
            st.builds(
                lambda name, arguments, given: call(name, arguments, id=given),
                st.sampled_from(["f", "g"]),
                WORDS | st.just('{"a": 1}'),
                st.sampled_from(["", "a", "b"]),
            ),
            max_size=3,
        ),
    },
)
FINISHES = st.sampled_from(["stop", "tool_calls", "length", "content_filter", "error", "new", None])


def has_whole_calls(message: dict[str, Any]) -> bool:
    """Whether the arguments of every call are a JSON object."""
    texts = [made["function"]["arguments"] for made in message.get("tool_calls", ())]
    return all(isinstance(read_strict_json(text), dict) for text in texts)


@given(MESSAGES, FINISHES, st.lists(st.integers(0, 10_000), max_size=8))
def test_any_message_is_the_same_whole_and_streamed_and_cut(
    message: dict[str, Any], finish: str | None, places: list[int]
) -> None:
    body = whole(message, finish, usage={"prompt_tokens": 1})
    streamed = as_stream(json.loads(body))
    wanted = read(body, JSON).reply
    if finish is None and wanted.kind is not ReplyKind.REFUSED and not has_whole_calls(message):
        # A whole body proves such a call, and an end marker alone does not.
        wanted = read(streamed).reply
        assert wanted.kind is ReplyKind.UNTERMINATED
    assert read(streamed).reply == wanted
    edges = [0, *sorted(place % (len(streamed) + 1) for place in places), len(streamed)]
    assert read([streamed[a:b] for a, b in pairwise(edges)]).reply == wanted


FIELDS = [
    "id",
    "model",
    "choices",
    "delta",
    "message",
    "index",
    "content",
    "tool_calls",
    "function",
]
FIELDS += ["name", "arguments", "finish_reason", "usage", "error", "refusal", "reasoning_details"]
FIELDS += ["type", "text", "audio", "images", "annotations", "function_call", "prompt_tokens"]
SHAPED = st.recursive(
    JSON_VALUES,
    lambda inner: (
        st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5) | st.lists(inner, max_size=3)
    ),
    max_leaves=20,
)


@given(st.lists(st.binary(max_size=60), max_size=5), st.sampled_from([STREAM, JSON, ""]))
def test_any_bytes_are_read_without_an_error(pieces: list[bytes], content_type: str) -> None:
    read(pieces, content_type)


@pytest.mark.slow  # takes half a second or more
@given(st.lists(SHAPED, max_size=4))
def test_any_json_is_read_without_an_error(values: list[object]) -> None:
    read(stream(*values))
    read(b"".join(map(event, values)))
    for value in values:
        read(json.dumps(value).encode(), JSON)
        read(stream(chunk(value)))
        read(whole(value))


def test_deep_json_is_not_a_reply_and_does_not_crash() -> None:
    for deep in (
        b"[" * 100_000,
        b'{"choices":' * 50_000,
        b'{"a":' + b"[" * 900 + b"]" * 900 + b"}",
    ):
        assert read(deep).error is not None
        assert read(b"data: " + deep + b"\n\n").error is not None


def test_a_body_over_the_limit_is_not_a_reply() -> None:
    for body in (b"data: " + b"x" * 200, b"{" + b" " * 200):
        for pieces in ([body], byte_by_byte(body)):
            decoder = ChatDecoder(STREAM, classify, limit=100)
            found = [delta for piece in pieces for delta in decoder.feed(piece)] + decoder.close()
            assert [type(delta) for delta in found] == [NotAReply]
            assert "more than 100 bytes" in str(found[0])


def test_arguments_that_are_an_object_become_their_text() -> None:
    for body in (
        whole({"tool_calls": [call("f", {"a": 1}, id="x")]}, "tool_calls"),
        stream(chunk({"tool_calls": [call("f", {"a": 1}, id="x", index=0)]}, "tool_calls")),
    ):
        assert read(body).reply.calls == (ToolCall("x", "f", '{"a":1}'),)


def test_a_call_keeps_what_its_wire_wants_back() -> None:
    state = {"google": {"thought_signature": "abc"}}
    body = whole({"tool_calls": [call("f", "{}", id="x", extra_content=state)]}, "tool_calls")
    wanted = ToolCall("x", "f", "{}", "openai_chat", {"extra_content": state})
    assert read(body).reply.calls == (wanted,)
    assert read(as_stream(json.loads(body))).reply == read(body).reply


def test_a_custom_tool_is_recognised() -> None:
    entry = {"id": "x", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    (found,) = read(whole({"tool_calls": [entry]}, "tool_calls")).reply.calls
    assert (found.name, found.arguments) == ("sql", "select 1")
    assert found.extra is not None
    assert found.extra["type"] == "custom"


def test_a_legacy_function_call_is_a_call() -> None:
    body = whole(
        {"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"
    )
    assert read(body).reply.calls == (ToolCall("", "f", "{}"),)
    streamed = stream(
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": "{}"}}),
        chunk({}, "function_call"),
    )
    assert read(streamed).reply == read(body).reply


def test_an_empty_legacy_function_call_is_none() -> None:
    reply = read(whole({"content": "a", "function_call": {"name": "", "arguments": ""}})).reply
    assert reply.calls == ()
    assert reply.kind is ReplyKind.COMPLETE


def test_fragments_of_calls_are_never_emitted_as_text() -> None:
    found = deltas(stream(chunk({"tool_calls": [call("f", "{", index=0, id="x")]})))
    assert [
        type(delta) for delta in found if not isinstance(delta, ReplyStarted | StreamEnded)
    ] == [ToolCallDelta]


@pytest.mark.parametrize(
    ("missing", "begun"), [("model", ReplyStarted("c1", "")), ("id", ReplyStarted("", "m1"))]
)
def test_a_server_may_name_the_reply_or_the_model_alone(missing: str, begun: ReplyStarted) -> None:
    values = [chunk({"content": "a"}), chunk({}, "stop")]
    for value in values:
        del value[missing]
    assert deltas(stream(*values))[0] == begun
