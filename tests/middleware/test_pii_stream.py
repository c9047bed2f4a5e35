"""Personal data in a stream: masked also where it is split over deltas, and never streamed early."""

from __future__ import annotations

import asyncio
import re
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.linear import is_linear

from holdfast import Agent, MemoryJournal, Middleware, RetryOptions
from holdfast.core.deltas import ReasoningDelta, RefusalDelta, TextDelta, ToolCallDelta
from holdfast.core.errors import MiddlewareError, ProviderError
from holdfast.core.events import ModelReplied
from holdfast.core.messages import Reply, Text, ToolCall, Usage
from holdfast.middleware import PIIProtection
from holdfast.middleware.pii import DEFAULTS, KINDS, Action, Kind, clean_text, find_personal_data
from holdfast.middleware.pii_protection import BLOCKED, MAX_PENDING, MaskedStream, MaskedText
from holdfast.testing import FakeClock, ScriptedModel

SECRETS = {
    "Email": "bob.smith+tag@mail.example.co.uk",
    "Phone": "(555) 123-4567",
    "IPAddress": "192.168.0.17",
    "SSN": "123-45-6789",
    "CreditCard": "4111 1111 1111 1111",
}
OPEN: dict[Kind, Action] = dict.fromkeys(KINDS, "redact")


def blocked_text(kind: Kind) -> str:
    return f"<{kind}>"


def through(text: str, cuts: list[int], actions: dict[Kind, Action]) -> list[str]:
    masked = MaskedText(actions, blocked_text)
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    return [*(masked.feed(piece) for piece in pieces), masked.flush()]


WORDS = st.sampled_from(
    [
        *SECRETS.values(),
        "call",
        "at",
        "1",
        "22",
        "4111",
        "-",
        "(",
        "+1",
        "x@y",
        ".",
        "é",
        "\n",
        "a1",
    ]
)
TEXTS = st.lists(
    st.tuples(WORDS, st.sampled_from([" ", "", ". ", ", ", "-", "x"])), max_size=12
).map(lambda parts: "".join(word + gap for word, gap in parts))
CUTS = st.lists(st.integers(0, 200), max_size=20)


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=400)
@given(TEXTS, CUTS)
@example("4111 1111 1111 1111-4111 1111 1111 1111bob.smith+tag@mail.example.co.uk", [])
def test_the_streamed_text_equals_the_cleaned_whole_text(text: str, cuts: list[int]) -> None:
    assert "".join(through(text, cuts, OPEN)) == clean_text(text, OPEN).text


@settings(max_examples=200)
@given(TEXTS, CUTS)
@example("bob@mail.example a1 123-45-6789123-45-6789bob.smith+tag@mail.example.co.uk ", [43])
@example("4111 1111 1111 1111 123-45-6789 ", [])
@example("4111 1111 1111 1111 1 22", [])
@example("(555) 123-4567 4111 1111 1111 1111 123-45-6789 ", [])
# Without the telephone number, the rest alone would look like a card.
@example("192.168.0.174111 1111 1111 11114111 1111 1111 1111 123-45-6789 ", [])
def test_nothing_after_a_blocked_kind_is_streamed(text: str, cuts: list[int]) -> None:
    shown = "".join(through(text, cuts, dict(DEFAULTS)))
    whole = clean_text(text, {**DEFAULTS, "SSN": "redact", "CreditCard": "redact"}).text
    before, tag, _ = re.split(r"(\[(?:SSN|CREDITCARD)_REDACTED\]|\Z)", whole, maxsplit=1)
    assert shown == before + {"": "", "[SSN_REDACTED]": "<SSN>"}.get(tag, "<CreditCard>")
    assert (clean_text(text).blocked_kind is None) is (tag == "")


