"""The mutants of `scripts/mutants.py`: what is changed, what is left alone, and what becomes of a change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest
from scripts import mutants

ROOT = Path(__file__).resolve().parents[1]

SHOP = '''
"""A shop with 3 items."""
from __future__ import annotations

import logging

_log = logging.getLogger("shop")
MOST: int = 10


def price(count: int, *, is_member: bool = False) -> int:
    """The price of 2 or more."""
    if is_member and count > 1:
        _log.info("%d for a member", count + 1)
        return count * 4
    if count > MOST:
        raise ValueError(f"{count - MOST} too many")
    return count * 5


class Item:
    def __repr__(self) -> str:
        return "item" * 2
'''

TEST_SHOP = """
from holdfast.shop.till import price


def test_price():
    assert price(1) == 5
    assert price(2, is_member=True) == 8
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small package with its tests, and this script."""
    room = tmp_path / "src" / "holdfast" / "shop"
    room.mkdir(parents=True)
    (room / "__init__.py").touch()
    testing = room.parent / "testing"
    testing.mkdir()
    for folder in (room.parent, testing):
        (folder / "__init__.py").touch()
    (testing / "pytest_plugin.py").touch()  # as the installed library names it
    (room / "till.py").write_text(SHOP)
    (tmp_path / "tests" / "shop").mkdir(parents=True)
    (tmp_path / "tests" / "shop" / "test_till.py").write_text(TEST_SHOP)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "mutants.py").write_bytes((ROOT / "scripts/mutants.py").read_bytes())
    return tmp_path


def changes_of(source: str) -> list[tuple[str, str]]:
    changes = mutants.find_changes(dedent(source))[1]
    return [(mutants.show(change.node), mutants.show(change.make())) for change in changes]


def test_each_operator_constant_and_branch_is_changed_once() -> None:
    source = """
        def act(first, second=2):
            if first:
                return first + second
            for one in second:
                if one is None or not one.kept:
                    continue
            return [one for one in second if one.kept], -first
    """
    assert changes_of(source) == [
        ("2", "3"),
        ("first", "not first"),
        ("first + second", "first - second"),
        ("one is None or not one.kept", "not (one is None or not one.kept)"),
        ("one is None or not one.kept", "one is None and (not one.kept)"),
        ("one is None", "one is not None"),
        ("not one.kept", "one.kept"),
        ("continue", "break"),
        ("one.kept", "not one.kept"),
    ]


def test_annotations_texts_logs_and_messages_are_left_alone() -> None:
    source = '''
        """3 + 4"""
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            FLAG = 1

        class Shop(Base, frozen=True):
            items: Annotated[int, between(1, 5)]

            def __repr__(self):
                return "a" * 2

        def act(first: Literal[1] | None) -> Literal[2]:
            _log.info("%d", first + 1)
            raise ShopError(first + 1, fix="a" + "b")
            check(first, str | None, message=first + 1)
            return f"{first + 1}"
    '''
    assert changes_of(source) == []


def test_a_mutant_is_compiled_from_the_source_with_one_change() -> None:
    source = "first = 1\nsecond = first + 2\n"
    values = []
    for index in range(3):
        names: dict[str, int] = {}
        exec(compile(mutants.mutate(source, index), "x", "exec"), names)
        values.append((names["first"], names["second"]))
    assert values == [(2, 4), (1, -1), (1, 4)]


@pytest.mark.slow  # starts a program or a server
def test_a_run_kills_what_tests_notice_and_prints_the_rest(checkout: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/mutants.py", "shop", "--only", "till.py:16", "till.py:18"],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    judged, _, left = done.stdout.partition("Not killed:")
    assert "killed   src/holdfast/shop/till.py:18 count * 5  =>  count // 5" in judged
    assert "killed   src/holdfast/shop/till.py:18 5  =>  6" in judged
    assert left.split("\n")[1:] == [
        "survived src/holdfast/shop/till.py:16 count > MOST  =>  count >= MOST",
        "shop: 2 of 3 killed; {'killed': 2, 'survived': 1}",
        "",
    ]
    assert (checkout / "src/holdfast/shop/till.py").read_text() == SHOP


def test_a_seed_takes_the_same_sample() -> None:
    found = [mutants.Mutant("shop.py", number, 1, 1, "old", "new") for number in range(100)]
    sample = mutants.take_sample(found, 5, "1 core")
    assert len(set(sample)) == 5
    assert mutants.take_sample(found, 5, "1 core") == sample
    assert mutants.take_sample(found, 5, "2 core") != sample
    assert mutants.take_sample(found, 0, "1 core") == found


def test_what_was_collected_is_used_until_a_file_changes(tmp_path: Path) -> None:
    reach = mutants.Reach({"a": 0.5, "b": 0.25}, {"till.py": {3: ["a", "b"], 4: ["b"]}})
    saved = tmp_path / "build" / "shop.json"
    mutants.write_reach(saved, "digest", reach)
    assert mutants.read_reach(saved, "digest") == reach
    assert mutants.read_reach(saved, "other") is None
    assert [one.name for one in saved.parent.iterdir()] == ["shop.json"]


def test_the_quickest_tests_of_a_line_are_chosen_first() -> None:
    seconds = {"slow": 15.0, "quick": 0.1, "middle": 6.0, "elsewhere": 0.2}
    lines = {1: [], 3: ["slow", "quick", "middle"], 4: ["slow"], 9: ["elsewhere"]}
    reach = mutants.Reach(seconds, {"till.py": lines, "prices.py": {1: []}})

    def chosen(line: int, begins: int = 1, file: str = "till.py") -> list[str]:
        return list(reach.select(mutants.Mutant(file, 0, line, begins, "old", "new"), 20.0))

    assert chosen(3) == ["quick", "middle"]
    assert chosen(4) == ["slow"]
    assert chosen(5, begins=4) == ["slow"]  # a part of a statement of several lines
    assert chosen(1) == ["quick", "elsewhere", "middle"]  # it runs at the import of the module
    assert chosen(1, file="prices.py") == ["quick", "elsewhere", "middle"]
    assert chosen(7, begins=7) == []  # it never runs


def judge(run: mutants.Run) -> str:
    trial = mutants.Trial(mutants.Mutant("shop.py", 0, 1, 1, "old", "new"), run, limit=2.0)
    try:
        while (verdict := trial.poll()) is None:
            time.sleep(0.02)
    finally:
        trial.close()
    return verdict.state


def wait_forever(mutant: mutants.Mutant | None, _folder: Path) -> int:
    signal.pause()
    return 0


@pytest.mark.slow  # takes half a second or more
def test_a_mutant_whose_tests_hang_is_killed_by_the_limit() -> None:
    assert judge(lambda mutant, folder: wait_forever(mutant, folder) if mutant else 0) == "limit"


@pytest.mark.slow  # takes half a second or more
def test_tests_that_hang_without_the_mutant_say_nothing_about_it() -> None:
    assert judge(wait_forever) == "unknown"
