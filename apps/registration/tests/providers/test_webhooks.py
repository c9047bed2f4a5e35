"""Webhooks: only a signed body counts, and a body that is not a list of events is named so."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registration.providers import MalformedWebhook, read_events, sign, verify

SECRET = "secret-of-the-webhooks"
EVENT = (
    b'{"events": [{"id": "EV1", "resource": "payments", "action": "confirmed", '
    b'"created_at": "2025-09-01T10:00:00Z", "links": {"payment": "PM1"}, "new": {}}]}'
)


def test_the_signature_is_the_one_of_the_standard() -> None:
    assert sign(EVENT, SECRET) == hmac.new(SECRET.encode(), EVENT, hashlib.sha256).hexdigest()


@given(st.binary())
def test_what_was_signed_is_verified(body: bytes) -> None:
    assert verify(body, sign(body, SECRET), SECRET)
    assert not verify(body + b" ", sign(body, SECRET), SECRET)
    assert not verify(body, sign(body, "another"), SECRET)


@given(st.text())
def test_no_other_header_is_accepted(header: str) -> None:
    assert not verify(EVENT, header, SECRET)


@pytest.mark.parametrize("header", [None, "", " ", "é", "\ud800", "0" * 64])
def test_odd_headers_are_refused(header: str | None) -> None:
    assert not verify(EVENT, header, SECRET)


def test_an_empty_secret_signs_nothing() -> None:
    assert not verify(EVENT, sign(EVENT, ""), "")


def test_events_are_read() -> None:
    (event,) = read_events(EVENT)
    assert (event.id, event.resource, event.action) == ("EV1", "payments", "confirmed")
    assert event.links == {"payment": "PM1"}
    assert event.created_at.isoformat() == "2025-09-01T10:00:00+00:00"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"<html>",
        b'{"events": {}}',
        b'{"events": [{"id": 1}]}',
        b'{"events": [{"id": "\xff"}]}',
        b"[" * 100_000,
        b'{"new": ' + b"[" * 100_000,
        EVENT.replace(b"2025-09-01T10:00:00Z", b"yesterday"),
    ],
)
def test_a_body_that_is_no_list_of_events_is_named(body: bytes) -> None:
    with pytest.raises(MalformedWebhook):
        read_events(body)


@given(st.binary())
def test_any_body_is_events_or_malformed(body: bytes) -> None:
    try:
        read_events(body)
    except MalformedWebhook as error:
        assert error.__suppress_context__  # noqa: PT017 - REASON: most bodies raise
