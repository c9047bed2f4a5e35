"""What the emulated providers know survives SIGKILL, and so do webhooks that nobody accepted yet."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registration.emulators import run_emulators, serve
from registration.emulators.ledger import Ledger
from registration.providers import (
    Mailer,
    PaymentEvent,
    PaymentProvider,
    ProviderFailure,
    SmsProvider,
    read_events,
    verify,
)
from registration.settings import Settings, read_settings

pytestmark = pytest.mark.slow  # kills processes

PROGRAM = Path(__file__).with_name("emulator_program.py")
OTHERS = {"REGISTRATION_ADMIN_KEY": "a" * 16, "REGISTRATION_LINK_SECRET": "b" * 16}


@asynccontextmanager
async def run_and_kill(folder: Path) -> AsyncIterator[Settings]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, folder, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        settings = read_settings(OTHERS | json.loads(await process.stdout.readline()))
        # Forty connections at once take their time on a busy machine, and none of these tests is about that.
        payments = msgspec.structs.replace(
            settings.payments, connect_seconds=60.0, total_seconds=60.0
        )
        yield msgspec.structs.replace(settings, payments=payments)
    finally:
        process.kill()
        await process.communicate()


async def act(settings: Settings) -> list[str]:
    async with (
        PaymentProvider(settings.payments) as payments,
        SmsProvider(settings.sms) as sms,
        Mailer(settings.mail) as mailer,
    ):
        made = await payments.request("registration/7/payment", 4500, "Fee", {"registration": "7"})
        return [
            made.id,
            await sms.send("registration/7/sms", "+447700900123", "hello"),
            await mailer.send("registration/7/mail", "a@club.example", "subject", "text"),
        ]


async def test_the_same_keys_after_a_kill(tmp_path: Path) -> None:
    async with run_and_kill(tmp_path / "demo") as settings:
        before = await act(settings)
        async with PaymentProvider(settings.payments) as payments:
            url = await payments.begin_flow(before[0])
        async with (
            aiohttp.ClientSession() as browser,
            browser.post(url, data={"choice": "pay"}) as response,
        ):
            assert response.status == 200
    async with run_and_kill(tmp_path / "demo") as settings:
        assert await act(settings) == before
        async with PaymentProvider(settings.payments) as payments:
            found = await payments.find("registration/7/payment")
    assert found is not None
    assert found.status == "fulfilled"

    taken: list[PaymentEvent] = []

    async def take(request: Request) -> Response:
        body = await request.body()
        header = request.headers["Webhook-Signature"]
        assert verify(body, header, settings.webhook_secret.reveal())
        taken.extend(read_events(body))
        return Response()

    app = Starlette(routes=[Route("/", take, methods=["POST"])])
    async with serve(app) as service, run_emulators(tmp_path / "demo") as emulators:
        assert [one.metadata for one in emulators.payments.payments] == [{"registration": "7"}]
        assert len(emulators.sms.inbox) == len(emulators.mail.inbox) == 1
        emulators.payments.send_webhooks_to(service + "/")
        await emulators.payments.wait_delivered()
    assert [f"{event.resource}.{event.action}" for event in taken] == [
        "billing_requests.created",
        "billing_requests.fulfilled",
        "mandates.active",
        "payments.confirmed",
    ]


async def test_killed_among_many_requests(tmp_path: Path) -> None:
    keys = [f"registration/{number}/payment" for number in range(40)]
    acknowledged: dict[str, str] = {}

    async def ask(payments: PaymentProvider, key: str) -> None:
        made = await payments.request(key, 4500, "Fee", {"registration": key})
        acknowledged[key] = made.id

    async with run_and_kill(tmp_path) as settings, PaymentProvider(settings.payments) as payments:
        requests = [asyncio.create_task(ask(payments, key)) for key in keys]
        while len(acknowledged) < 5:
            await asyncio.sleep(0)
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert all(one is None or isinstance(one, ProviderFailure) for one in outcomes)

    async with run_and_kill(tmp_path) as settings, PaymentProvider(settings.payments) as payments:
        for key, request_id in acknowledged.copy().items():
            found = await payments.find(key)
            assert found is not None
            assert found.id == request_id
        await asyncio.gather(*(ask(payments, key) for key in keys))

    async with run_emulators(tmp_path) as emulators:
        made = [request.id for request in emulators.payments.requests]
        assert sorted(made) == sorted(acknowledged.values())
        ledger = Ledger(tmp_path / "payments.db")
        events = [read_events(delivery.body)[0] for delivery in ledger.list_deliveries()]
        ledger.close()
    assert sorted(event.links["billing_request"] for event in events) == sorted(made)


async def test_no_secret_is_shown(tmp_path: Path) -> None:
    async with run_emulators(tmp_path) as emulators:
        secret = emulators.environment["REGISTRATION_WEBHOOK_SECRET"]
        token = emulators.environment["REGISTRATION_SMS_TOKEN"]
        assert token not in secret
        for text in (secret, token):
            assert text not in f"{emulators} {emulators!r}"
    assert (tmp_path / "secret").stat().st_mode & 0o077 == 0
