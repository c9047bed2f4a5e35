"""Performs a request with an idempotency key once, also across processes and restarts.

The key names the request for its tenant and route. The journal saves it in the transaction of the act:
a turn has it as its request, and any other act as its id. So a repetition after a crash at any time
finds the result, and returns it. The store of the service knows which requests are under way, and
saves the first answer. A request that was refused did nothing, so it may be tried again. This module
must never perform anything on its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.errors import HoldfastError
from holdfast.journal.journal_errors import JournalError
from holdfast.journal.service_store.service_store import RequestName, ServiceStore
from holdfast.server.api.operations import IDEMPOTENCY_KEY, JSON, AnyCall, AnyOperation
from holdfast.server.problem_responses import ProblemError, make_problem, make_wait_problem

IN_PROGRESS = "request_in_progress"
"""The kind of the problem that says that the first try of a request is under way."""

REPLAYED = "Idempotency-Replayed"
"""The header of an answer that was saved."""

_log = logging.getLogger("holdfast.server")

_LEASE = 15.0  # seconds after which another process may perform the rest of a dead one's request
_WAIT = 1.0
_LONGEST = 200


def read_key(request: Request) -> str | None:
    """Return the idempotency key of a request. Raises ProblemError if it cannot be one."""
    keys = request.headers.getlist(IDEMPOTENCY_KEY.name)
    if len(keys) > 1:
        detail, fix = "is given twice", "Send one key"
        raise ProblemError(make_problem(400, "header", detail, field=IDEMPOTENCY_KEY.name, fix=fix))
    key = keys[0] if keys else None
    if key is None or (key.strip() and len(key) <= _LONGEST and key.isprintable()):
        return key
    detail = f"must be a text of 1 to {_LONGEST} printable characters"
    problem = make_problem(422, "header", detail, field=IDEMPOTENCY_KEY.name, fix="Send a UUID")
    raise ProblemError(problem)


async def answer_once(call: AnyCall, operation: AnyOperation) -> Response:
    """Return the answer to a request; perform it only if its idempotency key is new.

    Args:
        call: the request.
        operation: its operation.

    Raises:
        ProblemError: 422 if the key had another body, 409 if its first try is under way.
        JournalError: the store cannot be used, and nothing was done.
    """
    key = read_key(call.request)
    if key is None or not operation.once:
        return await operation.perform(call)
    if operation.once == "turn":
        await check_key(call.request, call.principal.tenant, call.store)
        return await operation.perform(call)
    name = _name_request(call.request, call.principal.tenant, key)
    digest, owner = await _digest_body(call.request), uuid4().hex
    saved = await call.store.claim_request(name, digest, owner=owner, now=time.time(), lease=_LEASE)
    check_digest(saved.digest, digest)
    if saved.status is not None:
        return Response(saved.body, saved.status, {REPLAYED: "true"}, media_type=JSON)
    call = replace(call, act_id=name_act(name), digest=digest)
    renewal = asyncio.create_task(_renew_claim(call.store, name, owner))
    try:
        response = await _perform_once(call, operation, is_owner=saved.owner == owner)
    except BaseException:
        with suppress(JournalError):  # the claim expires
            await asyncio.shield(call.store.release_request(name, owner))
        raise
    finally:
        renewal.cancel()
    try:
        await call.store.finish_request(name, response.status_code, bytes(response.body))
    except JournalError as error:  # the act is done; a repetition finds it in the journal
        _log.warning("the answer to a request could not be saved: %s", error)
    return response


async def check_key(request: Request, tenant: str, store: ServiceStore) -> None:
    """Check that the idempotency key of a request, if it has one, names no other request.

    It is enough where something else makes the request happen once: the turn that carries the key, the id
    of a message, or the question of an answer.

    Args:
        request: the request.
        tenant: the tenant of the caller.
        store: the store of the service.

    Raises:
        ProblemError: 422 if the key had another body.
        JournalError: the store cannot be used.
    """
    key = read_key(request)
    if key is not None:
        name, digest = _name_request(request, tenant, key), await _digest_body(request)
        now = time.time()
        saved = await store.claim_request(name, digest, owner=uuid4().hex, now=now, lease=_LEASE)
        check_digest(saved.digest, digest)


def _name_request(request: Request, tenant: str, key: str) -> RequestName:
    return RequestName(tenant, f"{request.method} {request.scope['path']}", key)


async def _renew_claim(store: ServiceStore, name: RequestName, owner: str) -> None:
    """Renew the claim of a request for as long as this process performs it."""
    while True:
        await asyncio.sleep(_LEASE / 3)
        with suppress(JournalError):
            await store.renew_claim(name, owner, time.time() + _LEASE)


async def _perform_once(call: AnyCall, operation: AnyOperation, *, is_owner: bool) -> Response:
    """Perform a request, unless its act is in the journal: then answer with its result."""
    answer = await _answer_again(call, operation)
    if answer is not None:
        return answer
    if not is_owner:
        detail = "The first try of this request is under way."
        raise ProblemError(make_wait_problem(409, IN_PROGRESS, detail, _WAIT))
    try:
        return await operation.perform(call)
    except (HoldfastError, ProblemError):
        # The act may be saved: by another process that was taken for dead, or before its last steps.
        answer = await _answer_again(call, operation)
        if answer is None:
            raise
        return answer


async def _answer_again(call: AnyCall, operation: AnyOperation) -> Response | None:
    """Return the answer to a request whose act is in the journal; None if it is not."""
    act = await call.tenant.journal.find_act(call.act_id)
    if act is None or operation.answer_again is None:
        return None
    check_digest(act.digest, call.digest)
    response = await operation.answer_again(call, act)
    response.headers[REPLAYED] = "true"
    return response


def check_digest(saved: str, digest: str) -> None:
    """Raise ProblemError if the first request with an idempotency key was another one.

    Args:
        saved: the digest of the first request.
        digest: the digest of this one.
    """
    if saved != digest:
        detail = "was sent with another body before"
        fix = "Send a new key with a new request"
        problem = make_problem(422, "idempotency_key", detail, field=IDEMPOTENCY_KEY.name, fix=fix)
        raise ProblemError(problem)


def name_act(name: RequestName) -> str:
    """Return the id of the act for a request; the act belongs to a tenant already."""
    text = f"{len(name.route)}:{name.route}{name.key}"
    return f"key-{blake2b(text.encode('utf-8', 'surrogateescape'), digest_size=16).hexdigest()}"


async def _digest_body(request: Request) -> str:
    digest = blake2b(await request.body(), digest_size=16)
    digest.update(f"\0{request.url.query}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
