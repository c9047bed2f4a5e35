"""The stream of jobs in JetStream: how it is made, filled, and asked what it holds.

A job is a message without content. Its subject has the number of the entry and the queue, so that the
stream can be asked for an entry; a message stays in the stream until its job is over. A message must
never be refused as a duplicate of one that is gone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress

from nats.aio.client import Client
from nats.js.errors import NoStreamResponseError

from holdfast.journal.inbox.dispatch_engine import Job
from holdfast.worker.engines.nats_connection import ApiError, call_api
from holdfast.worker.engines.queue_names import encode_queue

_MOST_AT_ONCE = 200
_TRIES = 3
_NOT_FOUND = 404
_CONFLICT = 400
_NANOSECONDS = 1_000_000_000
_SECONDS_OF_MEMORY = 60
"""For how long JetStream recognizes a message that was sent again since its receipt was lost."""


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
        """Create what delivers the jobs of a queue, unless it is there; return its name."""
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
    """Whether a consumer has delivered what its stream has not had: the stream was made anew meanwhile.

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
