"""Ten registrations while every party fails: one payment and one message each, whatever happens."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aiohttp

from registration.emulators import EmulatedProviders, Faults, WebhookPlan, run_emulators
from registration.providers import (
    Address,
    AddressBook,
    BillingRequest,
    PaymentProvider,
    ProviderFailure,
    SmsProvider,
)
from registration.settings import Settings, read_settings

OTHERS = {"REGISTRATION_ADMIN_KEY": "a" * 16, "REGISTRATION_LINK_SECRET": "b" * 16}
CHILDREN = range(10)
ACCIDENTS = {"busy", "server_error", "connection_lost", "timeout", "nonsense"}

Answered = TypeVar("Answered")


async def insist(ask: Callable[[], Awaitable[Answered]]) -> Answered:
    """Repeat a request with its key until it is answered, as the service's outbox does."""
    while True:
        try:
            return await ask()
        except ProviderFailure as failure:
            if failure.reason not in ACCIDENTS:
                raise


async def register(
    settings: Settings, child: int, browser: aiohttp.ClientSession
) -> tuple[Address | None, BillingRequest, str]:
    async with (
        AddressBook(settings.addresses) as book,
        PaymentProvider(settings.payments) as payments,
        SmsProvider(settings.sms) as sms,
    ):
        key = f"registration/{child}"
        address = await insist(lambda: book.look_up("HF12AB", str(child + 1)))
        made = await insist(
            lambda: payments.request(
                f"{key}/payment", 4500, "Signing-on fee", {"registration": str(child)}
            )
        )
        sent = await insist(lambda: sms.send(f"{key}/sms", "+447700900123", f"Dear parent {child}"))
        url = await insist(lambda: payments.begin_flow(made.id))
        async with browser.post(url, data={"choice": "pay"}) as response:
            assert response.status == 200
        return address, made, sent


async def test_ten_registrations_under_chaos() -> None:
    names = ("payments", "sms", "mail", "addresses")
    faults = {name: Faults(chance=0.3, seed=7, late=0.3) for name in names}
    plan = WebhookPlan(spread=0.2, seed=7)
    short = {"payments_total_seconds": "0.2", "sms_total_seconds": "0.2"}
    async with run_emulators(faults=faults, plan=plan) as emulators:
        settings = read_settings(OTHERS | dict(emulators.environment), short)
        async with aiohttp.ClientSession() as browser:
            ended = await asyncio.gather(*(register(settings, one, browser) for one in CHILDREN))
        check_each_once(emulators, ended)
        assert sum(len(one.happened) for one in faults.values()) >= 5


def check_each_once(
    emulators: EmulatedProviders, ended: list[tuple[Address | None, BillingRequest, str]]
) -> None:
    for child, (address, made, sent) in zip(CHILDREN, ended, strict=True):
        assert address is not None
        assert address.house == str(child + 1)
        mine = {"registration": str(child)}
        assert [one.id for one in emulators.payments.requests if one.metadata == mine] == [made.id]
        assert [one.status for one in emulators.payments.payments if one.metadata == mine] == [
            "confirmed"
        ]
        key = f"registration/{child}/sms"
        assert [one.id for one in emulators.sms.inbox if one.key == key] == [sent]
    assert len(emulators.sms.inbox) == len(emulators.payments.payments) == len(CHILDREN)
