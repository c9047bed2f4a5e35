"""The explorer finds no violation in any order of appends, crashes, pauses and drivers, and detects each broken rule."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.crash.explored_turns import STORIES, Story
from tests.crash.explorer import Explorer
from tests.crash.mutants import MUTANTS, Mutant
from tests.crash.protocol import KeysOnly

BY_NAME = {story.name: story for story in STORIES}


LONG = {  # each walks more than ten thousand states, for a second and more
    "a hook asks after each iteration",
    "a question",
    "another message",
    "idempotent and read",
    "read and write at once",
    "recovered in an outage",
    "refused results",
}


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(story, marks=[pytest.mark.slow] if story.name in LONG else [], id=story.name)
        for story in STORIES
    ],
)
def test_no_order_of_moves_breaks_an_invariant(story: Story) -> None:
    found = Explorer(story).explore()
    print(f"{story.name}: {found}")
    assert not found.violation, str(found)
    assert found.ends


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("name", ["one write", "two writes at once", "tools, then a tool"])
def test_without_leases_one_outcome_per_key_still_keeps_writes_from_running_twice(
    name: str,
) -> None:
    found = Explorer(replace(BY_NAME[name], crashes=1), KeysOnly()).explore()
    print(f"{name}, keys only: {found}")
    assert not found.violation, str(found)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_broken_rule_is_detected(mutant: Mutant) -> None:
    with mutant.planted() as rules:
        story = BY_NAME[mutant.story]
        found = Explorer(story, rules).explore()
    print(f"{mutant.name}, in {mutant.story!r} after {found.states} states: {found}")
    assert found.violation
    assert found.path
