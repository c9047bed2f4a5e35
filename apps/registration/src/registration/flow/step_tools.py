"""The tools of the steps: the parent's answer, and the server's look-ups and reservations for a step.

A limit for guesses at a player's parent, over all conversations, guards saved records: a guess, and whose record it
was, must never be stored. This module must never act on the payment or the SMS provider; `payment_tools` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from holdfast import tool
from holdfast.tools import ToolContext
from registration.club import journey
from registration.club.codes import INVALID_CODE, RegistrationCode, WrongCode, read_code
from registration.club.corrections import names_person
from registration.club.fees import Fees
from registration.club.kit import name_kit_type
from registration.club.progress import Progress, Reading, Said, Terms
from registration.flow.conversations import Conversation
from registration.flow.tool_scope import Outcome, ToolScope, find_registration_id
from registration.outbox.kinds import SEND_MAIL
from registration.providers.address_book import Address, AddressBook
from registration.providers.connection import ProviderFailure
from registration.settings import Settings
from registration.store import registrations
from registration.store.agent_mode import read_mode
from registration.store.outbox import NewJob, enqueue
from registration.store.registrations import normalise_name
from registration.store.secrets import derive_token
from registration.store.sessions import count_try, forget_tries
from registration.store.teams import Squad, find_team, list_teams, reserve_shirt, taken_numbers
from registration.store.transaction import Transaction

if TYPE_CHECKING:
    from registration.providers.mcp_addresses import McpAddressBook

_LOOKUPS = 2


class StepTools:
    """The tools of the steps.

    Args:
        scope: changes conversations.
    """

    def __init__(self, scope: ToolScope) -> None:
        self._scope = scope
        self._parts = scope.parts

    def list_tools(self) -> list[Callable[..., object]]:
        """Return the tools."""
        return [
            self.submit_answer,
            self.begin_registration,
            self.look_up_parent_address,
            self.look_up_child_address,
            self.find_registration,
            self.tell_club,
            self.check_kit,
            self.reserve_shirt,
            self.update_registration,
        ]

    @tool(effect="idempotent")
    async def submit_answer(
        self,
        context: ToolContext,
        understood: bool,
        value: str | None = None,
        wants_to_change: str | None = None,
        question: str | None = None,
    ) -> str:
        """Say what you read in the message.

        Args:
            context: the call.
            understood: whether the message answers the question.
            value: the answer, in the words of the message.
            wants_to_change: the field of an earlier answer that the message corrects.
            question: what the message asks.
        """
        reading = Reading(understood, value, wants_to_change, question)

        def change(tx: Transaction, before: Conversation) -> Conversation:
            if before.progress is None or before.turn >= context.turn:
                return before  # a second reading of one message
            settings, progress = self._parts.settings, before.progress
            refused = take_identity(tx, settings, progress, reading, self._parts.now())
            if refused is not None:
                return Conversation(*refused)
            after, said = journey.take(progress, reading, self._parts.today())
            forget_guesses(tx, settings, progress, after)
            return Conversation(after, said)

        return await self._scope.change(context, change)

    @tool(effect="idempotent", offered=False)
    async def begin_registration(self, context: ToolContext, message: str) -> str:
        """Begin a registration with the code that a message consists of.

        Args:
            context: the call.
            message: the whole message.
        """

        def change(tx: Transaction, before: Conversation) -> Conversation:
            if before.turn >= context.turn:
                return before
            if before.progress is not None:
                return Conversation(before.progress, journey.ask_after_code(before.progress))
            return self._begin(tx, message)

        return await self._scope.change(context, change)

    def _begin(self, tx: Transaction, message: str) -> Conversation:
        settings = self._parts.settings
        teams = [(team.team, team.age_group) for team in list_teams(tx, settings.season)]
        code = read_code(message, settings.season, teams)
        if code is None or isinstance(code, WrongCode):
            return Conversation(None, Said("asked_again", INVALID_CODE), fixed=True)
        stored = None
        if code.kind == "100":
            stored = _find_answers(tx, code)
            if stored is None:
                return Conversation(None, Said("asked_again", INVALID_CODE), fixed=True)
        fees = Fees(settings.signing_fee, settings.monthly_fee, settings.sibling_monthly_fee)
        progress, said = journey.begin(code, stored, Terms(settings.club_mail, fees))
        return Conversation(progress, said, fixed=True)

    @tool(effect="idempotent", offered=False)
    async def look_up_parent_address(self, context: ToolContext) -> str:
        """Look up the address of the parent by postcode and house."""
        progress = await self._scope.find_progress(context, "look_up_parent_address")
        found = await self._look_up(progress, "parent")
        return await self._scope.finish(
            context, "look_up_parent_address", lambda _tx, _progress: _to_outcome(found)
        )

    @tool(effect="idempotent", offered=False)
    async def look_up_child_address(self, context: ToolContext) -> str:
        """Look up the address of the child by postcode and house."""
        progress = await self._scope.find_progress(context, "look_up_child_address")
        found = await self._look_up(progress, "child")
        return await self._scope.finish(
            context, "look_up_child_address", lambda _tx, _progress: _to_outcome(found)
        )

    async def _look_up(self, progress: Progress, person: str) -> Address | None:
        """Return an address; None if there is none or nobody says, for then the parent types it."""
        postcode = cast("str", progress.answers[f"{person}_postcode"])
        house = cast("str", progress.answers[f"{person}_house"])
        book = await self._choose_address_book()
        for _ in range(_LOOKUPS):
            try:
                return await book.look_up(postcode, house)
            except ProviderFailure:
                continue
        return None

    async def _choose_address_book(self) -> AddressBook | McpAddressBook:
        """Return the address book of the mode that the admin chose."""
        mode = await self._parts.database.read(read_mode)
        if mode == "mcp" and self._parts.mcp_addresses is not None:
            return self._parts.mcp_addresses
        return self._parts.addresses

    @tool(effect="idempotent", offered=False)
    async def find_registration(self, context: ToolContext) -> str:
        """Look whether this player was registered before with this code."""

        def work(tx: Transaction, progress: Progress) -> Outcome:
            name = cast("dict[str, str]", progress.answers["child_name"])
            team = progress.code.team
            for found in registrations.find_by_name(tx, team, name["first"], name["last"]):
                if (found.season, found.age_group) == (
                    progress.code.season,
                    progress.code.age_group,
                ):
                    return {
                        "found": True,
                        "registration": found.id,
                        "step": _find_step(found),
                        "answers": found.answers,
                    }
            return {"found": False}

        return await self._scope.finish(context, "find_registration", work)

    @tool(effect="idempotent", offered=False)
    async def tell_club(self, context: ToolContext) -> str:
        """Tell the club that the message with the payment link did not arrive."""

        def work(tx: Transaction, progress: Progress) -> Outcome:
            identity = find_registration_id(self._parts.settings, progress)
            payload = {"template": "no_link"}
            key = f"registration/{identity}/mail-no-link"
            enqueue(tx, NewJob(key, SEND_MAIL, payload, identity), self._parts.now())
            return {"told": True}

        done = await self._scope.finish(context, "tell_club", work)
        self._parts.new_jobs.set()
        return done

    @tool(effect="idempotent", offered=False)
    async def check_kit(self, context: ToolContext) -> str:
        """Look whether the team gets a new kit this season."""

        def work(tx: Transaction, progress: Progress) -> Outcome:
            code = progress.code
            team = find_team(tx, code.season, code.team, code.age_group)
            return {"needed": team is not None and team.kit_needed}

        return await self._scope.finish(context, "check_kit", work)

    @tool(effect="idempotent", offered=False)
    async def reserve_shirt(self, context: ToolContext) -> str:
        """Reserve the shirt number, if nobody has it."""

        def work(tx: Transaction, progress: Progress) -> Outcome:
            code, now = progress.code, self._parts.now()
            identity = find_registration_id(self._parts.settings, progress)
            squad = Squad(code.season, code.team, code.age_group)
            number = cast("int", progress.answers["shirt_number"])
            if not reserve_shirt(tx, squad, number, identity, now):
                return {"reserved": False, "taken": taken_numbers(tx, squad)}
            registrations.update_registration(
                tx,
                identity,
                now,
                kit_required=True,
                kit_size=progress.answers.get("kit_size"),
                kit_type=name_kit_type(number),
                answers=progress.answers,
            )
            return {"reserved": True}

        return await self._scope.finish(context, "reserve_shirt", work)

    @tool(effect="idempotent", offered=False)
    async def update_registration(self, context: ToolContext) -> str:
        """Save what was corrected in the record."""

        def work(tx: Transaction, progress: Progress) -> Outcome:
            identity = find_registration_id(self._parts.settings, progress)
            saved = registrations.update_registration(
                tx, identity, self._parts.now(), answers=progress.answers
            )
            return {"saved": saved is not None}

        return await self._scope.finish(context, "update_registration", work)


def _find_step(found: registrations.Registration) -> int:
    """Return the step at which a saved registration goes on."""
    if found.photo_file is not None:
        return 35
    return 34 if found.shirt_number is not None else 30


def _find_answers(tx: Transaction, code: RegistrationCode) -> dict[str, object] | None:
    """Return the answers of the last season's record of the player that a code names."""
    for found in registrations.find_by_name(tx, code.team, code.first or "", code.last or ""):
        if found.season != code.season:
            return found.answers
    return None


