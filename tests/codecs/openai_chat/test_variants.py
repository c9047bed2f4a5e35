"""What gateways and servers that speak this wire send beside its document: read, or typed."""

import json
from typing import Any

import pytest
from tests.codecs.openai_chat.bodies import DONE, call, chunk, event, read, stream, whole
from tests.corpus import at_random, byte_by_byte

from holdfast.codecs.assemble import AssembledReply
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_chat.history import HistoryEncoder
from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import FinishReason, Opaque, Reasoning, ReplyKind, Text, Usage

USAGE = {"prompt_tokens": 5, "completion_tokens": 3}
HELLO = (chunk({"content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop", usage=USAGE))
PAY = call("pay", "{}", id="call_1")


def body(*choices: object, **more: object) -> bytes:
    return json.dumps({"id": "c1", "model": "m1", "choices": list(choices), **more}).encode()


def shown(assembled: AssembledReply) -> tuple[str, str, str]:
    """Kind, text, and calls as `id name arguments`."""
    reply = assembled.reply
    calls = ";".join(f"{one.id} {one.name} {one.arguments}" for one in reply.calls)
    return reply.kind.value, reply.text, calls


class TestFraming:
    """A stream by any server's idea of one."""

    @pytest.mark.parametrize(
        "sent",
        [
            stream(*HELLO).replace(b"data: ", b"data:"),
            stream(*HELLO).replace(b"data: [DONE]", b"data:[DONE]"),
            stream(*HELLO).replace(b"\n\n", b"\n"),
            stream(*HELLO, done=False).replace(b"\n\n", b"\n"),
            stream(*HELLO).replace(b"\n", b"\r"),
            stream(*HELLO).replace(b"\n", b"\r\n"),
            b"\xef\xbb\xbf" + stream(*HELLO),
            b": OPENROUTER PROCESSING\n\n" * 3 + stream(*HELLO),
            b"".join(event(one, "message") for one in HELLO) + DONE,
            b"".join(b"id: 7\n" + event(one) for one in HELLO) + DONE,
            b"retry: 100\n\n" + stream(*HELLO),
            stream(*HELLO, done=False),
            stream(*HELLO).replace(b"[DONE]", b'"[DONE]"'),
            b"data: null\n\n" + stream(*HELLO).replace(b"data: [", b"data: null\n\ndata: ["),
            stream(*HELLO) + b"garbage behind the end",
            b"".join(
                b"data: " + json.dumps(one, indent=1).replace("\n", "\ndata: ").encode() + b"\n\n"
                for one in HELLO
            ),
            stream(HELLO[0]).removesuffix(DONE)
            + b'event: ping\ndata: {"type": "ping"}\n\n'
            + stream(*HELLO[1:]),
        ],
    )
    def test_the_same_reply(self, sent: bytes) -> None:
        assembled = read(sent)
        assert assembled.error is None
        assert assembled.reply == read(stream(*HELLO)).reply

    def test_a_whole_reply_with_blanks_around_it(self) -> None:
        for sent in (b"\n \r\n" + whole({"content": "Hi"}), whole({"content": "Hi"}) + b"\n\n"):
            assert read(sent).reply.text == "Hi"

    @pytest.mark.parametrize("behind", [b"x", b"{}", whole({"content": "again"})])
    def test_a_whole_reply_with_something_behind_it_is_none(self, behind: bytes) -> None:
        assert read(whole({"content": "Hi"}) + behind).reply.kind is ReplyKind.NOT_A_REPLY

    def test_lines_without_blank_lines_that_were_cut_are_not_whole(self) -> None:
        sent = stream(*HELLO[:2], done=False).replace(b"\n\n", b"\n")
        for at in (len(sent), len(sent) - 5):
            assert read(sent[:at]).reply.kind is ReplyKind.UNTERMINATED


class TestErrors:
    @pytest.mark.parametrize(
        "behind",
        [
            b"event: error\ndata: overloaded\n\n",
            b"event: error\ndata: two\ndata: lines\n\n",
            b'event: error\ndata: {"message": "overloaded", "code": 503}\n\n',
            # A server of local models ends a reply that fails like this.
            b'error: {"code": 503, "message": "Loading model", "type": "unavailable_error"}\n\n',
            event(chunk({}, "stop", x_groq={"id": "r", "error": "over capacity"})),
            event({"error": {"code": 502, "message": "Provider disconnected"}, "choices": []}),
        ],
    )
    def test_an_error_after_text_is_an_error_with_the_partial_text(self, behind: bytes) -> None:
        assembled = read(stream(HELLO[0], done=False) + behind)
        assert assembled.reply.kind is ReplyKind.ERROR_REPLY
        assert assembled.reply.text == "Hel"
        assert assembled.error is not None
        assert assembled.error.info.category.is_retryable

    @pytest.mark.parametrize(
        ("sent", "category"),
        [
            ({"code": 401, "msg": "invalid api key", "data": None}, ErrorCategory.AUTH_ERROR),
            (
                {"error_code": 17, "error_msg": "daily limit reached"},
                ErrorCategory.RATE_LIMIT_TERMINAL,
            ),
            (
                {
                    "result": None,
                    "success": False,
                    "errors": [{"code": 7, "message": "no such model"}],
                },
                ErrorCategory.MODEL_NOT_FOUND,
            ),
            (
                {
                    "choices": None,
                    "base_resp": {
                        "status_code": 1004,
                        "status_msg": "login fail: carry the secret key",
                    },
                },
                ErrorCategory.AUTH_ERROR,
            ),
            ({"message": "Too many requests"}, ErrorCategory.RATE_LIMIT_RETRYABLE),
        ],
    )
    def test_an_error_of_a_gateway_inside_a_success(
        self, sent: object, category: ErrorCategory
    ) -> None:
        for sending in (json.dumps(sent).encode(), stream(sent)):
            error = read(sending).error
            assert error is not None
            assert error.info.category is category

    def test_an_outcome_of_zero_is_not_an_error(self) -> None:
        outcome = {"status_code": 0, "status_msg": ""}
        assert read(whole({"content": "Hi"}, base_resp=outcome)).error is None

    def test_what_a_gateway_says_in_the_choice_itself(self) -> None:
        choice = {"index": 0, "message": {"content": "a"}, "finish_reason": "error"}
        error = {"code": 429, "message": "Rate limit exceeded"}
        assembled = read(body({**choice, "error": error}))
        assert assembled.error is not None
        assert assembled.error.info.category is ErrorCategory.RATE_LIMIT_RETRYABLE


class TestChoices:
    @pytest.mark.parametrize("index", [0, None, "0", 1, 7])
    def test_the_only_choice_of_a_whole_reply_counts(self, index: object) -> None:
        choice = {"index": index, "message": {"content": "Hi"}, "finish_reason": "stop"}
        assert shown(read(body(choice))) == ("complete", "Hi", "")

    def test_the_first_of_several_counts_wherever_it_stands(self) -> None:
        first, second = (
            {"index": at, "message": {"content": f"{at}"}, "finish_reason": "stop"} for at in (0, 1)
        )
        assert read(body(second, first)).reply.text == "0"

    def test_chunks_that_hold_nothing(self) -> None:
        nothing = {"index": 0, "delta": None, "finish_reason": None}
        ended = {"index": 0, "delta": None, "finish_reason": "stop"}
        azure = {"id": "", "model": "", "choices": [], "prompt_filter_results": [{"a": 1}]}
        late = {"id": "", "choices": [{"index": 0, "content_filter_offsets": {"check_offset": 3}}]}
        sent = stream(
            azure, {"choices": [nothing]}, {"choices": None}, HELLO[0], {"choices": [ended]}, late
        )
        assert shown(read(sent)) == ("complete", "Hel", "")


class TestContent:
    @pytest.mark.parametrize(
        ("message", "text"),
        [
            ({"content": [{"type": "text", "text": None}, {"type": "text", "text": "Hi"}]}, "Hi"),
            ({"content": [{"type": "output_text", "text": "Hi"}]}, "Hi"),
            ({"content": ["H", "i"]}, "Hi"),
            ({"content": {"answer": 1}}, '{"answer":1}'),
            ({"content": "Hi", "tool_calls": []}, "Hi"),
            ({"content": "Hi", "tool_calls": None, "function_call": None, "audio": None}, "Hi"),
            ({"content": "Hi", "function_call": {}}, "Hi"),
            ({"content": "Hi", "refusal": ""}, "Hi"),
        ],
    )
    def test_forms_of_text(self, message: object, text: str) -> None:
        for sent in (whole(message), stream(chunk(message), chunk({}, "stop"))):
            assert shown(read(sent)) == ("complete", text, "")

    def test_unknown_blocks_are_stored_and_never_sent_back(self) -> None:
        strange = {"type": "hologram", "x": 1}
        message = {"content": [strange, {"type": "text", "text": "Hi"}]}
        for sent in (whole(message), stream(chunk(message), chunk({}, "stop"))):
            reply = read(sent).reply
            kept = Opaque("openai_chat", {"content_blocks": [strange]})
            assert reply.parts == (kept, Text("Hi"))
            again = json.loads(HistoryEncoder(EndpointProfile()).encode(reply.message))
            assert again == {"role": "assistant", "content": "Hi"}

    def test_an_unknown_block_alone_is_not_a_reply(self) -> None:
        reply = read(whole({"content": [{"type": "hologram"}]})).reply
        assert reply.kind is ReplyKind.EMPTY

    def test_a_refusal_as_a_block(self) -> None:
        message = {"content": [{"type": "refusal", "refusal": "No."}]}
        for sent in (whole(message), stream(chunk(message), chunk({}, "stop"))):
            assert read(sent).reply.kind is ReplyKind.REFUSED

    def test_thoughts_in_blocks_that_come_piece_by_piece(self) -> None:
        def thinking(words: str, **more: object) -> object:
            block = {"type": "thinking", "thinking": [{"type": "text", "text": words}], **more}
            return chunk({"content": [block]})

        sent = stream(thinking("H"), thinking("m", closed=True), chunk({"content": "Hi"}, "stop"))
        assert read(sent).reply.parts == (Reasoning("Hm"), Text("Hi"))

    def test_search_metadata_is_stored_once_and_never_sent_back(self) -> None:
        beside = {"citations": ["https://example.org"], "search_results": [{"url": "u"}]}
        for sent in (
            whole({"content": "Hi"}, **beside),
            stream(chunk({"content": "H"}, **beside), chunk({"content": "i"}, "stop", **beside)),
        ):
            reply = read(sent).reply
            assert reply.parts == (Text("Hi"), Opaque("openai_chat", beside))
            again = json.loads(HistoryEncoder(EndpointProfile()).encode(reply.message))
            assert again == {"role": "assistant", "content": "Hi"}

    def test_tools_that_the_server_ran_are_stored_completely(self) -> None:
        ran = [{"index": 0, "type": "search", "arguments": "{}"}, {"index": 1, "type": "browse"}]
        kept = Opaque("openai_chat", {"executed_tools": ran})
        at_once = whole({"content": "Hi", "executed_tools": ran})
        assert read(at_once).reply.parts == (Text("Hi"), kept)
        pieces = [chunk({"executed_tools": [one]}) for one in ran]
        streamed = stream(*pieces, chunk({"content": "Hi"}, "stop"))
        assert read(streamed).reply.parts == (Text("Hi"), kept)

    def test_fields_of_a_message_that_are_not_known_are_counted(self) -> None:
        for sent in (
            whole({"content": "Hi", "channel": "final"}),
            stream(chunk({}), chunk({"content": "Hi", "channel": "final"}), chunk({}, "stop")),
        ):
            decoder = OpenAIChat().make_decoder("")
            decoder.feed(sent)
            decoder.close()
            assert decoder.unknown_counts == {"channel": 1}

    def test_a_hostile_server_cannot_fill_the_memory_with_names(self) -> None:
        decoder = OpenAIChat().make_decoder("")
        for at in range(200):
            decoder.feed(event(chunk({f"field {at}": 1})))
        assert len(decoder.unknown_counts) == 64

    def test_a_completion_of_the_older_kind(self) -> None:
        choice = {"text": "Hi", "index": 0, "logprobs": None, "finish_reason": "stop"}
        assert shown(read(body(choice, object="text_completion"))) == ("complete", "Hi", "")


class TestCalls:
    @pytest.mark.parametrize(
        ("calls", "wanted"),
        [
            ([{**PAY, "index": 3}], "call_1 pay {}"),
            (PAY, "call_1 pay {}"),
            ([{"function": {"name": "pay", "arguments": "{}"}}], " pay {}"),
            ([{"id": 7, "function": {"name": "pay", "arguments": None}}], "7 pay {}"),
            ([call("pay", {"sum": 1}, id="a")], 'a pay {"sum":1}'),
            ([PAY, PAY], "call_1 pay {};call_1 pay {}"),
            ([None, PAY], "call_1 pay {}"),
        ],
    )
    def test_forms_of_calls(self, calls: object, wanted: str) -> None:
        for finish in ("tool_calls", "stop", "function_call", None, ""):
            sent = whole({"content": None, "tool_calls": calls}, finish)
            assert shown(read(sent)) == ("complete", "", wanted)

    @pytest.mark.parametrize("write", [int, str])
    def test_two_calls_whose_fragments_alternate(self, write: type) -> None:
        def part(index: int, **function: str) -> object:
            return chunk({"tool_calls": [{"index": write(index), "function": function}]})

        sent = stream(
            part(0, name="pay", arguments=""),
            part(1, name="ask", arguments=""),
            part(0, arguments='{"sum"'),
            part(1, arguments='{"who"'),
            part(0, arguments=": 1}"),
            part(1, arguments=': "me"}'),
            chunk({}, "tool_calls"),
        )
        assert shown(read(sent)) == ("complete", "", ' pay {"sum": 1}; ask {"who": "me"}')

    def test_calls_that_were_announced_and_never_came(self) -> None:
        assert read(whole({"content": None, "tool_calls": []}, "tool_calls")).error is not None

    def test_a_legacy_call_that_streams(self) -> None:
        sent = stream(
            chunk({"function_call": {"name": "pay", "arguments": ""}}),
            chunk({"function_call": {"arguments": '{"sum"'}}),
            chunk({"function_call": {"arguments": ": 1}"}}),
            chunk({}, "function_call"),
        )
        assert shown(read(sent)) == ("complete", "", ' pay {"sum": 1}')


class TestUsage:
    @pytest.mark.parametrize(
        ("usage", "wanted"),
        [
            (None, Usage()),
            ([], Usage()),
            ("5", Usage()),
            ({}, Usage()),
            ({"total_tokens": 8}, Usage()),
            ({"prompt_tokens": 5}, Usage(5)),
            ({"prompt_tokens": 5.0, "completion_tokens": None}, Usage(5)),
            ({"prompt_tokens": -1, "completion_tokens": True}, Usage()),
            ({"prompt_tokens": 5, "prompt_tokens_details": []}, Usage(5)),
            ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 2}}, Usage(5, 0, 2)),
            ({"input_tokens": 5, "output_tokens": 3}, Usage(5, 3)),
        ],
    )
    def test_absent_partial_and_strange(self, usage: object, wanted: Usage) -> None:
        for sent in (
            whole({"content": "Hi"}, usage=usage),
            stream(chunk({"content": "Hi"}, "stop", usage=usage)),
        ):
            assert read(sent).reply.usage == wanted

    def test_totals_that_grow_with_each_chunk(self) -> None:
        first = chunk({"content": "Hi"}, usage={**USAGE, "completion_tokens": 1})
        assert read(stream(first, chunk({}, "stop", usage=USAGE))).reply.usage == Usage(5, 3)


