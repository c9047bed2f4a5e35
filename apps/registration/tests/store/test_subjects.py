"""Sessions, effects, registrations, shirt numbers, messages, teams and tasks."""

from __future__ import annotations

import asyncio

import pytest
from apps.registration.tests.store.samples import (
    KEY,
    NOON,
    PERSONAL,
    new_registration,
    player,
    register,
)
from msgspec.structs import replace

from registration.store import Database, ProgressChanged
from registration.store.effects import EffectOf, find_effect, save_effect
from registration.store.messages import (
    NewMessage,
    find_message,
    find_same_text,
    save_answer,
    save_message,
)
from registration.store.registrations import (
    Player,
    correct_player,
    count_siblings,
    find_by_link,
    find_by_name,
    find_of_session,
    load_registration,
    normalise_name,
    registration_id,
    save_registration,
    set_payment_request,
    update_registration,
)
from registration.store.sessions import (
    create_session,
    find_session,
    finish_session,
    load_session,
    save_progress,
)
from registration.store.tasks import NewTask, finish_task, list_tasks, open_task
from registration.store.teams import (
    Squad,
    Team,
    find_holder,
    find_team,
    list_teams,
    reserve_shirt,
    save_team,
    taken_numbers,
)

SQUAD = Squad("2526", "Lions", "u10s")


async def test_progress_is_saved_once_for_each_version(database: Database) -> None:
    await database.transact(lambda tx: create_session(tx, "s", "secret", "new", NOON))
    version = await database.transact(lambda tx: save_progress(tx, "s", '{"step":2}', 0, NOON))
    assert version == 1
    with pytest.raises(ProgressChanged):
        await database.transact(lambda tx: save_progress(tx, "s", '{"step":9}', 0, NOON))
    session = await database.read(lambda tx: load_session(tx, "s"))
    assert session is not None
    assert (session.progress, session.version) == ({"step": 2}, 1)


async def test_of_two_savers_at_once_one_wins(database: Database) -> None:
    await database.transact(lambda tx: create_session(tx, "s", "secret", "new", NOON))
    saves = [
        database.transact(lambda tx, n=n: save_progress(tx, "s", f'{{"step":{n}}}', 0, NOON))
        for n in range(6)
    ]
    outcomes = await asyncio.gather(*saves, return_exceptions=True)
    assert outcomes.count(1) == 1
    assert sum(isinstance(one, ProgressChanged) for one in outcomes) == 5


async def test_a_session_is_found_by_its_own_token_only(database: Database) -> None:
    await database.transact(lambda tx: create_session(tx, "s", "secret", "new", NOON))
    assert await database.read(lambda tx: find_session(tx, "s", "secret"))
    assert await database.read(lambda tx: find_session(tx, "s", "other")) is None
    assert await database.read(lambda tx: find_session(tx, "other", "secret")) is None
    rows = await database.read(lambda tx: tx.execute("SELECT * FROM sessions"))
    assert "secret" not in str(rows)


async def test_a_session_finishes_once(database: Database) -> None:
    await database.transact(lambda tx: create_session(tx, "s", "secret", "new", NOON))
    for later in (1.0, 2.0):
        await database.transact(lambda tx, at=NOON + later: finish_session(tx, "s", at))
    session = await database.read(lambda tx: load_session(tx, "s"))
    assert session is not None
    assert session.finished_at == NOON + 1


async def test_an_effect_has_one_outcome(database: Database) -> None:
    saves = [
        database.transact(lambda tx, n=n: save_effect(tx, "r/payment", {"n": n}, EffectOf("s"), 0))
        for n in range(6)
    ]
    outcomes = await asyncio.gather(*saves)
    assert len({outcome["n"] for outcome in outcomes}) == 1
    assert await database.read(lambda tx: find_effect(tx, "r/payment")) == outcomes[0]
    assert await database.read(lambda tx: find_effect(tx, "r/sms")) is None


async def test_a_player_is_registered_once(database: Database) -> None:
    identifier = await register(database)
    again = new_registration(
        "s2", Player("2526", "Lions", "u10s", "ZEBEDÉE", "Quackenbush ", "03-04-2015")
    )
    assert again.id == identifier
    stored = await database.transact(lambda tx: save_registration(tx, again, NOON))
    assert (stored.id, stored.session_id) == (identifier, "s1")
    rows = await database.read(lambda tx: tx.execute("SELECT * FROM registrations"))
    assert len(rows) == 1


