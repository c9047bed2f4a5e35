"""Parents who register a child from the code to the end, each in another way."""

from __future__ import annotations

from collections.abc import Mapping

from apps.registration.tests.flow.chat_club import TEAMS
from apps.registration.tests.http.payer import find_link, press, wait_status
from apps.registration.tests.http.served_club import Served
from apps.registration.tests.photos import samples
from msgspec import Struct

from registration.club import journey
from registration.fixtures import seed_club
from registration.flow.conversations import (
    Conversation,
    Move,
    change_conversation,
    load_conversation,
)
from registration.store import Transaction
from registration.store.registrations import Registration
from registration.store.teams import save_team

_BEGIN = ("boy", "no", "no", "mum", "07700 900123", "sarah@example.com", "yes", "02-11-1985")


class Script(Struct, frozen=True):
    """What a parent writes, up to the photo.

    Args:
        child: the child's first name.
        texts: the messages.
        kit: whether a kit is chosen.
        photo: whether a photo is asked for.
    """

    child: str
    texts: tuple[str, ...]
    kit: bool = False
    photo: bool = True


SCRIPTS: Mapping[str, Script] = {
    "a new player of ten, with a kit": Script(
        "Jack",
        (
            *("200-lions-u10-2526", "Sarah Jones", "Jack Jones", "14-03-2016", *_BEGIN),
            *("HF1 2AB", "12", "yes", "yes", "yes", "15", "yes", "9/10", "7"),
        ),
        kit=True,
    ),
    "a new player of sixteen at another address, without a kit": Script(
        "Amélie",
        (
            *(
                "200-tigers-u16-2526",
                "Zoë O\u2019Brien",
                "Amélie O\u2019Brien",
                "1 May 2010",
                "girl",
            ),
            *("she has asthma and an inhaler", "in her bag, she knows how to use it", "yes"),
            *("her gran", "+44 7700 900321", "ZOE@EXAMPLE.COM", "no", "3rd of February 1961"),
            *("hf1 1ab", "The Old Rectory", "yes", "no", "HF2 1AA", "4", "yes"),
            *("07700 900654", "amelie@example.com", "yes", "the last day", "yes"),
        ),
    ),
    "a new player whose addresses nobody knows": Script(
        "Jack",
        (
            *("200-lions-u10-2526", "Sarah Jones", "Jack Jones", "14-03-2016", *_BEGIN),
            *("M41 5AB", "12", "12 High Street, Urmston, M41 5AB", "yes", "no"),
            *("M41 7CD", "3", "3 Mill Lane, Flixton, M41 7CD", "yes"),
            *("yes", "1", "no", "M", "goalkeeper 12"),
        ),
        kit=True,
    ),
    "a player of last season": Script(
        "Jack", ("100-tigers-u13-2526-Jack-Smith", "07700 900555", "yes", "28", "yes"), photo=False
    ),
}


async def register(club: Served, script: Script) -> Registration:
    """Register a child, pay, and send the photo; return the registration at its end."""
    await club.database.transact(_seed)
    await club.begin()
    for text in script.texts:
        reply = await club.say(text)
        assert reply.status == 200, reply.json
        assert reply.json["status"] == "ok"
    await press(club, find_link(club, script.child), "pay")
    if script.photo:
        assert await find_step(club) == 34, reply.json
        assert (await club.send_photo(samples.photo())).status == 202
        assert (await club.follow_photo())["state"] == "done"
    assert await find_step(club) == 35
    assert (await club.say("When does the season begin?")).status == 200
    return await wait_status(club, "active")


def _seed(tx: Transaction) -> None:
    seed_club(tx, "2526")
    for team in TEAMS:
        save_team(tx, team)


async def find_step(club: Served) -> int:
    """Return the step of the conversation."""
    progress = (await load_conversation(club.database, club.session)).progress
    assert progress is not None
    return progress.step


async def accept_photo(club: Served) -> None:
    """Let a photo be accepted, as its job does."""
    session = club.session
    turn = (await load_conversation(club.database, session)).turn

    def change(_tx: Transaction, before: Conversation) -> Conversation:
        assert before.progress is not None
        accepted = {"accepted": True, "photo": "photo.jpg"}
        return Conversation(*journey.finish_effect(before.progress, "check_photo", accepted))

    move = Move(session=session, key=f"{session}/photo", turn=turn, now=0.0)
    await change_conversation(club.database, move, change)


def check_once(club: Served, registration: Registration, script: Script) -> None:
    """Check that there is one payment, one subscription, one record, and each message once."""
    payments, mine = club.providers.payments, {"registration": registration.id}
    assert len([one for one in payments.requests if one.metadata == mine]) == 1
    assert [one.status for one in payments.payments if one.metadata == mine] == ["confirmed"]
    assert len([one for one in payments.subscriptions if one.metadata == mine]) == 1
    texts = [one.text for one in club.providers.sms.inbox if script.child in one.text]
    assert len([text for text in texts if "/pay/" in text]) == 1
    assert len([text for text in texts if "confirmed" in text]) == 1
    assert registration.signing_fee_paid
    assert registration.subscription_activated
    assert (registration.shirt_number is not None) == script.kit
