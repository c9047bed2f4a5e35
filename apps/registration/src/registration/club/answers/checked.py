"""The input and the result of a validator."""

import unicodedata
from collections.abc import Callable, Mapping
from datetime import date

from msgspec import field

from registration.club.redaction import Redacted


class Checked(Redacted, frozen=True):
    """The result of a validator.

    Args:
        valid: Whether the answer can be used.
        message: A sentence for the parent; empty when the answer is valid.
        value: The normalised value; None when the answer is not valid.
        original_input: The text as it was given.
        normalizations: The changes, in a few words each.
    """

    valid: bool
    message: str
    value: object
    original_input: str
    normalizations: tuple[str, ...] = ()


class Asked(Redacted, frozen=True):
    """The facts for a validator, besides the text.

    Args:
        today: The date of the message.
        age_group: The age group of the code, as `u10s` or `open`.
        answers: The values that are saved already.
        season: The season that registers, as `2526`.
    """

    today: date
    age_group: str
    answers: Mapping[str, object] = field(default_factory=dict)
    season: str = "2526"


Validator = Callable[[str, Asked], Checked]


USUAL = {
    **dict.fromkeys((0x2018, 0x2019, 0x02BC, 0x0060, 0x00B4), "'"),
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
}


def accept(text: str, value: object, *normalizations: str) -> Checked:
    """Return that an answer is valid; a normalised text that differs is named as such."""
    changed = isinstance(value, str) and value != text and not normalizations
    return Checked(True, "", value, text, ("tidied",) if changed else normalizations)


def refuse(text: str, message: str) -> Checked:
    """Return that an answer cannot be used, and the reason for the parent."""
    return Checked(False, message, None, text)


def tidy(text: str) -> str:
    """Return a text in its usual characters: one kind of apostrophe, hyphen and space, none at the ends."""
    visible = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text)
    usual = unicodedata.normalize("NFKC", visible.translate(USUAL)).translate(USUAL)
    return " ".join(usual.split())


def read_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation at their ends."""
    words = (word.strip('.,;:!?"()') for word in tidy(text).lower().split())
    return [word for word in words if word]


def list_words(text: str) -> frozenset[str]:
    """Return the words of a list that is written as one text."""
    return frozenset(text.split())