async def test_a_registration_keeps_what_is_written(database: Database) -> None:
    identifier = await register(database)
    await database.transact(
        lambda tx: update_registration(
            tx, identifier, NOON, kit_required=True, kit_size="7/8", conversation=[{"said": "hi"}]
        )
    )
    stored = await database.read(lambda tx: load_registration(tx, identifier))
    assert stored is not None
    assert (stored.kit_required, stored.kit_size, stored.status) == (True, "7/8", "pending_payment")
    assert stored.conversation == [{"said": "hi"}]
    assert stored.signing_fee_paid is False
    with pytest.raises(ValueError, match="no such column: id"):
        await database.transact(lambda tx: update_registration(tx, "r", NOON, id="other"))
    assert await database.transact(lambda tx: update_registration(tx, "r", NOON)) is None


async def test_a_registration_is_found(database: Database) -> None:
    identifier = await register(database)
    found = await database.read(
        lambda tx: [
            find_of_session(tx, "s1"),
            find_by_link(tx, f"link-{identifier}"),
            *find_by_name(tx, "Lions", "zebedee", "QUACKENBUSH"),
        ]
    )
    assert [one and one.id for one in found] == [identifier] * 3
    assert await database.read(lambda tx: find_by_link(tx, "other")) is None
    assert await database.read(lambda tx: find_by_name(tx, "Lions", "Zebe", "")) == []
    rows = await database.read(lambda tx: tx.execute("SELECT * FROM registrations"))
    assert f"link-{identifier}" not in str(rows)


async def test_siblings_have_the_surname_and_the_parents_mobile(database: Database) -> None:
    await register(database)
    await register(database, "s2", player("Dougal"))
    count = await database.read(lambda tx: count_siblings(tx, "2526", "quackenbush", "07700900123"))
    assert count == 2
    other = await database.read(lambda tx: count_siblings(tx, "2526", "quackenbush", "0770"))
    assert other == 0


def test_an_id_follows_from_the_player_and_the_key() -> None:
    assert registration_id(KEY, player()) == registration_id(KEY, player())
    others = {
        registration_id(KEY, player("Dougal")),
        registration_id(KEY, player(team="Tigers")),
        registration_id(b"another key of sixteen bytes", player()),
    }
    assert len(others | {registration_id(KEY, player())}) == 4
    assert normalise_name("  O\u2019Brien-Zoë  ") == normalise_name("obrienZOE")


def test_nothing_personal_is_in_a_repr() -> None:
    shown = repr(new_registration()) + repr(player()) + repr(NewMessage("s", "m", "t", "Zebedee"))
    assert not [text for text in PERSONAL if text in shown]


async def test_of_two_parents_at_once_one_gets_the_shirt(database: Database) -> None:
    ids = [await register(database, f"s{n}", player(f"Child{'abcdef'[n]}")) for n in range(6)]
    asked = [
        database.transact(lambda tx, who=who: reserve_shirt(tx, SQUAD, 7, who, NOON)) for who in ids
    ]
    got = await asyncio.gather(*asked)
    assert got.count(True) == 1
    holder = await database.read(lambda tx: find_holder(tx, SQUAD, 7))
    assert holder == ids[got.index(True)]


async def test_a_player_has_one_number(database: Database) -> None:
    identifier = await register(database)
    other = await register(database, "s2", player("Dougal"))

    def reserve(number: int, who: str = identifier) -> object:
        return database.transact(lambda tx: reserve_shirt(tx, SQUAD, number, who, NOON))

    assert [await reserve(7), await reserve(7), await reserve(9), await reserve(7, other)] == [
        True
    ] * 4
    assert await reserve(7) is False
    assert await database.read(lambda tx: taken_numbers(tx, SQUAD)) == {7, 9}
    stored = await database.read(lambda tx: load_registration(tx, identifier))
    assert stored is not None
    assert stored.shirt_number == 9


async def test_two_players_who_swap_numbers_do_not_block_each_other(database: Database) -> None:
    ids = [await register(database, f"s{n}", player(f"Child{'ab'[n]}")) for n in range(2)]
    for number, who in enumerate(ids, 7):
        await database.transact(
            lambda tx, n=number, who=who: reserve_shirt(tx, SQUAD, n, who, NOON)
        )
    swaps = [
        database.transact(lambda tx, n=number, who=who: reserve_shirt(tx, SQUAD, n, who, NOON))
        for number, who in zip((8, 7), ids, strict=True)
    ]
    assert await asyncio.gather(*swaps) == [False, False]


