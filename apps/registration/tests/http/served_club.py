"""The whole service over real HTTP on loopback, with emulated parties outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
from apps.registration.tests.flow.chat_club import KEYS, TEAMS
from msgspec import Struct

from holdfast.testing import Emulator
from registration.emulators.courier import WebhookPlan
from registration.emulators.emulated_providers import EmulatedProviders, run_emulators
from registration.emulators.faults import Faults
from registration.emulators.model import choose_reply
from registration.emulators.serving import serve
from registration.http.app import create_app
from registration.http.running import REAL_TIME, Time
from registration.settings import read_settings
from registration.store import Database, open_database
from registration.store.teams import save_team


class HeldAnswer(Faults):
    """The first request is done, and its answer is held until the test lets it go."""

    def __init__(self) -> None:
        super().__init__(["late"])
        self.has_come, self.may_go = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        """Wait for the test."""
        self.has_come.set()
        await self.may_go.wait()


class Reply(Struct, frozen=True):
    """A response."""

    status: int
    json: Any
    headers: Mapping[str, str]


class Served:
    """A client of the service, with the session of one parent.

    Args:
        http: sends the requests.
        address: of the service.
        model: the emulated model.
        providers: the other emulated parties.
        database: the database of the service.
    """

    def __init__(
        self,
        http: aiohttp.ClientSession,
        address: str,
        model: Emulator,
        providers: EmulatedProviders,
        database: Database,
    ) -> None:
        self.database = database
        self.http = http
        self.address = address
        self.model = model
        self.providers = providers
        self.session = ""
        self.token = ""

    async def call(self, method: str, path: str, body: object = None, **headers: str) -> Reply:
        """Send a request with the token of the session."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            named.setdefault("Authorization", f"Bearer {self.token}")
        url = self.address + path
        async with self.http.request(method, url, json=body, headers=named) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return Reply(
                response.status, await response.json() if is_json else text, response.headers
            )

    async def begin(self) -> None:
        """Begin a conversation."""
        begun = await self.call("POST", "/sessions", {})
        assert begun.status == 201, begun.json
        self.session, self.token = begun.json["session_id"], begun.json["token"]

    async def say(self, text: str, **body: object) -> Reply:
        """Send a message."""
        message = {"user_message": text, "session_id": self.session, **body}
        return await self.call("POST", "/chat", message)

    async def send_photo(
        self, data: bytes, path: str = "/upload_photo", message_id: str | None = None
    ) -> Reply:
        """Send a photo, and nothing else of a form than what is needed."""
        form = aiohttp.FormData({"session_id": self.session})
        if message_id is not None:
            form.add_field("message_id", message_id)
        form.add_field("file", BytesIO(data), filename="../me.txt", content_type="text/plain")
        return await self.send_form(form, path)

    async def send_form(self, form: object, path: str = "/upload_photo") -> Reply:
        """Send a form with the token of the session."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        async with self.http.post(self.address + path, data=form, headers=headers) as response:
            return Reply(response.status, await response.json(), response.headers)

    async def follow_photo(self) -> Any:
        """Ask for the state of the photo until it is complete; return the last answer."""
        while True:
            told = (await self.call("GET", f"/upload-status/{self.session}")).json
            if told["complete"]:
                return told
            await asyncio.sleep(0.05)

    async def say_all(self, *texts: str) -> Reply:
        """Send messages, each of which must be answered; return the last reply."""
        reply = await self.say(texts[0])
        for text in texts[1:]:
            assert reply.status == 200, reply.json
            reply = await self.say(text)
        return reply


@asynccontextmanager
async def serve_club(
    folder: Path,
    *,
    replies: Any = choose_reply,
    faults: Any = (),
    provider_faults: dict[str, Faults] | None = None,
    plan: WebhookPlan | None = None,
    clock: Time = REAL_TIME,
    **settings: str,
) -> AsyncIterator[Served]:
    """Serve a club from a folder; a second one in the same folder goes on where the first one ended.

    Webhooks arrive, as `plan` says. Settings are given by name: `database` for another one than a
    file in the folder.
    """
    async with AsyncExitStack() as stack:
        providers = await stack.enter_async_context(
            run_emulators(folder / "providers", faults=provider_faults, plan=plan, now=clock.now)
        )
        model = stack.enter_context(Emulator(replies, faults=faults))
        given = {
            "REGISTRATION_DATABASE": f"sqlite:///{folder}/club.db",
            "REGISTRATION_JOURNAL": f"sqlite:///{folder}/talk.db",
            "REGISTRATION_PHOTO_FOLDER": str(folder / "photos"),
            "REGISTRATION_MODEL_ADDRESS": model.base_url,
            "REGISTRATION_MODEL_KEY": "key",
            "REGISTRATION_REQUESTS_PER_WINDOW": "1000",
            **{f"REGISTRATION_{name.upper()}": value for name, value in settings.items()},
        }
        read = read_settings({**providers.environment, **KEYS, **given})
        opened = await open_database(read.database.reveal())
        stack.push_async_callback(opened.close)
        for team in TEAMS:
            await opened.transact(lambda tx, one=team: save_team(tx, one))
        app = create_app(read, clock)
        address = await stack.enter_async_context(serve(app))
        providers.payments.send_webhooks_to(f"{address}/webhooks/payments")
        http = await stack.enter_async_context(aiohttp.ClientSession())
        served = Served(http, address, model, providers, opened)
        await served.begin()
        yield served
