"""The routes of the office. Every one but the sign-in and the style needs a sign-in; every form its token.

This module must never put a name, a value or a key into an address, and must never show the calls or results of
tools with a conversation.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from holdfast import Sessions
from holdfast.errors import ConfigurationError, HoldfastError
from registration.club.time_zone import LONDON
from registration.flow.office_changes import CORRECTABLE, NewCorrection, correct_field
from registration.flow.parts import Parts
from registration.flow.transcript import Line, list_lines
from registration.http.access import limit_address
from registration.http.office import pages
from registration.http.office.access import (
    COOKIE,
    SIGN_IN_SECONDS,
    SignedIn,
    find_sign_in,
    is_admin_key,
    make_cookie,
)
from registration.http.problems import STATUSES, Problem
from registration.http.state import state_of
from registration.outbox.office_acts import resend_link, retry_failed_job
from registration.photos.naming import sign_photo
from registration.store import DatabaseUnavailable, Transaction
from registration.store.office import (
    PAGE,
    Status,
    Wanted,
    count_by_status,
    export_csv,
    list_registrations,
)
from registration.store.outbox import list_jobs
from registration.store.registrations import Registration, load_registration
from registration.store.tasks import (
    NewTask,
    count_tasks,
    finish_task,
    list_tasks,
    list_tasks_of,
    record_act,
)
from registration.store.webhooks import load_payments

T = TypeVar("T")
Page = Callable[[Request, SignedIn], Awaitable[Response]]
Form = Callable[[Request, SignedIn, Mapping[str, str]], Awaitable[Response]]

_STYLE = (Path(__file__).parent / "style.css").read_bytes()
_MOST = 20_000  # bytes of a form
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self';"
        " base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}
_AWAY = (
    "The database cannot be reached right now. Nothing was changed. Please try again in a minute."
)


def routes() -> list[Route]:
    """Return the routes."""
    return [
        Route("/office", _page(show_overview), methods=["GET"]),
        Route("/office/style.css", show_style, methods=["GET"]),
        Route("/office/sign-in", show_sign_in, methods=["GET"]),
        Route("/office/sign-in", sign_in, methods=["POST"]),
        Route("/office/sign-out", _form(sign_out), methods=["POST"]),
        Route("/office/registrations", _page(show_list), methods=["GET"]),
        Route("/office/registrations/{id}", _page(show_registration), methods=["GET"]),
        Route("/office/registrations/{id}/correct", _form(correct), methods=["POST"]),
        Route("/office/registrations/{id}/resend", _form(resend), methods=["POST"]),
        Route("/office/tasks", _page(show_tasks), methods=["GET"]),
        Route("/office/tasks/finish", _form(finish), methods=["POST"]),
        Route("/office/tasks/retry", _form(retry), methods=["POST"]),
        Route("/office/export.csv", _page(export), methods=["GET"]),
    ]


def _page(page: Page) -> Callable[[Request], Awaitable[Response]]:
    """Return a route that shows a page to whoever is signed in; others are led to the sign-in."""

    @wraps(page)
    async def respond(request: Request) -> Response:
        who = _find_who(request)
        if who is None:
            return RedirectResponse("/office/sign-in", 303)
        return await _answer(page(request, who), who)

    return respond


def _form(form: Form) -> Callable[[Request], Awaitable[Response]]:
    """Return a route that takes a form of whoever is signed in, with its token."""

    @wraps(form)
    async def respond(request: Request) -> Response:
        who = _find_who(request)
        if who is None:
            return RedirectResponse("/office/sign-in", 303)

        async def act() -> Response:
            values = await read_form(request)
            who.check_token(values.get("token", ""))
            return await form(request, who, values)

        return await _answer(act(), who)

    return respond


async def _answer(answering: Awaitable[Response], who: SignedIn) -> Response:
    """Return the answer; a problem is shown in a page."""
    try:
        return await answering
    except Problem as problem:
        status = STATUSES[problem.kind]
        return _html(pages.write_problem("That did not work", problem.message, who), status)
    except (DatabaseUnavailable, HoldfastError):
        return _html(pages.write_problem("Not now", _AWAY, who), 503)


def _find_who(request: Request) -> SignedIn | None:
    parts = _parts_of(request)
    return find_sign_in(parts.settings, request, parts.now())


async def read_form(request: Request) -> dict[str, str]:
    """Return the values of a form by name; of two with one name, the last. Raises Problem."""
    sent = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if sent != "application/x-www-form-urlencoded":
        raise Problem("unsupported", "Send the form of the page.")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST:
                raise Problem("too_large", f"The form is longer than {_MOST} bytes.")
        values = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=20))
    except ClientDisconnect as error:
        raise Problem("bad_request", "The form is not complete.") from error
    except ValueError:
        raise Problem("bad_request", "The form cannot be read.") from None
    if any("\0" in value for value in values.values()):
        raise Problem("bad_request", "The form cannot be read.")
    return values


async def show_style(_request: Request) -> Response:
    """Return the style of the pages."""
    return Response(_STYLE, media_type="text/css", headers={"Cache-Control": "max-age=300"})


async def show_sign_in(_request: Request) -> Response:
    """Show the sign-in."""
    return _html(pages.write_sign_in())


async def sign_in(request: Request) -> Response:
    """Take the admin key, and give a cookie for it."""
    try:
        limit_address(request, "sign-in")
        values = await read_form(request)
    except Problem as problem:
        return _html(pages.write_sign_in(problem.message), STATUSES[problem.kind])
    parts = _parts_of(request)
    settings = parts.settings
    if not is_admin_key(settings, values.get("key", "")):
        return _html(pages.write_sign_in("This is not the admin key."), 401)
    response = RedirectResponse("/office", 303)
    response.set_cookie(
        COOKIE,
        make_cookie(settings, values.get("by", ""), parts.now()),
        max_age=SIGN_IN_SECONDS,
        path="/office",
        secure=settings.public_address.startswith("https:"),
        httponly=True,
        samesite="strict",
    )
    return response


async def sign_out(_request: Request, _who: SignedIn, _values: Mapping[str, str]) -> Response:
    """Take the cookie away."""
    response = RedirectResponse("/office/sign-in", 303)
    response.delete_cookie(COOKIE, path="/office", httponly=True, samesite="strict")
    return response


async def show_overview(request: Request, who: SignedIn) -> Response:
    """Show how many registrations and tasks there are."""
    parts = _parts_of(request)
    season = parts.settings.season

    def read(tx: Transaction) -> pages.Overview:
        return pages.Overview(season, count_by_status(tx, season), count_tasks(tx))

    return _html(pages.write_overview(await parts.database.read(read), who))


async def show_list(request: Request, who: SignedIn) -> Response:
    """Show a list of registrations."""
    parts, query = _parts_of(request), request.query_params
    status, missing = query.get("status"), query.get("missing")
    if status not in (None, *get_args(Status)) or missing not in (None, "payment", "photo"):
        raise Problem("not_found", "There is no such list.")
    wanted = Wanted(
        parts.settings.season,
        cast("Status | None", status),
        cast("Literal['payment', 'photo'] | None", missing),
        query.get("after"),
    )
    found = await parts.database.read(lambda tx: list_registrations(tx, wanted))
    more = ""
    if len(found) == PAGE:
        kept = {key: value for key, value in query.items() if key in ("status", "missing")}
        more = f"/office/registrations?{urlencode({**kept, 'after': found[-1].id})}"
    title = f"Missing: {missing}" if missing else pages.STATUS_WORDS.get(status or "", "All")
    return _html(pages.write_list(pages.Listing(title, found, more), who))


async def show_registration(request: Request, who: SignedIn) -> Response:
    """Show a registration with all that belongs to it."""
    return await _show(request, who)


async def _show(
    request: Request, who: SignedIn, note: str = "", *, is_refused: bool = False
) -> Response:
    state, name = state_of(request), request.path_params["id"]
    settings, now = state.running.parts.settings, state.running.parts.now()

    def read(tx: Transaction) -> pages.Details | None:
        found = load_registration(tx, name)
        if found is None:
            return None
        return pages.Details(
            registration=found,
            payments=load_payments(tx, name),
            jobs=list_jobs(tx, name),
            tasks=list_tasks_of(tx, name),
            photo=sign_photo(settings, name, now) if found.photo_file is not None else "",
            note=note,
            is_refused=is_refused,
        )

    shown = await state.running.parts.database.read(read)
    if shown is None:
        raise Problem("not_found", "There is no such registration.")
    lines = await find_lines(state.running.service.sessions, shown.registration)
    return _html(pages.write_registration(shown, lines, who), 422 if is_refused else 200)


async def correct(request: Request, who: SignedIn, values: Mapping[str, str]) -> Response:
    """Correct a field of a registration."""
    parts, field = _parts_of(request), values.get("field", "")
    if field not in CORRECTABLE:
        raise Problem("invalid", "There is no such field.")
    new = NewCorrection(
        registration=request.path_params["id"],
        field=field,
        text=values.get("value", ""),
        by=who.by,
        request=_read_request(values),
    )
    now = parts.now()
    today = dt.datetime.fromtimestamp(now, LONDON).date()
    done = await parts.database.transact(lambda tx: correct_field(tx, new, today, now))
    if done.state == "refused":
        return await _show(request, who, done.message, is_refused=True)
    return _back_to(new.registration)


async def resend(request: Request, who: SignedIn, values: Mapping[str, str]) -> Response:
    """Send the payment link of a registration once more."""
    state, name, asked = state_of(request), request.path_params["id"], _read_request(values)
    parts = state.running.parts
    now = parts.now()

    def work(tx: Transaction) -> bool:
        if load_registration(tx, name) is None:
            return False
        if resend_link(tx, name, asked, now):
            note = f"{who.by} sent the payment link again"
            record_act(
                tx, NewTask(f"registration/{name}/resent/{asked}", "corrected", note, name), now
            )
        return True

    if not await parts.database.transact(work):
        raise Problem("not_found", "There is no such registration.")
    state.running.worker.wake()
    return _back_to(name)


async def show_tasks(request: Request, who: SignedIn) -> Response:
    """Show the tasks that are open, and those that were done last."""
    read = _parts_of(request).database.read
    open_tasks = await read(list_tasks)
    done = await read(lambda tx: list_tasks(tx, "done"))
    return _html(pages.write_tasks(open_tasks, done[-PAGE:][::-1], who))


async def finish(request: Request, _who: SignedIn, values: Mapping[str, str]) -> Response:
    """Mark a task as done."""
    parts, key = _parts_of(request), values.get("task", "")
    now = parts.now()
    await parts.database.transact(lambda tx: finish_task(tx, key, now))
    return RedirectResponse("/office/tasks", 303)


async def retry(request: Request, _who: SignedIn, values: Mapping[str, str]) -> Response:
    """Let the failed job of a task be tried again."""
    running, key = state_of(request).running, values.get("task", "").removesuffix("/failed")
    now = running.parts.now()
    if not await running.parts.database.transact(lambda tx: retry_failed_job(tx, key, now)):
        raise Problem("conflict", "There is nothing to try again.")
    running.worker.wake()
    return RedirectResponse("/office/tasks", 303)


async def export(request: Request, _who: SignedIn) -> Response:
    """Return all registrations of the season as CSV."""
    parts = _parts_of(request)
    season = parts.settings.season
    text = await parts.database.read(lambda tx: export_csv(tx, season))
    name = f'attachment; filename="registrations-{season}.csv"'
    headers = {**_HEADERS, "Content-Disposition": name}
    return Response(text.encode("utf-8-sig"), media_type="text/csv", headers=headers)


def _parts_of(request: Request) -> Parts:
    return state_of(request).running.parts


def _read_request(values: Mapping[str, str]) -> str:
    name = values.get("request", "")
    if not (
        name.isascii() and 1 <= len(name) <= 40 and name.replace("-", "").replace("_", "").isalnum()
    ):
        raise Problem("bad_request", "The form is not complete.")
    return name


def _back_to(registration: str) -> Response:
    return RedirectResponse(f"/office/registrations/{registration}", 303)


def _html(text: str, status: int = 200) -> Response:
    return HTMLResponse(text, status, _HEADERS)


async def find_lines(sessions: Sessions, registration: Registration) -> list[Line]:
    """Return the conversation of a registration: as it was stored with it, or as it is so far.

    Args:
        sessions: the conversations, in the journal.
        registration: the registration.

    Raises:
        HoldfastError: the journal cannot be read.
    """
    if registration.conversation:
        return msgspec.convert(registration.conversation, list[Line])
    if registration.session_id is None:
        return []
    try:
        history = await sessions.read(registration.session_id)
    except ConfigurationError:
        return []  # it was deleted, or nothing was written
    return list_lines(history.messages)
