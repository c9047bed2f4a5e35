"""The page on recorded traffic says what a replay of today says."""

import re

import pytest
from tests.codecs.corpus_table import OURS, PAGE, Line, filled, table
from tests.corpus import corpus


def cells() -> list[list[str]]:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in rows[2:]]


@pytest.mark.slow  # takes half a second or more
def test_the_page_is_current() -> None:
    corpus()  # skips where there is none
    page = PAGE.read_text("utf-8")
    assert page == filled(page), "run ./run generate"


def test_no_row_of_our_wires_is_skipped_and_each_other_one_says_why() -> None:
    found = cells()
    assert {line[0] for line in found} >= set(OURS)
    for wire, _, rows, decoded, refused, skipped, why in found:
        counts = [int(text.replace(",", "")) for text in (rows, decoded, refused, skipped)]
        assert counts[0] == sum(counts[1:])
        assert bool(why) is bool(counts[3])
        assert wire not in OURS or counts[3] == 0


def test_the_page_names_no_place_of_a_machine() -> None:
    assert not re.search(r"(?<![\w.(])/[a-z]+/|[A-Z]:\\", PAGE.read_text("utf-8"))


def test_the_sum_is_of_our_own_wires() -> None:
    made = table([Line("a", "whole", 1000, 900, 100, 0, ""), Line("b", "whole", 7, 0, 0, 7, "no")])
    assert "| all four |  | 1,000 | 900 | 100 | 0 |  |" in made
