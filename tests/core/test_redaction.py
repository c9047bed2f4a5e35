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
    ("redis://:hunter2@cache:6379/0", "hunter2"),
    ("postgres://bob:p@hunter2@db/x", "hunter2"),
    ("https://bob:a/hunter2@db/x", "hunter2"),
    ("https://hunter2hunter2hunter2@errors.example/1", "hunter2"),
    ("Authorization: Token hunter2", "hunter2"),
    ('{"Authorization": "ApiKey hunter2"}', "hunter2"),
    ("Authorization: AWS4 Credential=AK/x, SignedHeaders=host, Signature=hunter2", "hunter2"),
    ("GET /v1?key=hunter2&alt=sse", "hunter2"),
    ("https://host/x?sv=1&sig=hunter2", "hunter2"),
    ("AccountName=a;AccountKey=hunter2;EndpointSuffix=b", "hunter2"),
    ("SharedAccessKey=hunter2", "hunter2"),
    ("mysql --password hunter2 -h db", "hunter2"),
    ("tool --api-key 'hunter2' now", "hunter2"),
    (r"{\"password\": \"hunter2\", \"user\": 1}", "hunter2"),
    (r'{"password": "a\"hunter2"}', "hunter2"),
    ("password=abc,hunter2", "hunter2"),
    ("api_key='abc','hunter2'", "hunter2"),
    ('"api_keys": ["abc", "hunter2"]', "hunter2"),
    ('password = """hunter2"""', "hunter2"),
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
    "text",
    [
        "file not found: a/b.txt",
        "expected 3 items, got 4",
        "HTTP 429 after 2.5 s",
        "https://host:8080/a?mail=a@b.c",
        "ssh://git@host/repository",
        "write to bob@example.org",
        "",
    ],
)
def test_text_without_a_secret_is_unchanged(text: str) -> None:
    assert redact(text) == text


def test_a_hostile_text_takes_bounded_time() -> None:
    assert len(redact("password" * 1_000_000)) < 30_000


@pytest.mark.parametrize(("text", "secret"), REAL)
def test_a_redacted_text_stays_as_it_is(text: str, secret: str) -> None:
    assert redact(redact(text)) == redact(text)
