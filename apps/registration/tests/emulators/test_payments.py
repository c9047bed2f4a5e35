"""The emulated payment provider: requests, pages, subscriptions, and what is refused."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import date

import aiohttp
import pytest

from registration.emulators import Faults, PaymentEmulator, serve
from registration.providers import (
    BillingRequest,
    PaymentProvider,
    ProviderFailure,
    Refused,
    Subscription,
)
from registration.settings import Endpoint, Secret

TOKEN = "token-of-the-service"
METADATA = {"registration": "7"}
DATES = {"first": date(2025, 9, 30), "last": date(2026, 5, 31)}


def make_endpoint(address: str, token: str = TOKEN) -> Endpoint:
    return Endpoint(address=address, token=Secret(token), total_seconds=2.0)


@pytest.fixture
async def emulator() -> AsyncIterator[PaymentEmulator]:
    made = PaymentEmulator(TOKEN, "secret-of-the-webhooks")
    yield made
    made.close()


@pytest.fixture
async def payments(emulator: PaymentEmulator) -> AsyncIterator[PaymentProvider]:
    async with serve(emulator.app) as address, PaymentProvider(make_endpoint(address)) as client:
        yield client


@pytest.fixture
async def browser() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def ask(payments: PaymentProvider, key: str = "registration/7/payment") -> BillingRequest:
    return await payments.request(key, 4500, "Signing-on fee of the Lions", METADATA)


async def press(browser: aiohttp.ClientSession, url: str, choice: str) -> str:
    async with browser.post(url, data={"choice": choice}) as response:
        return await response.text()


async def test_an_equal_key_is_the_same_request(payments: PaymentProvider) -> None:
    made = await ask(payments)
    assert made == BillingRequest(made.id, "pending", 4500, metadata=METADATA)
    assert await ask(payments) == made
    assert await payments.find("registration/7/payment") == made
    assert await payments.find("registration/8/payment") is None
    assert (await ask(payments, "registration/8/payment")).id != made.id


async def test_requests_at_once_with_one_key_are_one(
    payments: PaymentProvider, emulator: PaymentEmulator
) -> None:
    made = await asyncio.gather(*(ask(payments) for _ in range(20)))
    assert len({one.id for one in made}) == len(emulator.requests) == 1


async def test_a_key_with_another_body_is_refused(payments: PaymentProvider) -> None:
    made = await ask(payments)
    with pytest.raises(Refused, match="idempotency_key_reused"):
        await payments.request("registration/7/payment", 1, "Signing-on fee of the Lions", METADATA)
    assert await payments.find("registration/7/payment") == made


async def test_a_wrong_token_is_refused(emulator: PaymentEmulator) -> None:
    async with (
        serve(emulator.app) as address,
        PaymentProvider(make_endpoint(address, "another-token-here")) as payments,
    ):
        for attempt in (
            ask(payments),
            payments.find("key"),
            payments.begin_flow("BRQ1"),
            payments.subscribe("key", "MD1", 2750, day=1, **DATES),
            payments.find_subscription("key"),
        ):
            with pytest.raises(Refused, match="unauthorised"):
                await attempt
    assert emulator.requests == []


@pytest.mark.parametrize("amount", [0, -1, 10**9])
async def test_an_odd_amount_is_refused(payments: PaymentProvider, amount: int) -> None:
    with pytest.raises(Refused, match="invalid"):
        await payments.request("key", amount, "Fee", {})


async def test_paying_on_the_page(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    url = await payments.begin_flow(made.id)
    async with browser.get(url) as response:
        page = await response.text()
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert re.findall(r'value="(\w+)"', page) == ["pay", "cancel", "pay_and_fail"]
    assert "£45.00" in page
    assert "Signing-on fee of the Lions" in page
    assert "this is paid" in await press(browser, url, "pay")
    paid = await payments.find("registration/7/payment")
    assert paid is not None
    assert paid.status == "fulfilled"
    assert paid.mandate
    assert paid.payment
    # The same button again, and a page that was opened before.
    await press(browser, url, "pay")
    await press(browser, url, "cancel")
    assert len(emulator.payments) == 1
    with pytest.raises(Refused, match="already_paid"):
        await payments.begin_flow(made.id)


async def test_two_open_pages_pay_once(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    first, second = await payments.begin_flow(made.id), await payments.begin_flow(made.id)
    assert first != second
    await asyncio.gather(*(press(browser, url, "pay") for url in (first, second) * 5))
    assert len(emulator.payments) == 1


async def test_cancelling_leaves_the_request_open(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    url = await payments.begin_flow(made.id)
    assert "Nothing was paid" in await press(browser, url, "cancel")
    assert "Nothing was paid" in await press(browser, url, "pay")
    assert emulator.payments == []
    again = await payments.begin_flow(made.id)
    assert "this is paid" in await press(browser, again, "pay")


async def test_a_refused_payment_can_be_paid_again(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    url = await payments.begin_flow(made.id)
    assert "did not accept" in await press(browser, url, "pay_and_fail")
    again = await payments.begin_flow(made.id)
    assert "this is paid" in await press(browser, again, "pay")
    assert [one.status for one in emulator.payments] == ["failed", "confirmed"]
    assert len({one.mandate for one in emulator.payments}) == 1


async def test_unknown_pages_and_requests(
    payments: PaymentProvider, browser: aiohttp.ClientSession
) -> None:
    with pytest.raises(Refused, match="not_found"):
        await payments.begin_flow("BRQ0")
    url = await payments.begin_flow((await ask(payments)).id)
    unknown = url.rpartition("/")[0] + "/unknown"
    async with browser.get(unknown) as response:
        assert response.status == 404
    for address, choice in ((unknown, "pay"), (url, "steal"), (url, "")):
        async with browser.post(address, data={"choice": choice}) as response:
            assert response.status in (404, 422)


async def test_what_is_described_is_no_markup(
    payments: PaymentProvider, browser: aiohttp.ClientSession
) -> None:
    made = await payments.request("key", 4500, "<script>alert(1)</script>", {})
    async with browser.get(await payments.begin_flow(made.id)) as response:
        assert "<script>" not in await response.text()


async def subscribe(payments: PaymentProvider, mandate: str, day: int = -1) -> Subscription:
    key = "registration/7/subscription"
    return await payments.subscribe(key, mandate, 2750, day=day, **DATES)


async def test_a_subscription_is_made_once(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    await press(browser, await payments.begin_flow(made.id), "pay")
    mandate = emulator.payments[0].mandate
    subscription = await subscribe(payments, mandate)
    assert subscription == Subscription(
        subscription.id, "active", mandate, 2750, -1, DATES["first"], DATES["last"]
    )
    assert await subscribe(payments, mandate) == subscription
    assert await payments.find_subscription("registration/7/subscription") == subscription
    with pytest.raises(Refused, match="idempotency_key_reused"):
        await subscribe(payments, mandate, day=1)
    assert len(emulator.subscriptions) == 1


@pytest.mark.parametrize(
    ("mandate", "day", "reason"),
    [("MD0", 1, "mandate_not_found"), ("MD0", 0, "invalid"), ("MD0", 29, "invalid")],
)
async def test_an_odd_subscription_is_refused(
    payments: PaymentProvider, mandate: str, day: int, reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        await subscribe(payments, mandate, day)
    assert await payments.find_subscription("registration/7/subscription") is None


async def test_a_cancelled_mandate_carries_nothing(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    await press(browser, await payments.begin_flow(made.id), "pay")
    mandate = emulator.payments[0].mandate
    await subscribe(payments, mandate)
    emulator.acts.cancel_mandate(mandate)
    assert emulator.subscriptions[0].status == "cancelled"
    with pytest.raises(Refused, match="mandate_not_active"):
        await payments.subscribe("another key", mandate, 2750, day=1, **DATES)


async def test_paying_again_after_the_mandate_was_cancelled_makes_a_new_one(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    await press(browser, await payments.begin_flow(made.id), "pay")
    first = emulator.payments[0]
    emulator.acts.cancel_mandate(first.mandate)
    emulator.acts.change_payment(first.id, "charged_back")
    await press(browser, await payments.begin_flow(made.id), "pay")
    found = await payments.find("registration/7/payment")
    assert found is not None
    assert found.mandate not in (None, first.mandate)
    assert (await subscribe(payments, found.mandate or "")).status == "active"


async def test_a_request_that_was_taken_back_cannot_be_paid(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    url = await payments.begin_flow(made.id)
    emulator.acts.cancel_request(made.id)
    assert "no longer needed" in await press(browser, url, "pay")
    assert emulator.payments == []
    with pytest.raises(Refused, match="cancelled"):
        await payments.begin_flow(made.id)
    found = await payments.find("registration/7/payment")
    assert found is not None
    assert found.status == "cancelled"


async def test_a_person_plays_the_bank(
    payments: PaymentProvider, emulator: PaymentEmulator, browser: aiohttp.ClientSession
) -> None:
    made = await ask(payments)
    url = await payments.begin_flow(made.id)
    await press(browser, url, "pay")
    subscription = await subscribe(payments, emulator.payments[0].mandate)
    origin = url.partition("/pay/")[0]
    fee = emulator.payments[0].id
    page = await press(browser, f"{origin}/payments/{fee}", "charged_back")
    assert made.id in page
    assert subscription.id in page
    await press(browser, f"{origin}/subscriptions/{subscription.id}", "confirmed")
    await press(browser, f"{origin}/subscriptions/{subscription.id}", "failed")
    assert [one.status for one in emulator.payments] == ["charged_back", "confirmed", "failed"]
    async with browser.post(f"{origin}/payments/{fee}", data={"choice": "eaten"}) as response:
        assert response.status == 422


async def insist(payments: PaymentProvider, key: str) -> BillingRequest:
    """Ask as the service does: repeat with the key, and ask for it in doubt."""
    while True:
        try:
            return await payments.find(key) or await ask(payments, key)
        except ProviderFailure:
            continue


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("seed", [7, 8])
async def test_under_chaos_every_key_is_one_request(seed: int) -> None:
    emulator = PaymentEmulator(
        TOKEN, "secret-of-the-webhooks", faults=Faults(chance=0.5, seed=seed, late=0.4)
    )
    keys = [f"registration/{number}/payment" for number in range(25)]
    async with serve(emulator.app) as address:
        endpoint = Endpoint(address=address, token=Secret(TOKEN), total_seconds=0.3)
        async with PaymentProvider(endpoint) as payments:
            made = await asyncio.gather(*(insist(payments, key) for key in keys))
    assert len(emulator.faults.happened) > 10
    assert sorted(one.id for one in made) == sorted(one.id for one in emulator.requests)
    assert len(emulator.requests) == 25
    emulator.close()