@pytest.mark.parametrize("kind", SECRETS)
def test_character_by_character_no_personal_data_is_streamed(kind: Any) -> None:
    secret = SECRETS[kind]
    masked = MaskedText(OPEN, blocked_text)
    text = f"It is {secret} and more."
    shown = ""
    for sign in text:
        shown += masked.feed(sign)
        assert secret[:4] not in shown
    assert shown + masked.flush() == clean_text(text, OPEN).text


def test_ordinary_text_is_delayed_by_one_word() -> None:
    masked = MaskedText(OPEN, blocked_text)
    assert [masked.feed(word) for word in ("Hel", "lo ", "my ", "friend", ".")] == [
        "",
        "Hello ",
        "my ",
        "",
        "",
    ]
    assert masked.flush() == "friend."


def test_the_delayed_text_is_bounded() -> None:
    masked = MaskedText(OPEN, blocked_text)
    shown = 0
    for number in range(100):
        shown += len(masked.feed("x" * 100))
        assert (number + 1) * 100 - shown <= 2 * MAX_PENDING
    assert masked.flush() == "x" * (10_000 - shown)


def test_the_cost_of_a_piece_does_not_grow_with_the_reply() -> None:
    def seconds(text: str, times: int) -> float:
        masked = MaskedText(OPEN, blocked_text)
        begin = time.process_time()
        for _ in range(times):
            masked.feed(text)
        return (time.process_time() - begin) / times

    few, many = seconds("word 12 ", 500), seconds("word 12 ", 5000)
    assert many < few * 5 + 1e-4
    assert seconds("x" * 50, 500) < 0.01
    assert seconds("1 " * 20, 500) < 0.01


def test_blocks_are_streamed_in_order_and_separately() -> None:
    stream = MaskedStream(OPEN, blocked_text)
    given = [
        ReasoningDelta("ask bob@exa"),
        ReasoningDelta("mple.org", signature="s"),
        TextDelta("Write to eve@exa"),
        TextDelta("mple.org", 1),
        ToolCallDelta(0, "1", "mail", '{"to": "bob@example.org"}'),
        RefusalDelta("not 555-123-4567"),
    ]
    shown = [delta for one in given for delta in stream.feed(one)] + list(stream.flush())
    assert shown == [
        ReasoningDelta("ask "),
        ReasoningDelta("", signature="s"),
        ReasoningDelta("[EMAIL_REDACTED]"),
        TextDelta("Write to "),
        TextDelta("eve@exa"),
        TextDelta("mple.org", 1),
        given[4],
        RefusalDelta("not "),
        RefusalDelta("[PHONE_REDACTED]"),
    ]


class Pieces(ScriptedModel):
    """A model that streams its text in pieces of three characters."""

    def _emit_text(self, reply: Reply, call: Any) -> None:
        for at in range(0, len(reply.text), 3):
            call.execution.emit(TextDelta(reply.text[at : at + 3]))


TEXT = "Mail bob@example.org or call 555-123-4567."
CLEAN = "Mail [EMAIL_REDACTED] or call ***-***-4567."


async def test_the_stream_equals_the_reply() -> None:
    agent = Agent(Pieces(TEXT), middleware=[PIIProtection(on_output=True)])
    async with agent.stream("go") as run:
        items = [item async for item in run]
    live = [item.text for item in items if isinstance(item, TextDelta)]
    assert "".join(live) == CLEAN
    assert len(live) > 3
    last = max(at for at, item in enumerate(items) if isinstance(item, TextDelta))
    (kept,) = [at for at, item in enumerate(items) if isinstance(item, ModelReplied)]
    assert last < kept
    assert run.result.output == CLEAN


async def test_a_blocked_kind_ends_the_streamed_text() -> None:
    agent = Agent(
        Pieces("Card 4111 1111 1111 1111, and more."), middleware=[PIIProtection(on_output=True)]
    )
    async with agent.stream("go") as run:
        live = [text async for text in run.text(live=True)]
    blocked = BLOCKED.format(kind="CreditCard")
    assert "".join(live) == "Card " + blocked
    assert run.result.output == blocked


