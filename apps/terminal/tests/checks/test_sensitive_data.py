"""Keys, tokens, passwords and cards are found; what only looks like one is not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adh.checks.sensitive_data import find_sensitive_kinds, has_luhn_digit, list_texts

SECRETS = [
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn", "a private key"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----", "a private key"),
    ("key=AKIA" + "IOSFODNN7EXAMPLF", "an AWS access key"),
    ("ghp_" + "a1B2" * 9, "a GitHub token"),
    ("glpat-" + "a1B2" * 5, "a GitLab token"),
    ("xoxb-" + "1234567890-abc", "a Slack token"),
    ("AIza" + "a1B2c" * 7, "a Google API key"),
    ("sk-ant-api03-" + "a1B2" * 6, "an API key"),
    ("sk_live_" + "a1B2" * 5, "a Stripe key"),
    ("npm_" + "a1B2" * 9, "an npm token"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlMTIz", "a signed token"),
    ("Authorization: Bearer " + "a1B2" * 6, "a bearer token"),
    ('db_password = "hunter2hunter"', "a password"),
    ('{"client_secret": "q8-Zt3.vk"}', "a password"),
    ("postgres://ann:s3cr3t!@db/app", "a password"),
    ("pay with 4111-1111-1111-1111 please", "a card number"),
    ("378282246310005", "a card number"),
]


@pytest.mark.parametrize(("text", "kind"), SECRETS)
def test_finds_secrets(text: str, kind: str) -> None:
    assert kind in find_sensitive_kinds(f"first line\n{text}\nlast line")


@pytest.mark.parametrize(
    "text",
    [
        'password = "<your password>"',
        "password = get_password()",
        'password: "${DB_PASSWORD}"',
        'api_key="your-api-key-1"',
        "commit 4111111111111112abcdef",
        "4111 1111 1111 1112",
        "1700000000000000000",
        "d41d8cd98f00b204e9800998ecf8427e",
        "-----BEGIN PUBLIC KEY-----",
        "sk-learn-contrib-something-long-without-digits",
        "https://example.org:8080/a@b",
        "the token is in the keychain",
    ],
)
def test_leaves_what_is_no_secret(text: str) -> None:
    assert find_sensitive_kinds(text) == ()


@given(st.integers(0, 10**15 - 1))
def test_exactly_one_last_digit_is_the_luhn_digit(number: int) -> None:
    assert sum(has_luhn_digit(f"{number}{digit}") for digit in range(10)) == 1


@given(st.text())
def test_any_text_is_searched(text: str) -> None:
    assert isinstance(find_sensitive_kinds(text), tuple)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "piece", ["4111 ", "eyJaaaaaaaaaa.", 'password = "', "a-", "://a:", "secret"]
)
def test_hostile_text_takes_little_time(piece: str) -> None:
    began = time.process_time()
    find_sensitive_kinds(piece * (200_000 // len(piece)))
    assert time.process_time() - began < 5


def test_lists_texts_of_any_depth() -> None:
    deep: object = "end"
    for _ in range(5_000):
        deep = [deep]
    assert list(list_texts({"a": deep, "b": 1})) == [("a", "end")]
