"""The delivery of jobs from JetStream: one run of the NATS engine.

Jobs are asked for only while there is room for them, so that no job waits in a process that is busy.
Each job in progress is confirmed regularly, also while the run stops. A handler must never be
cancelled here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import TypeAlias

from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from holdfast.journal.inbox.dispatch_engine import HandleJob
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.worker.engines.handler_waits import await_handlers
from holdfast.worker.engines.nats_connection import FAILURES, ApiError, NatsConnection
from holdfast.worker.engines.nats_stream import JobStream
from holdfast.worker.engines.queue_names import redelivery_delay

_SECONDS_BETWEEN_POLLS = 1.0
_SECONDS_TO_ANSWER = 2.0
_MOST_AT_ONCE = 16
"""The number of jobs that are asked for at once; their slots are taken meanwhile."""

_SECONDS_BETWEEN_LOOKS = 15.0
"""Seconds after which it is looked again whether the stream and its consumers fit together."""

_log = logging.getLogger("holdfast.worker")

_Key: TypeAlias = tuple[str, int]


class _Pull:
    """A request for jobs that waits for its messages."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.messages: list[Msg] = []
        self.status = ""
        self.is_over = asyncio.Event()

    def add(self, message: Msg) -> bool:
        """Take a message; False if the request has all that it asked for, or is over."""
        if self.is_over.is_set():
            return False
        status = (message.headers or {}).get("Status")
        if status is not None:
            self.status = status
        else:
            self.messages.append(message)
        if status is not None or len(self.messages) == self.wanted:
            self.is_over.set()
        return True


class NatsDeliverySettings(Struct, frozen=True):
    """What a run delivers.

    Args:
        queues: the names of the queues.
        slots: bounds the number of jobs at once.
        stall: seconds without a sign of life after which a job is delivered to another worker.
    """

    queues: Sequence[str]
    slots: JobSlots
    stall: float


class NatsDelivery:
    """Delivers jobs until its task is cancelled.

    Args:
        connection: the connection.
        stream: the stream of the jobs.
        handle: does a job.
        settings: what to deliver.
    """

    def __init__(
        self,
        connection: NatsConnection,
        stream: JobStream,
        handle: HandleJob,
        settings: NatsDeliverySettings,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._handle = handle
        self._settings = settings
        self._queues = list(settings.queues)
        # By subject and number: a stream that was lost begins again with the first number.
        self._running: dict[_Key, Msg] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._pull: _Pull | None = None
        self._client: Client | None = None
        self._consumers: dict[str, str] = {}
        self._looked_at = 0.0
        self._inbox = ""
        self._subscriptions: list[Subscription] = []

    async def run(self) -> None:
        """Deliver jobs; a lost connection is waited for."""
        signs = asyncio.create_task(self._confirm_regularly(), name="holdfast-engine-signs")
        try:
            while True:
                self._wake.clear()
                try:
                    found = await self._take_jobs()
                except (*FAILURES, ApiError, EngineError) as error:
                    self._consumers.clear()
                    found = False
                    _log.info("engine nats begins again: %s", type(error).__name__)
                if not found:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_SECONDS_BETWEEN_POLLS):
                            await self._wake.wait()
        finally:
            await await_handlers(self._tasks)
            signs.cancel()
            await asyncio.wait([signs])
            await self._unsubscribe()

    async def _take_jobs(self) -> bool:
        """Begin as many jobs as there is room for; return whether there may be more."""
        client = await self._connection.open()
        if client is not self._client:
            await self._subscribe(client)
        now = monotonic()
        if not self._consumers or now - self._looked_at >= _SECONDS_BETWEEN_LOOKS:
            self._looked_at = now
            await self._stream.create(client)
            for queue in self._queues:
                self._consumers[queue] = await self._stream.create_consumer(client, queue)
        found = False
        for queue in list(self._queues):
            for message in await self._request_jobs(client, self._consumers[queue]):
                found = True
                self._begin(message)
            # The next queue comes first next time, so that none waits for a busy one for ever.
            self._queues.append(self._queues.pop(0))
        return found

    async def _request_jobs(self, client: Client, consumer: str) -> list[Msg]:
        """Return jobs, each with a slot that is taken for it."""
        slots = self._settings.slots
        await slots.acquire()
        room = 1 + slots.take(_MOST_AT_ONCE - 1)
        messages: list[Msg] = []
        try:
            messages = await self._pull_jobs(client, consumer, room)
        finally:
            slots.release(room - len(messages))
        return messages

    async def _pull_jobs(self, client: Client, consumer: str, room: int) -> list[Msg]:
        pull = self._pull = _Pull(room)
        try:
            await client.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._stream.name}.{consumer}",
                json.dumps({"batch": room, "no_wait": True}).encode(),
                reply=self._inbox,
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(_SECONDS_TO_ANSWER):
                    await pull.is_over.wait()
        finally:
            pull.is_over.set()  # what comes later is given back
            self._pull = None
            if self._is_cancelled():
                await self._give_back(pull.messages)
        if not pull.messages and pull.status not in ("404", "408"):
            self._consumers.clear()  # no answer, or none from the consumer: it may be gone
        return pull.messages

    @staticmethod
    def _is_cancelled() -> bool:
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def _give_back(self, messages: Sequence[Msg]) -> None:
        for message in messages:
            with suppress(*FAILURES):
                await message.nak()

    async def _subscribe(self, client: Client) -> None:
        self._client = client
        self._consumers.clear()
        self._inbox = client.new_inbox()
        self._subscriptions = [await client.subscribe(self._inbox, cb=self._receive)]
        for queue in self._settings.queues:
            subject = self._stream.get_wake_subject(queue)
            self._subscriptions.append(await client.subscribe(subject, cb=self._hear_wake))

    async def _unsubscribe(self) -> None:
        for subscription in self._subscriptions:
            with suppress(*FAILURES):
                await subscription.unsubscribe()

    async def _receive(self, message: Msg) -> None:
        is_job = "Status" not in (message.headers or {})
        if (self._pull is None or not self._pull.add(message)) and is_job:
            await self._give_back([message])

    async def _hear_wake(self, _message: Msg) -> None:
        self._wake.set()

    def _begin(self, message: Msg) -> None:
        key = message.subject, message.metadata.sequence.stream
        is_running = key in self._running
        # The server was away for so long that it delivers again what is being done here.
        self._running[key] = message
        if is_running:
            self._settings.slots.release()
        else:
            task = asyncio.create_task(self._carry(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, key: _Key) -> None:
        entry = self._stream.read_id(key[0])
        problem = "it was cancelled"
        try:
            await self._handle(entry)
            problem = ""
        except asyncio.CancelledError:
            pass
        except Exception as error:  # noqa: BLE001  # REASON: it is delivered again whatever it was
            problem = type(error).__name__
        message = self._running.pop(key)
        self._settings.slots.release()
        # A receipt that is lost lets the job come again, which does nothing.
        with suppress(*FAILURES):
            if not problem:
                await message.ack()
                return
            _log.warning("job %d is delivered again: %s", entry, problem)
            await message.nak(redelivery_delay(message.metadata.num_delivered))

    async def _confirm_regularly(self) -> None:
        """Tell the server of all jobs in progress, so that none is delivered to another worker."""
        while True:
            await asyncio.sleep(self._settings.stall / 3)
            for message in list(self._running.values()):
                with suppress(*FAILURES):
                    await message.in_progress()