async def test_a_message_is_answered_once(database: Database) -> None:
    async def send(turn: str) -> tuple[str, bool]:
        new = NewMessage("s", "m", turn, "Zebedee Quackenbush", step=2)
        message, is_new = await database.transact(lambda tx: save_message(tx, new, NOON))
        return message.turn, is_new

    answers = await asyncio.gather(*(send(f"turn-{n}") for n in range(5)))
    assert len({turn for turn, _ in answers}) == 1
    assert sum(is_new for _, is_new in answers) == 1
    for text in ("first", "second"):
        await database.transact(lambda tx, text=text: save_answer(tx, "s", "m", {"response": text}))
    stored = await database.read(lambda tx: find_message(tx, "s", "m"))
    assert stored is not None
    assert stored.answer == {"response": "first"}
    rows = await database.read(lambda tx: tx.execute("SELECT * FROM messages"))
    assert not [text for text in PERSONAL if text in str(rows)]


@pytest.mark.parametrize(
    ("session", "text", "step", "since", "is_found"),
    [
        ("s", " yes ", 2, NOON - 60, True),
        ("s", "yes", 3, NOON - 60, False),
        ("s", "no", 2, NOON - 60, False),
        ("other", "yes", 2, NOON - 60, False),
        ("s", "yes", 2, NOON + 1, False),
    ],
)
async def test_the_same_text_at_the_same_step_is_found(
    database: Database, session: str, text: str, step: int, since: float, *, is_found: bool
) -> None:
    new = NewMessage("s", "m", "t", "yes", step=2)
    await database.transact(lambda tx: save_message(tx, new, NOON))
    found = await database.read(lambda tx: find_same_text(tx, session, text, step, since))
    assert (found is not None) is is_found


async def test_teams_are_stored_and_replaced(database: Database) -> None:
    for kit in (False, True):
        team = Team("2526", "Lions", "u10s", kit, "home", ("coach@example.org",))
        await database.transact(lambda tx, team=team: save_team(tx, team))
    assert await database.read(lambda tx: list_teams(tx, "2526")) == [team]
    assert await database.read(lambda tx: find_team(tx, "2526", "Lions", "u11s")) is None


async def test_a_task_is_opened_once(database: Database) -> None:
    new = NewTask("r/sms", "refused", "The SMS was refused.", "r")
    opened = [await database.transact(lambda tx: open_task(tx, new, NOON)) for _ in range(2)]
    assert opened == [True, False]
    assert [task.key for task in await database.read(list_tasks)] == ["r/sms"]
    done = [await database.transact(lambda tx: finish_task(tx, "r/sms", NOON)) for _ in range(2)]
    assert done == [True, False]
    assert await database.transact(lambda tx: open_task(tx, new, NOON)) is False
    assert await database.read(list_tasks) == []


async def test_chasing_counts_from_the_first_request(database: Database) -> None:
    identifier = await register(database)
    await database.transact(
        lambda tx: set_payment_request(tx, identifier, "BR-1", "link", NOON + 999)
    )
    stored = await database.read(lambda tx: load_registration(tx, identifier))
    assert stored is not None
    assert stored.payment_asked_at == NOON


async def test_the_payment_link_works_before_the_provider_answers(database: Database) -> None:
    new = replace(new_registration(), link_token="of the link")
    await database.transact(lambda tx: save_registration(tx, new, NOON))
    found = await database.read(lambda tx: find_by_link(tx, "of the link"))
    assert found is not None
    assert (found.id, found.billing_request) == (new.id, None)
    rows = await database.read(lambda tx: tx.execute("SELECT * FROM registrations"))
    assert "of the link" not in str(rows)


async def test_a_player_is_corrected_unless_it_is_another_one(database: Database) -> None:
    owner = await register(database)
    await register(database, "s2", player("Dougal"))

    async def correct(first: str, who: str = owner) -> bool:
        return await database.transact(
            lambda tx: correct_player(
                tx, who, first=first, last="Quackenbush", born="03-04-2015", now=NOON
            )
        )

    assert await correct("Zeb")
    assert not await correct("dougal")
    assert not await correct("Zeb", "nobody")
    stored = await database.read(lambda tx: load_registration(tx, owner))
    assert stored is not None
    assert stored.answers["child_name"] == {"first": "Zeb", "last": "Quackenbush"}
    assert await database.read(lambda tx: find_by_name(tx, "Lions", "Zeb", "Quackenbush"))


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "'; DROP TABLE sessions; --", "%s ? {}", ""])
async def test_ids_of_any_characters_are_only_unknown(database: Database, text: str) -> None:
    assert await database.read(lambda tx: find_session(tx, text, text)) is None
    assert await database.read(lambda tx: find_by_link(tx, text)) is None
    assert await database.read(lambda tx: load_registration(tx, text)) is None
    new = NewMessage(text, text, "turn", text)
    saved, is_new = await database.transact(lambda tx: save_message(tx, new, NOON))
    assert (saved.turn, is_new) == ("turn", True)
