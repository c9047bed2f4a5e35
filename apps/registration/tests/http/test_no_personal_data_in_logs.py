"""No log, metric or error has a value of a person or a secret: a whole registration, and what fails."""

from __future__ import annotations

import logging
from itertools import count
from pathlib import Path

import pytest
from apps.registration.tests.flow.chat_club import KEYS
from apps.registration.tests.flow.test_registration_by_chat import TO_PHOTO
from apps.registration.tests.http.office_visit import Office
from apps.registration.tests.http.payer import find_link, load, open_link, wait_until
from apps.registration.tests.http.prepared import BEFORE_SEASON
from apps.registration.tests.http.served_club import Served, serve_club
from apps.registration.tests.photos import samples
from msgspec.structs import replace

from holdfast.testing.emulator import ErrorResponse, Html200
from registration.emulators.faults import Faults

MODEL_KEY = "sk-a-model-key-0f1e2d3c"
WRONG_KEY = "Zebedee-Quackenbush-0000"
PERSONAL = (
    *("Sarah", "Jones", "Jack", "07700900123", "07700 900123", "447700900123", "sarah@example"),
    *("14-03-2016", "02-11-1985", "HF12AB", "HF1 2AB", "Mill Lane", "EpiPen", "complicated"),
    *("Zebedee", "Quackenbush", "200-lions"),
)


def write_records(records: list[logging.LogRecord]) -> str:
    """Return the records as a handler writes them, with tracebacks."""
    formatter = logging.Formatter("%(name)s %(levelname)s %(message)s")
    return "\n".join(formatter.format(one) for one in records)


async def fail_in_every_way(club: Served) -> list[str]:
    """Send what is wrong; return the bodies of the answers."""
    wrong: list[object] = [
        {"user_message": "Zebedee", "session_id": 7},
        {"user_message": ["Quackenbush"], "session_id": club.session},
        {"user_message": "Zebedee", "session_id": club.session, "message_id": "ü Quackenbush"},
        {"user_message": "Quackenbush" * 400, "session_id": club.session},
        "Zebedee",
    ]
    paths = (
        "/Zebedee",
        "/sessions/Zebedee?name=Quackenbush",
        "/pay/Zebedee",
        "/events/Quackenbush",
        "/photos/Zebedee?signature=Quackenbush",
        "/jobs/Zebedee",
        "/office/registrations/Zebedee?name=Quackenbush",
    )
    named = {"name": "Zebedee", "session_id": "Jones"}
    forms = ("/webhooks/payments", "/agent/mode", "/clear", "/upload_photo")
    replies = [
        *[await club.call("POST", "/chat", body) for body in wrong],
        *[await club.call("GET", path) for path in paths],
        *[await club.call("POST", path, named) for path in forms],
    ]
    return [str(reply.json) for reply in replies]


async def visit_office(club: Served, registration: str) -> None:
    office = Office(club.http, club.address)
    await office.sign_in(WRONG_KEY, by="Zebedee")
    address = f"/office/registrations/{registration}"
    await office.open(address)


def choose_fault(number: int) -> object:
    return [None, ErrorResponse("server_error"), None, Html200(), None, None][number % 6]


@pytest.mark.slow  # starts a program or a server
async def test_nothing_of_a_person_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    numbers = count()
    parties = {name: Faults(chance=0.4, seed=5, late=0.4) for name in ("payments", "sms")}
    parties["addresses"] = Faults(["late"], late=0.4)
    async with serve_club(
        tmp_path,
        faults=lambda _request: choose_fault(next(numbers)),
        provider_faults=parties,
        clock=replace(BEFORE_SEASON, job_waits=(0.1,) * 12),
        model_key=MODEL_KEY,
        **{f"{name}_total_seconds": "0.3" for name in parties},
    ) as club:
        for number, text in enumerate(TO_PHOTO):
            for _ in range(20):
                if (await club.say(text, message_id=f"m{number}")).status == 200:
                    break
        await club.send_photo(samples.photo(pitch=True), "/upload")
        await wait_until(lambda: was_sent(club))
        link = find_link(club)
        for _ in range(20):
            if (await open_link(club, link)).status == 302:
                break
        registration = await load(club)
        told = await fail_in_every_way(club)
        await visit_office(club, registration.id)
        told += [str((await club.call("GET", path)).json) for path in ("/metrics", "/health")]
        hidden = [club.token, link.removeprefix("/pay/"), MODEL_KEY, WRONG_KEY, *KEYS.values()]
        for name, value in club.providers.environment.items():
            if name.endswith(("_TOKEN", "_SECRET")):
                hidden.append(value)
    logged = write_records(caplog.records)
    assert "registration.access INFO POST /chat 200" in logged
    for value in (*PERSONAL, *hidden):
        assert not [line for line in logged.splitlines() if value in line], value
        assert not [one for one in told if value in one], value
    assert not [one for one in told if registration.id in one or club.session in one]


async def was_sent(club: Served) -> bool:
    return bool(club.providers.sms.inbox)
