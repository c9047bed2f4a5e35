"""The stream of jobs in JetStream: how it is made, filled and searched, and how its jobs are delivered.

A job is a message without content. Its subject has the number of the entry and the queue, so that the
stream can be asked for an entry; a message stays in the stream until its job is over. A message must
never be refused as a duplicate of one that is gone.

Jobs are asked for only while there is room for them, so that no job waits in a process that is busy.
Each job in progress is confirmed regularly, also while the run stops. A handler must never be
cancelled here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TypeAlias

from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.errors import NoStreamResponseError

from holdfast.journal.inbox.dispatch_engine import HandleJob, Job
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.worker.engines.handler_waits import await_handlers
from holdfast.worker.engines.nats_connection import FAILURES, ApiError, NatsConnection, call_api
from holdfast.worker.engines.queue_names import encode_queue, redelivery_delay

_MOST_AT_ONCE = 200
_TRIES = 3
_NOT_FOUND = 404
_CONFLICT = 400
_NANOSECONDS = 1_000_000_000

_SECONDS_OF_MEMORY = 60
"""For how long JetStream recognizes a message that was sent again since its receipt was lost."""

_SECONDS_BETWEEN_POLLS = 1.0
_SECONDS_TO_ANSWER = 2.0

_MOST_FETCHED = 16
"""The number of jobs that are asked for at once; their slots are taken meanwhile."""

_SECONDS_BETWEEN_LOOKS = 15.0
"""Seconds after which it is looked again whether the stream and its consumers fit together."""

_log = logging.getLogger("holdfast.worker")
_Key: TypeAlias = tuple[str, int]


class JobStream:
    """The stream of one journal.

    Args:
        space: names the journal, as a part of a subject.
        stall: seconds without a sign of life after which a job is delivered to another worker.
    """

    def __init__(self, space: str, stall: float) -> None:
        self.name = f"holdfast-{space}"
        self.live_subject = f"holdfast.{space}.live"
        """The subject of the messages of a live link, which are not kept."""
        self._jobs = f"holdfast.{space}.jobs"
        self._wakes = f"holdfast.{space}.wakes"
        self._stall = stall

    def get_subject(self, job: Job) -> str:
        """Return the subject of a job."""
        return f"{self._jobs}.{job.id}.{encode_queue(job.queue)}"

    def get_wake_subject(self, queue: str) -> str:
        """Return the subject on which workers hear that a queue has a new job."""
        return f"{self._wakes}.{encode_queue(queue)}"

    @staticmethod
    def read_id(subject: str) -> int:
        """Return the number of the entry in a subject of `get_subject`."""
        return int(subject.split(".")[-2])

    async def create(self, client: Client) -> None:
        """Create the stream, unless it is there; its settings may have been changed."""
        config = {
            "name": self.name,
            "subjects": [f"{self._jobs}.>"],
            "retention": "workqueue",
            "storage": "file",
            "discard": "new",
            "max_consumers": -1,
            "max_msgs": -1,
            "max_bytes": -1,
            "num_replicas": 1,
            "duplicate_window": _SECONDS_OF_MEMORY * _NANOSECONDS,
        }
        try:
            await call_api(client, f"STREAM.CREATE.{self.name}", config)
        except ApiError as error:
            if error.code != _CONFLICT:
                raise
            # Somebody gave it other settings, such as replicas: they stay.
            await call_api(client, f"STREAM.INFO.{self.name}", {})

    async def create_consumer(self, client: Client, queue: str) -> str:
        """Create the consumer of a queue, unless it is there; return its name."""
        name = encode_queue(queue)
        config = {
            "durable_name": name,
            "filter_subject": f"{self._jobs}.*.{name}",
            "ack_policy": "explicit",
            "deliver_policy": "all",
            "ack_wait": int(self._stall * _NANOSECONDS),
            "max_deliver": -1,
            "max_ack_pending": -1,
        }
        body = {"stream_name": self.name, "config": config}
        place = f"CONSUMER.DURABLE.CREATE.{self.name}.{name}"
        consumer = await call_api(client, place, body)
        if _read_number(consumer, "delivered", "stream_seq"):
            stream = await call_api(client, f"STREAM.INFO.{self.name}", {})
            if _is_ahead(consumer, stream):
                await call_api(client, f"CONSUMER.DELETE.{self.name}.{name}", {})
                await call_api(client, place, body)
        return name

    async def put(self, client: Client, jobs: Sequence[Job]) -> None:
        """Put jobs, and wake the workers of their queues; return when the server has stored all."""
        for first in range(0, len(jobs), _MOST_AT_ONCE):
            some = jobs[first : first + _MOST_AT_ONCE]
            try:
                await self._put_some(client, some)
            except NoStreamResponseError:
                # The server has lost the stream, with all that it held.
                await self.create(client)
                await self._put_some(client, some)
            except TimeoutError:
                await self._replace(client)
                await self._put_some(client, some)
        for queue in {job.queue for job in jobs}:
            await client.publish(self.get_wake_subject(queue))

    async def _replace(self, client: Client) -> None:
        """Make the stream anew if the server answers and stores nothing: its files were damaged or deleted.

        Raises:
            TimeoutError: the server does not answer.
        """
        await call_api(client, f"STREAM.INFO.{self.name}", {})
        with suppress(ApiError):  # another worker has deleted it
            await call_api(client, f"STREAM.DELETE.{self.name}", {})
        await self.create(client)

    async def _put_some(self, client: Client, jobs: Sequence[Job]) -> None:
        await asyncio.gather(*(self._put_one(client, job) for job in jobs))

    async def _put_one(self, client: Client, job: Job) -> None:
        # New for each put: one that is put again must not be taken for the one that was lost.
        headers = {"Nats-Msg-Id": f"{job.id}.{secrets.token_hex(8)}"}
        js = client.jetstream(timeout=2.0)
        for left in reversed(range(_TRIES)):
            try:
                await js.publish(self.get_subject(job), headers=dict(headers))
            except TimeoutError:
                if not left:
                    raise
            else:
                return

    async def find_ids(self, client: Client) -> set[int]:
        """Return the numbers of all entries that have a job."""
        found: set[int] = set()
        seen = 0
        with suppress(_StreamIsGoneError):
            while subjects := await self._list_subjects(client, seen):
                seen += len(subjects)
                found.update(map(self.read_id, subjects))
        return found

    async def _list_subjects(self, client: Client, offset: int) -> list[str]:
        body = {"subjects_filter": f"{self._jobs}.>", "offset": offset}
        try:
            content = await call_api(client, f"STREAM.INFO.{self.name}", body)
        except ApiError as error:
            if error.code == _NOT_FOUND:
                raise _StreamIsGoneError from None
            raise
        state = content.get("state")
        subjects = state.get("subjects") if isinstance(state, dict) else None
        return list(subjects) if isinstance(subjects, dict) else []


def _is_ahead(consumer: Mapping[str, object], stream: Mapping[str, object]) -> bool:
    """Whether a consumer has delivered more than its stream has had: the stream was made anew meanwhile.

    >>> _is_ahead({"delivered": {"stream_seq": 758}}, {"state": {"last_seq": 25}})
    True
    """
    delivered = _read_number(consumer, "delivered", "stream_seq")
    return delivered > _read_number(stream, "state", "last_seq")


def _read_number(content: Mapping[str, object], part: str, name: str) -> int:
    found = content.get(part)
    number = found.get(name) if isinstance(found, dict) else None
    return number if isinstance(number, int) else 0


class _StreamIsGoneError(Exception):
    """There is no stream, and so no job."""


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
    """The settings of a delivery.

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
        settings: its queues, slots and handler.
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
        room = 1 + slots.take(_MOST_FETCHED - 1)
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
            pull.is_over.set()  # later messages are given back
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
        # The server was away for so long that it delivers jobs again that are being done here.
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
        """Report all jobs in progress to the server, so that none is delivered to another worker."""
        while True:
            await asyncio.sleep(self._settings.stall / 3)
            for message in list(self._running.values()):
                with suppress(*FAILURES):
                    await message.in_progress()
