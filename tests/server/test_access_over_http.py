"""Who may call the service, over real connections: keys, sign-ins, pages of other sites, limits."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from tests.server.live_server import LiveServer, Reply, read_reply, serve

from holdfast.errors import JournalUnreachableError
from holdfast.journal.service_store.service_store import ApiKey, ServiceStore
from holdfast.journal.service_store.service_store_memory import MemoryServiceStore
from holdfast.server.access import connections
from holdfast.server.access.asgi import Message, Receive
from holdfast.server.access.bodies import BodyLimits
from holdfast.server.access.budgets import CallerUsage
from holdfast.server.access.callers import STATE, Caller
from holdfast.server.access.connections import ConnectionBounds
from holdfast.server.access.keys import make_key, make_successor
from holdfast.server.access.options import AccessLimits, AccessOptions
from holdfast.server.access.principals import Principal
from holdfast.server.access.stack import (
    AccessControl,
    protect,
    require,
    take_stream,
    take_turn,
)
from holdfast.server.problem_responses import ProblemError, respond_problem
from holdfast.testing import FakeClock


async def show_caller(request: Request) -> Response:
    principal = require(request, "read")
    return JSONResponse({"tenant": principal.tenant, "name": principal.name})


async def start_turn(request: Request) -> Response:
    principal = take_turn(request)
    return JSONResponse({"by": principal.name, "bytes": len(await request.body())}, 202)


async def read_events(request: Request) -> Response:
    require(request, "read")
    take_stream(request)

    async def write() -> AsyncIterator[bytes]:
        while True:
            yield b": still here\n\n"
            await asyncio.sleep(0.05)

    return StreamingResponse(write(), media_type="text/event-stream")


async def show_page(_request: Request) -> Response:
    return Response("<p>console</p>", media_type="text/html")


async def refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return respond_problem(error.problem)


def make_app() -> Starlette:
    routes = [
        Route("/whoami", show_caller, methods=["GET", "DELETE"]),
        Route("/turns", start_turn, methods=["POST"]),
        Route("/sessions/import", start_turn, methods=["POST"]),
        Route("/sessions/{session}/events", read_events),
    ]
    return Starlette(
        routes=[Mount("/api/v1", routes=routes), Route("/console/", show_page)],
        exception_handlers={ProblemError: refuse},
    )


@pytest.fixture(params=["h11", "httptools"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse requests by one of the parsers."""
    protocols = {request.param: connections.find_protocol(request.param)}
    monkeypatch.setattr(connections, "_PROTOCOLS", protocols)


