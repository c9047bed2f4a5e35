"""The chat of any length: only the visible part is painted, it stays where it is, and heights add up."""

from __future__ import annotations

import pytest
from apps.terminal.tests.screen.scripted_chat import ScriptedChat
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection

from adh.screen.block_log import MOST_PAINTED, LineIndex, LinePlace
from adh.transcript.blocks import AnswerBlock, PersonBlock

pytestmark = pytest.mark.slow  # drives the screen of an emulated terminal


def _fill(chat: ScriptedChat, count: int) -> None:
    """Say so much, in answers of different length."""
    for number in range(count):
        answer = f"answer {number}\n\n" + "More words of it. " * (number * 7 % 40)
        chat.conversation.say(f"message {number}", answer)


def _seen(chat: ScriptedChat) -> list[str]:
    """The lines of the chat as they are seen, without the frame."""
    return [
        line[2:-2].rstrip()
        for line in chat.read().split("\n")[1 : chat.session.log.size.height + 1]
    ]


async def _focus_chat(chat: ScriptedChat, pilot: Pilot[None]) -> None:
    chat.session.log.focus()
    await chat.settle(pilot)


async def test_a_long_chat_paints_what_is_seen_and_follows_its_end() -> None:
    chat = ScriptedChat()
    _fill(chat, 2_000)
    async with chat.open(80, 40) as pilot:
        assert "answer 1999" in chat.read()
        assert chat.session.log.painted_count < 60
        chat.conversation.say("one more", "the newest")
        await chat.settle(pilot)
        assert "the newest" in chat.read()
        assert chat.session.log.painted_count < 60


async def test_scrolling_to_the_start_and_back_bounds_the_memory() -> None:
    chat = ScriptedChat()
    _fill(chat, 600)
    async with chat.open(80, 40) as pilot:
        await _focus_chat(chat, pilot)
        for _ in range(250):
            chat.session.log.action_page(-1)
        await chat.settle(pilot)
        assert chat.session.log.painted_count <= MOST_PAINTED
        await chat.press(pilot, "home")
        assert "Tools will be executed" in chat.read()
        await chat.press(pilot, "end")
        assert "answer 599" in chat.read()


async def test_a_person_who_scrolled_up_reads_on_while_the_answer_grows() -> None:
    chat = ScriptedChat()
    _fill(chat, 60)
    async with chat.open(80, 30) as pilot:
        await chat.press(pilot, "pageup", "pageup")
        before = _seen(chat)
        chat.conversation.open_turn("next")
        chat.conversation.begin_reply()
        for _ in range(50):
            chat.conversation.stream("a line\n\n")
        await chat.settle(pilot)
        assert _seen(chat) == before
        for _ in range(30):
            chat.session.log.action_page(1)
        await chat.settle(pilot)
        chat.conversation.stream("the end")
        await chat.settle(pilot)
        assert "the end" in chat.read()


async def test_scrolling_up_by_lines_never_jumps() -> None:
    chat = ScriptedChat()
    _fill(chat, 80)
    async with chat.open(80, 30) as pilot:
        log = chat.session.log
        seen = _seen(chat)
        for _ in range(20):
            log.scroll_up(animate=False, immediate=True)
            await pilot.pause()
            now = _seen(chat)
            assert now[1:] == seen[:-1]
            seen = now


@pytest.mark.parametrize("size", [(40, 12), (200, 60)])
async def test_a_resize_paints_everything_anew(size: tuple[int, int]) -> None:
    chat = ScriptedChat()
    _fill(chat, 50)
    async with chat.open(80, 24) as pilot:
        await pilot.resize_terminal(*size)
        await chat.settle(pilot)
        assert any("More words of it." in line for line in _seen(chat))
        assert all(len(line) <= size[0] for line in chat.read().split("\n"))


async def test_blocks_are_selected_folded_and_copied_by_keys() -> None:
    chat = ScriptedChat()
    chat.conversation.say("Hello", "First.\n\nSecond.")
    async with chat.open() as pilot:
        await _focus_chat(chat, pilot)
        await chat.press(pilot, "up", "enter")
        assert "▸ orchestrator  First.  [copy]" in chat.read()
        assert "Second." not in chat.read()
        await chat.press(pilot, "space", "c")
        assert "Second." in chat.read()
        assert chat.app.clipboard == "Agent: First.\n\nSecond."
        await chat.press(pilot, "up", "c")
        assert chat.app.clipboard == "You: Hello"


