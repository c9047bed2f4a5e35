"""Calls of an API over HTTP: what is sent, what the model reads of the answer, and what nobody ever reads."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from aiohttp import web
from tests.openapi.api_server import (
    ApiServer,
    call_tool,
    document_of,
    make_toolset,
    media_of,
    serve_api,
)

from holdfast import Agent, MemoryJournal
from holdfast.core.messages import ToolCall
from holdfast.openapi import OpenAPIToolset
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools import Check, DoubtfulCall, Happened, NotHappened
from holdfast.transport.port import Timeouts

SECRET = "s3cr3t-t0ken-value"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8

ORDERS: dict[str, Any] = {
    "/orders/{id}": {
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        "get": {"operationId": "get", "parameters": [
            {"name": "$top", "in": "query", "schema": {"type": "integer", "maximum": 9}},
            {"name": "tags", "in": "query", "schema": {"type": "array"}, "explode": False},
            {"name": "X-Mode", "in": "header", "schema": {"type": "string"}},
            {"name": "seen", "in": "cookie", "schema": {"type": "string"}},
        ]},
        "head": {"operationId": "head"},
        "post": {"operationId": "pay", "parameters": [
            {"name": "Idempotency-Key", "in": "header", "required": True, "schema": {"type": "string"}},
        ], "requestBody": {"required": True, "content": {"application/json": {"schema": {
            "type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"],
        }}}}},
        "put": {"operationId": "put"},
    },
}  # fmt: skip
SCHEMES = {
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "basic"},
    "oauth": {"type": "oauth2", "flows": {}},
}


def toolset_for(server: ApiServer, **keywords: Any) -> OpenAPIToolset:
    document = document_of(ORDERS, components={"securitySchemes": SCHEMES})
    keywords = {"base_url": f"{server.base_url}/v1/", "auth": SECRET, **keywords}
    return make_toolset(document, **keywords)


async def test_arguments_are_sent_at_their_places_and_the_answer_is_read() -> None:
    async with serve_api(web.json_response({"n": [1, 2], "é": "ü"})) as server:
        given = {
            "id": "a b%26+&é",
            "$top": 5,
            "tags": ["x", "y z"],
            "X-Mode": "fast",
            "seen": "a;b",
        }
        result = await call_tool(toolset_for(server), "get", json.dumps(given))
    assert (result.text, result.is_error) == ('{"n":[1,2],"é":"ü"}', False)
    ((method, path, headers, body),) = server.requests
    assert method == "GET"
    assert path == "/v1/orders/a%20b%2526%2B%26%C3%A9?%24top=5&tags=x,y%20z"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert (headers["x-mode"], headers["cookie"], body) == ("fast", "seen=a%3Bb", b"")
    assert "content-type" not in headers


async def test_a_body_is_sent_with_the_key_of_the_call() -> None:
    async with serve_api(web.json_response({"paid": True}, status=201)) as server:
        given = {"id": "7", "body": {"amount": 5}}
        result = await call_tool(toolset_for(server), "pay", json.dumps(given))
    assert result.text == '{"paid":true}'
    ((method, _, headers, body),) = server.requests
    assert (method, body, headers["content-type"]) == ("POST", b'{"amount":5}', "application/json")
    assert headers["idempotency-key"]


@pytest.mark.parametrize(
    ("style", "value", "path"),
    [
        ("matrix", "x;admin=true", "/;id=x%3Badmin%3Dtrue"),
        ("simple", ["a,b", "c&d"], "/a%2Cb,c%26d"),
        ("label", "a,b", "/.a%2Cb"),
        ("simple", [7.0, 7.5, 1e300], "/7,7.5,1e%2B300"),
    ],
)
async def test_a_value_in_the_path_stays_encoded_on_the_wire(
    style: str, value: object, path: str
) -> None:
    parameter = {"name": "id", "in": "path", "required": True, "style": style, "schema": True}
    paths = {"/{id}": {"get": {"operationId": "get", "parameters": [parameter]}}}
    async with serve_api() as server:
        toolset = OpenAPIToolset.from_file(document_of(paths), base_url=server.base_url)
        await call_tool(toolset, "get", json.dumps({"id": value}))
    assert server.requests[0][1] == path


async def test_a_write_reaches_a_server_once_also_if_it_drops_a_kept_connection() -> None:
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (line := await reader.readline()).strip():
            got.append(line.partition(b" ")[0])
            while (await reader.readline()).strip():
                pass
            if got[-1] == b"POST":
                break
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    paths = {"/x": {"get": {"operationId": "get"}, "post": {"operationId": "pay"}}}
    toolset = OpenAPIToolset.from_file(document_of(paths), base_url=address)
    assert not (await call_tool(toolset, "get")).is_error
    result = await call_tool(toolset, "pay")
    server.close()
    assert (got, result.in_doubt) == ([b"GET", b"POST"], True)


@pytest.mark.parametrize(
    "given",
    [
        {"id": "7", "$top": 10},
        {"$top": 1},
        {"id": "../admin"},
        {"id": "a/b"},
        {"id": "%2e%2e"},
        {"id": "%252e%252e"},
        {"id": ".."},
        {"id": ""},
        {"id": "7", "X-Mode": "a\r\nHost: other.example"},
        {"id": "7", "Authorization": "Bearer other"},
    ],
)
async def test_a_wrong_call_sends_nothing(given: dict[str, Any]) -> None:
    async with serve_api() as server:
        result = await call_tool(toolset_for(server), "get", json.dumps(given))
    assert result.is_error
    assert not result.in_doubt
    assert result.text.startswith(
        "Error: Function 'get' was not run: its arguments are invalid:\n- "
    )
    assert server.requests == []


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        (SECRET, ("authorization", f"Bearer {SECRET}")),
        ({"basic": "ada:pass"}, ("authorization", "Basic YWRhOnBhc3M=")),
        ({"oauth": SECRET}, ("authorization", f"Bearer {SECRET}")),
        ({"cookie": SECRET}, ("cookie", f"seen=1; sid={SECRET}")),
        ({"query": SECRET}, ("path", f"/v1/orders/7?%24top=1&key={SECRET}")),
        (lambda: SECRET, ("authorization", f"Bearer {SECRET}")),
        (lambda: {"oauth": SECRET}, ("authorization", f"Bearer {SECRET}")),
        (None, ("authorization", None)),
    ],
)
async def test_credentials_are_added_where_their_schemes_say(auth: Any, expected: Any) -> None:
    async with serve_api() as server:
        given = '{"id": "7", "$top": 1, "seen": "1"}'
        await call_tool(toolset_for(server, auth=auth), "get", given)
    ((_, path, headers, _),) = server.requests
    assert {**headers, "path": path}.get(expected[0]) == expected[1]


async def test_a_function_gives_fresh_credentials_for_each_request() -> None:
    tokens = iter(["first-token", "second-token"])

    async def fetch() -> str:
        await asyncio.sleep(0)
        return next(tokens)

    async with serve_api() as server:
        toolset = toolset_for(server, auth=fetch)
        for _ in range(2):
            await call_tool(toolset, "get", '{"id": "7"}')
    sent = [headers["authorization"] for _, _, headers, _ in server.requests]
    assert sent == ["Bearer first-token", "Bearer second-token"]


def fail() -> str:
    raise KeyError(SECRET)


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        (fail, "auth raised KeyError"),
        (lambda: 3, "auth returned what cannot be used"),
        (lambda: SECRET + "\n", "a line break"),
        (lambda: {"other": SECRET}, "no security scheme 'other'"),
    ],
)
async def test_credentials_that_fail_are_named_without_their_text(auth: Any, problem: str) -> None:
    async with serve_api() as server:
        result = await call_tool(
            toolset_for(server, auth=auth), "pay", '{"id": "7", "body": {"amount": 1}}'
        )
    assert "its credentials failed" in result.text
    assert problem in result.text
    assert SECRET not in result.text
    assert (server.requests, result.in_doubt) == ([], False)


async def test_nothing_shows_a_credential(caplog: pytest.LogCaptureFixture) -> None:
    def echo(request: web.Request) -> web.Response:
        text = json.dumps({"you": dict(request.headers), "at": str(request.url)})
        return web.Response(
            status=400 if "bad" in request.path else 200, text=text, content_type="application/json"
        )

    caplog.set_level(logging.DEBUG, "holdfast")
    async with serve_api(echo) as server:
        auth = {"oauth": SECRET, "query": "query-s3cr3t", "cookie": "c00kie-s3cr3t"}
        toolset = toolset_for(server, auth=auth, headers={"X-Fixed": "f1xed-s3cr3t"})
        journal = MemoryJournal()
        calls = [ToolCall("1", "get", '{"id": "good"}'), ToolCall("2", "get", '{"id": "bad"}')]
        agent = Agent(ScriptedModel(calls, "Done."), toolsets=[toolset], journal=journal)
        async with agent.stream("Go.", session="ada") as run:
            shown = [repr(item) async for item in run]
        saved = repr([record.event for record in await journal.read("ada")])
    _, _, headers, _ = server.requests[0]
    assert SECRET in headers["authorization"]
    assert headers["x-fixed"] == "f1xed-s3cr3t"
    known = "".join(
        [*shown, saved, caplog.text, repr(toolset), repr(toolset.fixed_tools), repr(run.result)]
    )
    assert "good" in known
    for secret in (SECRET, "query-s3cr3t", "c00kie-s3cr3t", "f1xed-s3cr3t"):
        assert secret not in known


async def test_an_echoed_password_is_removed_and_public_headers_are_not() -> None:
    said = {"password": "correct-horse", "kind": "application/pdf", "on": "2022-11-28"}
    headers = {"Accept": "application/vnd.shop+json", "X-Shop-Api-Version": "2022-11-28"}
    async with serve_api(web.json_response(said)) as server:
        toolset = toolset_for(server, auth={"basic": "ada:correct-horse"}, headers=headers)
        result = await call_tool(toolset, "get", '{"id": "7"}')
    assert json.loads(result.text) == {**said, "password": "[redacted]"}


def answer(body: bytes | str, kind: str | None, status: int = 200, **headers: str) -> web.Response:
    data = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if kind is not None:
        named["Content-Type"] = kind
    return web.Response(status=status, body=data, headers=named)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (answer('{"a": [1,  2]}', "application/json; charset=utf-8"), '{"a":[1,2]}'),
        (answer('{"a": 1}', "application/vnd.github+json"), '{"a":1}'),
        (answer("{broken", "application/json"), "{broken"),
        (answer('{"n": 123456789012345678901234, "p": 1.10, "q": 0.10000000000000000055}', "application/json"), '{"n":123456789012345678901234,"p":1.10,"q":0.10000000000000000055}'),
        (answer("ü".encode("latin-1"), "text/plain; charset=latin-1"), "ü"),
        (answer("ü", "text/plain; charset=nonsense"), "ü"),
        *[(answer("a\\x41-b", f"text/plain; charset={name}"), "a\\x41-b") for name in ("idna", "undefined", "punycode", "unicode_escape", "base64")],
        (answer("<a/>", "application/xml"), "<a/>"),
        (answer(b"PK\x03\x04\0", "application/zip"), "(a file of the type application/zip, 5 bytes, which is not shown)"),
        (answer(b"", None, 204), "HTTP 204 No Content, no content."),
        (answer(b"", None, 202, Location="/later"), "HTTP 202 Accepted, no content.\nlocation: /later"),
        (answer(b"", None, 304), "HTTP 304 Not Modified, no content."),
    ],
)  # fmt: skip
async def test_an_answer_is_read_by_its_content_type(response: web.Response, text: str) -> None:
    async with serve_api(response) as server:
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
    shown = "\n".join(line for line in result.text.split("\n") if not line.startswith("content-"))
    assert (shown, result.is_error) == (text, False)


async def test_an_image_is_media_and_head_shows_headers() -> None:
    async with serve_api(answer(PNG, "image/png"), answer(b"", "text/plain", ETag="e1")) as server:
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
        head = await call_tool(toolset_for(server), "head", '{"id": "7"}')
    assert [(one.media_type, one.data) for one in media_of(result)] == [("image/png", PNG)]
    assert head.text.startswith("HTTP 200 OK, no content.")
    assert "etag: e1" in head.text


async def test_a_long_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.openapi.api_client._MOST_BYTES", 50_000)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        try:
            for _ in range(10_000):
                await response.write(b"x" * 10_000)
        except ConnectionError:
            pass
        return response

    async with serve_api(endless) as server:  # type: ignore[arg-type]
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
    assert result.text.endswith("[cut: the response is longer than 50,000 bytes]")
    assert len(result.text) < 51_000


STATUSES = [
    (400, "Correct the arguments."),
    (401, "does not accept the credentials of this program"),
    (403, "do not allow it"),
    (404, "There is no such thing"),
    (409, "conflicts"),
    (422, "Correct the arguments."),
    (418, "failed with HTTP 418"),
]


@pytest.mark.parametrize(("status", "advice"), STATUSES)
async def test_a_refusal_is_worded_and_not_repeated(status: int, advice: str) -> None:
    refusal = answer(json.dumps({"message": "no such order"}), "application/json", status)
    async with serve_api(refusal) as server:
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
    assert result.text.startswith(f"Error: Function 'get' failed with HTTP {status}")
    assert advice in result.text
    assert result.text.endswith('It says: {"message": "no such order"}')
    assert (result.is_error, result.in_doubt, len(server.requests)) == (True, False, 1)


async def test_a_page_of_html_is_not_shown() -> None:
    async with serve_api(answer("<html>" * 100, "text/html", 404)) as server:
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
    assert "<html>" not in result.text


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
async def test_a_temporary_failure_of_a_read_is_repeated(status: int) -> None:
    failed = answer("busy", "text/plain", status)
    async with serve_api(failed, failed, web.json_response(1)) as server:
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
    assert (result.text, len(server.requests)) == ("1", 3)


@pytest.mark.parametrize(
    ("name", "status", "effects", "count", "in_doubt"),
    [
        ("put", 503, {}, 1, True),
        ("put", 408, {}, 1, True),
        ("put", 429, {}, 2, False),  # it was not done
        ("put", 503, {"put": "idempotent"}, 2, False),
    ],
)
async def test_a_temporary_failure_of_a_write_is_repeated_as_its_effect_allows(
    name: str, status: int, effects: Any, count: int, in_doubt: bool
) -> None:
    async with serve_api(answer("busy", "text/plain", status), web.json_response(1)) as server:
        result = await call_tool(toolset_for(server, effects=effects), name, '{"id": "7"}')
    assert (len(server.requests), result.in_doubt) == (count, in_doubt)
    if in_doubt:
        assert f"HTTP {status}" in result.text
        assert (
            "It says: busy. It may have taken effect: check before calling it again." in result.text
        )


async def test_the_words_of_the_last_failure_reach_the_model() -> None:
    async with serve_api(answer("all busy", "text/plain", 503, Retry_After="1")) as server:
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
    assert len(server.requests) == 4
    text = "Error: Function 'get' failed with HTTP 503 Service Unavailable. The service has an error of its own."
    assert result.text == f"{text} It says: all busy"


@pytest.mark.slow  # takes half a second or more
async def test_a_lost_connection_and_a_timeout_are_failures_of_the_tool() -> None:
    async def drop(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def hang(request: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response()

    for silent, timeouts in ((drop, Timeouts()), (hang, Timeouts(first_byte=0.05))):
        async with serve_api(silent) as server:
            result = await call_tool(toolset_for(server, timeouts=timeouts), "put", '{"id": "7"}')
        assert result.in_doubt
        assert result.text.startswith("Error: Function 'put' failed.")


def redirect(to: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"Location": to})


async def test_a_credential_replaces_what_has_its_name() -> None:
    parameters = [{"name": "f", "in": place, "schema": True} for place in ("query", "cookie")]
    paths = {"/x": {"get": {"operationId": "get", "parameters": parameters}}}
    document = document_of(paths, components={"securitySchemes": SCHEMES})
    async with serve_api(redirect("/y?key=old&a=1"), web.json_response(1)) as server:
        auth = {"query": SECRET, "cookie": SECRET}
        toolset = OpenAPIToolset.from_file(document, base_url=server.base_url, auth=auth)
        given = {"f": {"k%65y": 1, "key": "mine"}, "f_cookie": {"sid": "mine", "b": 2}}
        await call_tool(toolset, "get", json.dumps(given))
    sent = [(path, headers["cookie"]) for _, path, headers, _ in server.requests]
    cookies = f"b=2; sid={SECRET}"
    assert sent == [(f"/x?k%2565y=1&key={SECRET}", cookies), (f"/y?a=1&key={SECRET}", cookies)]


async def test_a_read_follows_redirects_on_its_own_server() -> None:
    async with serve_api(
        redirect("/v2/orders/7"), redirect("8", 307), web.json_response(1)
    ) as server:
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
    assert result.text == "1"
    assert [path for _, path, _, _ in server.requests] == [
        "/v1/orders/7",
        "/v2/orders/7",
        "/v2/orders/8",
    ]
    assert all(SECRET in headers["authorization"] for _, _, headers, _ in server.requests)


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/x?token=abc",
        "//evil.example/x",
        "http://127.0.0.1:9/x",
        "http://user@{host}/x",
        "http://{host}@evil.example/x",
        "file:///etc/passwd",
        "http://[",
        "https://{host}/x",
        "\\\\evil.example/x",
    ],
)
async def test_a_redirect_elsewhere_is_an_error_and_nothing_is_sent_there(to: str) -> None:
    async with serve_api() as server:
        server.answers = [redirect(to.replace("{host}", server.base_url.removeprefix("http://")))]
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
        assert result.is_error
        assert "token=abc" not in result.text
        # A backslash is a part of the path for a client like this one: it stays on the server.
        assert all(headers["host"] in server.base_url for _, _, headers, _ in server.requests)
        if not to.startswith("\\"):
            assert len(server.requests) == 1
            assert "redirects to another server" in result.text


async def test_a_redirect_of_a_write_is_not_followed_and_an_endless_one_ends() -> None:
    async with serve_api(redirect("/v1/orders/7", 307)) as server:
        result = await call_tool(toolset_for(server), "put", '{"id": "7"}')
        assert "HTTP 307 Temporary Redirect" in result.text
        assert "It may have taken effect" in result.text
        assert len(server.requests) == 1
        result = await call_tool(toolset_for(server), "get", '{"id": "7"}')
        assert "more than 5 times" in result.text
        assert len(server.requests) == 7


async def test_a_toolset_is_used_from_several_turns_at_once() -> None:
    async with serve_api() as server:
        toolset = toolset_for(server)
        results = await asyncio.gather(
            *[call_tool(toolset, "get", f'{{"id": "{at}"}}') for at in range(8)]
        )
    assert {result.text for result in results} == {'{"ok":true}'}
    assert len(server.requests) == 8


def test_a_toolset_works_without_an_event_loop_of_its_own() -> None:
    toolset = OpenAPIToolset.from_file(document_of(ORDERS), base_url="http://127.0.0.1:9")
    model = ScriptedModel(ToolCall("1", "put", '{"id": "7"}'), "Done.")
    agent = Agent(model, toolsets=[toolset], clock=FakeClock())
    assert agent.run_sync("Go.").output == "Done."


@pytest.mark.parametrize(("acts", "requests"), [(True, 1), (False, 2)])
async def test_a_check_settles_the_doubt_about_an_operation(acts: bool, requests: int) -> None:
    done: list[str] = []

    async def drop_once(request: web.Request) -> web.Response:
        is_first = not done and len(server.requests) < 2
        if acts or not is_first:
            done.append(request.path)
        if is_first:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="put")

    def was_put(call: DoubtfulCall) -> Happened | NotHappened:
        assert call.arguments == {"id": "7"}
        return Happened("put before") if done else NotHappened()

    async with serve_api(drop_once) as server:
        toolset = toolset_for(server, checks={"put": Check(was_put, settle=0)})
        result = await call_tool(toolset, "put", '{"id": "7"}')
    assert (result.text, result.in_doubt) == ("put before" if acts else "put", False)
    assert (len(server.requests), len(done)) == (requests, 1)