class Clock:
    """A clock that a test sets forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Service(LiveServer):
    """A served application and what a test needs of it."""

    access: AccessControl
    store: ServiceStore
    clock: Clock

    async def make_key(self, *scopes: str, **fields: object) -> str:
        named = {"name": "ci", "scopes": scopes or ("run", "read"), "now": self.clock(), **fields}
        text, key = make_key(**named)  # type: ignore[arg-type]
        await self.store.add_key(key)
        return text

    async def get(self, path: str = "/api/v1/whoami", key: str = "", **headers: str) -> Reply:
        return await self.request("GET", path, authorization=bearer(key), **headers)

    async def post(
        self, path: str = "/api/v1/turns", body: bytes = b"{}", key: str = "", **headers: str
    ) -> Reply:
        return await self.request("POST", path, body, authorization=bearer(key), **headers)


def bearer(key: str) -> str:
    return f"Bearer {key}" if key else ""


@asynccontextmanager
async def serve_service(
    options: AccessOptions | None = None,
    store: ServiceStore | None = None,
    bounds: ConnectionBounds | None = None,
    app: Callable[[], Starlette] = make_app,
) -> AsyncIterator[Service]:
    store, clock = store or MemoryServiceStore(), Clock()
    access = AccessControl(store, options, now=clock, monotonic=clock)
    async with serve(protect(app(), access), bounds) as server:
        yield Service(server.port, access, store, clock)
    await access.keys.close()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with serve_service() as service:
        yield service


def limited(**limits: object) -> AccessOptions:
    return AccessOptions(limits=AccessLimits(**limits))  # type: ignore[arg-type]


async def test_without_keys_this_machine_is_the_local_user(service: Service) -> None:
    reply = await service.get()
    assert (reply.status, reply.json()) == (200, {"tenant": "", "name": "local"})
    # An SDK demands a key where there is none to have.
    assert (await service.get(key="sk-anything")).status == 200


async def test_the_first_key_ends_the_time_without_keys(service: Service) -> None:
    assert (await service.get()).status == 200
    key = await service.make_key(tenant="acme")
    service.clock.ahead += 5
    reply = await service.get()
    assert (reply.status, reply.header("www-authenticate")) == (401, "Bearer")
    assert reply.header("content-type") == "application/problem+json"
    assert reply.json()["field"] == "Authorization"
    assert (await service.get(key=key)).json() == {"tenant": "acme", "name": "ci"}
    (stored,) = await service.store.list_keys()
    await service.store.revoke_key(stored.id, 1.0)
    service.clock.ahead += 5
    assert (await service.get()).status == 401  # and not open to everybody again


async def test_a_revoked_key_ends_within_five_seconds(service: Service) -> None:
    key = await service.make_key()
    assert (await service.get(key=key)).status == 200
    (stored,) = await service.store.list_keys()
    await service.store.revoke_key(stored.id, 1.0)
    service.clock.ahead += 5
    assert (await service.get(key=key)).status == 401


async def test_a_new_key_counts_within_five_seconds_though_it_was_tried_before(
    service: Service,
) -> None:
    await service.make_key()
    text, key = make_key("late", scopes=("read",), now=0.0)
    assert (await service.get(key=text)).status == 401
    await service.store.add_key(key)
    service.clock.ahead += 5
    assert (await service.get(key=text)).status == 200


async def test_a_rotated_key_is_valid_until_the_end_of_the_grace(service: Service) -> None:
    text = await service.make_key()
    (old,) = await service.store.list_keys()
    newer, successor = make_successor(old, service.clock())
    await service.store.rotate_key(old.id, successor, service.clock() + 60)
    service.clock.ahead += 5
    assert [(await service.get(key=one)).status for one in (text, newer)] == [200, 200]
    service.clock.ahead += 60
    assert [(await service.get(key=one)).status for one in (text, newer)] == [401, 200]


async def test_an_expiry_counts_at_once(service: Service) -> None:
    key = await service.make_key(seconds=100.0)
    assert (await service.get(key=key)).status == 200
    service.clock.ahead += 99
    assert (await service.get(key=key)).status == 200
    service.clock.ahead += 1.5
    assert (await service.get(key=key)).status == 401


async def test_a_key_may_do_what_its_scopes_say(service: Service) -> None:
    reader = await service.make_key("read")
    redacted = await service.make_key("read:redacted")
    assert (await service.get(key=reader)).status == 200
    reply = await service.post(key=reader)
    assert (reply.status, reply.json()["kind"]) == (403, "forbidden")
    assert (await service.get(key=redacted)).json() == {"tenant": "[redacted]", "name": "ci"}
    assert (await service.post(key=redacted)).status == 403
    assert (await service.get("/metrics", key=reader)).status == 403
    assert (await service.get("/metrics", key=await service.make_key("admin"))).status == 200


async def test_the_last_use_of_a_key_is_saved_once_a_minute(service: Service) -> None:
    key = await service.make_key()
    saved: list[float] = []
    note_use = service.store.note_use

    async def count(key_id: str, at: float) -> None:
        saved.append(at)
        await note_use(key_id, at)

    service.store.note_use = count  # type: ignore[method-assign]
    for _ in range(5):
        await service.get(key=key)
    service.clock.ahead += 61
    await service.get(key=key)
    await service.access.keys.close()
    assert len(saved) == 2
    assert (await service.store.list_keys())[0].used_at == saved[-1]


@pytest.mark.parametrize(
    "given",
    ["Basic YTpi", "Bearer", "Bearer ", "hf_" + "A" * 43, "Bearer hf_é", "Bearer " + "A" * 9000],
)
async def test_a_malformed_key_is_refused(service: Service, given: str) -> None:
    await service.make_key()
    reply = await service.request("GET", "/api/v1/whoami", authorization=given)
    assert (reply.status, reply.json()["kind"]) == (401, "unauthenticated")


async def test_tries_with_wrong_keys_are_limited_by_address(service: Service) -> None:
    key = await service.make_key()
    assert (await service.get(key=key)).status == 200
    wrong = [make_key("x", scopes=("run",), now=0.0)[0] for _ in range(25)]
    replies = await asyncio.gather(*(service.get(key=one) for one in wrong))
    assert sorted(reply.status for reply in replies) == [401] * 20 + [429] * 5
    refused = next(reply for reply in replies if reply.status == 429)
    wait = int(refused.header("retry-after"))
    assert 1 <= wait <= 3
    assert 0 < float(str(refused.json()["retry_after"])) <= wait
    # Whoever is known is not kept out by its neighbours.
    assert (await service.get(key=key)).status == 200
    service.clock.ahead += wait
    assert (await service.get(key=wrong[0])).status == 401
    assert (await service.get(key=wrong[0])).status == 429


async def test_tries_behind_a_named_proxy_are_counted_for_the_forwarded_address() -> None:
    options = AccessOptions(trusted_proxies=("127.0.0.1",), limits=AccessLimits(failed_tries=2))
    async with serve_service(options) as service:
        await service.make_key()
        wrong = make_key("x", scopes=("run",), now=0.0)[0]
        for address in ("9.9.9.9", "8.8.8.8"):
            statuses = [
                (await service.get(key=wrong, x_forwarded_for=f"1.2.3.4, {address}")).status
                for _ in range(3)
            ]
            assert statuses == [401, 401, 429]


async def test_nobody_pretends_an_address_without_being_a_named_proxy() -> None:
    async with serve_service(limited(failed_tries=2)) as service:
        await service.make_key()
        wrong = make_key("x", scopes=("run",), now=0.0)[0]
        statuses = [
            (await service.get(key=wrong, x_forwarded_for=f"9.9.9.{n}")).status for n in range(3)
        ]
        assert statuses == [401, 401, 429]


async def test_a_store_that_cannot_be_reached_lets_nobody_in(service: Service) -> None:
    key = await service.make_key()
    assert (await service.get(key=key)).status == 200

    async def fail(*_: object) -> None:
        raise JournalUnreachableError("db.example", "does not respond")

    for name in ("find_key", "has_keys", "probe"):
        setattr(service.store, name, fail)
    service.clock.ahead += 5
    reply = await service.get(key=key)
    assert (reply.status, reply.json()["retryable"]) == (503, True)
    ready = await service.get("/ready")
    assert (ready.status, ready.json()["problems"]) == (
        503,
        {"store": "does not work: JournalUnreachableError"},
    )
    assert (await service.get("/health")).status == 200


# -- pages of other sites


HOSTILE = [
    # A form that a page submits, and `fetch` with `mode: "no-cors"`: both need no permission.
    ("POST", {"origin": "https://evil.example", "content_type": "text/plain"}, 403),
    ("POST", {"origin": "null", "content_type": "application/x-www-form-urlencoded"}, 403),
    ("POST", {"sec_fetch_site": "cross-site", "content_type": "text/plain"}, 403),
    ("POST", {"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors"}, 403),
    # A browser that sends neither header: what a page can send without a permission is no JSON.
    ("POST", {"content_type": "text/plain"}, 415),
    ("POST", {"content_type": "multipart/form-data; boundary=x"}, 415),
    # Another program with a page on this machine.
    ("POST", {"origin": "http://localhost:3000"}, 403),
    # A name of the attacker that suddenly means this machine.
    ("POST", {"host": "evil.example:8000", "origin": "http://evil.example:8000"}, 400),
    ("GET", {"host": "evil.example:8000", "sec_fetch_site": "same-origin"}, 400),
    ("GET", {"host": "evil.example", "sec_fetch_mode": "navigate"}, 400),
    # Reading by a script, a picture, a frame.
    ("GET", {"origin": "https://evil.example", "sec_fetch_mode": "cors"}, 403),
    ("GET", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
    (
        "GET",
        {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"},
        403,
    ),
    # A proxy that nobody named: perhaps the whole world is behind it.
    ("GET", {"x_forwarded_for": "9.9.9.9"}, 403),
]


@pytest.mark.parametrize(("method", "headers", "status"), HOSTILE)
async def test_a_page_of_another_site_cannot_drive_a_service_without_keys(
    service: Service, method: str, headers: dict[str, str], status: int
) -> None:
    path = "/api/v1/turns" if method == "POST" else "/api/v1/whoami"
    body = b'{"message": "rm -rf"}' if method == "POST" else None
    reply = await service.request(method, path, body, **headers)
    assert reply.status == status, reply.body
    assert reply.header("access-control-allow-origin") == ""


async def test_a_preflight_of_another_site_is_refused(service: Service) -> None:
    for with_keys in (False, True):
        if with_keys:
            await service.make_key()
            service.clock.ahead += 5
        reply = await service.request(
            "OPTIONS",
            "/api/v1/turns",
            origin="https://evil.example",
            access_control_request_method="POST",
        )
        assert reply.status in (401, 403)
        assert reply.header("access-control-allow-origin") == ""


async def test_pages_of_the_service_itself_may_call_it(service: Service) -> None:
    own = f"http://127.0.0.1:{service.port}"
    headers = {"origin": own, "sec_fetch_site": "same-origin"}
    assert (await service.post(**headers)).status == 202
    assert (await service.get(sec_fetch_site="none", sec_fetch_mode="navigate")).status == 200
    reply = await service.request("POST", "/api/v1/turns", None, **headers)
    assert reply.status == 202  # an act without a body


async def test_more_than_one_host_or_key_is_refused(service: Service) -> None:
    await service.make_key()
    host = f"127.0.0.1:{service.port}"
    reply = await service.get(host=f"{host}\r\nX-A: 1\r\nHost: {host}")
    assert reply.status == 400
    key = await service.make_key()
    reply = await service.request(
        "GET", "/api/v1/whoami", authorization=f"Bearer {key}\r\nAuthorization: Bearer {key}"
    )
    assert reply.status == 401


async def test_named_sites_may_call_with_a_key_and_others_may_not() -> None:
    options = AccessOptions(allowed_origins=("https://app.example",))
    async with serve_service(options) as service:
        key = await service.make_key()
        asked = await service.request(
            "OPTIONS",
            "/api/v1/turns",
            origin="https://app.example",
            access_control_request_method="POST",
        )
        assert asked.status == 204
        assert "authorization" in asked.header("access-control-allow-headers").lower()
        reply = await service.post(key=key, origin="https://app.example")
        assert (
            reply.status,
            reply.header("access-control-allow-origin"),
            reply.header("vary"),
        ) == (
            202,
            "https://app.example",
            "Origin",
        )
        assert reply.header("access-control-allow-credentials") == ""
        other = await service.post(key=key, origin="https://evil.example")
        assert (other.status, other.header("access-control-allow-origin")) == (202, "")


async def test_every_response_has_the_security_headers(service: Service) -> None:
    for path in ("/console/", "/health", "/api/v1/whoami", "/nothing", "/metrics"):
        reply = await service.get(path)
        policy = reply.header("content-security-policy")
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.header("x-content-type-options") == "nosniff"
        assert reply.header("referrer-policy") == "no-referrer"
        assert reply.header("server") == ""


# -- the console


async def sign_in(service: Service, key: str) -> tuple[Reply, str]:
    reply = await service.post("/console/sign-in", b'{"key": "%s"}' % key.encode())
    cookies = [value for name, value in reply.headers if name == "set-cookie"]
    return reply, "; ".join(cookie.partition(";")[0] for cookie in cookies)


async def test_a_person_signs_in_with_a_key_and_out_again(service: Service) -> None:
    key = await service.make_key(name="ada")
    reply, cookie = await sign_in(service, key)
    assert reply.status == 200
    assert (reply.json()["name"], reply.json()["by"]) == ("ada", "cookie")
    first = next(value for name, value in reply.headers if name == "set-cookie")
    assert "HttpOnly" in first
    assert "SameSite=Strict" in first
    shown = await service.get("/console/session", cookie=cookie)
    token = str(shown.json()["csrf_token"])
    assert (shown.status, token) == (200, reply.json()["csrf_token"])
    assert (await service.get(cookie=cookie)).status == 200
    assert (await service.post(cookie=cookie, x_csrf_token=token)).status == 202
    out = await service.post("/console/sign-out", cookie=cookie, x_csrf_token=token)
    assert out.status == 204
    assert [value.split(";")[0] for name, value in out.headers if name == "set-cookie"] == [
        "holdfast_session=",
        "holdfast_csrf=",
    ]
    assert (await service.get(cookie=cookie)).status == 401
    assert (await service.get("/console/session", cookie=cookie)).status == 401


async def test_the_files_of_the_console_are_for_everybody(service: Service) -> None:
    await service.make_key()
    service.clock.ahead += 5
    assert (await service.get("/console/")).body == b"<p>console</p>"
    assert (await service.get("/console/session")).status == 401
    assert (await service.request("DELETE", "/console/")).status == 401


async def test_without_keys_the_console_needs_no_sign_in(service: Service) -> None:
    reply = await service.get("/console/session")
    assert reply.json() == {
        "name": "local",
        "tenant": "",
        "scopes": ["admin"],
        "by": "local",
        "csrf_token": "",
    }


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({}, "csrf"),
        ({"x_csrf_token": "0" * 64}, "csrf"),
        ({"x_csrf_token": "TOKEN", "origin": "https://evil.example"}, "foreign_origin"),
        ({"x_csrf_token": "TOKEN", "sec_fetch_site": "same-site"}, "foreign_origin"),
    ],
)
async def test_a_page_of_another_site_cannot_use_a_sign_in(
    service: Service, headers: dict[str, str], kind: str
) -> None:
    reply, cookie = await sign_in(service, await service.make_key())
    named = {
        name: value.replace("TOKEN", str(reply.json()["csrf_token"]))
        for name, value in headers.items()
    }
    refused = await service.post(cookie=cookie, **named)
    assert (refused.status, refused.json()["kind"]) == (403, kind)


async def test_a_token_of_another_sign_in_does_not_count(service: Service) -> None:
    key = await service.make_key()
    other, _ = await sign_in(service, key)
    _, cookie = await sign_in(service, key)
    refused = await service.post(cookie=cookie, x_csrf_token=str(other.json()["csrf_token"]))
    assert refused.json()["kind"] == "csrf"


async def test_a_sign_in_ends_when_its_key_ends(service: Service) -> None:
    _, cookie = await sign_in(service, await service.make_key())
    assert (await service.get(cookie=cookie)).status == 200
    (stored,) = await service.store.list_keys()
    await service.store.revoke_key(stored.id, service.clock())
    service.clock.ahead += 5
    assert (await service.get(cookie=cookie)).status == 401


async def test_a_sign_in_ends_after_half_a_day(service: Service) -> None:
    _, cookie = await sign_in(service, await service.make_key())
    service.clock.ahead += 12 * 3600 - 10
    assert (await service.get(cookie=cookie)).status == 200
    service.clock.ahead += 11
    assert (await service.get(cookie=cookie)).status == 401


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"key": "hf_wrong"}', {}, 401),
        (b'{"key": 1}', {}, 400),
        (b'{"key": "a", "more": 1}', {}, 400),
        (b"\xff\xfe", {}, 400),
        (b'{"key": "a"}', {"content_type": "text/plain"}, 415),
        (b'{"key": "a"}', {"origin": "https://evil.example"}, 403),
        (b"x" * 5000, {}, 413),
    ],
)
async def test_a_wrong_sign_in_is_refused(
    service: Service, body: bytes, headers: dict[str, str], status: int
) -> None:
    await service.make_key()
    service.clock.ahead += 5
    reply = await service.post("/console/sign-in", body, **headers)
    assert reply.status == status, reply.body
    assert reply.header("set-cookie") == ""


async def test_tries_to_sign_in_are_limited() -> None:
    async with serve_service(limited(failed_tries=3)) as service:
        await service.make_key()
        statuses = [
            (await service.post("/console/sign-in", b'{"key": "hf_wrong"}')).status
            for _ in range(4)
        ]
        assert statuses == [401, 401, 401, 429]


async def test_behind_a_named_proxy_with_tls_the_cookie_is_secure() -> None:
    options = AccessOptions(trusted_proxies=("127.0.0.1",), allowed_hosts=("agents.example",))
    async with serve_service(options) as service:
        key = await service.make_key()
        reply = await service.post(
            "/console/sign-in",
            b'{"key": "%s"}' % key.encode(),
            x_forwarded_proto="https",
            x_forwarded_host="agents.example",
            x_forwarded_for="9.9.9.9",
            origin="https://agents.example",
        )
        assert reply.status == 200, reply.body
        cookies = [value for name, value in reply.headers if name == "set-cookie"]
        assert all("; Secure" in cookie for cookie in cookies)
        assert (await service.get(key=key)).json()["kind"] == "foreign_host"


# -- limits


async def test_the_turns_of_a_key_are_limited_and_the_wait_is_true() -> None:
    async with serve_service(limited(turns_per_minute=3)) as service:
        one, other = await service.make_key(), await service.make_key()
        replies = [await service.post(key=one) for _ in range(4)]
        assert [reply.status for reply in replies] == [202, 202, 202, 429]
        assert (await service.post(key=other)).status == 202
        wait = int(replies[-1].header("retry-after"))
        service.clock.ahead += wait - 1.5
        assert (await service.post(key=one)).status == 429
        service.clock.ahead += 1.5
        assert (await service.post(key=one)).status == 202


async def test_the_open_streams_of_a_key_are_limited() -> None:
    async with serve_service(limited(streams_per_key=2)) as service:
        key = await service.make_key()
        head = (
            f"GET /api/v1/sessions/a/events HTTP/1.1\r\nHost: localhost\r\n{bearer_line(key)}\r\n"
        )
        open_ones = []
        for _ in range(2):
            reader, writer = await service.connect()
            writer.write(head.encode())
            assert (await reader.readuntil(b"still here")).startswith(b"HTTP/1.1 200")
            open_ones.append(writer)
        refused = await service.get("/api/v1/sessions/a/events", key=key)
        assert (refused.status, refused.json()["kind"]) == (429, "open_streams")
        admin = await service.make_key("admin")
        assert b"holdfast_streams_open 2\n" in (await service.get("/metrics", key=admin)).body
        for writer in open_ones:
            writer.close()
        async with asyncio.timeout(60):
            while service.access.usage.open_streams:
                await asyncio.sleep(0.01)


def bearer_line(key: str) -> str:
    return f"Authorization: Bearer {key}\r\n"


async def test_a_long_body_is_refused_before_it_is_sent(service: Service) -> None:
    reader, writer = await service.connect()
    head = "POST /api/v1/turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Expect: 100-continue\r\nContent-Length: 100000000\r\n\r\n".encode())
    reply = await read_reply(reader)
    assert (reply.status, reply.json()["kind"]) == (413, "body_too_large")
    writer.close()


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "transfer-encoding: CHUNKED\r\ncontent-length: 0",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity\r\nContent-Length: 4",
        "Content-Length: 4\r\nContent-Length: 5",
        "Content-Length: 4\r\nTransfer-Encoding : chunked",
        "Content-Length: 4\r\nTransfer-Encoding: \x0bchunked",
    ],
)
@pytest.mark.parametrize("path", ["/api/v1/turns", "/health", "/console/sign-in"])
async def test_a_body_with_two_lengths_is_refused_with_all_that_follows_it(
    service: Service, path: str, lines: str
) -> None:
    reader, writer = await service.connect()
    hidden = "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{lines}"
    writer.write(f"{head}\r\n\r\n0\r\n\r\n{hidden}".encode())
    async with asyncio.timeout(60):
        answered = await reader.read()  # to the end: the connection is closed
    assert answered.count(b"HTTP/1.1 ") == 1
    assert answered.split()[1] in (b"400", b"501")
    writer.close()


async def test_two_lengths_are_refused_whatever_server_is_below() -> None:
    """Some servers pass both headers on."""
    names = (b"content-length", b"transfer-encoding", b"Content-Length", b"Transfer-Encoding")
    for first, second in itertools.product(names, names):
        sent: list[Message] = []

        async def send(message: Message, sent: list[Message] = sent) -> None:
            sent.append(message)

        async def receive() -> Message:
            raise AssertionError("the body is not read")

        scope = {
            "type": "http",
            "method": "POST",
            "scheme": "http",
            "path": "/api/v1/turns",
            "client": ("127.0.0.1", 1),
            "headers": [(b"host", b"localhost"), (first, b"2"), (second, b"2")],
        }
        await protect(make_app(), AccessControl(MemoryServiceStore()))(scope, receive, send)
        problem = json.loads(sent[1]["body"])
        assert (sent[0]["status"], problem["kind"]) == (400, "ambiguous_length")
        assert (b"connection", b"close") in sent[0]["headers"]


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_of_100_mb_takes_no_memory(service: Service, chunked: bool) -> None:
    before = memory_of_this_process()
    reader, writer = await service.connect()
    how = "Transfer-Encoding: chunked" if chunked else "Content-Length: 104857600"
    head = (
        f"POST /api/v1/turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{how}"
    )
    writer.write(f"{head}\r\n\r\n".encode())
    piece = bytes(1 << 20)
    most, reply = 0, asyncio.create_task(read_reply(reader))
    try:
        for _ in range(100):
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            await writer.drain()
            most = max(most, memory_of_this_process())
    except OSError:
        pass  # the server has closed the connection
    assert (await reply).status == 413
    assert most - before < 40 << 20
    writer.close()


def memory_of_this_process() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123  # REASON: read in a loop
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_an_upload_may_be_longer(service: Service) -> None:
    body = b" " * 9_000_000
    assert (await service.post(body=body)).status == 413
    assert (await service.post("/api/v1/sessions/import", body)).json()["bytes"] == 9_000_000


async def test_a_slow_body_is_ended_in_time() -> None:
    async with serve_service(limited(body_seconds=0.3)) as service:
        reader, writer = await service.connect()
        head = (
            "POST /api/v1/turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        )
        writer.write(f"{head}Content-Length: 50\r\n\r\n".encode())

        async def drip() -> None:
            for _ in range(50):
                writer.write(b" ")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        begun = time.monotonic()
        reply = await read_reply(reader)
        assert (reply.status, reply.json()["kind"]) == (408, "body_too_slow")
        assert reply.header("connection") == "close"
        assert time.monotonic() - begun < 20
        dripping.cancel()
        writer.close()


async def test_bodies_that_arrive_together_have_a_bound() -> None:
    async with serve_service(limited(buffered_bytes=1000)) as service:
        head = (
            "POST /api/v1/turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        )
        reader, writer = await service.connect()
        writer.write(f"{head}Content-Length: 900\r\n\r\n".encode() + b" " * 800)
        await asyncio.sleep(0.1)
        refused = await service.post(body=b" " * 500)
        assert (refused.status, refused.header("retry-after")) == (503, "1")
        writer.write(b" " * 100)
        assert (await read_reply(reader)).status == 202
        assert (await service.post(body=b" " * 500)).status == 202
        writer.close()


async def test_a_caller_that_leaves_during_its_body_leaves_nothing(service: Service) -> None:
    _, writer = await service.connect()
    head = "POST /api/v1/turns HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: 900\r\n\r\n".encode() + b" " * 800)
    await asyncio.sleep(0.05)
    writer.transport.abort()
    await asyncio.sleep(0.05)
    assert (await service.get()).status == 200


# -- connections


@pytest.mark.usefixtures("parser")
async def test_half_a_request_is_ended_in_time() -> None:
    async with serve_service(bounds=ConnectionBounds(head_seconds=0.3)) as service:
        silent, one = await service.connect()
        half, two = await service.connect()
        two.write(b"GET /health HTTP/1.1\r\nHost: local")
        dripping, three = await service.connect()

        async def drip() -> None:
            three.write(b"GET /health HTTP/1.1\r\n")
            while True:
                three.write(b"X-A: 1\r\n")
                await asyncio.sleep(0.05)

        task = asyncio.create_task(drip())
        # Read as it comes: what it sends to the closed connection resets it.
        last = asyncio.create_task(dripping.readuntil(b"\r\n"))
        async with asyncio.timeout(60):
            assert await silent.read() == b""
            assert (await half.read()).startswith(b"HTTP/1.1 408 ")
            assert (await last).startswith(b"HTTP/1.1 408 ")
        task.cancel()
        for writer in (one, two, three):
            writer.close()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.usefixtures("parser")
async def test_a_long_stream_is_not_ended_by_the_deadline_of_a_head() -> None:
    async with serve_service(bounds=ConnectionBounds(head_seconds=0.2)) as service:
        reader, writer = await service.connect()
        writer.write(b"GET /api/v1/sessions/a/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(60):
            for _ in range(12):
                await reader.readuntil(b"still here")
        writer.close()


@pytest.mark.usefixtures("parser")
async def test_when_there_are_too_many_connections_the_idle_ones_make_room() -> None:
    bounds = ConnectionBounds(most=50)
    async with serve_service(bounds=bounds) as service:
        open_ones = [await service.connect() for _ in range(300)]
        assert (await service.get()).status == 200
        assert bounds.open <= 50
        closed = 0
        for reader, _ in open_ones[:200]:
            async with asyncio.timeout(60):
                closed += (await _read_quietly(reader)) == b""
        assert closed == 200
        for _, writer in open_ones:
            writer.transport.abort()
    assert bounds.open == 0
    assert not bounds.idle


async def _read_quietly(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except OSError:
        return b""


@pytest.mark.usefixtures("parser")
async def test_when_all_connections_are_busy_a_further_one_is_refused() -> None:
    async with serve_service(bounds=ConnectionBounds(most=2)) as service:
        open_ones = []
        for _ in range(2):
            reader, writer = await service.connect()
            writer.write(b"GET /api/v1/sessions/a/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"still here")
            open_ones.append(writer)
        reply = await service.get()
        assert (reply.status, reply.header("retry-after")) == (503, "1")
        for writer in open_ones:
            writer.close()


@pytest.mark.slow  # takes half a second or more
async def test_strangers_have_a_tenth_of_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silent ones, slow heads, and slow bodies of a sign-in or with a wrong key: keys are served."""
    monkeypatch.setattr(connections, "SECONDS_TO_BE_KNOWN", 2.0)
    bounds = ConnectionBounds(most=50)
    async with serve_service(bounds=bounds) as service:
        key = await service.make_key()
        stream_reader, stream_writer = await service.connect()
        head = (
            f"GET /api/v1/sessions/a/events HTTP/1.1\r\nHost: localhost\r\n{bearer_line(key)}\r\n"
        )
        stream_writer.write(head.encode())
        await stream_reader.readuntil(b"still here")
        slow = "HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9"
        strangers = []
        for first in (
            "",
            "GET /health HTTP/1.1\r\nHost: local",
            f"POST /console/sign-in {slow}\r\n\r\n{{",
            f"POST /api/v1/turns {slow}\r\n{bearer_line('hf_' + 'a' * 43)}\r\n{{",
        ) * 20:
            reader, writer = await service.connect()
            writer.write(first.encode())
            strangers.append((reader, writer))
        async with asyncio.timeout(60):
            while len(bounds.unknown) > 5:
                assert (await service.get(key=key)).status == 200
        assert bounds.open <= 5 + 2  # and the stream, and perhaps the last request
        assert (await service.get(key=key)).status == 200
        await stream_reader.readuntil(b"still here")
        # Who has sent a key and waits is no stranger, but the next request on the connection may be.
        reader, writer = await service.connect()
        get = "GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(f"{get}{bearer_line(key)}\r\n".encode())
        assert (await read_reply(reader)).status == 200
        known = len(bounds.unknown)
        writer.write(f"{get}\r\n".encode())
        assert (await read_reply(reader)).status == 401
        assert len(bounds.unknown) == known + 1
        for _, one in [*strangers, (reader, writer), (stream_reader, stream_writer)]:
            one.transport.abort()
    assert not bounds.unknown


