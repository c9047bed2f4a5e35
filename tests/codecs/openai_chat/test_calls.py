"""Tool calls in a stream, whatever a provider does to index and id."""

import pytest
from tests.codecs.openai_chat.bodies import DONE, Json, call, chunk, event, read, stream

from holdfast.core.messages import ReplyKind, ToolCall


def calls(*lists: list[Json]) -> tuple[ToolCall, ...]:
    values = [chunk({"tool_calls": entries}) for entries in lists]
    return read(stream(*values, chunk({}, "tool_calls"))).reply.calls


def more(arguments: str, **fields: object) -> Json:
    return {"function": {"arguments": arguments}, **fields}


PARIS, ROME = '{"city": "Paris"}', '{"city": "Rome"}'
TWO = (ToolCall("a", "weather", PARIS), ToolCall("b", "weather", ROME))


def test_the_documented_form() -> None:
    found = calls(
        [call("weather", "", index=0, id="a")],
        [more(PARIS[:5], index=0)],
        [more(PARIS[5:], index=0)],
        [call("weather", "", index=1, id="b")],
        [more(ROME, index=1)],
    )
    assert found == TWO


def test_fragments_of_two_calls_may_alternate() -> None:
    found = calls(
        [call("weather", "", index=0, id="a"), call("weather", "", index=1, id="b")],
        [more(PARIS[:5], index=0), more(ROME[:5], index=1)],
        [more(PARIS[5:], index=0)],
        [more(ROME[5:], index=1)],
    )
    assert found == TWO


@pytest.mark.parametrize("place", [{}, {"index": None}, {"index": "x"}])
def test_no_index_and_whole_calls(place: Json) -> None:
    first, second = call("weather", PARIS, id="a", **place), call("weather", ROME, id="b", **place)
    assert calls([first, second]) == TWO
    assert calls([first], [second]) == TWO


def test_no_index_and_fragments_after_each_call() -> None:
    found = calls(
        [call("weather", "", id="a")],
        [more(PARIS)],
        [call("weather", "", id="b")],
        [more(ROME)],
    )
    assert found == TWO


def test_every_call_at_index_0() -> None:
    first, second = call("weather", PARIS, id="a", index=0), call("weather", ROME, id="b", index=0)
    assert calls([first], [second]) == TWO
    assert calls([first, second]) == TWO


def test_id_and_name_repeated_in_each_fragment() -> None:
    found = calls(
        [call("weather", PARIS[:5], id="a", index=0)],
        [call("weather", PARIS[5:], id="a", index=0)],
        [call("weather", ROME[:5], id="b", index=1)],
        [call("weather", ROME[5:], id="b", index=1)],
    )
    assert found == TWO


def test_ids_that_are_missing_or_empty() -> None:
    wanted = (ToolCall("", "weather", PARIS), ToolCall("", "clock", "{}"))
    assert calls([call("weather", PARIS)], [call("clock", "{}")]) == wanted
    assert calls([call("weather", PARIS, id="", index=0), call("clock", "{}", id="", index=1)])
    assert calls([call("weather", PARIS, index=0)], [call("clock", "{}", index=0)]) == wanted


def test_an_id_that_two_calls_share_kills_nothing() -> None:
    """D8: a reused tool-call id ended the run."""
    entries = [call("weather", PARIS, id="a", index=0), call("weather", ROME, id="a", index=1)]
    wanted = (ToolCall("a", "weather", PARIS), ToolCall("a", "weather", ROME))
    assert calls(entries) == wanted
    assert calls([entries[0]], [entries[1]]) == wanted
    without_index = [call("weather", PARIS, id="a"), call("weather", ROME, id="a")]
    assert calls(without_index) == wanted


def test_an_id_that_comes_late_and_one_that_is_a_number() -> None:
    assert calls([call("f", "{", index=0)], [more("}", index=0, id="a")]) == (
        ToolCall("a", "f", "{}"),
    )
    assert calls([call("f", "{}", index=0, id=7)]) == (ToolCall("7", "f", "{}"),)


def test_a_delta_without_type() -> None:
    entry = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    assert calls([entry]) == (ToolCall("a", "f", "{}"),)


def test_a_call_without_a_name_is_never_runnable() -> None:
    reply = read(stream(chunk({"tool_calls": [more("{}", index=0, id="a")]}, "tool_calls"))).reply
    assert reply.kind is ReplyKind.MALFORMED_CALL


def test_a_call_that_begins_with_its_arguments() -> None:
    assert calls([more("{", index=0)], [call("f", "}", index=0, id="a")]) == (
        ToolCall("a", "f", "{}"),
    )


# A stream that continues after its finish reason proves nothing until it finishes again.


def calls_behind(*entries: Json, finish: str | None = None) -> bytes:
    return event(chunk({"tool_calls": list(entries)}, finish))


PAY = call("pay", '{"sum": 1}', index=0, id="a")
FINISHED = calls_behind(PAY, finish="tool_calls")
BEGUN = calls_behind(call("wipe", index=1, id="b"))
HALF = calls_behind({"index": 1, "function": {"arguments": '{"disk": '}})
REST = calls_behind({"index": 1, "function": {"arguments": '"d1"}'}})
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
    for body in (FINISHED + behind, calls_behind(PAY) + behind):
        assert read(body + DONE).reply.kind is ReplyKind.UNTERMINATED


def test_an_end_marker_does_not_prove_whole_arguments_either() -> None:
    # Another call may have been lost.
    assert read(calls_behind(PAY) + DONE).reply.kind is ReplyKind.UNTERMINATED


def test_an_end_marker_proves_whole_arguments_behind_a_finish_reason() -> None:
    assert read(FINISHED + BEGUN + HALF + REST + DONE).reply.kind is ReplyKind.COMPLETE


def test_a_finish_reason_that_is_said_again_proves_the_reply() -> None:
    whole = read(FINISHED + BEGUN + HALF + REST + AGAIN)
    assert whole.error is None
    assert [made.arguments for made in whole.reply.calls] == ['{"sum": 1}', '{"disk": "d1"}']


@pytest.mark.parametrize("end", [USAGE, EMPTY, USAGE + DONE, EMPTY + AGAIN, DONE])
def test_what_is_no_content_changes_nothing(end: bytes) -> None:
    assert (
        read(
            calls_behind(PAY, call("list", "{}", index=1, id="b"), finish="tool_calls") + end
        ).error
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
    begun = calls_behind(call("wipe", index=0, id="b"), finish="tool_calls")
    assert read(begun).reply.kind is ReplyKind.UNTERMINATED
    assert read(begun + DONE).reply.calls[0].arguments == "{}"
