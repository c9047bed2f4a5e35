"""Bad replies over real clients: never an answer, and always counted as a failure.

Each client is asked on one or two wires here; `conformance/test_pieces_around_clients.py` asks it on all.
"""

from __future__ import annotations

import pytest
from tests.calls.real_clients import check_bad_replies, check_good_reply

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
each_client = pytest.mark.parametrize(
    ("client", "wire", "streamed"),
    [
        ("requests", "openai_chat", False),
        ("requests", "anthropic", True),
        ("httpx", "gemini", False),
        ("httpx", "openai_responses", True),
        ("aiohttp", "openai_chat", True),
        ("aiohttp", "anthropic", False),
        ("sdk", "openai_chat", True),
        ("sdk", "anthropic", True),
        ("sdk", "gemini", True),
        ("raw", "openai_responses", False),
    ],
)


@each_client
async def test_a_good_reply_is_an_answer(client: str, wire: str, *, streamed: bool) -> None:
    await check_good_reply(client, wire, streamed=streamed)


@pytest.mark.slow  # takes half a second or more
@each_client
async def test_no_bad_reply_is_an_answer_or_counted_as_one(
    client: str, wire: str, *, streamed: bool
) -> None:
    await check_bad_replies(client, wire, streamed=streamed)
