"""Redaction asks for a value: ordinary words about secrets stay, and every value behind a name goes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.redaction import redact

WORDS = [
    "The token limit is reached.",
    "max_tokens is too large: 4096. This model supports at most 4096 completion tokens",
    "prompt_tokens=512, completion_tokens=3, total_tokens: 515",
    '{"max_tokens": 4096, "token_count": 12}',
    "token limit: 8000",
    "tool --max-tokens 512 --token-limit 5",
    "The secret is not set, and the password is required.",
    "The API key is invalid!",
    "api key is missing",
    "token: expired",
    "password: none",
    "Basic authentication failed",
    "Bearer authentication is required",
    "basic information about the digest mismatch",
    "key-management-service and key_performance_indicator",
    "hf_transformers_cache",
]


@pytest.mark.parametrize("text", WORDS)
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text) == text


NAMES = st.sampled_from(
    [
        "password",
        "passwd",
        "secret",
        "token",
        "api_key",
        "db_password",
        "access-key",
        "auth_token",
        "refresh_token",
        "client_secret",
        "token_value",
        "credential",
        "cookie",
    ]
)
SIGNS = st.sampled_from(["=", ": ", " = ", " is ", "' : '", '": "', " => ", ":"])
LETTERS = st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.~+/")
VALUES = st.text(LETTERS, min_size=8, max_size=40).filter(
    lambda value: any(letter.isdigit() for letter in value) and not value.endswith(".")
)
AFTER = st.sampled_from(["", " ", ", retry", "; x=1", "\n", " and more"])


@given(NAMES, SIGNS, VALUES, AFTER)
@example("token", ": ", "123456789", "")
@example("token", " is ", "12345678", ", retry")
@example("password", " is ", "not-so-easy-1", "")
@example("password", "=", "required1", " and more")
@example("secret", ": ", "none/of/these/1", "")
def test_every_value_behind_a_name_is_redacted(
    name: str, sign: str, value: str, after: str
) -> None:
    assert value not in redact(f"login failed: {name}{sign}{value}{after}")


@given(st.sampled_from(["Bearer", "bearer", "Basic", "Digest"]), VALUES, AFTER)
@example("Bearer", "authentication1", "")
@example("Basic", "tokens-12345", " and more")
def test_every_credential_behind_a_scheme_is_redacted(scheme: str, value: str, after: str) -> None:
    assert value not in redact(f"refused {scheme} {value}{after}")


KEY_FORMS = st.sampled_from(["sk-", "sk-proj-", "pk_live_", "key-", "hf_", "gsk_", "ghp_", "xoxb-"])


@given(KEY_FORMS, VALUES.filter(lambda value: value.isalnum()))
@example("key-", "abcdefgh1")
@example("hf_", "abcdefghijklmnop1")
def test_every_key_of_a_known_form_is_redacted(form: str, value: str) -> None:
    assert value not in redact(f"key {form}{value} is not allowed")


@pytest.mark.parametrize(
    "text",
    [
        "the password is hunter2 and not required",
        "the password is required-hunter2",
        "tokens: 123456-hunter2",
        "token_count_secret=hunter2",
        "max_tokens=hunter2",
        "sk-hunter2-hunter2",
        "key-abcdefgh",
        "Bearer authentication-hunter2",
    ],
)
def test_a_secret_beside_ordinary_words_is_redacted(text: str) -> None:
    assert "hunter2" not in redact(text)
    assert "abcdefgh" not in redact(text)
