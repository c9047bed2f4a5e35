"""What each block looks like, without colour."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adh.screen.block_rows import (
    MOST_CHARACTERS,
    MOST_LINES,
    AnswerRows,
    BlockView,
    MarkdownChunk,
    MarkdownChunks,
    paint_block,
)
from adh.screen.row_painter import ModelMarkdown, RowPainter
from adh.transcript.blocks import (
    AnswerBlock,
    Block,
    NoteBlock,
    OutputLine,
    Parameter,
    PersonBlock,
    ToolBlock,
    ToolState,
)

OPEN = BlockView(folded=False)
FOLDED = BlockView(folded=True)


def _paint(block: Block, view: BlockView = OPEN, width: int = 60, *, dark: bool = True) -> str:
    rows = paint_block(block, view, RowPainter(width, dark=dark), None)
    return "\n".join(row.text.rstrip() for row in rows)


def test_a_message_of_the_person_is_plain_and_literal() -> None:
    text = _paint(PersonBlock(id="1", text="**bold** [red]x[/red]\nnext line"))

    assert text == "\u276f **bold** [red]x[/red]\n  next line\n"


def test_a_message_that_waits_or_was_undone_says_so() -> None:
    assert "(waits for the turn before it)" in _paint(PersonBlock(id="1", text="a", queued=True))
    assert "(undone)" in _paint(PersonBlock(id="1", text="a", undone=True))


def test_an_answer_is_markdown_with_a_head() -> None:
    text = _paint(AnswerBlock(id="1", turn=1, pieces=["# Title\n\n- on", "e\n"], state="done"))

    assert text == "▾ agent  [copy]\n  Title\n\n   • one\n"


@pytest.mark.parametrize(
    "shown",
    [
        "<b>html</b>",
        "<!-- hidden -->",
        "![alt](http://x/y.png)",
        "&amp;",
        "[bold]x[/bold]",
        "[a]: http://x",
    ],
)
def test_nothing_that_a_model_writes_is_hidden(shown: str) -> None:
    text = _paint(AnswerBlock(id="1", turn=1, pieces=[shown]))

    for word in ("html", "hidden", "alt", "y.png", "&amp;", "[bold]", "http://x"):
        assert (word in shown) == (word in text)


def test_a_link_shows_where_it_leads() -> None:
    text = _paint(AnswerBlock(id="1", turn=1, pieces=["[docs](https://evil.example/x)"]))

    assert "docs (https://evil.example/x)" in text


def test_an_unfinished_answer_says_so_in_words_and_is_grey() -> None:
    block = AnswerBlock(id="1", turn=1, pieces=["half of"], state="unfinished")
    rows = paint_block(block, OPEN, RowPainter(60, dark=True), None)

    assert "agent · not finished" in rows[0].text
    assert rows[2].text.rstrip() == "  ⚠ not finished"
    styles = [style for text, style, _ in rows[1] if "half" in text]
    assert styles[0] is not None
    assert str(styles[0].color and styles[0].color.name) == "#8b96a5"


def test_a_folded_answer_shows_its_first_line() -> None:
    text = _paint(AnswerBlock(id="1", turn=1, pieces=["First.\n\nSecond."], state="done"), FOLDED)

    assert text == "▸ agent  First.  [copy]\n"


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        (ToolState.PENDING, "⏳ look(path=a) · Pending"),
        (ToolState.CONFIRMING, "⚠️ look(path=a) · Awaiting Confirmation"),
        (ToolState.EXECUTING, "🔧 look(path=a) · Executing..."),
        (ToolState.SUCCESS, "✅ look(path=a) · Completed (1.23s)"),
        (ToolState.FAILED, "❌ look(path=a) · Failed (1.23s)"),
        (ToolState.BLOCKED, "🚫 look(path=a) · Blocked by Policy (1.23s)"),
        (ToolState.CANCELLED, "⊗ look(path=a) · Cancelled (1.23s)"),
        (ToolState.IN_DOUBT, "❓ look(path=a) · In doubt: it may have taken effect (1.23s)"),
    ],
)
def test_the_head_of_a_tool_shows_its_state(state: ToolState, shown: str) -> None:
    block = ToolBlock(
        id="1", turn=1, name="look", state=state, parameters=(Parameter("path", "a"),)
    )
    block.elapsed = 1.23 if state.is_final else None

    assert _paint(block, FOLDED, 90) == f"▸ {shown}\n"


def test_the_body_of_a_tool_tells_its_parts_and_its_streams_apart() -> None:
    block = ToolBlock(id="1", turn=1, name="run", state=ToolState.FAILED, arguments="command: ls")
    block.output.extend([OutputLine("stdout", "fine"), OutputLine("stderr", "bad")])
    block.dropped_lines = 1_200
    block.result, block.error = "exit 1", "It failed."
    block.level, block.risk, block.rule = "confirm", "medium", "commands.any (built-in)"

    lines = _paint(block).split("\n")

    assert lines[1:] == [
        "  │ Rule",
        "  │ confirm, risk medium: commands.any (built-in)",
        "  │ Parameters",
        "  │ command: ls",
        "  │ Output",
        "  │ … 1,200 earlier lines",
        "  │ fine",
        "  ! bad",
        "  │ Result",
        "  │ exit 1",
        "  │ Error",
        "  │ It failed.",
        "",
    ]


def test_a_folded_tool_shows_its_newest_output_and_why_it_failed() -> None:
    running = ToolBlock(id="1", turn=1, name="run", state=ToolState.EXECUTING)
    running.output.extend(OutputLine("stdout", f"line {number}") for number in range(9))
    blocked = ToolBlock(id="2", turn=1, name="run", state=ToolState.BLOCKED, error="Denied.\nMore.")

    assert _paint(running, FOLDED).split("\n")[1:] == ["  │ line 6", "  │ line 7", "  │ line 8", ""]
    assert _paint(blocked, FOLDED).split("\n")[1:] == ["    Denied.", ""]


def test_a_result_of_many_lines_is_bounded() -> None:
    block = ToolBlock(id="1", turn=1, name="run", result="x\n" * 100_000)

    lines = _paint(block).split("\n")

    assert len(lines) < 1_010
    assert "  │ … the rest is not shown" in lines


def test_a_note_stands_apart() -> None:
    assert _paint(NoteBlock(id="1", text="Ready.\nGo.")) == "▏ Ready.\n▏ Go.\n"


HOSTILE = st.text(
    st.sampled_from("a \n\t\r\x1b[2J]\x07\x9b\u200b\u202e\ue000\x00`*_#|<>-1."), max_size=80
)


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=150, deadline=None)
@given(HOSTILE, st.sampled_from([8, 20, 80]), st.booleans(), st.booleans())
def test_no_text_reaches_the_terminal_with_characters_that_it_obeys(
    text: str, width: int, dark: bool, folded: bool
) -> None:
    painter = RowPainter(width, dark=dark)
    tool = ToolBlock(id="1", turn=1, name=text or "x", arguments=text, result=text, error=text)
    tool.output.append(OutputLine("stderr", text))
    blocks: list[Block] = [
        PersonBlock(id="1", text=text),
        AnswerBlock(id="1", turn=1, pieces=list(text), agent=text),
        NoteBlock(id="1", text=text),
        tool,
    ]
    for block in blocks:
        for row in paint_block(block, BlockView(folded=folded), painter, None):
            assert not set(row.text) & set("\x00\x07\x1b\x9b\r\n\t\u200b\u202e"), row.text


@pytest.mark.slow  # takes half a second or more
@given(st.lists(st.sampled_from(["a ", "\n\n", "- x\n", "```\n", "long " * 9]), max_size=20))
@settings(max_examples=60, deadline=None)
def test_an_answer_that_grew_looks_like_one_that_came_whole(pieces: list[str]) -> None:
    painter = RowPainter(40, dark=True)
    block = AnswerBlock(id="1", turn=1)
    grown = AnswerRows(painter)
    for piece in pieces:
        block.pieces.append(piece)
        grown.update(block)

    whole = AnswerBlock(id="1", turn=1, pieces=["".join(pieces)])
    fresh = AnswerRows(painter).update(whole)
    assert [row.text for row in grown.update(block)] == [row.text for row in fresh]


def test_an_answer_that_begins_anew_shows_nothing_of_the_one_before() -> None:
    rows = AnswerRows(RowPainter(40, dark=True))
    block = AnswerBlock(id="1", turn=1, pieces=["old text\n\n"])
    rows.update(block)
    block.pieces, block.version = ["new"], 1

    assert [row.text.strip() for row in rows.update(block)] == ["new"]


def test_an_unknown_language_is_shown_as_plain_code() -> None:
    block = AnswerBlock(id="1", turn=1, pieces=["```no-such-language\nx = 1\n```\n"])

    assert "│ x = 1" in _paint(block)
    assert ModelMarkdown("```\x1b\n```", "nord").markup


LINES = st.sampled_from(
    [
        "",
        " ",
        "text",
        "- item",
        "  more",
        "```python",
        "```",
        "~~~",
        "````",
        "# Title",
        "|a|b|",
        "x" * 100,
    ]
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join)


def _cut(pieces: list[str]) -> tuple[list[MarkdownChunk], MarkdownChunk]:
    chunks = MarkdownChunks()
    for piece in pieces:
        chunks.feed(piece)
    return chunks.finished, chunks.last


@given(TEXTS, st.lists(st.integers(1, 50), min_size=1))
def test_pieces_do_not_change_the_chunks(text: str, sizes: list[int]) -> None:
    pieces, rest = [], text
    while rest:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(rest[:size])
        rest = rest[size:]

    assert _cut(pieces) == _cut([text])


@given(TEXTS)
def test_the_chunks_are_the_text(text: str) -> None:
    finished, last = _cut([text])

    assert "".join(chunk.text for chunk in [*finished, last]) == text


def test_a_long_block_of_code_is_cut_into_blocks_of_code() -> None:
    text = "```python\n" + "x = 1\n" * 250 + "```\nafter\n"

    finished, last = _cut([text])

    assert [chunk.text.count("x = 1") for chunk in finished] == [99, 100, 51]
    assert all(chunk.text.startswith("```python\n") for chunk in finished)
    assert all(chunk.text.endswith("```\n") for chunk in finished)
    assert [chunk.joined for chunk in finished] == [False, True, True]
    assert last == MarkdownChunk("after\n")


def test_a_line_without_end_is_cut_at_spaces() -> None:
    text = "word " * 3_000
    one_by_one = _cut(list(text))

    assert one_by_one == _cut([text])
    assert max(len(chunk.text) for chunk in one_by_one[0]) <= MOST_CHARACTERS
    assert "".join(chunk.text for chunk in [*one_by_one[0], one_by_one[1]]) == text


def test_the_last_chunk_stays_small_however_long_the_answer_is() -> None:
    chunks = MarkdownChunks()
    longest = 0
    for _ in range(2_000):
        chunks.feed("Some words of a paragraph.\n")
        longest = max(longest, len(chunks.last.text))

    assert longest <= MOST_CHARACTERS
    assert len(chunks.finished) >= 2_000 // MOST_LINES