def _to_outcome(found: Address | None) -> Outcome:
    if found is None:
        return {"found": False}
    return {
        "found": True,
        "address": {
            "house": found.house,
            "line_1": found.line_1,
            "town": found.town,
            "city": found.city,
            "postcode": found.postcode,
            "full": found.full,
        },
    }


MOST_TRIES: Final = 10
"""Guesses at one player in a day."""


def take_identity(
    tx: Transaction, settings: Settings, progress: Progress, reading: Reading, now: float
) -> journey.Answered | None:
    """Return the next state after one guess too many; None if the answer is to be taken as usual.

    Args:
        tx: the transaction.
        settings: the secret of the key.
        progress: the state before.
        reading: the reading of the message.
        now: seconds since the epoch.
    """
    if progress.further not in {"identity", "resume"} or not reading.understood:
        return None
    if reading.value is None or not names_person(reading.value):
        return None
    if count_try(tx, _make_key(settings, progress), now) <= MOST_TRIES:
        return None
    return journey.refuse_identity(progress)


def forget_guesses(tx: Transaction, settings: Settings, before: Progress, after: Progress) -> None:
    """Begin to count again if the parent was known."""
    was_known = before.further == "identity" and after.further is None
    was_resumed = before.further == "resume" and after.registration is not None
    if was_known or was_resumed:
        forget_tries(tx, _make_key(settings, before))


def _make_key(settings: Settings, progress: Progress) -> str:
    code = progress.code
    name = cast("Mapping[str, str]", progress.answers.get("child_name", {}))
    first, last = code.first or name.get("first", ""), code.last or name.get("last", "")
    who = (normalise_name(first), normalise_name(last))
    secret = settings.link_secret.reveal().encode()
    return derive_token(secret, "identity", code.season, code.team, *who)