async def test_blocks_are_folded_and_copied_by_clicks() -> None:
    chat = ScriptedChat()
    chat.conversation.say("Hello", "The answer.")
    async with chat.open() as pilot:
        lines = chat.read().split("\n")
        row = next(number for number, line in enumerate(lines) if "[copy]" in line)
        await pilot.click(offset=(lines[row].index("[copy]") + 1, row))
        await chat.settle(pilot)
        assert "Copied 1 message to clipboard" in chat.read()
        assert chat.app.clipboard == "Agent: The answer."
        await pilot.click(offset=(lines[row].index("▾"), row))
        await chat.settle(pilot)
        assert "▸ orchestrator" in chat.read()


async def test_a_selection_is_copied_by_ctrl_c() -> None:
    chat = ScriptedChat()
    chat.conversation.say("Hello world", "Answer")
    async with chat.open() as pilot:
        log = chat.session.log
        line = next(number for number, text in enumerate(_seen(chat)) if "Hello" in text)
        chat.app.screen.selections = {log: Selection(Offset(2, line), Offset(7, line))}
        await pilot.press("ctrl+c")
        assert chat.app.clipboard.strip() == "Hello"
        assert chat.app.is_running


async def test_blocks_that_vanish_or_move_are_shown_as_they_are() -> None:
    chat = ScriptedChat()
    blocks = [PersonBlock(id=str(number), text=f"text {number}") for number in range(5)]
    async with chat.open() as pilot:
        log = chat.session.log
        log.show_blocks(blocks, frozenset())
        log.show_blocks([blocks[0], blocks[3]], frozenset({"1"}))
        await pilot.pause()
        text = chat.read()
        assert "text 0" in text
        assert "text 1" not in text
        assert "text 3" in text
        log.show_blocks([], frozenset())
        await pilot.pause()
        assert "text" not in chat.read()


async def test_a_change_of_the_theme_paints_everything_anew() -> None:
    chat = ScriptedChat()
    chat.conversation.say("Hello", "Answer")
    async with chat.open() as pilot:
        before = chat.app.export_screenshot()
        chat.app.use_theme("light")
        await chat.settle(pilot)
        after = chat.app.export_screenshot()

    assert "#7cb7ff" in before
    assert "#7cb7ff" not in after
    assert "#0b5cad" in after


async def test_an_answer_of_a_megabyte_streams_at_the_same_cost() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.open_turn("long")
        chat.conversation.begin_reply()
        for number in range(200):
            chat.conversation.stream(f"Paragraph {number}. " + "word " * 1_000 + "\n\n")
        await chat.settle(pilot)
        assert "word word" in chat.read()
        block = chat.conversation.transcript.blocks[-1]
        assert isinstance(block, AnswerBlock)
        assert len(block.text) > 1_000_000


async def test_what_did_not_change_is_not_laid_out_or_made_again() -> None:
    chat = ScriptedChat()
    async with chat.open() as pilot:
        chat.conversation.open_turn("go")
        chat.conversation.begin_reply()
        chat.conversation.stream("One line.\n\n" * 3 + "The beginning of a long ")
        await chat.settle(pilot)
        layouts: list[object] = []
        chat.app.screen.screen_layout_refresh_signal.subscribe(chat.app.screen, layouts.append)
        log = chat.session.log
        name = chat.conversation.transcript.blocks[-1].id
        rows = {id(strip) for strip in log._painted[name]}
        for number in range(20):
            chat.conversation.stream(f"word{number} ")
            await chat.settle(pilot)
        assert "word19" in chat.read()
        assert layouts == []
        kept = [strip for strip in log._painted[name] if id(strip) in rows]
        assert [strip.text.strip() for strip in kept if strip.text.strip()][:3] == ["One line."] * 3


CHANGES = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=20)


@given(st.lists(st.integers(1, 9), max_size=30), CHANGES)
def test_every_line_is_found_in_its_block(
    heights: list[int], changes: list[tuple[int, int]]
) -> None:
    index = LineIndex()
    index.replace(heights[: len(heights) // 2])
    for height in heights[len(heights) // 2 :]:
        index.append(height)
    for number, height in changes:
        if number < len(heights):
            heights[number] = height
            index.change(number, height)
            assert index.start(number) == sum(heights[:number])

    places = [
        LinePlace(number, row) for number, height in enumerate(heights) for row in range(height)
    ]
    assert [index.find(line) for line in range(index.total)] == places
    assert index.find(index.total) is None
    assert index.find(-1) is None
    assert len(index) == len(heights)
