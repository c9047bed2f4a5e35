"""Seed 004's budgets: validation 1 ms, a chunk 0.5 ms, a whole request 5 ms. Ours are a tenth of them.

The limits are loose on purpose, for machines that do other work meanwhile; the best of many tries
counts.
"""

from collections.abc import Callable
from timeit import repeat

import pytest
from tests.sdk.replies import STREAMS, WHOLE
from tests.sdk.vendors import chunk_maker, whole_maker

from holdfast.sdk.response_handler import ResponseHandler
from holdfast.sdk.send import send_message, send_message_streaming


def milliseconds(act: Callable[[], object], number: int) -> float:
    return min(repeat(act, number=number, repeat=30)) / number * 1_000


@pytest.mark.parametrize("wire", WHOLE)
def test_the_budgets_are_held(wire: str) -> None:
    response = whole_maker(wire)(WHOLE[wire])
    stream = [chunk_maker(wire)(chunk) for chunk in STREAMS[wire]]
    handler = ResponseHandler(lambda _: None)
    for chunk in stream[:3]:
        handler.process_chunk(chunk)
    found = {
        "validation": milliseconds(lambda: handler.validate_response(response), 20) / 1,
        "chunk": milliseconds(lambda: handler.process_chunk(stream[2]), 100) / 0.5,
        "whole": milliseconds(lambda: send_message(lambda: response), 20) / 5,
        "stream": milliseconds(lambda: send_message_streaming(lambda: stream), 20) / 5,
    }
    print(
        f"\n{wire}: "
        + ", ".join(f"{name} {1 / share:.0f} times under" for name, share in found.items())
    )
    assert {name: share for name, share in found.items() if share > 0.1} == {}
