"""The live link over NATS: messages are subjects, and acts stay in the journal.

While NATS is down, messages go by the link of the journal, which hears all the time. The link counts
as down then, so that readers look into the journal: another process may still be connected to NATS, and
its messages are missed. This module must never keep a message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.live_link import DriverAct, LiveLink
from holdfast.worker.engines.nats_connection import FAILURES, NatsConnection

_SECONDS_BETWEEN_TRIES = 1.0


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
        """Save what came of an act."""
        await self._journal_link.finish_act(act_id, result)

    async def take_result(self, act_id: str) -> str | None:
        """Return what came of an act, and forget the act; None if it has no result yet."""
        return await self._journal_link.take_result(act_id)

    async def forget_act(self, act_id: str) -> None:
        """Forget an act that nobody has to perform any more."""
        await self._journal_link.forget_act(act_id)

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
                await asyncio.sleep(_SECONDS_BETWEEN_TRIES)
            else:
                return self._tell_state()

    async def _hear(self, message: Msg) -> None:
        with suppress(UnicodeDecodeError):
            self._receive(message.data.decode())

    def _note_state(self, is_up: bool) -> None:  # REASON: a callback
        if is_up and (self._client is None or self._client.is_closed):
            self._begin(self._subscribe())
        else:
            self._tell_state()

    def _tell_state(self) -> None:
        if self.is_up is not self._was_up:
            self._was_up = self.is_up
            self._changed(self.is_up)


async def _unsubscribe(subscription: Subscription) -> None:
    with suppress(*FAILURES):
        await subscription.unsubscribe()
