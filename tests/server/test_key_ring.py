"""What the service remembers of keys: asked once, bounded, never longer than it may."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import JournalUnreachableError
from holdfast.journal.service_store.service_store import ApiKey
from holdfast.journal.service_store.service_store_memory import MemoryServiceStore
from holdfast.server.access.asgi import Message, Receive, Scope, Send
from holdfast.server.access.key_ring import CACHE_SECONDS, KeyRing
from holdfast.server.access.keys import make_key
from holdfast.server.access.options import AccessOptions
from holdfast.server.access.stack import AccessControl, protect


class SlowStore(MemoryServiceStore):
    """A store that counts what it is asked, and answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.searches = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_gone = False

    async def find_key(self, digest: bytes) -> ApiKey | None:
        self.searches += 1
        await self.may_answer.wait()
        if self.is_gone:
            raise JournalUnreachableError("db.example", "does not respond")
        return await super().find_key(digest)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ring(store: SlowStore, clock: Clock) -> KeyRing:
    return KeyRing(store, clock, clock)


async def add_key(store: SlowStore) -> str:
    text, key = make_key("ci", scopes=("run",), now=0.0)
    await store.add_key(key)
    return text


async def test_many_requests_at_once_ask_the_store_once(ring: KeyRing, store: SlowStore) -> None:
    key = await add_key(store)
    store.may_answer.clear()
    asking = [asyncio.create_task(ring.find_holder(key)) for _ in range(200)]
    await asyncio.sleep(0)
    asking[0].cancel()  # its caller has left, and the others have not
    await asyncio.sleep(0)
    store.may_answer.set()
    found = await asyncio.gather(*asking[1:])
    assert {one.name for one in found if one is not None} == {"ci"}
    assert store.searches == 1


async def test_the_memory_of_an_answer_begins_with_its_search(
    ring: KeyRing, store: SlowStore, clock: Clock
) -> None:
    key = await add_key(store)
    store.may_answer.clear()
    asking = asyncio.create_task(ring.find_holder(key))
    while not store.searches:
        await asyncio.sleep(0)
    clock.now += CACHE_SECONDS  # the search took this long
    store.may_answer.set()
    await asking
    await ring.find_holder(key)
    assert store.searches == 2


async def test_an_error_is_told_and_not_remembered(ring: KeyRing, store: SlowStore) -> None:
    key = await add_key(store)
    store.is_gone = True
    with pytest.raises(JournalUnreachableError):
        await ring.find_holder(key)
    store.is_gone = False
    assert await ring.find_holder(key) is not None


async def test_wrong_keys_are_bounded_and_displace_no_right_one(
    ring: KeyRing, store: SlowStore
) -> None:
    key = await add_key(store)
    await ring.find_holder(key)
    for _ in range(3000):
        assert await ring.find_holder(make_key("x", scopes=("run",), now=0.0)[0]) is None
    searches = store.searches
    assert await ring.find_holder(key) is not None
    assert store.searches == searches
    assert len(ring._keys._absent) == 1000
    assert not ring._keys._asking


async def test_what_has_not_the_form_of_a_key_is_not_searched(
    ring: KeyRing, store: SlowStore
) -> None:
    for text in ("", "hf_", "sk-" + "a" * 43, "hf_" + "é" * 43, "hf_" + "a" * 44, "\x00" * 46):
        assert await ring.find_holder(text) is None
    assert store.searches == 0


async def test_a_use_that_cannot_be_saved_refuses_nobody(
    ring: KeyRing, store: SlowStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(key_id: str, at: float) -> None:
        raise JournalUnreachableError("db.example", "does not respond")

    store.note_use = fail  # type: ignore[method-assign]
    assert await ring.find_holder(await add_key(store)) is not None
    await ring.close()
    assert "was not saved" in caplog.text


NAMES = st.sampled_from(
    [
        *(b"host", b"origin", b"cookie", b"authorization", b"content-type", b"content-length"),
        *(b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"transfer-encoding"),
        *(b"sec-fetch-site", b"sec-fetch-mode", b"x-csrf-token", b"access-control-request-method"),
    ]
)
VALUES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            *(b"localhost", b"127.0.0.1:80", b"[::1", b"http://[", b"null", b"Bearer ", b"https"),
            *(b"http://localhost:99999", b"a=b; holdfast_session=" + b"s" * 43, b"chunked", b"9"),
        ]
    ),
)


@given(
    headers=st.lists(st.tuples(NAMES, VALUES), max_size=8),
    method=st.sampled_from(["GET", "POST", "OPTIONS", "DELETE", "\u00e9"]),
    path=st.one_of(
        st.text(max_size=20).map("/".__add__),
        st.sampled_from(["/console/sign-in", "/console/session", "/console/sign-out", "/metrics"]),
    ),
    body=st.binary(max_size=50),
    with_key=st.booleans(),
)
async def test_whatever_is_sent_gets_one_answer(
    headers: list[tuple[bytes, bytes]], method: str, path: str, body: bytes, with_key: bool
) -> None:
    store = MemoryServiceStore()
    if with_key:
        await store.add_key(make_key("ci", scopes=("run",), now=0.0)[1])
    options = AccessOptions(
        trusted_proxies=("127.0.0.1",), allowed_origins=("https://app.example",)
    )
    sent: list[Message] = []
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": path,
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "headers": headers,
    }
    await protect(app, AccessControl(store, options))(scope, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] < 500
