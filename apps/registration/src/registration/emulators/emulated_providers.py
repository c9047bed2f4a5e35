"""All emulated providers together, with the settings by which a service finds them."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct
from starlette.types import ASGIApp

from registration.emulators.address_emulator import PATH, AddressEmulator, McpEmulator
from registration.emulators.courier import WebhookPlan
from registration.emulators.faults import Faults
from registration.emulators.inboxes import MailEmulator, SmsEmulator
from registration.emulators.payment_emulator import PaymentEmulator
from registration.emulators.serving import serve


class EmulatedProviders(Struct, frozen=True):
    """The emulated providers, and where they are.

    Args:
        payments: the payment provider; its webhooks wait until `send_webhooks_to` is called.
        sms: the SMS provider.
        mail: the mail provider.
        addresses: the address book.
        mcp: an MCP server with the same addresses.
        environment: the variables `REGISTRATION_*` of a service that uses them, secrets included.
    """

    payments: PaymentEmulator
    sms: SmsEmulator
    mail: MailEmulator
    addresses: AddressEmulator
    mcp: McpEmulator
    environment: Mapping[str, str]

    def __repr__(self) -> str:
        return "EmulatedProviders(***)"


@asynccontextmanager
async def run_emulators(
    folder: Path | None = None,
    *,
    faults: Mapping[str, Faults] | None = None,
    plan: WebhookPlan | None = None,
    first_port: int = 0,
    now: Callable[[], float] = time.time,
) -> AsyncIterator[EmulatedProviders]:
    """Run all emulated providers on loopback.

    Args:
        folder: where they keep their records; None for memory.
        faults: by name: "payments", "sms", "mail", "addresses", "mcp".
        plan: how webhooks arrive.
        first_port: the port of the payment provider; SMS, mail, addresses and MCP have the next four.
            0 for free ports.
        now: when payments are made, in seconds since the epoch.
    """
    faults = faults or {}
    secret = _load_secret(folder)
    token = hashlib.sha256(f"token {secret}".encode()).hexdigest()
    payments = PaymentEmulator(
        token,
        secret,
        file=_file(folder, "payments"),
        faults=faults.get("payments"),
        plan=plan,
        now=now,
    )
    sms = SmsEmulator(token, file=_file(folder, "sms"), faults=faults.get("sms"))
    mail = MailEmulator(token, file=_file(folder, "mail"), faults=faults.get("mail"))
    addresses = AddressEmulator(token, faults=faults.get("addresses"))
    mcp = McpEmulator(token, faults=faults.get("mcp"))
    environment = {"REGISTRATION_WEBHOOK_SECRET": secret}
    async with AsyncExitStack() as stack:
        for emulator in (payments, sms, mail):
            stack.callback(emulator.close)
        apps: dict[str, ASGIApp] = {
            "PAYMENTS": payments.app,
            "SMS": sms.app,
            "MAIL": mail.app,
            "ADDRESSES": addresses.app,
            "MCP": mcp.app,
        }
        for place, (name, app) in enumerate(apps.items()):
            port = first_port + place if first_port else 0
            address = await stack.enter_async_context(serve(app, port))
            environment[f"REGISTRATION_{name}_ADDRESS"] = address
            environment[f"REGISTRATION_{name}_TOKEN"] = token
        environment["REGISTRATION_MCP_ADDRESS"] += PATH
        yield EmulatedProviders(payments, sms, mail, addresses, mcp, environment)


def _file(folder: Path | None, name: str) -> Path | None:
    return None if folder is None else folder / f"{name}.db"


def _load_secret(folder: Path | None) -> str:
    """Return the secret of the webhooks: the one of the folder, or a new one.

    A service that was started before the emulators were restarted must still trust them.
    """
    if folder is None:
        return secrets.token_hex(32)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "secret"
    if not file.exists():
        # Renamed when it is complete: a process that is killed here leaves no half of a secret.
        new = folder / "secret.new"
        new.touch(0o600)
        new.write_text(secrets.token_hex(32))
        new.replace(file)
    return file.read_text()
