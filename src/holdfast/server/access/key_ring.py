"""Recognizes keys and sign-ins. The answers of the store are remembered for a few seconds.

So a new, revoked or rotated key counts in every process within five seconds, and a store that cannot
be reached refuses callers rather than letting them in. The memory is bounded, also for wrong keys.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, Literal, TypeVar

from msgspec import Struct

from holdfast.core.errors import HoldfastError
from holdfast.journal.service_store.service_store import ApiKey, ServiceStore, SignIn
from holdfast.server.access.keys import accept_key, digest_secret, is_key
from holdfast.server.access.principals import Principal

T = TypeVar("T")

CACHE_SECONDS = 4.0
"""Seconds for which an answer of the store counts. With the time of a search it stays below five."""

USE_SECONDS = 60.0
"""Seconds between two times that the last use of a key is saved."""

_PRESENT, _ABSENT = 10_000, 1_000

_log = logging.getLogger("holdfast.server")


class Credential(Struct, frozen=True):
    """The credentials of a caller: a key, or the cookie of a sign-in.

    Args:
        kind: which of them.
        digest: its SHA-256.
    """

    kind: Literal["key", "sign_in"]
    digest: bytes


class RecentAnswers(Generic[T]):
    """The answers of a store in the last seconds; equal questions at the same time are asked once.

    Args:
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        # Separately, so that wrong keys cannot displace right ones.
        self._present: OrderedDict[Hashable, tuple[float, T | None]] = OrderedDict()
        self._absent: OrderedDict[Hashable, tuple[float, T | None]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[T | None]] = {}

    def __contains__(self, question: Hashable) -> bool:
        """Whether something was found when it was last asked, even if that is too old."""
        return question in self._present

    async def ask(self, question: Hashable, search: Callable[[], Awaitable[T | None]]) -> T | None:
        """Return the result, from memory or by a search."""
        entry = self._present.get(question) or self._absent.get(question)
        if entry is not None and self._monotonic() - entry[0] < CACHE_SECONDS:
            return entry[1]
        task = self._asking.get(question)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = asyncio.ensure_future(self._search(question, search))
            self._asking[question] = task
            task.add_done_callback(lambda done: self._end(question, done))
        # A caller that goes away must not end the search of the others.
        return await asyncio.shield(task)

    def _end(self, question: Hashable, done: asyncio.Task[T | None]) -> None:
        if self._asking.get(question) is done:
            del self._asking[question]
        if not done.cancelled():
            done.exception()  # each caller that is left has it already

    async def _search(
        self, question: Hashable, search: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        at = self._monotonic()
        answer = await search()
        if self._asking.get(question) is not asyncio.current_task():
            return answer  # it was forgotten meanwhile, so it may be too old to be remembered
        self._present.pop(question, None)
        self._absent.pop(question, None)
        memory, size = (self._absent, _ABSENT) if answer is None else (self._present, _PRESENT)
        memory[question] = (at, answer)
        while len(memory) > size:
            memory.popitem(last=False)
        return answer

    def forget(self, question: Hashable) -> None:
        """Forget the answers, also that of a search under way."""
        self._asking.pop(question, None)
        self._present.pop(question, None)
        self._absent.pop(question, None)

    def forget_all(self) -> None:
        """Forget everything that was said."""
        for memory in (self._asking, self._present, self._absent):
            memory.clear()


class KeyRing:
    """Says whom a key or a sign-in stands for.

    Args:
        store: has the keys.
        now: the time in seconds since the epoch.
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(
        self,
        store: ServiceStore,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.now = now
        self.monotonic = monotonic
        self._any_key: RecentAnswers[bool] = RecentAnswers(monotonic)
        self._keys: RecentAnswers[ApiKey] = RecentAnswers(monotonic)
        self._sign_ins: RecentAnswers[tuple[SignIn, ApiKey]] = RecentAnswers(monotonic)
        self.note_end: Callable[[], None] = _ignore_end
        """Called when this process has ended a key or a sign-in."""
        self._uses: OrderedDict[str, float] = OrderedDict()
        self._saving: set[asyncio.Task[None]] = set()

    async def has_keys(self) -> bool:
        """Whether a key was ever made. Raises JournalError."""

        async def search() -> bool | None:
            return await self.store.has_keys() or None

        return bool(await self._any_key.ask("any", search))

    def is_familiar(self, text: str) -> bool:
        """Whether this key was right when it was last seen."""
        return digest_secret(text) in self._keys

    async def find_holder(self, text: str) -> Principal | None:
        """Return whom a key stands for; None if it is wrong. Raises JournalError."""
        return await self._find_key(digest_secret(text)) if is_key(text) else None

    async def _find_key(self, digest: bytes) -> Principal | None:
        async def search() -> ApiKey | None:
            key = await self.store.find_key(digest)
            return key if accept_key(key, digest, self.now()) else None

        return self._use_key(await self._keys.ask(digest, search), digest)

    async def find_signed_in(self, secret: str) -> Principal | None:
        """Return who signed in; None if the sign-in, or its key, has ended. Raises JournalError."""
        return await self._find_sign_in(digest_secret(secret))

    async def _find_sign_in(self, digest: bytes) -> Principal | None:
        async def search() -> tuple[SignIn, ApiKey] | None:
            return await self.store.find_sign_in(digest)

        found = await self._sign_ins.ask(digest, search)
        if found is None or not hmac.compare_digest(found[0].digest, digest):
            return None
        sign_in, key = found
        return self._use_key(key, key.digest) if self.now() < sign_in.expires_at else None

    def _use_key(self, key: ApiKey | None, digest: bytes) -> Principal | None:
        principal = accept_key(key, digest, self.now())
        if principal is not None:
            self._note_use(principal.key_id)
        return principal

    async def is_valid(self, credential: Credential) -> bool:
        """Whether somebody may call who was recognized before. Raises JournalError."""
        find = self._find_key if credential.kind == "key" else self._find_sign_in
        return await find(credential.digest) is not None

    async def revoke(self, key_id: str) -> bool:
        """Revoke a key; this process refuses it at once. Return whether there was one. Raises JournalError."""
        for key in await self.store.list_keys():
            if key.id == key_id:
                was_valid = await self.store.revoke_key(key_id, self.now())
                self._keys.forget(key.digest)
                self._sign_ins.forget_all()
                self.note_end()
                return was_valid
        return False

    async def sign_in(self, sign_in: SignIn) -> None:
        """Save a sign-in. Raises JournalError."""
        await self.store.add_sign_in(sign_in)
        self._sign_ins.forget(sign_in.digest)

    async def sign_out(self, secret: str) -> None:
        """End a sign-in. Raises JournalError."""
        digest = digest_secret(secret)
        await self.store.delete_sign_in(digest)
        self._sign_ins.forget(digest)
        self.note_end()

    def _note_use(self, key_id: str) -> None:
        """Save that a key was used, at most once a minute, and beside the request."""
        last = self._uses.get(key_id)
        moment = self.monotonic()
        if last is not None and moment - last < USE_SECONDS:
            return
        self._uses[key_id] = moment
        self._uses.move_to_end(key_id)
        while len(self._uses) > _PRESENT:
            self._uses.popitem(last=False)
        task = asyncio.get_running_loop().create_task(self._save_use(key_id, self.now()))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def _save_use(self, key_id: str, at: float) -> None:
        try:
            await self.store.note_use(key_id, at)
        except HoldfastError as error:
            _log.warning("the last use of the key %s was not saved: %s", key_id, error)

    async def close(self) -> None:
        """Wait until the uses are saved."""
        while self._saving:
            with suppress(Exception):
                await asyncio.gather(*self._saving)


def _ignore_end() -> None:
    """Nobody wants to know."""
