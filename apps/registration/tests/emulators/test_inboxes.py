"""The inboxes of the emulated SMS and mail providers."""

import asyncio

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registration.emulators import MailEmulator, SmsEmulator, serve
from registration.emulators.inboxes import link_addresses
from registration.providers import Mailer, Refused, SentMessage, SmsProvider
from registration.settings import Endpoint, Secret

TOKEN = "token-of-the-service"
NUMBER = "+447700900123"


def make_endpoint(address: str) -> Endpoint:
    return Endpoint(address=address, token=Secret(TOKEN))


async def fetch(url: str, accept: str = "*/*") -> tuple[str, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers={"Accept": accept}) as response,
    ):
        return response.content_type, await response.text()


async def test_an_sms_is_sent_once_and_can_be_read() -> None:
    emulator = SmsEmulator(TOKEN, now=lambda: 1_700_000_000.0)
    async with serve(emulator.app) as address, SmsProvider(make_endpoint(address)) as sms:
        text = "Hello <Ada>, pay here: https://club.example/pay/abc."
        sent = await asyncio.gather(*(sms.send("key", NUMBER, text) for _ in range(10)))
        assert await sms.find("key") == SentMessage(sent[0], "delivered")
        assert await sms.find("another") is None
        with pytest.raises(Refused, match="idempotency_key_reused"):
            await sms.send("key", NUMBER, "Something else")
        kind, page = await fetch(address + "/inbox", "text/html,*/*;q=0.8")
        assert kind == "text/html"
        assert '<a href="https://club.example/pay/abc">' in page
        assert "<Ada>" not in page
        kind, listed = await fetch(address + "/inbox")
        assert kind == "application/json"
        assert f'"to":"{NUMBER}","subject":null,"text":"Hello <Ada>' in listed
    assert len(set(sent)) == 1
    (message,) = emulator.inbox
    assert (message.to, message.text, message.key) == (NUMBER, text, "key")
    assert "Ada" not in repr(message)
    assert NUMBER not in repr(message)
    emulator.close()


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ("07700900123", "invalid"),
        ("+44", "invalid"),
        ("", "invalid"),
        ("+447700900999", "receiver_refused"),
    ],
)
async def test_an_sms_that_cannot_be_sent_is_refused(to: str, reason: str) -> None:
    emulator = SmsEmulator(TOKEN)
    async with serve(emulator.app) as address, SmsProvider(make_endpoint(address)) as sms:
        with pytest.raises(Refused, match=reason) as raised:
            await sms.send("key", to, "hello")
        assert not raised.value.temporary
        assert await sms.find("key") is None
    assert emulator.inbox == []
    emulator.close()


async def test_an_sms_that_is_accepted_can_fail() -> None:
    emulator = SmsEmulator(TOKEN)
    async with serve(emulator.app) as address, SmsProvider(make_endpoint(address)) as sms:
        sent = await sms.send("key", "+447700900998", "hello")
        assert await sms.find("key") == SentMessage(sent, "failed")
    emulator.close()


async def test_a_mail_is_sent_once_and_can_be_read() -> None:
    emulator = MailEmulator(TOKEN)
    async with serve(emulator.app) as address, Mailer(make_endpoint(address)) as mailer:
        first = await mailer.send("key", "admin@club.example", "No SMS", "It did not arrive.")
        assert (
            await mailer.send("key", "admin@club.example", "No SMS", "It did not arrive.") == first
        )
        assert await mailer.find("key") == SentMessage(first, "delivered")
        for to, subject in (
            ("someone@refused.example", "Hello"),
            ("nobody", "Hello"),
            ("admin@club.example", "Hello\r\nBcc: everybody@club.example"),
            ("admin@club.example", ""),
        ):
            with pytest.raises(Refused):
                await mailer.send("another", to, subject, "text")
        _, page = await fetch(address + "/inbox", "text/html")
        assert "<strong>No SMS</strong>" in page
    (message,) = emulator.inbox
    assert (message.to, message.subject) == ("admin@club.example", "No SMS")
    emulator.close()


async def test_a_wrong_token_a_missing_key_and_a_strange_body() -> None:
    emulator = SmsEmulator(TOKEN)
    right = {"Authorization": f"Bearer {TOKEN}"}
    body = b'{"to": "+447700900123", "text": "hello"}'
    cases = [
        ({}, body, 401, "unauthorised"),
        (right, body, 400, "idempotency_key_missing"),
        (right | {"Idempotency-Key": "1"}, b"hello", 400, "invalid"),
        (right | {"Idempotency-Key": "1"}, b"[" * 100_000, 422, "invalid"),
        (right | {"Idempotency-Key": "1"}, b'{"x":' + b"[" * 100_000, 400, "invalid"),
        (right | {"Idempotency-Key": "1"}, b'{"to": 7}', 422, "invalid"),
    ]
    async with serve(emulator.app) as address, aiohttp.ClientSession() as session:
        for headers, data, status, kind in cases:
            url = address + "/v1/messages"
            async with session.post(url, data=data, headers=headers) as response:
                assert (response.status, await response.json()) == (
                    status,
                    {"error": {"kind": kind}},
                )
    emulator.close()


@given(st.text())
def test_a_message_is_never_markup(text: str) -> None:
    html = link_addresses(text)
    without_links = html.replace('<a href="http', "").replace("</a>", "").replace('">', "")
    assert "<" not in without_links
    assert not text or html
