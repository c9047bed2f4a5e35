"""Parents who do not give up: each answers the question that stands, and sends a message again if asked to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from itertools import count
from typing import Any

import aiohttp
from apps.registration.tests.club.registrations import answer_of
from apps.registration.tests.http.served_club import Served
from apps.registration.tests.photos import samples

from registration.club.progress import Progress
from registration.flow.conversations import load_conversation
from registration.store.registrations import Registration, find_of_session
from registration.store.teams import Team, save_team

CODE = "200-{team}-u10-2526"
_ANSWERS = {12: "HF1 2AB", 13: "12", 14: "12 Mill Lane, Northgate, Holdford, HF1 2AB"}
_MOST_MESSAGES = 90
_INTERNAL = re.compile(
    r"[{}<>]|\\n|\bnull\b|(?<!issues: )\bNone\b|submit_answer|routine|agent_|understood|Error|Exception|Traceback|"
    r"\bJSON\b|HTML|validat|pars(?:e|ing)|database|timeout|\btool|\bNaN\b|```",
)
"""What no parent should read."""


class InsistingParent:
    """One parent, with a session of their own.

    Args:
        club: the service.
        child: the child's first name, which nobody else has.
    """

    def __init__(self, club: Served, child: str) -> None:
        self.club = Served(club.http, club.address, club.model, club.providers, club.database)
        self.child = child
        self.read: list[str] = []
        self.refused = 0
        self._names = count(1)

    async def register(self) -> None:
        """Register the child up to the photo."""
        team = self.child  # a team of their own, for the shirt numbers
        await self.club.database.transact(
            lambda tx: save_team(tx, Team("2526", team, "u10s", kit_needed=True))
        )
        await self.club.begin()
        await self.say(CODE.format(team=team))
        for _ in range(_MOST_MESSAGES):
            progress = await self.progress()
            if progress is not None and progress.step == 34:
                return
            await self.say(CODE.format(team=team) if progress is None else self.answer(progress))
        raise AssertionError(f"stuck: {await self.progress()}")

    def answer(self, progress: Progress) -> str:
        """Return what the parent writes now."""
        if progress.further:
            return answer_of(progress)
        if progress.step == 2:
            return f"{self.child} Jones"
        return _ANSWERS.get(progress.step) or answer_of(progress)

    async def say(self, text: str) -> Mapping[str, Any]:
        """Send a message until it is answered; what the parent reads is noted."""
        name = f"m{next(self._names)}"
        for _ in range(60):
            try:
                reply = await self.club.say(text, message_id=name)
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
                continue
            if reply.status == 200:
                self.read.append(reply.json["response"])
                answer: Mapping[str, Any] = reply.json
                return answer
            error = reply.json["error"]
            assert error["retryable"], error
            self.refused += 1
            self.read.append(error["message"])
            await asyncio.sleep(0.01)
        raise AssertionError(f"not answered: {reply.json}")

    async def progress(self) -> Progress | None:
        """Return how far the conversation is."""
        return (await load_conversation(self.club.database, self.club.session)).progress

    async def finish(self) -> None:
        """Send the photo, and wait until it is taken; the service repeats a check that fails."""
        sent = await self.club.send_photo(samples.photo(), message_id="photo")
        assert sent.status == 202, sent.json
        assert (await self.club.follow_photo())["state"] == "done"

    async def registration(self) -> Registration:
        """Return the record."""
        session = self.club.session
        found = await self.club.database.read(lambda tx: find_of_session(tx, session))
        assert found is not None, self.child
        return found

    def find_unhelpful(self) -> list[str]:
        """Return what the parent read that is empty, or is not for people."""
        found = [_INTERNAL.search(text) for text in self.read]
        short = [text for text in self.read if len(text.split()) < 3]
        return short + [one[0] for one in found if one]


_STORED: Mapping[str, object] = {
    "parent_name": {"first": "Sarah", "last": "Jones"},
    "child_born": "14-03-2016",
    "gender": "Male",
    "medical": {"has": False, "issues": [], "detail": None},
    "played_last_season": True,
    "relationship": "Mother",
    "parent_phone": "07700900123",
    "parent_email": "sarah@example.com",
    "consent": True,
    "parent_born": "02-11-1985",
    "parent_postcode": "HF12AB",
    "parent_house": "12",
    "parent_address_right": True,
    "same_address": True,
    "confirmed": True,
    "payment_day": 15,
    "sms_received": True,
    "kit_size": "9/10",
    "shirt_number": 7,
}


def find_wrong(parent: InsistingParent, registration: Registration) -> list[str]:
    """Return the fields whose stored value is not what the parent wrote."""
    answers = registration.answers
    wanted = {**_STORED, "child_name": {"first": parent.child, "last": "Jones"}}
    if any("send it to" in text and "later" in text for text in parent.read):
        del wanted["sms_received"]  # step 31 does not ask for it
    wrong = [field for field, value in wanted.items() if answers.get(field) != value]
    address = answers["parent_address"]
    if (address["house"], address["line_1"], address["postcode"]) != (
        "12",
        "12 Mill Lane",
        "HF12AB",
    ):
        wrong.append("parent_address")
    columns = (registration.shirt_number, registration.payment_day, registration.kit_size)
    return wrong if columns == (7, 15, "9/10") else [*wrong, "columns"]