async def test_without_the_protection_nothing_is_changed() -> None:
    for middlewares in ([], [PIIProtection()]):
        agent = Agent(Pieces(TEXT), middleware=middlewares)
        async with agent.stream("go") as run:
            assert "".join([text async for text in run.text(live=True)]) == TEXT


async def test_an_attempt_that_failed_leaves_nothing_behind() -> None:
    partial = Reply((Text("Mail bob@exa"),), usage=Usage(1, 1))
    model = Pieces(ProviderError("down", partial=partial), "mple is all.")
    agent = Agent(
        model,
        middleware=[PIIProtection(on_output=True)],
        clock=FakeClock(),
        retry=RetryOptions(max_retries=1),
    )
    async with agent.stream("go") as run:
        live = [item.text async for item in run if isinstance(item, TextDelta)]
    assert live[0] == "Mail "
    assert "".join(live[1:]) == "mple is all."


class Upper:
    def feed(self, delta: Any) -> list[Any]:
        return [TextDelta(delta.text.upper())]

    def flush(self) -> list[Any]:
        return [TextDelta("!")]

    def reset(self) -> None:
        raise AssertionError("no attempt failed")


class Loud(Middleware):
    def live(self, context: Any) -> Any:
        return Upper() if context.iteration == 0 else None


async def test_the_filter_of_the_first_middleware_runs_last() -> None:
    mail = Pieces("to bob@example.org now")
    for middlewares, wanted in (
        ([Loud(), PIIProtection(on_output=True)], "TO [EMAIL_REDACTED] NOW!"),
        ([PIIProtection(on_output=True), Loud()], "TO [EMAIL_REDACTED] NOW!"),
    ):
        mail = Pieces("to bob@example.org now")
        agent = Agent(mail, middleware=middlewares)
        async with agent.stream("go") as run:
            assert "".join([text async for text in run.text(live=True)]) == wanted
        assert "live: " in agent.describe()


@pytest.mark.parametrize("broken", ["live", "take", "rest"])
async def test_a_filter_that_raises_streams_nothing_and_fails_the_turn(broken: str) -> None:
    class Broken(Upper):
        def feed(self, delta: Any) -> list[Any]:
            if broken == "take":
                raise KeyError("secret=1")
            return [delta]

        def flush(self) -> list[Any]:
            raise KeyError("secret=1")

    class Wrong(Middleware):
        def live(self, context: Any) -> Any:
            if broken == "live":
                raise KeyError("secret=1")
            return Broken()

    async with Agent(Pieces("hidden"), middleware=[Wrong()]).stream("go") as run:
        shown: list[str] = []

        async def read() -> None:
            async for item in run:
                if isinstance(item, TextDelta):
                    shown.append(item.text)  # noqa: PERF401

        with pytest.raises(MiddlewareError, match=r"Wrong\.live raised KeyError$"):
            await read()
    assert shown == (["hid", "den"] if broken == "rest" else [])


async def test_each_call_of_a_wrap_hook_has_its_own_filters() -> None:
    class Twice(Middleware):
        async def wrap_model(self, context: Any, call_next: Any) -> Reply:
            await call_next(context)
            answer: Reply = await call_next(context)
            return answer

    agent = Agent(
        Pieces("a bob@exa", "mple.org b"), middleware=[PIIProtection(on_output=True), Twice()]
    )
    async with agent.stream("go") as run:
        live = [item.text async for item in run if isinstance(item, TextDelta)]
    assert "".join(live) == "a bob@example.org b"


async def test_without_a_reader_no_filter_is_made() -> None:
    class Counting(Middleware):
        made = 0

        def live(self, context: Any) -> None:
            self.made += 1

    counting = Counting()
    await Agent(ScriptedModel(ToolCall("1", "x"), "ok"), middleware=[counting]).run("go")
    assert counting.made == 0


