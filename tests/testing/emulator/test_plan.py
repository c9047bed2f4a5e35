"""The effect of each fault on a response, without a socket."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent
from holdfast.core.messages import Reply, Text, ToolCall
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator.faults import (
    CloseBeforeHeaders,
    CutToolArguments,
    Delay,
    DropAfter,
    EmptyChoices,
    ErrorEvent,
    ErrorResponse,
    Fault,
    GarbageLine,
    Html200,
    HttpStatus,
    NoTerminator,
    OddJson,
    Pace,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    ReusedToolIds,
    SplitEveryByte,
    Stall,
    TruncatedJson,
    WrongContentType,
)
from holdfast.testing.emulator.scenario import (
    Close,
    EmulatedReply,
    End,
    Pause,
    Reset,
    Send,
    SendHead,
    ServerAction,
    find_refusal,
    is_unanswered,
    plan_actions,
    render_reply,
)
from holdfast.testing.emulator.wires.emulator_wire import WIRES, EmulatorWire, Rendering, get_wire

WIRE = get_wire("openai_chat")
REPLY = Reply(
    parts=(
        Text("One two three."),
        ToolCall("call_1_1", "a", '{"x": 1}'),
        ToolCall("call_1_2", "b", "{}"),
    )
)
RENDERING = Rendering(model="m", include_usage=True)

every_fault: st.SearchStrategy[Fault] = st.one_of(
    st.builds(HttpStatus, st.sampled_from([400, 404, 429, 500, 502, 529, 599])),
    st.builds(ErrorResponse, st.sampled_from(["rate_limit", "bad_key", "context_length"])),
    st.builds(Delay, st.just(1.0)),
    st.builds(Pace, st.just(1.0)),
    st.just(ResetBeforeHeaders()),
    st.just(CloseBeforeHeaders()),
    st.just(ResetAfterHeaders()),
    st.builds(DropAfter, st.integers(0, 20), st.booleans()),
    st.builds(Stall, st.integers(0, 20), st.just(1.0), st.booleans()),
    st.builds(TruncatedJson, st.floats(0, 1)),
    st.builds(OddJson, st.sampled_from([[], None, 1, {"a": 1}])),
    st.builds(ErrorEvent, st.integers(0, 20)),
    st.just(SplitEveryByte()),
    st.just(WrongContentType()),
    st.just(Html200()),
    st.just(NoTerminator()),
    st.just(EmptyChoices()),
    st.builds(CutToolArguments, st.floats(0, 1)),
    st.just(ReusedToolIds()),
    st.builds(GarbageLine, st.integers(0, 20)),
)


def plan(
    faults: list[Fault], *, stream: bool = True, wire: EmulatorWire = WIRE, array: bool = False
) -> list[ServerAction]:
    answer = EmulatedReply(0, {}, ())
    rendering = msgspec.structs.replace(RENDERING, array=array)
    if not is_unanswered(faults):
        answer = find_refusal(wire, faults) or render_reply(
            wire, REPLY, rendering, faults, stream=stream
        )
    return plan_actions(answer, faults)


def sent(plan: list[ServerAction]) -> bytes:
    return b"".join(act.data for act in plan if isinstance(act, Send))


def status(plan: list[ServerAction]) -> int:
    return next(act.status for act in plan if isinstance(act, SendHead))


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("wire", [*WIRES, "array"])
@given(st.lists(every_fault, max_size=4), st.booleans())
def test_any_faults_together_have_one_end_and_keep_their_promises(
    wire: str, faults: list[Fault], stream: bool
) -> None:
    array = wire == "array"
    made = plan(faults, stream=stream, wire=get_wire("gemini" if array else wire), array=array)
    assert [isinstance(act, Reset | Close | End) for act in made] == [False] * (len(made) - 1) + [
        True
    ]
    heads = [act for act in made if isinstance(act, SendHead)]
    assert len(heads) <= 1
    if heads and heads[0].length is not None:
        if isinstance(made[-1], End):
            assert len(sent(made)) == heads[0].length
        elif heads[0].length:
            assert len(sent(made)) < heads[0].length


@pytest.mark.slow  # takes half a second or more
@given(st.lists(every_fault.filter(lambda f: not isinstance(f, SplitEveryByte)), max_size=3))
def test_splitting_changes_no_byte(faults: list[Fault]) -> None:
    split = plan([*faults, SplitEveryByte()])
    assert sent(split) == sent(plan(faults))
    assert all(len(act.data) == 1 for act in split if isinstance(act, Send))


def test_a_reply_without_faults() -> None:
    made = plan([])
    assert [type(act) for act in made] == [SendHead, *[Send] * (len(made) - 2), End]
    assert sent(made).endswith(b"data: [DONE]\n\n")
    whole = plan([], stream=False)
    assert [type(act) for act in whole] == [SendHead, Send, End]


def test_resets_and_closes() -> None:
    assert plan([ResetBeforeHeaders()]) == [Reset()]
    assert plan([CloseBeforeHeaders()]) == [Close()]
    assert plan([Delay(2), ResetBeforeHeaders()]) == [Pause(2), Reset()]
    assert [type(act) for act in plan([ResetAfterHeaders()])] == [SendHead, Reset]


def test_a_drop_counts_chunks() -> None:
    assert [type(act) for act in plan([DropAfter(2)])] == [SendHead, Send, Send, Reset]
    assert [type(act) for act in plan([DropAfter(2, reset=False)])] == [SendHead, Send, Send, Close]
    assert [type(act) for act in plan([DropAfter(0)])] == [SendHead, Reset]
    assert sent(plan([DropAfter(999)])) == sent(plan([])), "everything but the end of the body"
    assert isinstance(plan([DropAfter(999)])[-1], Reset)


def test_a_whole_reply_drops_in_its_middle() -> None:
    made = plan([DropAfter(3)], stream=False)
    assert [type(act) for act in made] == [SendHead, Send, Reset]
    head = made[0]
    assert isinstance(head, SendHead)
    assert head.length == len(sent(plan([], stream=False)))
    assert len(sent(made)) == head.length // 2


def test_a_stall_continues_afterwards() -> None:
    made = plan([Stall(1, 9.0, comments=True, every=0.5)])
    assert made[2] == Pause(9.0, b": keep-alive\n\n", 0.5)
    assert sent(made) == sent(plan([]))
    assert plan([Stall(999, 9.0)])[-2] == Pause(9.0), "before the end of the body"


def test_each_wire_keeps_a_stream_alive_in_its_own_way() -> None:
    said = {
        "openai_chat": b": keep-alive",
        "openai_responses": b"event: keepalive",
        "anthropic": b"event: ping",
        "gemini": b": keep-alive",
    }
    for name, beginning in said.items():
        stall = plan([Stall(1, 9.0, comments=True)], wire=get_wire(name))[2]
        assert isinstance(stall, Pause)
        assert stall.comment.startswith(beginning)
    assert plan([Stall(1, 9.0, comments=True)], wire=get_wire("gemini"), array=True)[2] == Pause(
        9.0, b" "
    )


def test_a_stall_with_comments_makes_a_whole_body_chunked() -> None:
    made = plan([Stall(0, 9.0, comments=True)], stream=False)
    assert made[0] == SendHead(200, {"content-type": "application/json"}, None)
    assert made[1] == Pause(9.0, b" ", 1.0)


def test_the_pace_is_kept_between_chunks() -> None:
    kinds = [type(act) for act in plan([Pace(1)])]
    assert kinds[:5] == [SendHead, Send, Pause, Send, Pause]
    assert kinds[-2:] == [Send, End]


def test_a_bare_status_gets_the_providers_body_and_its_headers() -> None:
    made = plan([HttpStatus(429, {"retry-after": "7"})])
    head = made[0]
    assert isinstance(head, SendHead)
    assert head.headers["retry-after"] == "7"
    assert "x-ratelimit-remaining-tokens" in head.headers
    assert msgspec.json.decode(sent(made))["error"]["code"] == "rate_limit_exceeded"
    assert "retry-after" not in plan([HttpStatus(502)])[0].headers  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "kind", "data"),
    [
        (b"\x00\x01", "text/plain", b"\x00\x01"),
        ("<html>", "text/html", b"<html>"),
        ('{"a":1}', "application/json", b'{"a":1}'),
        ({"a": 1}, "application/json", b'{"a":1}'),
        ("", "text/plain", b""),
    ],
)
def test_a_status_with_a_body(body: object, kind: str, data: bytes) -> None:
    made = plan([HttpStatus(500, {}, body)])
    assert made[0] == SendHead(500, {"content-type": kind}, len(data))
    assert sent(made) == data


@pytest.mark.parametrize(
    ("kind", "code", "status_"),
    [
        ("rate_limit", "rate_limit_exceeded", 429),
        ("insufficient_quota", "insufficient_quota", 429),
        ("bad_key", "invalid_api_key", 401),
        ("context_length", "context_length_exceeded", 400),
        ("model_not_found", "model_not_found", 404),
        ("server_error", None, 500),
        ("overloaded", None, 503),
    ],
)
def test_refusals_in_the_providers_words(kind: str, code: str | None, status_: int) -> None:
    made = plan([ErrorResponse(kind)])  # type: ignore[arg-type]
    assert status(made) == status_
    assert msgspec.json.decode(sent(made))["error"]["code"] == code


def test_truncated_json_ends_in_order() -> None:
    for stream in (True, False):
        made = plan([TruncatedJson()], stream=stream)
        assert isinstance(made[-1], End)
        assert sent(plan([], stream=stream)).startswith(sent(made))
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(sent(plan([TruncatedJson()], stream=False)))


def test_an_error_event_ends_the_stream() -> None:
    made = plan([ErrorEvent(2)])
    events = sent(made).split(b"\n\n")
    assert len(events) == 4
    assert b'"error"' in events[2]
    assert b"[DONE]" not in sent(made)
    assert "error" in msgspec.json.decode(sent(plan([ErrorEvent()], stream=False)))


def test_odd_bodies() -> None:
    assert sent(plan([OddJson([1, 2])])) == b"[1,2]"
    assert sent(plan([Html200()])).startswith(b"<!DOCTYPE")
    assert sent(plan([GarbageLine(0, b"what")])).startswith(b"what\n\n")
    assert plan([WrongContentType("a/b")])[0].headers == {"content-type": "a/b"}  # type: ignore[union-attr]


def test_no_terminator_leaves_out_the_finish_and_the_marker() -> None:
    text = sent(plan([NoTerminator()]))
    assert b"[DONE]" not in text
    assert b'"finish_reason":"' not in text
    assert b"three." in text


def test_empty_choices() -> None:
    assert msgspec.json.decode(sent(plan([EmptyChoices()], stream=False)))["choices"] == []
    assert b'"delta"' not in sent(plan([EmptyChoices()]))


def tool_calls(faults: list[Fault]) -> list[dict[str, dict[str, str]]]:
    body = msgspec.json.decode(sent(plan(faults, stream=False)))
    found: list[dict[str, dict[str, str]]] = body["choices"][0]["message"]["tool_calls"]
    return found


def test_cut_arguments_are_not_json() -> None:
    for keep in (0.5, 1.0):
        calls = tool_calls([CutToolArguments(keep)])
        for call in calls:
            with pytest.raises(msgspec.DecodeError):
                msgspec.json.decode(call["function"]["arguments"])


def test_reused_ids() -> None:
    assert {str(call["id"]) for call in tool_calls([ReusedToolIds("same")])} == {"same"}


@pytest.mark.parametrize("wire", ["openai", "openai-responses", "anthropic", "gemini"])
def test_a_reply_comes_again_after_an_unreadable_line(
    emulator: Callable[..., Emulator], fake_clock: FakeClock, wire: str
) -> None:
    provider = emulator(["first", "second"], faults=[GarbageLine()])
    known = wire if wire in ("anthropic", "gemini") else "openai_chat"
    agent = Agent(
        f"{wire}:any", base_url=provider.base_url_for(known), api_key="any", clock=fake_clock
    )
    assert agent.run_sync("Hello?").output == "first"
    assert len(provider.requests) == 2


@pytest.mark.parametrize("name", ["retry-after", "Retry-After"])
@pytest.mark.parametrize("kind", [ErrorResponse, HttpStatus])
def test_a_client_waits_as_long_as_the_error_asks(
    emulator: Callable[..., Emulator], fake_clock: FakeClock, kind: type, name: str
) -> None:
    error = "rate_limit" if kind is ErrorResponse else 429
    provider = emulator(["Hello."], faults=[kind(error, {name: "7"})])
    agent = Agent("openai:any", base_url=provider.base_url, api_key="any", clock=fake_clock)
    assert agent.run_sync("Hello?").output == "Hello."
    assert fake_clock.sleeps == [7]