@pytest.mark.usefixtures("parser")
async def test_the_streams_of_an_application_without_our_keys_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "SECONDS_TO_BE_KNOWN", 0.0)

    async def stream(_request: Request) -> Response:
        async def write() -> AsyncIterator[bytes]:
            yield b"begun"
            await gate.wait()
            yield b"ended"

        return StreamingResponse(write())

    gate, bounds = asyncio.Event(), ConnectionBounds(most=50)
    async with serve(Starlette(routes=[Route("/", stream)]), bounds) as server:
        streams = []
        for _ in range(20):
            reader, writer = await server.connect()
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            await reader.readuntil(b"begun")
            streams.append((reader, writer))
        gate.set()
        for reader, writer in streams:
            assert b"ended" in await reader.read()
            writer.close()


@pytest.mark.usefixtures("parser")
async def test_clients_that_come_back_together_do_not_end_each_other() -> None:
    bounds = ConnectionBounds(most=50)
    async with serve_service(bounds=bounds) as service:
        key = await service.make_key()
        assert (await service.get(key=key)).status == 200
        replies = await asyncio.gather(*(service.get(key=key) for _ in range(40)))
        assert [reply.status for reply in replies] == [200] * 40


@pytest.mark.usefixtures("parser")
async def test_the_requests_of_a_key_are_limited() -> None:
    async with serve_service(limited(requests_per_minute=3)) as service:
        one, other = await service.make_key(), await service.make_key()
        paths = ("/api/v1/whoami", "/metrics", "/api/v1/nothing", "/api/v1/whoami")
        replies = [await service.get(path, key=one) for path in paths]
        assert [reply.status for reply in replies] == [200, 403, 404, 429]
        assert (replies[-1].json()["kind"], replies[-1].header("retry-after")) == (
            "request_rate",
            "20",
        )
        assert (await service.get(key=other)).status == 200
        service.clock.ahead += 20
        assert (await service.get(key=one)).status == 200


