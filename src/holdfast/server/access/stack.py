"""Protects an application: every request passes through here before it reaches a route.

    forwarded headers -> headers, log and metrics -> CORS -> gate -> body -> the application

The gate knows four kinds of paths: those for machines that watch, those of the sign-in, those of the
console's own files, which anybody may read, and all others, which need a principal. The sign-in is:

    POST /console/sign-in  {"key": "hf_..."}   200 with who signed in, and the cookies
    GET  /console/session                      200 with who is signed in, 401 if nobody is
    POST /console/sign-out                     204; the sign-in is over in every process
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
from msgspec import Struct
from starlette.responses import JSONResponse, Response

from holdfast.core.errors import HoldfastError
from holdfast.journal.service_store.service_store import ServiceStore
from holdfast.server.access.asgi import (
    AMBIGUOUS_LENGTH,
    ASGIApp,
    Receive,
    Scope,
    Send,
    count_header,
    find_header,
    find_route_path,
    has_body,
    is_length_ambiguous,
    refuse,
)
from holdfast.server.access.authentication import (
    Authenticator,
    Identity,
    find_address,
    find_sign_in_secret,
    make_cookies,
    make_csrf_token,
    make_sign_in,
)
from holdfast.server.access.bodies import BodyLimits, is_upload
from holdfast.server.access.budgets import CallerUsage
from holdfast.server.access.callers import (
    STATE,
    Caller,
    require,
    take_stream,
    take_turn,
)
from holdfast.server.access.client_addresses import parse_networks, read_forwarded
from holdfast.server.access.connections import note_caller
from holdfast.server.access.key_ring import KeyRing
from holdfast.server.access.open_requests import OpenRequest, OpenRequests
from holdfast.server.access.options import AccessOptions, check_bind
from holdfast.server.access.origin_rules import (
    SAFE_METHODS,
    CrossOrigin,
    RequestHead,
    check_content_type,
    check_host,
    check_origin,
)
from holdfast.server.access.principals import Principal
from holdfast.server.access.redacted_reading import RedactedAnswer
from holdfast.server.access.responses import ResponseWatch
from holdfast.server.health.journal_outage import JournalOutage
from holdfast.server.health.readiness import (
    Readiness,
    respond_health,
    respond_metrics,
    respond_ready,
)
from holdfast.server.health.service_metrics import ServiceMetrics
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError, make_problem, to_problem

__all__ = ["AccessControl", "protect", "require", "take_stream", "take_turn"]

SIGN_IN, SESSION, SIGN_OUT = "/console/sign-in", "/console/session", "/console/sign-out"

_SIGN_IN_BYTES = 4096  # anybody may send them
_PUBLIC = ("/console", "/favicon.ico")


class AccessControl:
    """Who may call one service, and its health.

    Args:
        store: has the keys and sign-ins.
        options: who may call, and how much.
        now: the time in seconds since the epoch.
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(
        self,
        store: ServiceStore,
        options: AccessOptions | None = None,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options or AccessOptions()
        self.monotonic = monotonic
        self.keys = KeyRing(store, now, monotonic)
        self.authenticator = Authenticator(self.options, self.keys)
        self.usage = CallerUsage(self.options.limits, monotonic)
        self.open_requests = OpenRequests(self.keys.is_valid)
        self.keys.note_end = self.open_requests.look
        self.metrics = ServiceMetrics()
        self.metrics.add_gauges(self._count_streams)
        self.outage = JournalOutage(monotonic)
        self.readiness = Readiness(monotonic)
        self.readiness.add_check("store", lambda: store.probe(now()))

    async def check_bind(self, host: str) -> None:
        """Refuse to listen on an address of other machines while there is no key; see `check_bind`.

        Raises:
            ConfigurationError: the service would be open to everybody.
            JournalError: the keys cannot be read.
        """
        check_bind(host, self.options, has_keys=await self.keys.has_keys())

    async def _count_streams(self) -> dict[str, float]:
        return {"streams_open": float(self.usage.open_streams)}


def protect(app: ASGIApp, access: AccessControl) -> ASGIApp:
    """Return an application that lets only those requests through that may pass.

    Args:
        app: the application. Its routes call `require`, `take_turn` and `take_stream`.
        access: who may pass.
    """
    gate = _Gate(app, access)
    origins = access.options.allowed_origins
    crossing = CrossOrigin(gate, origins) if origins else gate
    watched = ResponseWatch(crossing, access.metrics, access.outage, access.monotonic)
    proxies = parse_networks("trusted_proxies", access.options.trusted_proxies)

    async def protected(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        client = scope.get("client")
        seen = read_forwarded(find_address(scope), scope["scheme"], scope["headers"], proxies)
        scope["scheme"] = seen.scheme
        if client and seen.address != client[0]:
            scope["client"] = (seen.address, 0)
        if seen.host:
            others = [pair for pair in scope["headers"] if pair[0] != b"host"]
            scope["headers"] = [*others, (b"host", seen.host.encode("latin-1"))]
        await watched(scope, receive, send)

    return protected


class _Gate:
    """Answers the paths of the sign-in and of health, and finds out who calls the others."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self._bodies = BodyLimits(app, access.options.limits)
        self._access = access
        self._options = access.options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = Caller(self._access.usage, None)
        state = scope.setdefault("state", {})
        state.pop("principal", None)  # an outer application may have one of its own
        state[STATE] = caller
        note_caller(scope, is_known=False)
        try:
            response = await self._find_answer(scope, receive, caller)
            if response is not None:
                await response(scope, receive, send)
            else:
                await self._serve(scope, receive, send)
        finally:
            caller.end_request()

    async def _find_answer(self, scope: Scope, receive: Receive, caller: Caller) -> Response | None:
        """Return the response in place of the application's; None if the application answers."""
        try:
            return await self._answer(scope, receive, caller)
        except ProblemError as error:
            return refuse(error.problem)
        except HoldfastError as error:
            return refuse(to_problem(error))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer, for as long as the caller may call."""
        caller: Caller = scope["state"][STATE]
        principal, credential = caller.principal, caller.credential
        is_description = find_route_path(scope).endswith("/openapi.json")
        if principal is not None and principal.is_redacted and not is_description:
            send = RedactedAnswer(send).send
        if credential is None:
            await self._bodies(scope, receive, send)
            return
        request = OpenRequest(caller, scope, receive, send)
        with self._access.open_requests.watching(credential, request):
            await request.perform(lambda: self._bodies(scope, receive, request.send))

    async def _answer(self, scope: Scope, receive: Receive, caller: Caller) -> Response | None:
        """Return the response to a request; None if it may go to the application.

        Raises:
            ProblemError: it is refused.
            JournalError: the store cannot be used.
        """
        access, route = self._access, (scope["method"], find_route_path(scope))
        if is_length_ambiguous(scope["headers"]):
            raise ProblemError(_ambiguous_problem())
        if route == ("GET", "/health"):
            return respond_health()
        if route == ("GET", "/ready"):
            return await respond_ready(access.readiness)
        is_local = await access.authenticator.is_local()
        head = read_head(scope)
        self._check_head(head, scope, is_local=is_local)
        if route == ("POST", SIGN_IN):
            _check_page(head, is_media=False)
            return await self._sign_in(scope, receive)
        if _is_public(*route):
            return None
        identity = await access.authenticator.identify(scope, is_local=is_local)
        caller.principal = scope["state"]["principal"] = identity.principal
        caller.credential = identity.credential
        note_caller(scope, is_known=True)
        if identity.by_cookie:
            _check_page(head, is_media=is_upload(scope))
        if route == ("POST", SIGN_OUT):  # whatever the caller has used up
            return await _sign_out(scope, access.keys)
        caller.begin_request()
        if route == ("GET", SESSION):
            return _show_session(scope, identity, is_local=is_local)
        if route == ("GET", "/metrics"):
            caller.require("admin")
            return await respond_metrics(access.metrics)
        return None

    async def _sign_in(self, scope: Scope, receive: Receive) -> Response:
        read = await self._bodies.read(scope, receive, _SIGN_IN_BYTES)
        if read is None:
            return Response(status_code=400)  # nobody is there to receive it
        return await _sign_in(scope, read, self._access.authenticator, self._access.keys)

    def _check_head(self, head: RequestHead, scope: Scope, *, is_local: bool) -> None:
        """Apply the rules that hold for every caller."""
        if count_header(scope["headers"], b"host") > 1:
            raise ProblemError(make_problem(400, "host", "There is more than one Host."))
        problem = None
        if not callable(self._options.auth):
            problem = check_host(head.host, self._options.allowed_hosts, is_local=is_local)
        if is_local:
            problem = problem or check_origin(head, self._options.allowed_origins)
            problem = problem or check_content_type(head, is_media=is_upload(scope))
        if problem is not None:
            raise ProblemError(problem)


def _ambiguous_problem() -> ProblemBody:
    return make_problem(
        400,
        AMBIGUOUS_LENGTH,
        "More than one header says how long the body is.",
        field="Content-Length",
        fix="Send either Content-Length or Transfer-Encoding, once",
    )


def _check_page(head: RequestHead, *, is_media: bool) -> None:
    """Apply the rules for requests that a page of another site could cause."""
    problem = check_origin(head, ()) or check_content_type(head, is_media=is_media)
    if problem is not None:
        raise ProblemError(problem)


def _is_public(method: str, path: str) -> bool:
    """Whether anybody may read a path: the files of the console, which ask for a sign-in."""
    is_file = path in _PUBLIC or (path.startswith("/console/") and path != SESSION)
    return method in SAFE_METHODS and is_file


def read_head(scope: Scope) -> RequestHead:
    """Return a request as the rules see it."""
    headers = scope["headers"]
    is_navigation = find_header(headers, b"sec-fetch-mode") == "navigate"
    origins = count_header(headers, b"origin")
    return RequestHead(
        method=scope["method"],
        scheme=scope["scheme"],
        host=find_header(headers, b"host"),
        origin=find_header(headers, b"origin") if origins else None,
        site=find_header(headers, b"sec-fetch-site"),
        destination=find_header(headers, b"sec-fetch-dest") if is_navigation else "",
        content_type=find_header(headers, b"content-type"),
        has_body=has_body(headers),
    )


class _SignInBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /console/sign-in`."""

    key: str


async def _sign_in(
    scope: Scope, receive: Receive, authenticator: Authenticator, keys: KeyRing
) -> Response:
    """Answer `POST /console/sign-in`.

    Raises:
        ProblemError: 400 for another body, 401 for a wrong key, 429 after too many of them.
        JournalError: the store cannot be used.
    """
    try:
        body = msgspec.json.decode((await receive()).get("body", b""), type=_SignInBody)
    except msgspec.DecodeError as error:
        detail = 'The body must be {"key": "hf_..."}.'
        raise ProblemError(make_problem(400, "body", detail, field="key")) from error
    principal = await authenticator.check_key(scope, body.key.strip())
    secret, saved = make_sign_in(principal.key_id, keys.now())
    await keys.sign_in(saved)
    response = JSONResponse(_describe_principal(principal, "cookie", make_csrf_token(secret)))
    return _set_cookies(response, scope, secret)


def _show_session(scope: Scope, identity: Identity, *, is_local: bool) -> Response:
    """Answer `GET /console/session`."""
    secret = find_sign_in_secret(scope["headers"]) if identity.by_cookie else ""
    by = "cookie" if identity.by_cookie else "local" if is_local else "key"
    token = make_csrf_token(secret) if secret else ""
    return JSONResponse(_describe_principal(identity.principal, by, token))


async def _sign_out(scope: Scope, keys: KeyRing) -> Response:
    """Answer `POST /console/sign-out`. Raises JournalError."""
    secret = find_sign_in_secret(scope["headers"])
    if secret:
        await keys.sign_out(secret)
    return _set_cookies(Response(status_code=204), scope, "")


def _describe_principal(principal: Principal, by: str, csrf_token: str) -> dict[str, object]:
    """Return the answer to the console about who signed in.

    Args:
        principal: who it is.
        by: "cookie", "key" or "local".
        csrf_token: the token for requests that change something; "" if none is needed.
    """
    return {
        "name": principal.name,
        "tenant": principal.tenant,
        "scopes": sorted(principal.scopes),
        "by": by,
        "csrf_token": csrf_token,
    }


def _set_cookies(response: Response, scope: Scope, secret: str) -> Response:
    path = str(scope.get("root_path", "")).rstrip("/") or "/"
    is_secure = scope.get("scheme") == "https"
    for cookie in make_cookies(secret, path, is_secure=is_secure):
        response.headers.append("Set-Cookie", cookie)
    return response
