"""The transcript and what it keeps of encoded messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages import Message, user
from holdfast.core.transcript import Transcript


def encode(message: Message) -> bytes:
    return message.text.encode()


def test_each_message_is_encoded_once_per_key() -> None:
    seen: list[str] = []

    def counting(message: Message) -> bytes:
        seen.append(message.text)
        return encode(message)

    history = Transcript([user("a"), user("b")])
    assert history.encoded("wire", counting) == b"a,b"
    history.append(user("c"))
    assert history.encoded("wire", counting) == b"a,b,c"
    assert history.fork().encoded("wire", counting) == b"a,b,c"
    assert seen == ["a", "b", "c"]
    history.encoded("other", counting)
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
            assert history.encoded("wire", encode) == ",".join(plain).encode()
    assert [message.text for message in history] == plain
    assert history.encoded("wire", encode) == ",".join(plain).encode()
