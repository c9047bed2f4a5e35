"""A parent at a terminal: registers, corrects, looks, sends a photo, forgets; and the service fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE, TO_PHOTO
from apps.registration.tests.http.served_club import Served, serve_club
from apps.registration.tests.photos.samples import photo

from holdfast.testing.emulator import ErrorResponse
from registration.emulators.faults import Faults
from registration.terminal.conversation import FORGOTTEN, TRY_AGAIN, TerminalConversation
from registration.terminal.service_client import ServiceClient


async def type_lines(club: Served, *lines: str) -> list[str]:
    """Type lines; return what is shown."""
    shown: list[str] = []

    async def read() -> AsyncIterator[str]:
        for line in lines:
            yield f"{line}\n"

    service = ServiceClient(club.http, club.address)
    await TerminalConversation(service, shown.append).run(read())
    return shown


@pytest.mark.slow  # takes half a second or more
async def test_a_registration_shows_what_is_done_and_how_far_it_is(tmp_path: Path) -> None:
    slow = {"addresses": Faults(["late"], late=0.3)}
    async with serve_club(tmp_path, provider_faults=slow) as club:
        shown = await type_lines(club, *TO_HOUSE, "12", "/saved", "/quit", "not sent")
        assert "[step 13 of 35]" in shown
        assert "(One moment, I am looking up your address.)" in shown
        assert "  Your name: Sarah Jones" in shown
        assert not any("not sent" in line for line in shown)


@pytest.mark.slow  # takes half a second or more
async def test_answers_are_changed(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        shown = await type_lines(
            club,
            *TO_HOUSE[:10],
            "/change your mobile number",
            "07700 900999",
            "/back",
            "never mind",
            "/change the weather",
            "/saved",
        )
        assert "  Your mobile number: 07700900999" in shown
        assert "  Your e-mail address: sarah@example.com" in shown
        assert any("stays as it is" in line for line in shown)
        assert "There is no such answer. /saved shows what there is." in shown


@pytest.mark.slow  # takes half a second or more
async def test_a_conversation_is_forgotten(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        shown = await type_lines(club, "/saved", *TO_HOUSE[:2], "/forget", "/saved", TO_HOUSE[0])
        assert shown.count(FORGOTTEN) == 1
        assert shown.count("Nothing is saved yet.") == 2
        assert shown[-1] == "[step 1 of 35]"


async def test_a_message_without_an_answer_is_sent_again(tmp_path: Path) -> None:
    replies = iter([ErrorResponse("invalid_request")])

    def fail_once(_request: object) -> ErrorResponse | None:
        return next(replies, None)

    async with serve_club(tmp_path, faults=fail_once) as club:
        shown = await type_lines(club, "How do I register?", "/again", "/again")
        assert shown.count(TRY_AGAIN) == 1
        assert "code" in shown[-1]


async def test_a_photo_at_a_wrong_step_or_place_is_explained(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        shown = await type_lines(club, TO_HOUSE[0], f"/photo {tmp_path}/none.jpg", "/what", "")
        assert "I cannot read this file." in shown
        assert any(line.startswith("/saved ") for line in shown)


@pytest.mark.slow  # takes half a second or more
async def test_a_photo_ends_the_registration(tmp_path: Path) -> None:
    path = tmp_path / "me.jpg"
    path.write_bytes(photo())
    async with serve_club(tmp_path / "club") as club:
        shown = await type_lines(club, *TO_PHOTO, f"/photo '{path}'")
        assert "Jack" in shown[-2]
        assert shown[-1] == "[step 35 of 35]"
