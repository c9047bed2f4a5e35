"""A club to talk to: emulated providers and model, a database and a journal in a folder."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast import Agent
from holdfast.resilience import CallMetrics
from holdfast.testing import Emulator
from registration.emulators.emulated_providers import EmulatedProviders, run_emulators
from registration.emulators.faults import Faults
from registration.emulators.model import choose_reply
from registration.flow.agents import NEW, ModelChoice, make_agents
from registration.flow.conversations import Conversation, load_conversation
from registration.flow.model_calls import ModelCalls
from registration.flow.parts import Counts, Parts
from registration.providers.address_book import AddressBook
from registration.providers.messages import Mailer, SmsProvider
from registration.providers.payments import PaymentProvider
from registration.settings import read_settings
from registration.store import Database, open_database
from registration.store.sessions import create_session
from registration.store.teams import Team, save_team

SESSION = "s1"
KEYS = {"REGISTRATION_ADMIN_KEY": "a" * 32, "REGISTRATION_LINK_SECRET": "b" * 32}
TEAMS = (
    Team("2526", "Lions", "u10s", kit_needed=True),
    Team("2526", "Tigers", "u16s", kit_needed=False),
)


async def no_wait(_seconds: float) -> None:
    """Wait not at all."""


class Club:
    """A parent's view of the club.

    Args:
        parts: what the conversations work with.
        agents: the agents by name.
        model: the emulated model.
        providers: the emulated providers.
    """

    def __init__(
        self,
        parts: Parts,
        agents: dict[str, Agent[Any]],
        model: Emulator,
        providers: EmulatedProviders,
    ) -> None:
        self.parts = parts
        self.agents = agents
        self.model = model
        self.providers = providers

    @property
    def database(self) -> Database:
        return self.parts.database

    async def say(self, text: str, agent: str = NEW) -> str:
        """Send a message; return the reply."""
        result = await self.agents[agent].run(text, session=SESSION)
        return str(result.output.agent_final_response)

    async def say_all(self, *texts: str) -> str:
        """Send messages; return the last reply."""
        reply = ""
        for text in texts:
            reply = await self.say(text)
        return reply

    async def conversation(self) -> Conversation:
        return await load_conversation(self.database, SESSION)

    async def step(self) -> int:
        progress = (await self.conversation()).progress
        assert progress is not None
        return progress.step


@asynccontextmanager
async def open_club(
    folder: Path,
    *,
    replies: Any = choose_reply,
    faults: Any = (),
    provider_faults: dict[str, Faults] | None = None,
) -> AsyncIterator[Club]:
    """Open a club in a folder; a second one in the same folder goes on where the first one ended."""
    async with AsyncExitStack() as stack:
        providers = await stack.enter_async_context(
            run_emulators(folder / "providers", faults=provider_faults)
        )
        settings = read_settings({**providers.environment, **KEYS})
        database = await open_database(f"sqlite:///{folder}/club.db")
        stack.push_async_callback(database.close)
        model = stack.enter_context(Emulator(replies, faults=faults))

        def prepare(tx: Any) -> None:
            for team in TEAMS:
                save_team(tx, team)
            if not tx.execute("SELECT id FROM sessions"):
                create_session(tx, SESSION, "token", NEW, time.time())

        await database.transact(prepare)
        clients: dict[str, Any] = {
            "payments": PaymentProvider(settings.payments),
            "sms": SmsProvider(settings.sms),
            "mail": Mailer(settings.mail),
            "addresses": AddressBook(settings.addresses),
        }
        for client in clients.values():
            stack.push_async_callback(client.close)
        parts = Parts(
            settings=settings,
            database=database,
            calls=ModelCalls(CallMetrics(), sleep=no_wait),
            counts=Counts(),
            now=time.time,
            **clients,
        )
        choice = ModelChoice(name="openai:gpt-4.1", base_url=model.base_url, api_key="key")
        agents = make_agents(parts, choice, f"sqlite:///{folder}/talk.db")
        for agent in agents.values():
            await stack.enter_async_context(agent)
        yield Club(parts, agents, model, providers)
