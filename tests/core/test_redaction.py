"""Redaction of secrets in the forms in which error messages contain them."""

from __future__ import annotations

import pytest

from holdfast.core.redaction import redact

REAL = [
    ("password=hunter2", "hunter2"),
    ("db_password: 'hunter2'", "hunter2"),
    ('{"api_key": "abc123def"}', "abc123def"),
    ("Incorrect API key provided: sk-proj-abcdefgh12345678", "abcdefgh12345678"),
    ("postgres://bob:hunter2@db.internal:5432/x", "hunter2"),
    ("Authorization: Bearer abcdef.ghijkl", "ghijkl"),
    ("key AKIAIOSFODNN7EXAMPLE is not allowed", "IOSFODNN7EXAMPLE"),
    ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig expired", "eyJzdWIiOiIxIn0"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ("-----BEGIN PRIVATE KEY-----\nMIIEow (cut", "MIIEow"),
    ("the password is hunter2", "hunter2"),
    ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F292c6912E7710c838347Ae178B4a"),
    ("AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "Srke72PouQMnMX"),
]


@pytest.mark.parametrize(("text", "secret"), REAL)
def test_secrets_are_redacted(text: str, secret: str) -> None:
    assert secret not in redact(text)


@pytest.mark.parametrize(
    "text", ["file not found: a/b.txt", "expected 3 items, got 4", "tokens: none of these", ""]
)
def test_ordinary_text_is_not_changed_in_meaning(text: str) -> None:
    assert redact(text).split(":")[0] == text.split(":", maxsplit=1)[0]


@pytest.mark.parametrize(
    "text", ["file not found: a/b.txt", "expected 3 items, got 4", "HTTP 429 after 2.5 s", ""]
)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert redact(text) == text


def test_a_hostile_text_takes_bounded_time() -> None:
    assert len(redact("password" * 1_000_000)) < 30_000
