"""A growing text is cut the same way however it comes, and loses nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adh.screen import markdown_chunks
from adh.screen.markdown_chunks import MOST_CHARACTERS, MarkdownChunk, MarkdownChunks

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
    assert len(chunks.finished) >= 2_000 // markdown_chunks.MOST_LINES
