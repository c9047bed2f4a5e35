"""The original's reason to fail: replies of the model that cannot be read, at 30 %."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from apps.registration.tests.http.bad_replies import READINGS, WORDS, BadReplies
from apps.registration.tests.http.mortal_club import name_children
from apps.registration.tests.http.parents import InsistingParent, find_wrong
from apps.registration.tests.http.prepared import BEFORE_SEASON
from apps.registration.tests.http.served_club import serve_club

# Starts no processes, so that it may run beside those that do.
pytestmark = pytest.mark.xdist_group("registrations")

PARENTS = 1000 if os.environ.get("HOLDFAST_FULL") else 30
AT_ONCE = 10


@pytest.mark.timeout(3600)
async def test_no_bad_reply_is_stored_or_shown(tmp_path: Path) -> None:
    replies = BadReplies(0.3, seed=3)
    async with serve_club(tmp_path, replies=replies, clock=BEFORE_SEASON) as club:
        names = name_children("Kim")
        parents = [InsistingParent(club, next(names)) for _ in range(PARENTS)]
        slots = asyncio.Semaphore(AT_ONCE)

        async def register(parent: InsistingParent) -> list[str]:
            async with slots:
                await parent.register()
                return find_wrong(parent, await parent.registration())

        wrong = await asyncio.gather(*(register(parent) for parent in parents))
        assert [one for one in wrong if one] == []
        assert [text for parent in parents for text in parent.find_unhelpful()] == []
        assert len(club.providers.payments.requests) == PARENTS
        assert len(club.providers.sms.inbox) == PARENTS
    assert len(replies.happened) > 0.9 * (len(WORDS) + len(READINGS))
    refused = sum(parent.refused for parent in parents)
    print(sum(replies.happened.values()), "bad replies;", refused, "messages sent again")