@pytest.mark.usefixtures("parser")
async def test_requests_in_progress_are_limited_for_each_key() -> None:
    """Also those whose answer is read slowly, or whose body comes slowly."""
    async with serve_service(limited(requests_per_key=2)) as service:
        one, other = await service.make_key(), await service.make_key()
        head = (
            f"POST /api/v1/turns HTTP/1.1\r\nHost: localhost\r\n{bearer_line(one)}"
            "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{"
        )
        slow = []
        for _ in range(2):
            reader, writer = await service.connect()
            writer.write(head.encode())
            slow.append((reader, writer))
        async with asyncio.timeout(60):
            while (await service.get(key=one)).status != 429:
                await asyncio.sleep(0.01)
        refused = await service.get(key=one)
        assert (refused.json()["kind"], refused.header("retry-after")) == ("open_requests", "1")
        assert (await service.get(key=other)).status == 200
        for reader, writer in slow:
            writer.write(b"}")
            assert (await read_reply(reader)).status == 202
            writer.close()
        assert (await service.get(key=one)).status == 200


@pytest.mark.usefixtures("parser")
async def test_a_body_that_stops_is_given_up_after_ten_seconds() -> None:
    """With a clock that is set: a body that goes on slowly is read, one that stops is not."""
    clock = FakeClock(auto=False)
    pieces: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    sent: list[MutableMapping[str, Any]] = []

    @asynccontextmanager
    async def limit(seconds: float) -> AsyncIterator[None]:
        async with asyncio.timeout(None) as block:
            sleeping = asyncio.create_task(clock.sleep(seconds))
            sleeping.add_done_callback(
                lambda done: done.cancelled() or block.reschedule(asyncio.get_running_loop().time())
            )
            try:
                yield
            finally:
                sleeping.cancel()

    async def app(_scope: object, receive: Receive, _send: object) -> None:
        sent.append(await receive())

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    limits = AccessLimits()
    bodies = BodyLimits(app, limits, limit)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/sessions/import",
        "headers": [(b"content-length", b"4")],
        "state": {STATE: Caller(CallerUsage(limits, clock.monotonic), None)},
    }

    async def settle() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    reading = asyncio.create_task(bodies(scope, pieces.get, send))
    for n in range(3):
        await settle()
        clock.advance(9)  # each pause is shorter than ten seconds
        await pieces.put({"type": "http.request", "body": b"a", "more_body": n < 2})
    await reading
    assert sent.pop()["body"] == b"aaa"
    reading = asyncio.create_task(bodies(scope, pieces.get, send))
    await pieces.put({"type": "http.request", "body": b"a", "more_body": True})
    await settle()
    clock.advance(10)
    await reading
    assert sent[0]["status"] == 408
    problem = msgspec.json.decode(sent[1]["body"])
    assert (problem["kind"], problem["retryable"]) == ("body_stopped", True)


