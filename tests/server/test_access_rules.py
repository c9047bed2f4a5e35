"""Who may call the service, decided without HTTP."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ConfigurationError
from holdfast.server.access.asgi import find_route_path
from holdfast.server.access.authentication import (
    find_sign_in_secret,
    is_csrf_token,
    make_cookies,
    make_csrf_token,
)
from holdfast.server.access.budgets import Rate, RateTable, add_use, find_wait
from holdfast.server.access.client_addresses import (
    has_forwarded,
    is_loopback,
    name_caller,
    parse_networks,
    read_forwarded,
)
from holdfast.server.access.keys import (
    accept_key,
    digest_secret,
    is_key,
    make_key,
    make_successor,
)
from holdfast.server.access.options import AccessLimits, AccessOptions, check_bind
from holdfast.server.access.origin_rules import (
    RequestHead,
    check_content_type,
    check_host,
    check_origin,
    is_origin,
    split_host,
)
from holdfast.server.access.principals import Principal, parse_scopes
from holdfast.server.access.responses import describe_request, name_route


def test_admin_may_do_everything_and_the_others_only_what_they_name() -> None:
    admin = Principal("", "a", frozenset({"admin"}))
    assert all(admin.may(scope) for scope in ("run", "read", "answer", "admin", "read:redacted"))
    reader = Principal("", "r", frozenset({"read"}))
    assert [reader.may(scope) for scope in ("read", "read:redacted", "run", "answer", "admin")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_redacted_reader_may_not_read() -> None:
    reader = Principal("", "r", frozenset({"read:redacted"}))
    assert reader.may("read:redacted")
    assert not reader.may("read")


def test_scopes_are_read_and_a_wrong_one_is_named() -> None:
    assert parse_scopes([" answer", "run", "run", ""]) == ("run", "answer")
    with pytest.raises(ConfigurationError, match=r"scopes: unknown scope 'fly'.*run, read"):
        parse_scopes(["run", "fly"])
    with pytest.raises(ConfigurationError, match="has no scope"):
        parse_scopes([""])


def test_a_key_is_accepted_until_it_expires_or_is_revoked() -> None:
    text, stored = make_key("ci", scopes=("run",), now=100.0, tenant="acme", seconds=50.0)
    digest = digest_secret(text)
    assert is_key(text)
    assert accept_key(stored, digest, 149.9) == Principal(
        "acme", "ci", frozenset({"run"}), stored.id
    )
    assert accept_key(stored, digest, 150.0) is None
    assert accept_key(stored, digest_secret(text + "x"), 120.0) is None
    assert accept_key(None, digest, 120.0) is None
    assert text not in repr(stored)


def test_every_key_is_different_and_long() -> None:
    keys = {make_key("ci", scopes=("run",), now=0.0)[0] for _ in range(100)}
    assert len(keys) == 100
    assert {len(key) for key in keys} == {46}  # hf_ and 43 characters of 6 bits: 258 bits


def test_a_successor_lives_as_long_as_its_predecessor_was_to_live() -> None:
    text, stored = make_key("ci", scopes=("run",), now=100.0, seconds=50.0)
    newer, successor = make_successor(stored, 140.0)
    assert newer != text
    assert (successor.expires_at, successor.created_at) == (190.0, 140.0)
    assert (successor.name, successor.scopes, successor.id == stored.id) == ("ci", ("run",), False)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"tenant": "a\x00"}, "tenant"),
        ({"seconds": 0.0}, "expires"),
        ({"seconds": float("nan")}, "expires"),
        ({"scopes": ()}, "scopes"),
    ],
)
def test_a_wrong_argument_of_a_key_is_named(fields: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make_key(**{"name": "ci", "scopes": ("run",), "now": 0.0, **fields})  # type: ignore[arg-type]
    assert raised.value.argument == named


@given(
    count=st.integers(1, 50),
    seconds=st.floats(0.1, 3600),
    pauses=st.lists(st.floats(0, 100), max_size=80),
)
def test_whoever_waits_as_long_as_it_is_told_is_let_through(
    count: int, seconds: float, pauses: list[float]
) -> None:
    rate, state, now = Rate(count, seconds), 0.0, 1000.0
    for passed, pause in enumerate(pauses, 1):
        now += pause
        wait = find_wait(rate, state, now)
        if wait:
            assert wait <= rate.seconds
            assert find_wait(rate, state, now + wait * 0.9) > 0
            now += wait
            assert find_wait(rate, state, now) == 0
        state = add_use(rate, state, now)
        assert passed <= count + (now - 1000.0) / rate.interval + 1e-6


def test_a_table_of_rates_is_bounded_and_forgets_the_quiet_ones() -> None:
    table = RateTable(Rate(1), size=3)
    for caller in "abcd":
        assert table.take(caller, 1.0) == 0
    assert table.take("a", 1.0) == 0  # forgotten
    assert table.take("d", 1.0) == 60.0
    table.give_back("d")
    assert table.take("d", 1.0) == 0


PROXIES = parse_networks("p", ["10.0.0.0/8", "::1"])


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("10.0.0.1", b"8.8.8.8", "8.8.8.8"),
        ("8.8.8.8", b"127.0.0.1", "8.8.8.8"),
        ("10.0.0.1", b"127.0.0.1, 8.8.8.8", "8.8.8.8"),
        ("10.0.0.1", b"8.8.8.8, 10.1.1.1", "8.8.8.8"),
        ("10.0.0.1", b"10.2.2.2, 10.1.1.1", "10.2.2.2"),
        ("::1", b"2001:db8::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", b"8.8.8.8", "8.8.8.8"),
        ("10.0.0.1", b"unknown", "unknown"),
        ("10.0.0.1", b"", "10.0.0.1"),
    ],
)
def test_only_a_named_proxy_says_where_a_request_came_from(
    peer: str, forwarded: bytes, expected: str
) -> None:
    headers = [(b"x-forwarded-for", forwarded), (b"x-forwarded-proto", b"https")]
    seen = read_forwarded(peer, "http", headers, PROXIES)
    assert seen.address == expected
    assert seen.scheme == ("http" if peer == "8.8.8.8" else "https")


def test_networks_of_proxies_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="proxies: 'everybody' is not an address"):
        parse_networks("proxies", ["10.0.0.1", "everybody"])


def test_addresses_of_this_machine_are_known() -> None:
    for address in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "::ffff:127.0.0.1"):
        assert is_loopback(address), address
    for address in ("", "0.0.0.0", "::", "10.0.0.1", "localhost.evil.example", "127.0.0.1.nip.io"):
        assert not is_loopback(address), address


def test_tries_are_counted_for_a_network_of_ipv6() -> None:
    assert name_caller("2001:db8::1") == name_caller("2001:db8::2") == "2001:db8::/64"
    assert name_caller("::ffff:9.9.9.9") == "9.9.9.9"
    assert len(name_caller("x" * 5000)) == 100


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("LocalHost:8000", "localhost"),
        ("localhost.", "localhost"),
        ("[::1]:8000", "[::1]"),
        ("127.0.0.1", "127.0.0.1"),
        ("", ""),
        ("a@127.0.0.1", ""),
        ("127.0.0.1/x", ""),
        ("127.0.0.1:80:80", ""),
        ("::1", ""),
        ("localhost:x", ""),
    ],
)
def test_the_name_in_a_host_is_read(host: str, name: str) -> None:
    assert split_host(host) == name


def test_without_keys_only_names_of_this_machine_are_answered() -> None:
    for host in ("localhost:8000", "127.0.0.1:1", "[::1]"):
        assert check_host(host, (), is_local=True) is None
    # A name that its owner points to 127.0.0.1 (DNS rebinding).
    for host in ("evil.example:8000", "", "127.0.0.1.evil.example", "0.0.0.0:8000"):
        problem = check_host(host, (), is_local=True)
        assert problem is not None, host
        assert (problem.status, problem.kind) == (400, "foreign_host")
    assert check_host("my.box", ("my.box",), is_local=True) is None


def test_with_keys_only_listed_names_are_answered_if_there_are_any() -> None:
    assert check_host("any.example", (), is_local=False) is None
    assert check_host("agents.example:443", ("agents.example",), is_local=False) is None
    assert check_host("127.0.0.1", ("agents.example",), is_local=False) is not None


def head(**fields: object) -> RequestHead:
    usual = {"method": "POST", "scheme": "http", "host": "localhost:8000", "has_body": True}
    return RequestHead(**{**usual, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ({}, True),  # a program
        ({"origin": "http://localhost:8000"}, True),
        ({"origin": "http://localhost:8000", "site": "same-origin"}, True),
        ({"origin": "http://localhost:3000"}, False),
        ({"origin": "http://127.0.0.1:8000"}, False),
        ({"origin": "https://localhost:8000"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://[evil"}, False),
        ({"origin": "http://localhost:99999"}, False),
        ({"origin": "https://evil.example"}, False),
        ({"site": "cross-site"}, False),
        ({"site": "same-site"}, False),
        ({"site": "none"}, True),
        ({"site": "cross-site", "method": "GET"}, False),
        ({"site": "cross-site", "method": "GET", "destination": "document"}, True),
        ({"site": "cross-site", "method": "GET", "destination": "iframe"}, False),
        ({"site": "cross-site", "destination": "document"}, False),
        ({"origin": "https://app.example"}, True),
        ({"host": "localhost", "origin": "http://localhost:80"}, True),
        ({"scheme": "https", "host": "a.example", "origin": "https://a.example"}, True),
    ],
)
def test_only_pages_of_the_service_itself_may_call_it(
    fields: dict[str, object], allowed: bool
) -> None:
    problem = check_origin(head(**fields), ("https://app.example",))
    assert (problem is None) is allowed
    assert problem is None or (problem.status, problem.field) == (403, "Origin")


@pytest.mark.parametrize(
    ("kind", "is_media", "allowed"),
    [
        ("application/json", False, True),
        ("Application/JSON; charset=utf-8", False, True),
        ("application/x-ndjson", False, True),
        ("text/plain", False, False),
        ("", False, False),
        ("application/x-www-form-urlencoded", True, False),
        ("multipart/form-data; boundary=x", True, False),
        ("text/plain", True, True),
        ("image/png", True, True),
        ("image/png", False, False),
    ],
)
def test_a_body_is_json_or_a_picture_for_the_route_of_pictures(
    kind: str, is_media: bool, allowed: bool
) -> None:
    problem = check_content_type(head(content_type=kind), is_media=is_media)
    assert (problem is None) is allowed
    assert check_content_type(head(content_type=kind, has_body=False), is_media=is_media) is None


def test_other_addresses_are_not_served_without_keys() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        check_bind(host, AccessOptions(), has_keys=False)
    for host in ("0.0.0.0", "::", "", "192.168.1.7", "example.com"):
        with pytest.raises(ConfigurationError, match=r"host: .*no keys.*holdfast keys create"):
            check_bind(host, AccessOptions(), has_keys=False)
        with pytest.raises(ConfigurationError, match="no keys"):
            check_bind(host, AccessOptions(auth="keys"), has_keys=False)
        check_bind(host, AccessOptions(), has_keys=True)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"auth": "none"}, "auth"),
        ({"allowed_hosts": ("http://a.example",)}, "allowed_hosts"),
        ({"allowed_hosts": ("A.example",)}, "allowed_hosts"),
        ({"allowed_hosts": ("*",)}, "allowed_hosts"),
        ({"allowed_hosts": "a.example"}, "allowed_hosts"),
        ({"allowed_origins": ("*",)}, "allowed_origins"),
        ({"allowed_origins": ("https://a.example/",)}, "allowed_origins"),
        ({"allowed_origins": ("https://a.example:443",)}, "allowed_origins"),
        ({"allowed_origins": ("null",)}, "allowed_origins"),
        ({"allowed_origins": ("https://a.example:8443",)}, None),
        ({"trusted_proxies": ("nginx",)}, "trusted_proxies"),
    ],
)
def test_wrong_settings_are_named(fields: dict[str, object], named: str | None) -> None:
    if named is None:
        AccessOptions(**fields)  # type: ignore[arg-type]
        return
    with pytest.raises(ConfigurationError) as raised:
        AccessOptions(**fields)  # type: ignore[arg-type]
    assert raised.value.argument == named


@pytest.mark.parametrize("name", AccessLimits.__struct_fields__)
def test_a_limit_is_above_zero(name: str) -> None:
    for value in (0, -1, "many", None):
        with pytest.raises(ConfigurationError, match=f"limits.{name}: must be"):
            AccessLimits(**{name: value})  # type: ignore[arg-type]


def test_origins_are_written_as_browsers_write_them() -> None:
    assert is_origin("http://[::1]:8000")
    assert not is_origin("HTTPS://a.example")
    assert not is_origin("https://user@a.example")


def test_a_token_belongs_to_one_sign_in() -> None:
    token = make_csrf_token("a" * 43)
    assert is_csrf_token(token, "a" * 43)
    assert not is_csrf_token(token, "b" * 43)
    assert not is_csrf_token("", "a" * 43)
    assert not is_csrf_token("é", "a" * 43)


def test_cookies_are_strict_and_the_one_of_the_sign_in_is_hidden_from_scripts() -> None:
    session, csrf = make_cookies("s" * 43, "/agents", is_secure=True)
    for cookie in (session, csrf):
        assert "; Path=/agents; Max-Age=43200; SameSite=Strict; Secure" in cookie
    assert session.startswith("holdfast_session=" + "s" * 43)
    assert "HttpOnly" in session
    assert "HttpOnly" not in csrf
    assert "Secure" not in make_cookies("s", "/", is_secure=False)[0]


@pytest.mark.parametrize(
    ("cookie", "found"),
    [
        (b"holdfast_session=" + b"s" * 43, True),
        (b"a=1; holdfast_session=" + b"s" * 43 + b"; b=2", True),
        (b"holdfast_session=" + b"s" * 42, False),
        (b"holdfast_session=" + b"s" * 43 + b"; holdfast_session=" + b"t" * 43, False),
        (b"xholdfast_session=" + b"s" * 43, False),
        (b"", False),
    ],
)
def test_the_cookie_of_a_sign_in_is_found(cookie: bytes, found: bool) -> None:
    assert bool(find_sign_in_secret([(b"cookie", cookie)])) is found


def test_a_line_of_the_log_has_no_query_and_no_line_of_its_own() -> None:
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/sessions/a\nGET \x1b[2J\u00e9",
        "query_string": b"q=my+secret",
        "headers": [(b"authorization", b"Bearer hf_secret")],
        "client": ("9.9.9.9", 1),
    }
    line = describe_request(scope, 200, 0.0125)
    assert line == "GET /api/v1/sessions/a%0AGET%20%1B%5B2J%C3%A9 200 12ms 9.9.9.9 -"
    assert describe_request({**scope, "path": "x" * 5000}, 0, 1).startswith("GET xxx")
    assert len(describe_request({**scope, "path": "x" * 5000}, 0, 1)) < 400


def test_a_route_is_named_without_what_a_caller_chose() -> None:
    scope = {"endpoint": print, "path_params": {"session": "ada/2", "n": 7}}
    assert name_route(scope, "/api/v1/sessions/ada/2/turns/7") == (
        "/api/v1/sessions/{session}/turns/{n}"
    )
    assert name_route({}, "/wp-login.php") == "unmatched"
    assert name_route({"endpoint": object()}, "/console/my-name.js") == "unmatched"
    assert name_route({}, "/health") == "/health"


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [("/a/b", "/a", "/b"), ("/ab", "/a", "/ab"), ("/a", "/a", "/"), ("/b", "", "/b")],
)
def test_paths_are_read_below_the_mount(path: str, root: str, expected: str) -> None:
    assert find_route_path({"path": path, "root_path": root}) == expected


@pytest.mark.parametrize(
    "name",
    [
        "Forwarded",
        "Via",
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Forwarded-Server",
        "X-Forwarded-Ssl",
        "X-Forwarded",
        "X-Real-IP",
        "CF-Connecting-IP",
        "CF-Connecting-IPv6",
        "CF-Ray",
        "CF-IPCountry",
        "CF-Visitor",
        "CDN-Loop",
        "True-Client-IP",
        "X-Client-IP",
        "X-Cluster-Client-IP",
        "Fastly-Client-IP",
        "Fly-Client-IP",
        "X-Envoy-External-Address",
        "X-Amzn-Trace-Id",
        "X-Original-Forwarded-For",
        "X-Azure-ClientIP",
    ],
)
def test_each_header_of_a_proxy_is_seen(name: str) -> None:
    for written in (name, name.lower()):
        for value in (b"1.1.1.1", b""):
            assert has_forwarded([(b"host", b"a"), (written.encode(), value)])


@given(st.from_regex(r"(x-forwarded|cf)-[a-z-]{0,20}", fullmatch=True))
def test_each_header_that_begins_as_one_of_a_proxy_is_seen(name: str) -> None:
    assert has_forwarded([(name.encode(), b"1")])


def test_headers_of_programs_and_browsers_are_of_no_proxy() -> None:
    names = """host accept accept-encoding accept-language authorization cache-control connection content-length
        content-type cookie idempotency-key if-none-match last-event-id origin pragma priority referer sec-fetch-dest
        sec-fetch-mode sec-fetch-site sec-ch-ua te traceparent tracestate transfer-encoding upgrade-insecure-requests
        user-agent x-csrf-token x-requested-with x-request-id x-stainless-lang openai-organization"""
    assert not has_forwarded([(name.encode(), b"a") for name in names.split()])