def test_a_finish_reason_that_comes_twice() -> None:
    reply = read(stream(chunk({"content": "Hi"}, "stop"), chunk({}, "stop", usage=USAGE))).reply
    assert (reply.finish, reply.usage) == (FinishReason.STOP, Usage(5, 3))


NO_CONTENT = {"role": "assistant", "content": ""}
QUIET = chunk(NO_CONTENT, "")


class TestEndsWithoutAFinishReason:
    """A gateway sends the end marker also after its own connection failed."""

    @pytest.mark.parametrize(
        "begun",
        [
            [chunk({"content": "Hi"})],
            [chunk({"content": "Hi"}, "")],
            [chunk({"content": "Hi"}), chunk(NO_CONTENT)],
            # The count of a gateway, which adds up what came.
            [chunk({"content": "Hi"}), {"choices": [], "usage": USAGE}],
            [chunk(NO_CONTENT, usage=USAGE), chunk({"content": "Hi"}), chunk(NO_CONTENT)],
            # This server counts in each chunk.
            [chunk({"content": "Hi"}, usage=USAGE), chunk(NO_CONTENT, usage=USAGE)],
            [chunk({"content": "H"}), QUIET, chunk({"content": "i"})],
            [chunk({"tool_calls": [{**PAY, "index": 0}]})],
            [
                chunk({"content": "Hi"}),
                chunk({"content": " there"}, "stop"),
                chunk({"content": "!"}),
            ],
        ],
    )
    def test_a_marker_alone_proves_nothing(self, begun: list[Any]) -> None:
        assembled = read(stream(*begun))
        assert assembled.reply.kind is ReplyKind.UNTERMINATED
        assert assembled.error is not None
        assert assembled.error.partial == assembled.reply
        assert assembled.reply.parts

    @pytest.mark.parametrize(
        "end",
        [
            [QUIET],
            [QUIET, {"choices": [], "usage": USAGE}],
            [chunk({}, "")],
            # OpenRouter and Snowflake end replies of some servers like this.
            [chunk(NO_CONTENT, usage=USAGE)],
            [chunk(NO_CONTENT), {"choices": [], "usage": USAGE}],
            [chunk({}, "moon_phase")],
            [chunk({}, "end_turn")],
        ],
    )
    def test_an_empty_or_foreign_one_in_a_last_chunk_without_content_is_right(
        self, end: list[Any]
    ) -> None:
        for begun in ({"content": "Hi"}, {"tool_calls": [{**PAY, "index": 0}]}):
            body = stream(chunk({"role": "assistant"}, None), chunk(begun), *end)
            assert read(body).reply.kind is ReplyKind.COMPLETE
            for pieces in (byte_by_byte(body), at_random(body, "quiet")):
                assert read(pieces).reply.kind is ReplyKind.COMPLETE

    @pytest.mark.parametrize("arguments", ["", '{"sum"', "[1]"])
    def test_an_empty_one_does_not_prove_cut_arguments(self, arguments: str) -> None:
        begun = chunk({"tool_calls": [call("pay", arguments, index=0)]})
        for end in (QUIET, chunk({}, usage=USAGE)):
            assert read(stream(begun, end)).reply.kind is ReplyKind.UNTERMINATED

    def test_an_empty_one_needs_the_marker(self) -> None:
        body = stream(chunk({"content": "Hi"}), QUIET, done=False)
        assert read(body).reply.kind is ReplyKind.UNTERMINATED

    def test_a_row_may_say_that_none_comes(self) -> None:
        loose = EndpointProfile(ends_without_finish=True)
        assert read(stream(chunk({"content": "Hi"})), profile=loose).error is None
        half = stream(chunk({"tool_calls": [call("pay", '{"sum": 1', index=0)]}))
        assert read(half, profile=loose).reply.kind is ReplyKind.UNTERMINATED