# -- health, metrics, the log


async def test_metrics_count_requests_without_personal_data(service: Service) -> None:
    key = await service.make_key("admin", name="ada.lovelace@example.com", tenant="acme")
    service.clock.ahead += 5
    await service.get(key=key)
    await service.get("/api/v1/sessions/ada-lovelace/nothing", key=key)
    await service.get()
    reply = await service.get("/metrics", key=key)
    text = reply.body.decode()
    assert reply.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    counted = 'holdfast_http_requests_total{method="GET",route="%s",status="%d"} 1\n'
    assert counted % ("/api/v1/whoami", 200) in text
    assert counted % ("unmatched", 401) in text
    assert 'holdfast_http_response_seconds_count{method="GET",route="/api/v1/whoami"} 1\n' in text
    for private in ("ada", "acme", "127.0.0.1", key):
        assert private not in text


async def test_the_log_has_who_and_what_and_no_secret(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    key = await service.make_key()
    service.clock.ahead += 5
    with caplog.at_level(logging.INFO, logger="holdfast.server.access"):
        await service.get("/api/v1/whoami?q=my-secret-words", key=key)
        await service.post(body=b'{"message": "very private"}', key=key)
    (stored,) = await service.store.list_keys()
    lines = [record.getMessage() for record in caplog.records if "access" in record.name]
    assert [line.split()[:3] for line in lines] == [
        ["GET", "/api/v1/whoami", "200"],
        ["POST", "/api/v1/turns", "202"],
    ]
    assert all(line.endswith(f"127.0.0.1 {stored.id}") for line in lines)
    assert not any(word in caplog.text for word in (key, "secret-words", "very private"))


async def test_a_service_that_stops_is_not_ready(service: Service) -> None:
    assert (await service.get("/ready")).json() == {"status": "ready"}
    service.access.readiness.is_stopping = lambda: True
    assert (await service.get("/ready")).status == 503


async def test_everything_works_below_a_root_path() -> None:
    def mount() -> Starlette:
        return make_app()

    store, clock = MemoryServiceStore(), Clock()
    access = AccessControl(store, now=clock, monotonic=clock)
    outer = Starlette(routes=[Mount("/agents", protect(mount(), access))])
    async with serve(outer) as server:
        service = Service(server.port, access, store, clock)
        assert (await service.get("/agents/health")).status == 200
        assert (await service.get("/agents/api/v1/whoami")).status == 200
        assert (await service.get("/health")).status == 404
        key = await service.make_key()
        service.clock.ahead += 5
        assert (await service.get("/agents/api/v1/whoami")).status == 401
        reply = await service.post("/agents/console/sign-in", b'{"key": "%s"}' % key.encode())
        assert "; Path=/agents;" in reply.header("set-cookie")
        await access.keys.close()


async def test_a_function_of_yours_may_say_who_calls() -> None:
    async def identify(scope: object) -> Principal | None:
        headers = dict(scope["headers"])  # type: ignore[index]
        user = headers.get(b"x-user", b"").decode()
        return Principal("acme", user, frozenset({"read"})) if user else None

    async with serve_service(AccessOptions(auth=identify)) as service:
        assert (await service.get()).status == 401
        assert (await service.get(x_user="ada")).json() == {"tenant": "acme", "name": "ada"}
        assert (await service.post(x_user="ada")).status == 403


async def test_a_key_of_the_store_is_never_the_key(service: Service) -> None:
    text = await service.make_key()
    (stored,) = await service.store.list_keys()
    assert isinstance(stored, ApiKey)
    assert text.encode() not in repr(stored).encode()
    assert len(stored.digest) == 32
