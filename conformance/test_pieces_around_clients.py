"""The pieces around every client on every wire: no bad reply is an answer, and each counts as a failure."""

from __future__ import annotations

import pytest
from tests.calls.real_clients import PAIRS, check_bad_replies, check_good_reply

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
each_form = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
each_pair = pytest.mark.parametrize(("client", "wire"), PAIRS)


@each_form
@each_pair
async def test_a_good_reply_is_an_answer(client: str, wire: str, *, streamed: bool) -> None:
    await check_good_reply(client, wire, streamed=streamed)


@each_form
@each_pair
async def test_no_bad_reply_is_an_answer_or_counted_as_one(
    client: str, wire: str, *, streamed: bool
) -> None:
    await check_bad_replies(client, wire, streamed=streamed)