async def test_the_saved_part_of_a_reply_that_broke_off_is_masked() -> None:
    partial = Reply((Text(TEXT),), usage=Usage(1, 1))
    journal = MemoryJournal()
    agent = Agent(
        Pieces(ProviderError("down", partial=partial)),
        middleware=[PIIProtection(on_output=True)],
        retry=RetryOptions(max_retries=0),
        journal=journal,
    )
    with pytest.raises(ProviderError) as caught:
        await agent.run("go", session="s")
    assert caught.value.partial is not None
    assert caught.value.partial.text == CLEAN
    assert "example.org" not in repr(await journal.read("s"))


async def test_the_saved_part_of_a_cancelled_reply_is_masked() -> None:
    class Stuck(Pieces):
        async def attempt(self, call: Any) -> Any:
            call.execution.keep_partial(Reply((Text(TEXT),)))
            await asyncio.Event().wait()

    journal = MemoryJournal()
    agent = Agent(Stuck(), middleware=[PIIProtection(on_output=True)], journal=journal)
    running = asyncio.create_task(agent.run("go", session="s"))
    while not await journal.read("s"):
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    kept = repr(await journal.read("s"))
    assert "TurnInterrupted" in kept
    assert "EMAIL_REDACTED" in kept
    assert "example.org" not in kept


# A card number right after another number is found.

CARD = "4111 1111 1111 1111"
ONE: dict[Kind, Action] = {"CreditCard": "redact"}


@pytest.mark.parametrize(
    "card", [CARD, "4111111111111111", "3782 822463 10005", "4111-1111-1111-1111"]
)
def test_a_card_number_is_found_between_other_numbers(card: str) -> None:
    before = ["", "123-4567 ", "12 ", "2026-11-21 ", "555 123 4567 ", f"{CARD} 7 "]
    behind = ["", " 123-45-6789", " 42", " 12 24", f" {CARD}"]
    for text in (f"{one}{card}{other}" for one in before for other in behind):
        found = {text[start:end] for start, end, _ in find_personal_data(text, ONE)}
        assert card in found, text
        assert card not in clean_text(text, ONE).text, text


@pytest.mark.parametrize("card", [CARD, "4111-1111-1111-1111", "4111111111111111"])
@pytest.mark.parametrize("before", ["12 ", "Call 555-123-4567 ", "2026 11 21 ", "1 2 3 4 "])
@pytest.mark.parametrize("behind", ["", " 123", " 12/27."])
def test_a_card_number_after_another_number_ends_a_stream(
    before: str, card: str, behind: str
) -> None:
    text = f"{before}{card}{behind}"
    assert clean_text(text).blocked_kind == "CreditCard"
    masked = MaskedText(DEFAULTS, lambda kind: f"<{kind}>")
    said = "".join(masked.feed(sign) for sign in text) + masked.flush()
    assert said.endswith("<CreditCard>")
    assert card[-4:] not in said


@pytest.mark.parametrize(
    "text",
    [
        "555 123 4567 555 123 4568 555 123 4569",
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "2026-11-21 2026-11-22 2026-11-23",
        "4111 1111 1111 1112",
        "12345678901234567890123",
        "0000 0000 0000 0000",
        "12 34 56 78 90 12 34 56 78",
        "7 1111 1111 1111 1111",
    ],
)
def test_other_numbers_are_left(text: str) -> None:
    assert clean_text(text, ONE).text == text


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("many", [f"{CARD} ", "bob@example.org ", "1 ", "555-123-4567 "])
def test_the_work_grows_with_the_text_and_not_with_its_square(many: str) -> None:
    """Each that was found was compared with all others, and the text was copied for each."""

    def seconds(size: int) -> float:
        text = many * size
        began = time.process_time()
        clean_text(text, dict.fromkeys(KINDS, "redact"))
        return time.process_time() - began

    assert is_linear(seconds, 1_000, 30_000)
