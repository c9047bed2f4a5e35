"""An error beside the choices of a complete reply or of a chunk was ignored."""

import pytest
from tests.codecs.openai_chat.bodies import chunk, read, stream, whole

from holdfast.core.messages import Opaque

FAILED = {"status_code": 1008, "status_msg": "insufficient balance"}
FOUND = ["https://a.example"]
FIRST = chunk({"role": "assistant", "content": ""})
LAST = chunk({}, "stop")


@pytest.mark.parametrize(
    "body",
    [
        whole({"content": "Hi"}, base_resp=FAILED),
        stream(FIRST, chunk({"content": "Hi"}, base_resp=FAILED), LAST),
    ],
)
def test_an_outcome_that_failed_is_an_error(body: bytes) -> None:
    error = read(body).error
    assert error is not None
    assert error.info.category.value == "rate_limit_terminal"


def test_the_sources_of_a_chunk_of_mere_text_are_kept() -> None:
    reply = read(stream(FIRST, chunk({"content": "Hi"}, citations=FOUND), LAST)).reply
    assert reply.parts[-1] == Opaque("openai_chat", {"citations": FOUND})
