import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.tools.live_output import BoundedOutput, clean_output


@given(st.lists(st.binary(max_size=30)), st.integers(1, 20))
def test_the_ends_of_a_stream_are_kept_and_the_rest_is_counted(
    blocks: list[bytes], kept: int
) -> None:
    output = BoundedOutput(kept)
    for block in blocks:
        output.add(block)
    whole = b"".join(blocks)
    assert output.total == len(whole)
    assert output.dropped == max(len(whole) - 2 * kept, 0)
    assert bytes(output._head) == whole[:kept]
    tail = b"".join(output._tail)[-kept:]
    assert whole[kept:].endswith(tail)


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    cleaned = clean_output(text)
    assert not any(ord(character) < 32 and character not in "\n\t" for character in cleaned)
    assert "\x1b" not in cleaned


@pytest.mark.parametrize("piece", ["x", "\r", "x\r", "\x1b[0", "\x1b]0", "\x1b", "\n", "\u200b"])
def test_a_hostile_output_takes_little_time(piece: str) -> None:
    begun = time.process_time()
    clean_output(piece * (200_000 // len(piece)))
    assert time.process_time() - begun < 2


@given(st.text(alphabet="ab\n\té€"))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert clean_output(text) == text
