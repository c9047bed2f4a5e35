"""The rules that hold, and what happens when a file of them changes or is broken."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from adh.rules.yaml_tree import RulesError
from adh.storage.places import Places, find_places
from adh.workspace.rule_book import LARGEST_FILE, RuleBook

GOOD = "mine: {looks: {pattern: look, supervision: notify, risk: low}}\n"
BROKEN = "mine:\n  looks: {pattern: look, supervison: notify, risk: low}\n"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    project = tmp_path / "project"
    project.mkdir()
    found = find_places({"HOME": str(tmp_path)}, project)
    found.policies.mkdir(parents=True)
    return found


def _names(book: RuleBook) -> set[str]:
    return {rule.key for rule in book.rules.rules}


def test_the_persons_rules_come_after_the_built_in_ones(places: Places, tmp_path: Path) -> None:
    (places.policies / "mine.yaml").write_text(GOOD)
    (places.policies / ".hidden.yaml").write_text(BROKEN)
    further = tmp_path / "further"
    further.mkdir()
    (further / "more.yml").write_text(GOOD.replace("looks", "stares"))
    one = tmp_path / "one.yaml"
    one.write_text(GOOD.replace("looks", "peeks"))
    names = _names(RuleBook(places, further, one))

    assert {"mine.looks", "mine.stares", "mine.peeks"} < names
    assert _names(RuleBook(places)) < names


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (BROKEN.encode(), "policies/mine.yaml:2"),
        (b"a: {\n\xff}", "policies/mine.yaml:2"),
        (b"#" * (LARGEST_FILE + 1), "policies/mine.yaml"),
    ],
)
def test_a_broken_file_stops_the_start_and_is_named(
    places: Places, content: bytes, words: str
) -> None:
    (places.policies / "mine.yaml").write_bytes(content)

    with pytest.raises(RulesError, match=words):
        RuleBook(places)


@pytest.mark.parametrize("further", ["folder", "file.yaml"])
def test_a_folder_or_a_file_that_was_named_must_exist(
    places: Places, tmp_path: Path, further: str
) -> None:
    path = tmp_path / further
    with pytest.raises(RulesError, match="does not exist"):
        RuleBook(places, path) if further == "folder" else RuleBook(places, None, path)


def test_wrong_preferences_stop_the_start(places: Places) -> None:
    places.preferences_file.write_text("tools: {look: {supervision: never}}")

    with pytest.raises(RulesError, match=r"policy_preferences\.yaml:1"):
        RuleBook(places)


def test_a_file_that_breaks_later_leaves_the_rules_that_hold(places: Places) -> None:
    path = places.policies / "mine.yaml"
    path.write_text(GOOD)
    book = RuleBook(places)
    path.write_text(BROKEN)

    assert "policies/mine.yaml:2" in book.reload()
    assert "mine.looks" in _names(book)

    path.unlink()
    assert book.reload() == ""
    assert "mine.looks" not in _names(book)


def test_a_change_of_a_file_is_noticed(places: Places) -> None:
    async def watch() -> list[str]:
        book = RuleBook(places)
        told: list[str] = []
        stop, changed = asyncio.Event(), asyncio.Event()

        def on_change(problem: str) -> None:
            told.append(problem)
            changed.set()

        watching = asyncio.create_task(book.watch(on_change, stop))
        path = places.policies / "mine.yaml"
        async with asyncio.timeout(60):
            for text in (BROKEN, GOOD):
                changed.clear()
                while not changed.is_set():  # the watcher may not have begun yet
                    path.write_text(text)
                    await asyncio.sleep(0.1)
        stop.set()
        await watching
        assert "mine.looks" in _names(book)
        return told

    told = asyncio.run(watch())

    assert "policies/mine.yaml:2" in told[0]
    assert told[-1] == ""
