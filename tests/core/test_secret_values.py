"""Removal of secrets whose values are known."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from holdfast.core.detached_errors import clean_info
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.secret_values import NO_SECRETS, SecretValues

KEY = "0123456789abcdef0123"


def test_short_values_are_ignored_unless_asked_for() -> None:
    assert SecretValues(["hunter2"]).remove_from("hunter2") == "hunter2"
    assert SecretValues(["hunter2"], shortest=1).remove_from("a hunter2 b") == "a [redacted] b"
    assert SecretValues(["hunter22"]).remove_from("a hunter22 b") == "a [redacted] b"


def test_a_text_without_a_secret_is_unchanged() -> None:
    text = "  spaces,\n%20 and \\u002d escapes stay\t"
    assert SecretValues([KEY]).remove_from(text) == text
    assert NO_SECRETS.remove_from(text) == text


def test_a_part_of_a_secret_at_a_cut_is_removed() -> None:
    assert SecretValues([KEY]).remove_from("key 012345 [cut]") == "key [redacted] [cut]"
    assert SecretValues([KEY]).remove_from("key 012345 ends") == "key 012345 ends"


@pytest.mark.parametrize("at", range(len(KEY) - 11))
def test_twelve_characters_of_a_secret_are_removed_wherever_they_begin(at: int) -> None:
    part = KEY[at : at + 12]
    assert SecretValues([KEY]).remove_from(f"<{part}>") == "<[redacted]>"


def test_two_secrets_are_found_beside_each_other() -> None:
    secrets = SecretValues([KEY]) | SecretValues(["another-secret"])
    assert secrets.remove_from(f"{KEY},another-secret;{KEY}") == "[redacted],[redacted];[redacted]"


def test_secrets_are_in_no_repr_and_in_no_pickle() -> None:
    assert repr(SecretValues([KEY, "another-secret"])) == "SecretValues(2 secrets)"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(SecretValues([KEY]))


def test_letters_outside_ascii_are_found_in_percent_escapes() -> None:
    secrets = SecretValues(["pässwörter-lang"])
    assert secrets.remove_from("x p%C3%A4ssw%C3%B6rter-lang y") == "x [redacted] y"


OWN = {"provider"}
"""The text of an error that is a name of Holdfast, and nothing that came from outside."""


def test_every_text_of_an_error_that_came_from_outside_is_cleaned() -> None:
    texts = [
        field.name
        for field in msgspec.structs.fields(ErrorInfo)
        if field.type in (str, str | None) and field.name not in OWN
    ]
    assert {"safe", "private", "code", "type", "request_id"} <= set(texts)
    known = dict.fromkeys(texts, f"about {KEY}")
    info = msgspec.convert({"category": ErrorCategory.UNKNOWN, **known}, ErrorInfo)
    cleaned = clean_info(info, SecretValues([KEY]))
    assert {getattr(cleaned, name) for name in texts} == {"about [redacted]"}
