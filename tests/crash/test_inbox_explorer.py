"""No order of transactions, crashes and lost or doubled jobs loses a turn, doubles one or breaks an order or a limit."""

from __future__ import annotations

import pytest
from tests.crash.inbox_explorer import InboxExplorer
from tests.crash.inbox_stories import INBOX_MUTANTS, INBOX_STORIES, InboxMutant
from tests.crash.inbox_world import InboxStory

pytestmark = pytest.mark.slow  # walks every order of transactions: half a minute


@pytest.mark.parametrize("story", INBOX_STORIES, ids=lambda story: story.name)
def test_no_order_of_transactions_loses_or_doubles_a_turn(story: InboxStory) -> None:
    found = InboxExplorer(story).explore()
    print(f"{story.name}: {found}")
    assert not found.violation, str(found)
    assert found.ends


@pytest.mark.parametrize("mutant", INBOX_MUTANTS, ids=lambda mutant: mutant.name)
def test_each_broken_rule_of_the_inbox_is_detected(mutant: InboxMutant) -> None:
    with mutant.planted() as acts:
        found = InboxExplorer(mutant.story, acts).explore()
    print(f"{mutant.name}: {found}")
    assert found.violation
