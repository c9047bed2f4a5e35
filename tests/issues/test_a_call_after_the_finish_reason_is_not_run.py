"""A stream that says it is finished and then goes on proves nothing until it says so again."""

import pytest
from tests.codecs.openai_chat.bodies import DONE, Json, call, chunk, event, read

from holdfast.core.messages import ReplyKind


def calls(*entries: Json, finish: str | None = None) -> bytes:
    return event(chunk({"tool_calls": list(entries)}, finish))


PAY = call("pay", '{"sum": 1}', index=0, id="a")
FINISHED = calls(PAY, finish="tool_calls")
BEGUN = calls(call("wipe", index=1, id="b"))
HALF = calls({"index": 1, "function": {"arguments": '{"disk": '}})
REST = calls({"index": 1, "function": {"arguments": '"d1"}'}})
AGAIN = event(chunk({}, "tool_calls"))
USAGE = event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
EMPTY = event(chunk({"content": "", "tool_calls": []}))


@pytest.mark.parametrize("behind", [BEGUN, BEGUN + HALF, BEGUN + HALF + REST])
@pytest.mark.parametrize("end", [b"", USAGE])
def test_a_cut_behind_the_finish_reason_is_a_broken_stream(behind: bytes, end: bytes) -> None:
    cut = read(FINISHED + behind + end)
    assert cut.reply.kind is ReplyKind.UNTERMINATED
    assert cut.error is not None
    assert cut.error.info.category.is_retryable


@pytest.mark.parametrize("behind", [BEGUN, BEGUN + HALF])
def test_an_end_marker_does_not_prove_arguments_that_did_not_come(behind: bytes) -> None:
    for body in (FINISHED + behind, calls(PAY) + behind):
        assert read(body + DONE).reply.kind is ReplyKind.UNTERMINATED


def test_an_end_marker_does_not_prove_whole_arguments_either() -> None:
    # Another call may have been lost.
    assert read(calls(PAY) + DONE).reply.kind is ReplyKind.UNTERMINATED


def test_an_end_marker_proves_whole_arguments_behind_a_finish_reason() -> None:
    assert read(FINISHED + BEGUN + HALF + REST + DONE).reply.kind is ReplyKind.COMPLETE


def test_a_finish_reason_that_is_said_again_proves_the_reply() -> None:
    whole = read(FINISHED + BEGUN + HALF + REST + AGAIN)
    assert whole.error is None
    assert [made.arguments for made in whole.reply.calls] == ['{"sum": 1}', '{"disk": "d1"}']


@pytest.mark.parametrize("end", [USAGE, EMPTY, USAGE + DONE, EMPTY + AGAIN, DONE])
def test_what_is_no_content_changes_nothing(end: bytes) -> None:
    assert (
        read(calls(PAY, call("list", "{}", index=1, id="b"), finish="tool_calls") + end).error
        is None
    )


def test_text_behind_the_finish_reason_is_not_cut_unnoticed() -> None:
    begun = event(chunk({"content": "Hel"}, "stop"))
    assert read(begun + event(chunk({"content": "lo"}))).reply.kind is ReplyKind.UNTERMINATED
    assert read(begun + event(chunk({"content": "lo"}, "stop"))).reply.text == "Hello"


def test_a_body_that_ends_inside_a_call_is_a_broken_stream() -> None:
    for at in range(BEGUN.index(b'"delta"') + 7, len(BEGUN) - 4):
        assert read(FINISHED + BEGUN[:at]).reply.kind is ReplyKind.UNTERMINATED
    for at in range(len(USAGE)):
        assert read(FINISHED + USAGE[:at]).error is None


def test_an_event_that_is_lost_among_the_calls_spoils_the_reply() -> None:
    assert read(FINISHED + BEGUN + b"data: {lost\n\n" + AGAIN).reply.kind is ReplyKind.NOT_A_REPLY


def test_arguments_that_have_not_begun_are_not_taken_for_none() -> None:
    begun = calls(call("wipe", index=0, id="b"), finish="tool_calls")
    assert read(begun).reply.kind is ReplyKind.UNTERMINATED
    assert read(begun + DONE).reply.calls[0].arguments == "{}"
