"""A card that stood right behind another number was read as a part of it, and shown."""

import pytest

from holdfast.middleware.pii import DEFAULTS, clean, find
from holdfast.middleware.pii_stream import MaskedText

CARDS = ("4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111", "3782 822463 10005")


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("before", ["12 ", "Call 555-123-4567 ", "2026 11 21 ", "1 2 3 4 "])
@pytest.mark.parametrize("behind", ["", " 123", " 12/27."])
def test_it_is_found_and_ends_what_is_shown(before: str, card: str, behind: str) -> None:
    text = f"{before}{card}{behind}"
    assert clean(text).blocked == "CreditCard"
    masked = MaskedText(DEFAULTS, lambda kind: f"<{kind}>")
    said = "".join(masked.take(sign) for sign in text) + masked.rest()
    assert said.endswith("<CreditCard>")
    assert card[-4:] not in said


@pytest.mark.parametrize(
    "text", ["12 34 56 78 90 12 34 56 78", "4111 1111 1111 1112", "7 1111 1111 1111 1111"]
)
def test_rows_of_numbers_are_none(text: str) -> None:
    assert [kind for _, _, kind in find(text)] == []
