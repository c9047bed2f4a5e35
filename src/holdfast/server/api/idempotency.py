"""Performs a request with an idempotency key once, also across processes and restarts.

The key names the request for its tenant and route. The answer of the first try is saved and given to
each repetition; a request that was refused did nothing, so it may be tried again. A turn carries the
key itself, in the transaction that opens it. This module must never perform anything on its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from holdfast.journal.service_store import RequestName, ServiceStore
from holdfast.server.access.principals import Principal
from holdfast.server.api.operations import IDEMPOTENCY_KEY, JSON, AnyOperation
from holdfast.server.problem_responses import ProblemError, make_problem, make_wait_problem

IN_PROGRESS = "request_in_progress"
"""The kind of the problem that says that the first try of a request is under way."""

REPLAYED = "Idempotency-Replayed"
"""The header of an answer that was saved."""

_LEASE = 300.0  # seconds after which another process may perform what the first one did not end
_WAIT = 1.0
_LONGEST = 200


def read_key(request: Request) -> str | None:
    """Return the idempotency key of a request. Raises ProblemError if it cannot be one."""
    key = request.headers.get(IDEMPOTENCY_KEY.name)
    if key is None or (key.strip() and len(key) <= _LONGEST and key.isprintable()):
        return key
    detail = f"must be a text of 1 to {_LONGEST} printable characters"
    problem = make_problem(422, "header", detail, field=IDEMPOTENCY_KEY.name, fix="Send a UUID")
    raise ProblemError(problem)


async def answer_once(
    store: ServiceStore,
    request: Request,
    operation: AnyOperation,
    principal: Principal,
    perform: Callable[[], Awaitable[Response]],
) -> Response:
    """Return the answer to a request; perform it only if its idempotency key is new.

    Args:
        store: saves the answers.
        request: the request.
        operation: what it asks for.
        principal: who asks.
        perform: performs it.

    Raises:
        ProblemError: 422 if the key had another body, 409 if its first try is under way.
        JournalError: the store cannot be used.
    """
    key = read_key(request)
    if key is None or not operation.once:
        return await perform()
    name = RequestName(principal.tenant, f"POST {request.scope['path']}", key)
    digest = await _digest_body(request)
    owner = uuid4().hex
    saved = await store.claim_request(name, digest, owner=owner, now=time.time(), lease=_LEASE)
    if saved.digest != digest:
        detail = "was sent with another body before"
        fix = "Send a new key with a new request"
        problem = make_problem(422, "idempotency_key", detail, field=IDEMPOTENCY_KEY.name, fix=fix)
        raise ProblemError(problem)
    if operation.once == "turn":
        return await perform()
    if saved.owner != owner:
        return _answer_again(saved.status, saved.body)
    try:
        response = await perform()
    except BaseException:
        await asyncio.shield(store.release_request(name, owner))
        raise
    await store.finish_request(name, response.status_code, bytes(response.body))
    return response


async def _digest_body(request: Request) -> str:
    digest = blake2b(await request.body(), digest_size=16)
    digest.update(f"\0{request.url.query}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def _answer_again(status: int | None, body: bytes) -> Response:
    """Return a saved answer. Raises ProblemError if there is none yet."""
    if status is None:
        detail = "The first try of this request is under way."
        raise ProblemError(make_wait_problem(409, IN_PROGRESS, detail, _WAIT))
    return Response(body, status, {REPLAYED: "true"}, media_type=JSON)
