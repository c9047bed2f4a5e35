"""The routes of photos: send one, ask how far its check is, and show one to the office.

This module must never answer that a photo was received before it is kept and its job is stored.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registration.flow.agents import GENERAL, NEW
from registration.flow.conversations import Conversation, read_conversation
from registration.flow.parts import Parts
from registration.flow.photo_verdicts import awaits_photo
from registration.http.access import find_own_session
from registration.http.chat import choose_agent
from registration.http.problems import Problem
from registration.http.state import state_of
from registration.http.uploads import Limits, Upload, read_upload
from registration.photos.naming import is_signed, make_job_id, name_photo
from registration.photos.object_store import ObjectMissing, ObjectStoreError
from registration.photos.submitting import (
    RECEIVED,
    NotAwaited,
    OtherPhoto,
    PhotoOwner,
    find_current_photo,
    is_current,
    submit_upload,
)
from registration.store import DatabaseUnavailable, Transaction
from registration.store.outbox import find_job
from registration.store.photo_jobs import NewPhoto, PhotoJob, Submitted, find_photo_job
from registration.store.registrations import Registration, load_registration

POLL_SECONDS: Final = 2
WAIT_SECONDS: Final = 25.0
_LOOK_EVERY: Final = 0.25
_NOT_AWAITED: Final = "I do not need a photo at the moment."


class PhotoView(Struct, frozen=True):
    """A job and where its conversation stands.

    Args:
        photo: the job.
        conversation: of its session.
        is_worked_on: whether a process does it now.
    """

    photo: PhotoJob
    conversation: Conversation
    is_worked_on: bool

    @property
    def state(self) -> str:
        """The state; a job whose process was killed is queued."""
        is_left = self.photo.state == "running" and not self.is_worked_on
        return "queued" if is_left else self.photo.state


def routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/upload_photo", upload_photo, methods=["POST"]),
        Route("/upload-async", upload_photo, methods=["POST"]),
        Route("/upload", upload, methods=["POST"]),
        Route("/upload-status/{session_id}", show_latest, methods=["GET"]),
        Route("/jobs/{job_id}", show_job, methods=["GET"]),
        Route("/photos/{registration_id}", show_photo, methods=["GET"]),
    ]


async def upload_photo(request: Request) -> Response:
    """Take a photo; its check goes on in the background."""
    return _accept(await _receive(request))


async def upload(request: Request) -> Response:
    """Take a photo, and wait for its check for a while."""
    view, end = await _receive(request), time.monotonic() + WAIT_SECONDS
    while not view.photo.is_complete and time.monotonic() < end:
        await asyncio.sleep(_LOOK_EVERY)
        view = await _load(state_of(request).running.parts, view.photo.id)
    if not view.photo.is_complete:
        return _accept(view)
    if view.photo.state == "done":
        return _respond(view)
    if view.photo.state == "rejected":
        raise Problem("invalid", view.photo.message)
    raise Problem("unavailable", view.photo.message, float(POLL_SECONDS))


async def show_latest(request: Request) -> Response:
    """Report how far the check of the last photo of a session is."""
    state = state_of(request)
    session = await find_own_session(
        state.running.parts, request, request.path_params["session_id"]
    )
    now = state.running.parts.now()

    def find(tx: Transaction) -> PhotoView | None:
        photo = find_current_photo(tx, session.id, now)
        return None if photo is None else _view(tx, photo, now)

    view = await state.running.parts.database.read(find)
    return _unknown() if view is None else _respond(view)


async def show_job(request: Request) -> Response:
    """Report how far the check of a photo is."""
    state, name = state_of(request), request.path_params["job_id"]
    now = state.running.parts.now()

    def find(tx: Transaction) -> PhotoView | None:
        photo = find_photo_job(tx, name)
        return None if photo is None or not is_current(photo, now) else _view(tx, photo, now)

    view = await state.running.parts.database.read(find)
    if view is None:
        return _unknown()
    try:
        await find_own_session(state.running.parts, request, view.photo.session_id or "")
    except Problem as problem:
        if problem.kind == "not_found":  # as for a job that does not exist
            return _unknown()
        raise
    return _respond(view)


async def show_photo(request: Request) -> Response:
    """Show the photo of a registration to whoever has an address that the office page made."""
    running, query = state_of(request).running, request.query_params
    owner = request.path_params["registration_id"]
    expires, signature = query.get("expires", ""), query.get("signature", "")
    missing = Problem("not_found", "There is no such photo, or its address is too old.")
    if not is_signed(running.parts.settings, owner, expires, signature, running.parts.now()):
        raise missing

    def find(tx: Transaction) -> Registration | None:
        return load_registration(tx, owner)

    registration = await running.parts.database.read(find)
    if registration is None or registration.photo_file is None:
        raise missing
    try:
        picture = await running.photos.objects.read(registration.photo_file)
    except ObjectMissing:
        raise missing from None
    except ObjectStoreError:
        raise Problem("unavailable", "The photo cannot be read right now.", 30.0) from None
    name = name_photo(registration).encode("ascii", "replace").decode().replace("?", "_")
    headers = {
        "Cache-Control": "private, no-store",
        "Content-Disposition": f'inline; filename="{name}.jpg"',
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }
    return Response(picture, media_type="image/jpeg", headers=headers)


async def _receive(request: Request) -> PhotoView:
    """Keep a photo and store its job. Raises Problem."""
    state = state_of(request)
    parts, photos = state.running.parts, state.running.photos

    async def authorise(session_id: str) -> None:
        session = await find_own_session(parts, request, session_id)
        wait = state.window.count(session.id, time.monotonic())
        if wait is not None:
            raise Problem("too_many_requests", "That was a little fast. Please try again.", wait)
        if not await parts.database.read(lambda tx: _may_send(tx, session.id, parts.now())):
            raise Problem("conflict", _NOT_AWAITED)

    limits = Limits(parts.settings.body_bytes, parts.settings.photo_bytes)
    received = await read_upload(request, photos.objects, limits, authorise)
    try:
        submitted = await _submit(parts, received)
    except Problem:
        await photos.discard((received.name,))
        raise
    except DatabaseUnavailable as error:
        if error.landed == "no":  # otherwise a job may need the upload, and the cleaning finds out
            await photos.discard((received.name,))
        raise
    await photos.discard(submitted.unused_files)
    photos.worker.wake()
    return await _load(parts, submitted.job.id)


def _may_send(tx: Transaction, session: str, now: float) -> bool:
    """Return whether a session may send a photo; the last one may be sent again."""
    progress = read_conversation(tx, session).progress
    return awaits_photo(progress) or find_current_photo(tx, session, now) is not None


async def _submit(parts: Parts, received: Upload) -> Submitted:
    """Store the job of an upload. Raises Problem, DatabaseUnavailable."""
    session, now = received.session_id, parts.now()
    name = secrets.token_hex(16)
    if received.message_id is not None:
        name = make_job_id(session, received.message_id)
    new = NewPhoto(name, session, None, received.hash, received.name, RECEIVED)

    def find_owner(tx: Transaction) -> PhotoOwner | None:
        progress = read_conversation(tx, session).progress
        if progress is None or not awaits_photo(progress):
            return None
        return PhotoOwner(progress.registration)

    try:
        return await parts.database.transact(lambda tx: submit_upload(tx, new, find_owner, now))
    except NotAwaited:
        raise Problem("conflict", _NOT_AWAITED) from None
    except OtherPhoto:
        raise Problem("invalid", "message_id: it belongs to another photo already.") from None


async def _load(parts: Parts, job_id: str) -> PhotoView:
    now = parts.now()

    def find(tx: Transaction) -> PhotoView | None:
        photo = find_photo_job(tx, job_id)
        return None if photo is None else _view(tx, photo, now)

    view = await parts.database.read(find)
    if view is None:  # the person was deleted meanwhile
        raise Problem("not_found", "There is no such photo.")
    return view


def _view(tx: Transaction, photo: PhotoJob, now: float) -> PhotoView:
    conversation = read_conversation(tx, photo.session_id or "")
    job = find_job(tx, f"photo/{photo.id}")
    is_worked_on = job is not None and job.state == "running" and (job.lease_until or 0.0) > now
    return PhotoView(photo, conversation, is_worked_on)


def _accept(view: PhotoView) -> Response:
    """Answer that a photo was received."""
    photo = view.photo
    body = {
        "response": photo.message,
        "processing": not photo.is_complete,
        "session_id": photo.session_id,
        "job_id": photo.id,
        **_describe_agent(view.conversation),
    }
    return _json(body, 202, is_polled=not photo.is_complete)


def _respond(view: PhotoView) -> Response:
    """Answer how far a photo is."""
    photo = view.photo
    body: dict[str, object] = {
        "job_id": photo.id,
        "state": view.state,
        "complete": photo.is_complete,
        "message": photo.message,
        "updated_at": photo.updated_at,
        **_describe_agent(view.conversation),
    }
    if photo.state == "done":
        body["response"] = photo.message
    elif photo.is_complete:
        body["error"] = photo.message
    elif view.state == "running" or photo.message == RECEIVED:
        body["progress"] = photo.progress
    return _json(body, is_polled=not photo.is_complete)


def _describe_agent(conversation: Conversation) -> dict[str, object]:
    progress = conversation.progress
    if progress is None:
        return {"last_agent": GENERAL, "routine_number": None}
    agent = choose_agent(progress, "", "")
    return {"last_agent": agent, "routine_number": progress.step if agent == NEW else None}


def _unknown() -> Response:
    problem = Problem("not_found", "There is no such photo.")
    return _json({**problem.describe(), "state": "unknown", "complete": False}, 404)


def _json(content: object, status: int = 200, *, is_polled: bool = False) -> JSONResponse:
    headers = {"Cache-Control": "no-store"}
    if is_polled:
        headers["Retry-After"] = str(POLL_SECONDS)
    return JSONResponse(content, status, headers)
