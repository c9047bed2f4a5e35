"""A card number right after another number was taken for a part of it, and was shown."""

from __future__ import annotations

import time

import pytest
from tests.linear import is_linear

from holdfast.middleware.pii import DEFAULTS, KINDS, Action, Kind, clean_text, find_personal_data
from holdfast.middleware.pii_stream import MaskedText

CARD = "4111 1111 1111 1111"
ONE: dict[Kind, Action] = {"CreditCard": "redact"}


@pytest.mark.parametrize(
    "card", [CARD, "4111111111111111", "3782 822463 10005", "4111-1111-1111-1111"]
)
@pytest.mark.parametrize(
    "before", ["", "123-4567 ", "12 ", "2026-11-21 ", "555 123 4567 ", f"{CARD} 7 "]
)
@pytest.mark.parametrize("behind", ["", " 123-45-6789", " 42", " 12 24", f" {CARD}"])
def test_whatever_stands_around_it(before: str, card: str, behind: str) -> None:
    text = f"{before}{card}{behind}"
    assert card in {text[start:end] for start, end, _ in find_personal_data(text, ONE)}
    assert card not in clean_text(text, ONE).text


@pytest.mark.parametrize("card", [CARD, "4111-1111-1111-1111", "4111111111111111"])
@pytest.mark.parametrize("before", ["12 ", "Call 555-123-4567 ", "2026 11 21 ", "1 2 3 4 "])
@pytest.mark.parametrize("behind", ["", " 123", " 12/27."])
def test_it_ends_what_is_shown_sign_by_sign(before: str, card: str, behind: str) -> None:
    text = f"{before}{card}{behind}"
    assert clean_text(text).blocked_kind == "CreditCard"
    masked = MaskedText(DEFAULTS, lambda kind: f"<{kind}>")
    said = "".join(masked.feed(sign) for sign in text) + masked.flush()
    assert said.endswith("<CreditCard>")
    assert card[-4:] not in said


@pytest.mark.parametrize(
    "text",
    [
        "555 123 4567 555 123 4568 555 123 4569",
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        "2026-11-21 2026-11-22 2026-11-23",
        "4111 1111 1111 1112",
        "12345678901234567890123",
        "0000 0000 0000 0000",
        "12 34 56 78 90 12 34 56 78",
        "7 1111 1111 1111 1111",
    ],
)
def test_other_numbers_are_left(text: str) -> None:
    assert clean_text(text, ONE).text == text


@pytest.mark.parametrize("many", [f"{CARD} ", "bob@example.org ", "1 ", "555-123-4567 "])
def test_the_work_grows_with_the_text_and_not_with_its_square(many: str) -> None:
    """Each that was found was compared with all others, and the text was copied for each."""

    def seconds(size: int) -> float:
        text = many * size
        began = time.process_time()
        clean_text(text, dict.fromkeys(KINDS, "redact"))
        return time.process_time() - began

    assert is_linear(seconds, 1_000, 30_000)
