"""Calls and results that do not match are refused; ids that a wire refuses are replaced alike."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linear import is_linear

from holdfast.codecs.pairing import (
    arrange_results,
    check_new_pairs,
    check_pairs,
    check_tail_pairs,
    find_tail,
    has_plain_id,
    replace_unsafe_ids,
)
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import (
    Message,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    tool_results,
    user,
)

IDS = st.lists(st.sampled_from(["", "a", "b", "a_2", "é", "x" * 300]), max_size=4)


def turn(*ids: str) -> list[Message]:
    """One iteration: calls of these ids, and their results."""
    return [
        assistant("So:", *(ToolCall(one, "tool") for one in ids)),
        tool_results(ToolResult(one, "tool", (Text(str(n)),)) for n, one in enumerate(ids)),
    ]


def history(iterations: list[list[str]]) -> list[Message]:
    return [user("Hi"), *(message for ids in iterations if ids for message in turn(*ids))]


def test_matching_calls_and_results_pass() -> None:
    assert check_pairs([user("Hi"), *turn("a", "b"), assistant("Done")])
    assert check_pairs([])


def test_results_may_come_in_another_order_and_in_several_messages() -> None:
    asked, answered = turn("a", "b")
    first, second = answered.parts
    assert check_pairs([asked, Message("tool", (second,)), Message("tool", (first,))])


@pytest.mark.parametrize("ids", [[""], ["a", "a"], ["call:1"], ["é"], ["x" * 300]])
def test_ids_that_need_a_change_are_reported(ids: list[str]) -> None:
    assert not check_pairs(turn(*ids))
    assert check_pairs(turn(*ids), lambda call: True) is (len(set(ids)) == len(ids))


@pytest.mark.parametrize(
    ("messages", "at"),
    [
        (turn("a")[:1], 0),
        ([user("Hi"), turn("a")[0], user("Well?")], 1),
        ([turn("a")[0], *turn("b")], 0),
        ([turn("a", "b")[0], turn("a")[1]], 0),
        (turn("a")[1:], 0),
        ([*turn("a"), turn("a")[1]], 2),
        ([turn("a")[0], turn("b")[1]], 1),
        ([Message("user", (ToolCall("a", "t"),))], 0),
        ([Message("assistant", (ToolResult("a", "t", ()),))], 0),
    ],
)
def test_what_does_not_match_is_refused_at_its_place(messages: list[Message], at: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_pairs(messages)
    assert caught.value.argument == f"messages[{at}]"
    known = [user("Hi"), *turn("k"), assistant("Done")]
    with pytest.raises(ConfigurationError) as caught:
        check_new_pairs([*known, *messages], len(known))
    assert caught.value.argument == f"messages[{at + len(known)}]"


@given(st.lists(IDS, max_size=4))
def test_safe_ids_are_plain_and_different_and_pair_as_before(iterations: list[list[str]]) -> None:
    before = history(iterations)
    safe = replace_unsafe_ids(before)
    assert check_pairs(safe)
    calls = [call for message in safe for call in message.calls]
    results = [p for m in safe for p in m.parts if isinstance(p, ToolResult)]
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert [r.text for r in results] == [
        p.text for m in before for p in m.parts if isinstance(p, ToolResult)
    ]
    assert len({call.id for call in calls}) == len(calls)
    assert all(map(has_plain_id, calls))


@given(st.lists(IDS, max_size=4), st.lists(IDS, max_size=2))
def test_a_longer_history_gives_its_beginning_the_same_ids(
    first: list[list[str]], more: list[list[str]]
) -> None:
    short, long = history(first), history(first + more)
    assert replace_unsafe_ids(long)[: len(short)] == replace_unsafe_ids(short)


@given(st.lists(IDS, max_size=4), st.integers(0, 9))
def test_looking_only_at_what_is_new_finds_the_same(
    iterations: list[list[str]], known: int
) -> None:
    messages = history(iterations)
    known = min(known, len(messages))
    while known < len(messages) and messages[known].role == "tool":
        known += 1
    if check_pairs(messages[:known]):
        assert check_new_pairs(messages, known) is check_pairs(messages)


def test_many_calls_of_one_id_take_linear_time() -> None:
    def seconds(count: int) -> float:
        messages = history([["a"]] * count)
        begun = time.process_time()
        replace_unsafe_ids(messages)
        return time.process_time() - begun

    assert is_linear(seconds, 500, 4_000)


def test_a_batch_that_was_cut_in_two_before_is_looked_at_again() -> None:
    first, second = ToolCall("a", "pay"), ToolCall("b", "pay")
    cut = [assistant(first, second), tool_results([ToolResult("a", "pay", (Text("1"),))])]
    with pytest.raises(ConfigurationError, match="'b' of tool 'pay' has no result"):
        check_tail_pairs([*cut, user("Well?")], 2)
    whole = [*cut, tool_results([ToolResult("b", "pay", (Text("2"),))]), user("Well?")]
    assert check_tail_pairs(whole, 2) == (whole, True)
    assert check_tail_pairs(whole, 3) == (whole[3:], True)


def test_results_in_order_are_left_alone() -> None:
    messages = [user("Hi"), *turn("a", "b"), assistant("Done")]
    assert arrange_results(messages, messages) is messages
    longer = [*messages, *turn("c")]
    assert arrange_results(longer, find_tail(longer, len(messages))) is longer


def test_results_are_put_into_one_message_in_the_order_of_the_calls() -> None:
    asked, answered = turn("a", "b")
    first, second = answered.parts
    apart = [asked, Message("tool", (second,)), Message("tool", (first,)), user("And?")]
    assert arrange_results(apart, apart) == [asked, answered, user("And?")]
    after = [user("Hi"), *apart[:3]]
    assert arrange_results(after, find_tail(after, 1)) == [user("Hi"), asked, answered]


def test_a_result_has_the_name_of_its_call() -> None:
    asked, answered = turn("a")
    unnamed = tool_results([ToolResult("a", "", (Text("0"),))])
    messages = [asked, unnamed]
    assert arrange_results(messages, messages) == [asked, answered]


def test_results_of_calls_with_one_id_keep_their_order() -> None:
    asked, answered = turn("a", "a")
    parts = answered.parts
    apart = [asked, Message("tool", parts[:1]), Message("tool", parts[1:])]
    assert arrange_results(apart, apart) == [asked, answered]
