"""The connection of a process to a NATS server, which is made again for ever, and the live link over it.

One connection serves the engine and the live link, where messages are subjects, and acts stay in the
journal. While NATS is down, messages go by the link of the journal, which hears all the time. The link
counts as down then, so that readers look into the journal: another process may still be connected to
NATS, and its messages are missed. Errors show no password. This module must never raise an error of the
client, or keep a message.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from holdfast.core.errors import ConfigurationError
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.live_link import DriverAct, LiveLink

T = TypeVar("T")
NAME = "nats"
SECONDS_TO_CONNECT = 4.0
_SECONDS_TO_ANSWER = 5.0
_SECONDS_BETWEEN_TRIES = 0.25
_SECONDS_BETWEEN_PINGS = 5
_SCHEMES = ("nats", "tls", "ws", "wss")
_SPACE = re.compile(r"[A-Za-z0-9_-]{1,32}")
_log = logging.getLogger("holdfast.worker")

FAILURES = (nats.errors.Error, OSError, TimeoutError)
"""The errors of the client when the server is gone or refuses."""

_SECONDS_BETWEEN_SUBSCRIPTIONS = 1.0


class ApiError(Exception):
    """JetStream refused a request; `code` is that of HTTP."""

    def __init__(self, code: int, description: str) -> None:
        super().__init__(description)
        self.code = code


class NatsAddress:
    """The address of one server, or of the servers of a cluster.

    Args:
        url: `nats://user:password@host:4222,nats://other:4222/space`; `tls://`, `ws://` and `wss://`
            as well. The last part, which may be missing, names the space of the subjects; two journals
            must not share one.

    Raises:
        ConfigurationError: the address is invalid. The message does not contain it.

    >>> NatsAddress("nats://ada:secret@broker,nats://two:4333/staging")
    NatsAddress('nats://broker:4222,nats://two:4333/staging')
    """

    def __init__(self, url: str) -> None:
        parts = [_split_server(part) for part in url.split(",")]
        spaces = [part.path.strip("/") for part in parts]
        self.space = spaces[-1]
        if any(spaces[:-1]) or (self.space and not _SPACE.fullmatch(self.space)):
            raise _invalid_address()
        self.servers = [part._replace(path="").geturl() for part in parts]
        hosts = ",".join(f"{part.scheme}://{part.hostname}:{part.port or 4222}" for part in parts)
        self.location = hosts + (f"/{self.space}" if self.space else "")

    def __repr__(self) -> str:
        return f"NatsAddress({self.location!r})"


def _split_server(text: str) -> SplitResult:
    try:
        parts = urlsplit(text.strip())
        is_valid = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        raise _invalid_address() from None
    if not is_valid or parts.query or parts.fragment or "@" in parts.path:
        raise _invalid_address()
    return parts


def _invalid_address() -> ConfigurationError:
    return ConfigurationError(
        "engine",
        "is not an address of a NATS server",
        fix="Write nats://user@host:4222 or nats://host:4222/space, where the space has letters, "
        "digits, hyphens and underscores; percent-encode special characters in a password",
    )


class NatsConnection:
    """The connection; it belongs to the event loop that opened it.

    Args:
        address: the address of the server.
    """

    def __init__(self, address: NatsAddress) -> None:
        self.address = address
        self.listeners: set[Callable[[bool], None]] = set()
        """Are called on the event loop when the connection is made or lost."""
        self._client: Client | None = None
        self._last_problem = ""
        self._opening = asyncio.Lock()
        self._lost = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether there is a connection now."""
        return self._client is not None and self._client.is_connected and not self._lost.is_set()

    async def open(self) -> Client:
        """Return the client; connect if there is none, or if the server has ended it for good.

        Raises:
            EngineError: no server can be reached.
        """
        async with self._opening:
            if self._client is not None and not self._client.is_closed:
                return self._client
            client = Client()
            try:
                await self._connect_in_time(client)
            except FAILURES as error:
                failure = self.to_engine_error(error)
            else:
                self._client = client
                self._lost.clear()
                self._note_state(True)
                return client
            await _close(client)
            raise failure

    async def _connect_in_time(self, client: Client) -> None:
        """Connect, or raise TimeoutError.

        The client tries without end, and waits by `asyncio.wait_for`. Before Python 3.12 this swallows a
        cancellation that comes when a try has just failed, so it is cancelled until it ends.
        """
        task = asyncio.create_task(self._connect(client), name="holdfast-nats-connect")
        try:
            await asyncio.wait([task], timeout=SECONDS_TO_CONNECT)
        finally:
            while not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=_SECONDS_BETWEEN_TRIES)
        if task.cancelled():
            raise TimeoutError
        task.result()

    async def _connect(self, client: Client) -> None:
        await client.connect(
            servers=self.address.servers,
            name="holdfast",
            connect_timeout=2,
            reconnect_time_wait=_SECONDS_BETWEEN_TRIES,  # type: ignore[arg-type]  # REASON: seconds
            max_reconnect_attempts=-1,
            ping_interval=_SECONDS_BETWEEN_PINGS,
            max_outstanding_pings=2,
            error_cb=self._note_error,
            disconnected_cb=self._note_lost,
            reconnected_cb=self._note_made,
        )

    async def _note_error(self, error: Exception) -> None:
        if str(error):
            self._last_problem = type(error).__name__
        _log.info("nats %s: %s", self.address.location, type(error).__name__)

    async def _note_lost(self) -> None:
        _log.warning("nats %s: the connection is lost", self.address.location)
        self._lost.set()
        self._note_state(False)

    async def _note_made(self) -> None:
        _log.warning("nats %s: the connection is made again", self.address.location)
        self._lost.clear()
        self._note_state(True)

    def to_engine_error(self, error: Exception) -> EngineError:
        """Translate a failure. Raise it outside the `except` block; it holds no password."""
        name = type(error).__name__
        if isinstance(error, TimeoutError) and self._last_problem:
            name = self._last_problem
        problem = f"{self.address.location} cannot be reached: {name}"
        if isinstance(error, ApiError | nats.js.errors.APIError):
            problem = f"{self.address.location} refuses: {error}"
        return EngineError(NAME, problem, fix="Start it with JetStream, or check the address")

    def _note_state(self, is_up: bool) -> None:  # REASON: a callback
        for listener in tuple(self.listeners):
            listener(is_up)

    async def perform(self, work: Callable[[Client], Coroutine[object, object, T]]) -> T:
        """Do something with the client. Raises EngineError, at once when the connection is lost."""
        client = await self.open()
        if not client.is_connected:
            raise self._not_connected_error()
        doing = asyncio.ensure_future(work(client))
        losing = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait({doing, losing}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                raise self._not_connected_error()
            return doing.result()
        except (*FAILURES, ApiError) as error:
            failure = self.to_engine_error(error)
        finally:
            losing.cancel()
            doing.cancel()
        raise failure

    def _not_connected_error(self) -> EngineError:
        problem = f"{self.address.location} is not connected now"
        return EngineError(NAME, problem, fix="It is tried again for ever")

    async def close(self) -> None:
        """Close the connection. A second call does nothing."""
        client, self._client = self._client, None
        if client is not None:
            await _close(client)


async def _close(client: Client) -> None:
    with suppress(*FAILURES):
        await client.close()


async def call_api(client: Client, name: str, body: Mapping[str, object]) -> dict[str, object]:
    """Send a request to JetStream and return its response.

    Raises:
        ApiError: it refused.
        nats.errors.Error: it does not answer.
    """
    data = json.dumps(body).encode()
    response = await client.request(f"$JS.API.{name}", data, timeout=_SECONDS_TO_ANSWER)
    content: dict[str, object] = json.loads(response.data)
    error = content.get("error")
    if isinstance(error, dict):
        raise ApiError(int(error.get("code", 500)), str(error.get("description", "")))
    return content


class NatsLink:
    """The link of this process; see `holdfast.journal.live_link.LiveLink`. Make it on the event loop.

    Args:
        connection: the connection of the engine.
        subject: the subject of all messages.
        journal_link: the link of the journal, for acts, and for messages while NATS is down.
        receive: called with each message.
        changed: called when the link is up or down.
    """

    def __init__(
        self,
        connection: NatsConnection,
        subject: str,
        journal_link: LiveLink,
        receive: Callable[[str], None],
        changed: Callable[[bool], None],
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._journal_link = journal_link
        self._receive = receive
        self._changed = changed
        self._client: Client | None = None
        self._subscription: Subscription | None = None
        self._is_closed = False
        self._was_up = False
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        connection.listeners.add(self._note_state)
        self._begin(self._subscribe())

    @property
    def is_up(self) -> bool:
        """Whether messages of other processes arrive over NATS."""
        return self._client is not None and self._connection.is_up and not self._is_closed

    async def send(self, messages: Sequence[str]) -> None:
        """Send messages to all processes, in order, also to this one."""
        if self.is_up and self._client is not None:
            try:
                for message in messages:
                    await self._client.publish(self._subject, message.encode())
            except FAILURES:
                pass
            else:
                return
        await self._journal_link.send(messages)

    async def add_act(self, tenant: str, act: DriverAct) -> None:
        """Save an act for the driver of a run."""
        await self._journal_link.add_act(tenant, act)

    async def find_acts(self, tenant: str, sessions: Sequence[str]) -> Sequence[DriverAct]:
        """Return the acts for these runs that have no result yet."""
        return await self._journal_link.find_acts(tenant, sessions)

    async def finish_act(self, act_id: str, result: str) -> None:
        """Save the result of an act."""
        await self._journal_link.finish_act(act_id, result)

    async def take_result(self, act_id: str) -> str | None:
        """Return the result of an act, and forget the act; None if it has no result yet."""
        return await self._journal_link.take_result(act_id)

    async def forget_act(self, act_id: str) -> None:
        """Forget an act that nobody has to perform any more."""
        await self._journal_link.forget_act(act_id)

    @property
    def process(self) -> str:
        """The name of this process, by which others ask whether it has ended."""
        return self._journal_link.process

    async def find_ended(self, processes: Collection[str]) -> Collection[str]:
        """Return those of some processes that have ended or have lost the journal."""
        return await self._journal_link.find_ended(processes)

    def close(self) -> None:
        """Receive no more messages."""
        if self._is_closed:
            return
        self._is_closed = True
        self._connection.listeners.discard(self._note_state)
        self._journal_link.close()
        for task in self._tasks:
            task.cancel()
        if self._subscription is not None and not self._loop.is_closed():
            self._begin(_unsubscribe(self._subscription))

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _subscribe(self) -> None:
        """Subscribe until it succeeds. The client subscribes again by itself when it connects again."""
        while True:
            try:
                client = await self._connection.open()
                if client is not self._client:
                    self._subscription = await client.subscribe(self._subject, cb=self._hear)
                    await client.flush()
                    self._client = client
            except (*FAILURES, EngineError):
                await asyncio.sleep(_SECONDS_BETWEEN_SUBSCRIPTIONS)
            else:
                return self._report_state()

    async def _hear(self, message: Msg) -> None:
        with suppress(UnicodeDecodeError):
            self._receive(message.data.decode())

    def _note_state(self, is_up: bool) -> None:  # REASON: a callback
        if is_up and (self._client is None or self._client.is_closed):
            self._begin(self._subscribe())
        else:
            self._report_state()

    def _report_state(self) -> None:
        if self.is_up is not self._was_up:
            self._was_up = self.is_up
            self._changed(self.is_up)


async def _unsubscribe(subscription: Subscription) -> None:
    with suppress(*FAILURES):
        await subscription.unsubscribe()
