"""The pieces around every client on every wire: no bad reply is an answer, each counts as a failure and is repeated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from conformance.test_clients_of_openai import needs_python, run_python
from tests.calls.composed_pieces import check_orders
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


@each_form
@each_pair
async def test_the_pieces_come_to_the_same_in_every_order(
    client: str, wire: str, *, streamed: bool
) -> None:
    await check_orders(client, wire, streamed=streamed)


# litellm and boto3 have an environment of their own.

SOURCE = str(Path(__file__).parent.parent / "src")
REPEATED = {
    "503": ("error",),
    "429": ("error",),
    "html": ("error", "empty", "invalid"),
    "empty": ("empty",),
    "drop": ("error", "invalid", "unterminated"),
    "cut": ("unterminated",),
}


@pytest.fixture(scope="module")
def said() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")]))
    try:
        return run_python("pieces_around_calls.py", seconds=300)
    finally:
        patch.undo()


@needs_python
def test_litellm_and_boto3_with_the_pieces_in_three_orders(said: Any) -> None:
    assert len(said) == 6
    for client, rows in said.items():
        for row in rows:
            where, once, always = (client, row["fault"], row["order"]), row["once"], row["always"]
            if client.startswith("litellm") and row["fault"] == "cut":
                # litellm gives a stream that was cut the finish reason "stop", so nobody can know.
                assert (once["requests"], once["kind"]) == (1, "text"), where
            elif row["fault"] in REPEATED:
                assert (once["requests"], once["kind"], once["successes"]) == (2, "text", 1), where
                assert always["kind"] in REPEATED[row["fault"]], where
                assert (always["requests"], always["successes"]) == (2, 0), where
                assert always["unwell"] == 2 * once["unwell"], where
            else:
                assert once == always, where
                assert (once["requests"], once["kind"], once["unwell"]) == (1, "error", 0), where
