"""The transcript and its cache of encoded messages."""

from __future__ import annotations

import gc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.messages import Message, ToolCall, assistant, user
from holdfast.core.transcript import Form, Transcript


def encode(message: Message) -> bytes:
    return message.text.encode()


def test_each_message_is_encoded_once_per_key() -> None:
    seen: list[str] = []

    def counting(message: Message) -> bytes:
        seen.append(message.text)
        return encode(message)

    history = Transcript([user("a"), user("b")])
    assert history.encode_messages(Form("wire", counting)) == b"a,b"
    history.append(user("c"))
    assert history.encode_messages(Form("wire", counting)) == b"a,b,c"
    assert history.fork().encode_messages(Form("wire", counting)) == b"a,b,c"
    assert seen == ["a", "b", "c"]
    history.encode_messages(Form("other", counting))
    assert seen == ["a", "b", "c", "a", "b", "c"]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 9)),
        st.tuples(st.just("truncate"), st.integers(0, 6)),
        st.tuples(st.just("encode"), st.just(0)),
        st.tuples(st.just("fork"), st.just(0)),
    )
)


@given(ACTIONS)
@example([("append", 1), ("encode", 0), ("truncate", 0), ("append", 2)])
@example([("append", 1), ("append", 2), ("encode", 0), ("fork", 0), ("truncate", 1), ("append", 3)])
def test_the_encoded_form_is_always_that_of_the_messages(actions: list[tuple[str, int]]) -> None:
    history, plain = Transcript(), list[str]()
    for action, number in actions:
        if action == "append":
            history.append(user(str(number)))
            plain.append(str(number))
        elif action == "truncate":
            history.truncate(number)
            del plain[number:]
        elif action == "fork":
            history = history.fork()
        else:
            assert history.encode_messages(Form("wire", encode)) == ",".join(plain).encode()
    assert [message.text for message in history] == plain
    assert history.encode_messages(Form("wire", encode)) == ",".join(plain).encode()


@pytest.mark.slow  # takes half a second or more
@given(
    st.lists(st.sampled_from("afp"), max_size=30),
    st.integers(-12, 12),
    st.one_of(st.none(), st.integers(-12, 12)),
    st.sampled_from([None, 1, 2, -1, -3]),
)
def test_forks_index_and_slice_like_a_list(
    actions: list[str], start: int, stop: int | None, stride: int | None
) -> None:
    """This holds whatever is shared with forks, and whatever the forks did since."""
    history, plain = Transcript([user("first")]), [user("first")]
    for action in actions:
        if action == "f":
            history = history.fork()
        else:
            one = user(action)
            history.append(one)
            plain.append(one)
        history.fork().append(user("of another branch"))
        history.fork().truncate(0)
    assert list(history) == plain
    assert history[start:stop:stride] == plain[start:stop:stride]
    for at in range(-len(plain), len(plain)):
        assert history[at] == plain[at]
    for at in (len(plain), -len(plain) - 1):
        with pytest.raises(IndexError):
            history[at]


def test_a_fork_copies_only_the_newest_messages() -> None:
    """The cost of a turn must not grow with the age of its session."""
    history = Transcript(user(str(at)) for at in range(10_000))
    for _ in range(3):
        history = history.fork()
        for at in range(300):
            history.append(user(f"new {at}"))
    assert len(history) == 10_900
    held = [len(one) for one in gc.get_referents(history.fork()) if isinstance(one, list)]
    assert min(held) <= 256


def test_a_fork_is_not_changed_by_its_origin() -> None:
    history = Transcript([user("a")])
    history.append(user("b"))
    branch = history.fork()
    history.append(user("c"))
    history.truncate(1)
    history.append(user("d"))
    assert [message.text for message in branch] == ["a", "b"]
    assert [message.text for message in history] == ["a", "d"]


def unless_empty(message: Message) -> bytes:
    return message.text.encode()


def marked(message: Message) -> bytes:
    return f"<{message.text}>".encode()


@given(ACTIONS, st.integers(0, 3), st.booleans())
def test_messages_that_are_left_out_leave_no_comma(
    actions: list[tuple[str, int]], skip: int, mark: bool
) -> None:
    """This holds whatever is appended, truncated, forked and encoded; numbers below 3 are left out."""
    form = Form(f"wire|{skip}", unless_empty, skip, marked if mark else None)

    def wanted() -> bytes:
        left = [text for text in plain[skip:] if text]
        if left and mark:
            left[-1] = f"<{left[-1]}>"
        return f"[{','.join(left)}]".encode()

    history, plain = Transcript(), list[str]()
    for action, number in actions:
        if action == "append":
            text = "" if number < 3 else str(number)
            history.append(user(text))
            plain.append(text)
        elif action == "truncate":
            history.truncate(number)
            del plain[number:]
        elif action == "fork":
            history = history.fork()
        else:
            assert history.encode_messages(form, b"[", b"]") == wanted()
    assert history.encode_messages(form, b"[", b"]") == wanted()


def test_the_last_message_may_be_encoded_differently_in_a_long_history() -> None:
    history = Transcript(user(str(at)) for at in range(300))
    form = Form("wire", unless_empty, encode_last=marked)
    for _ in range(2):
        assert history.encode_messages(form).endswith(b",298,<299>")
        history = history.fork()
    history.append(user(""))
    assert history.encode_messages(form).endswith(b",298,<299>")
    history.append(user("end"))
    assert history.encode_messages(form).endswith(b",299,<end>")


@given(ACTIONS, st.integers(0, 12), st.frozensets(st.sampled_from("0123456789")))
def test_calls_of_earlier_messages_are_found(
    actions: list[tuple[str, int]], before: int, ids: frozenset[str]
) -> None:
    history, plain = Transcript(), list[str]()
    for action, number in actions:
        if action == "append":
            history.append(assistant(ToolCall(str(number), "pay")))
            plain.append(str(number))
        elif action == "truncate":
            history.truncate(number)
            del plain[number:]
        else:
            history = history.fork()
            history.has_call(frozenset("x"), len(history))
        before = min(before, len(plain))
        assert history.has_call(ids, before) is bool(ids & set(plain[:before]))


def test_a_snapshot_does_not_change() -> None:
    history = Transcript([user("a")])
    history.append(user("b"))
    snapshot = history.snapshot()
    seen = list(snapshot)
    history.append(user("c"))
    history.fork()
    history.truncate(1)
    history.append(user("d"))
    assert [*snapshot] == seen == snapshot[:] == [snapshot[0], snapshot[-1]]
    assert len(snapshot) == 2
    with pytest.raises(IndexError):
        snapshot[2]
