"""Every kind of answer, and of missing answer, ends in a value, in Refused or in Unanswered."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date

import pytest

from registration.providers import (
    Address,
    AddressBook,
    Mailer,
    PaymentProvider,
    ProviderFailure,
    ProviderHealth,
    Refused,
    SentMessage,
    SmsProvider,
    Unanswered,
)
from registration.settings import Endpoint, Secret

NUMBER = "+447700900123"
TEXT = "Dear Ada Lovelace"
TOKEN = "token-of-the-service"


class RawServer:
    """Answers each connection with the same bytes, and keeps what was asked."""

    def __init__(self, answer: bytes, *, hold: bool = False) -> None:
        self.answer = answer
        self.hold = hold
        self.asked: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = [line for line in head.lower().split(b"\r\n") if b"content-length" in line]
            body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
            self.asked.append(head + body)
            writer.write(self.answer)
            await writer.drain()
            if self.hold:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def make_endpoint(address: str, total: float = 60.0) -> Endpoint:
    return Endpoint(address=address, token=Secret(TOKEN), connect_seconds=60, total_seconds=total)


@asynccontextmanager
async def run_raw(server: RawServer) -> AsyncIterator[str]:
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        await listener.wait_closed()


def respond(status: int, body: bytes, head: str = "") -> bytes:
    text = f"HTTP/1.1 {status} Reason\r\nContent-Length: {len(body)}\r\n{head}\r\n"
    return text.encode() + body


def error(kind: str) -> bytes:
    return b'{"error": {"kind": "%s"}}' % kind.encode()


FAILURES = {
    "refused with a reason": (respond(422, error("receiver_refused")), Refused, "receiver_refused"),
    "an unknown reason": (respond(422, error(f"cannot reach {NUMBER}")), Refused, "refused"),
    "a wrong token": (respond(401, error("unauthorised")), Refused, "unauthorised"),
    "busy": (respond(429, error("busy"), "Retry-After: 7\r\n"), Refused, "busy"),
    "a proxy refuses": (respond(403, b"<html>Forbidden</html>"), Unanswered, "nonsense"),
    "a proxy is busy": (respond(429, b"<html>Slow down</html>"), Unanswered, "nonsense"),
    "a proxy finds nothing": (respond(404, b"<html>Not found</html>"), Unanswered, "nonsense"),
    "a proxy lost it": (respond(408, b""), Unanswered, "server_error"),
    "failed": (respond(500, error("internal")), Unanswered, "server_error"),
    "unavailable": (respond(503, b"", "Retry-After: 7\r\n"), Unanswered, "server_error"),
    "a page": (respond(200, b"<html>Back soon</html>"), Unanswered, "nonsense"),
    "nothing": (respond(200, b""), Unanswered, "nonsense"),
    "another type": (respond(201, b"[1, 2]"), Unanswered, "nonsense"),
    "a field of another type": (
        respond(201, b'{"id": 7, "state": "sent"}'),
        Unanswered,
        "nonsense",
    ),
    "an unknown state": (respond(201, b'{"id": "1", "state": "eaten"}'), Unanswered, "nonsense"),
    "no text at all": (respond(201, b'{"id": "\xff\xfe"}'), Unanswered, "nonsense"),
    "deeply nested": (respond(200, b"[" * 100_000), Unanswered, "nonsense"),
    "deeply nested beside": (
        respond(200, b'{"new": ' + b"[" * 100_000),
        Unanswered,
        "nonsense",
    ),
    "a deeply nested error": (respond(422, b'{"new": ' + b"[" * 100_000), Unanswered, "nonsense"),
    "endless": (respond(200, b"9" * 1_100_000), Unanswered, "nonsense"),
    "a status of its own": (respond(204, b""), Unanswered, "nonsense"),
    "redirected": (respond(307, b"", "Location: http://127.0.0.1:1/\r\n"), Unanswered, "nonsense"),
    "cut in the head": (b"HTTP/1.1 200", Unanswered, "connection_lost"),
    "cut in the body": (
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"id":',
        Unanswered,
        "connection_lost",
    ),
    "closed": (b"", Unanswered, "connection_lost"),
    "not HTTP": (b"220 mail.example ESMTP\r\n\r\n", Unanswered, "connection_lost"),
}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("case", FAILURES)
async def test_an_answer_that_is_no_yes(case: str) -> None:
    answer, kind, reason = FAILURES[case]
    server = RawServer(answer)
    async with run_raw(server) as address, SmsProvider(make_endpoint(address)) as sms:
        with pytest.raises(ProviderFailure) as raised:
            await sms.send("key", NUMBER, TEXT)
    assert (type(raised.value), raised.value.reason) == (kind, reason)
    assert len(server.asked) == 1, "a client does not repeat"
    shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + repr(sms)
    for private in (NUMBER, NUMBER[1:], TEXT, TOKEN):
        assert private not in shown.replace("# ", "")


async def test_a_provider_that_asks_to_wait_is_quoted() -> None:
    for status, kind in ((429, Refused), (503, Unanswered)):
        server = RawServer(respond(status, error("busy"), "Retry-After: 7\r\n"))
        async with run_raw(server) as address, Mailer(make_endpoint(address)) as mailer:
            with pytest.raises(kind) as raised:
                await mailer.send("key", "a@b.example", "subject", TEXT)
        assert raised.value.retry_after == 7


@pytest.mark.parametrize("wait", ["-1", "soon", "1e9", "9" * 400, "Mon, 23 Nov 2026 10:00:00 GMT"])
async def test_a_wait_that_cannot_be_read_is_none(wait: str) -> None:
    server = RawServer(respond(429, error("busy"), f"Retry-After: {wait}\r\n"))
    async with run_raw(server) as address, Mailer(make_endpoint(address)) as mailer:
        with pytest.raises(Refused) as raised:
            await mailer.send("key", "a@b.example", "subject", TEXT)
    assert raised.value.retry_after is None


async def test_a_provider_that_is_down_has_done_nothing() -> None:
    server = RawServer(b"")
    async with run_raw(server) as address:
        pass
    async with SmsProvider(make_endpoint(address)) as sms:
        with pytest.raises(Refused) as raised:
            await sms.send("key", NUMBER, TEXT)
    assert raised.value.temporary


async def test_a_provider_that_never_answers_is_left_in_time() -> None:
    for answer in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"):
        server = RawServer(answer, hold=True)
        async with (
            run_raw(server) as address,
            SmsProvider(make_endpoint(address, total=0.1)) as sms,
            asyncio.timeout(60),
        ):
            with pytest.raises(Unanswered, match="sms: timeout"):
                await sms.send("key", NUMBER, TEXT)


async def test_a_request_that_is_cancelled_ends_at_once() -> None:
    server = RawServer(b"", hold=True)
    async with run_raw(server) as address, SmsProvider(make_endpoint(address, total=9)) as sms:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sms.send("key", NUMBER, TEXT), 0.05)


async def test_a_client_that_is_closed_leaves_nothing_waiting() -> None:
    server = RawServer(b"", hold=True)
    async with run_raw(server) as address:
        sms = SmsProvider(make_endpoint(address, total=9))
        request = asyncio.create_task(sms.send("key", NUMBER, TEXT))
        while not server.asked:
            await asyncio.sleep(0.01)
        await sms.close()
        with pytest.raises(Unanswered):
            await request


async def test_a_question_is_asked_once_too() -> None:
    server = RawServer(b"")
    async with run_raw(server) as address, SmsProvider(make_endpoint(address)) as sms:
        for asked in (1, 2):
            with pytest.raises(Unanswered):
                await sms.find("key")
            assert len(server.asked) == asked


async def test_health_counts_failures_in_a_row() -> None:
    server = RawServer(respond(500, b""))
    async with run_raw(server) as address, SmsProvider(make_endpoint(address)) as sms:
        for failures in range(1, 6):
            assert not sms.health.is_failing
            with pytest.raises(Unanswered):
                await sms.find("key")
            assert sms.health == ProviderHealth(failures, "server_error")
        assert sms.health.is_failing
        for answer in (
            respond(404, error("not_found")),
            respond(200, b'{"id": "1", "state": "sent"}'),
        ):
            sms.health = ProviderHealth(7, "timeout")
            server.answer = answer
            await sms.find("key")
            assert sms.health == ProviderHealth()
        sms.health = ProviderHealth(7, "timeout")
        server.answer = respond(422, error("invalid"))
        with pytest.raises(Refused):
            await sms.send("key", "nobody", TEXT)
        assert sms.health == ProviderHealth()
        server.answer = respond(429, error("busy"))
        with pytest.raises(Refused):
            await sms.send("key", NUMBER, TEXT)
        assert sms.health == ProviderHealth(1, "busy")


async def test_nothing_about_a_person_stands_in_a_url() -> None:
    server = RawServer(respond(200, b'{"address": null}'))
    async with run_raw(server) as address, AddressBook(make_endpoint(address)) as book:
        assert await book.look_up("HF12AB", "The Old Rectory") is None
    line = server.asked[0].partition(b"\r\n")[0]
    assert line == b"POST /v1/addresses/search HTTP/1.1"


async def test_the_key_and_the_token_are_sent() -> None:
    server = RawServer(respond(201, b'{"id": "MSG1", "state": "queued", "new_field": 1}'))
    async with run_raw(server) as address, SmsProvider(make_endpoint(address)) as sms:
        assert await sms.send("registration/7/sms", NUMBER, TEXT) == "MSG1"
        assert await sms.find("registration/7/sms") == SentMessage("MSG1", "queued")
    for asked in server.asked:
        assert b"\r\nIdempotency-Key: registration/7/sms\r\n" in asked
        assert f"\r\nAuthorization: Bearer {TOKEN}\r\n".encode() in asked
        assert b"registration/7" not in asked.partition(b"\r\n")[0]


async def test_only_the_provider_itself_says_that_there_is_nothing() -> None:
    unknown = RawServer(respond(404, error("not_found")))
    async with run_raw(unknown) as address, PaymentProvider(make_endpoint(address)) as payments:
        assert await payments.find("key") is None
        assert await payments.find_subscription("key") is None
    for body in (b"<html>Not found</html>", b"", b"{}"):
        server = RawServer(respond(404, body))
        async with run_raw(server) as address, PaymentProvider(make_endpoint(address)) as payments:
            with pytest.raises(Unanswered):
                await payments.find("key")
    wrong = RawServer(respond(404, error("no_such_route")))
    async with run_raw(wrong) as address, PaymentProvider(make_endpoint(address)) as payments:
        with pytest.raises(Refused, match="no_such_route"):
            await payments.find("key")


async def test_a_subscription_is_asked_for_by_dates() -> None:
    body = (
        b'{"id": "SB1", "status": "active", "mandate": "MD1", "amount": 2750, "day": -1, '
        b'"first": "2025-09-30", "last": "2026-05-31"}'
    )
    server = RawServer(respond(201, body))
    async with run_raw(server) as address, PaymentProvider(make_endpoint(address)) as payments:
        made = await payments.subscribe(
            "key", "MD1", 2750, day=-1, first=date(2025, 9, 30), last=date(2026, 5, 31)
        )
    assert made.last == date(2026, 5, 31)
    assert b'"first":"2025-09-30"' in server.asked[0]


def test_an_address_is_not_shown() -> None:
    address = Address("7", "7 Mill Lane", "Holdford", "Holdford", "HF12AB", "7 Mill Lane, HF12AB")
    assert "Mill" not in f"{address!r} {address} {[address]}"
