"""The heights of blocks, against a plain sum."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adh.screen.line_index import LineIndex, LinePlace

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
