"""The pages as HTML, in which every text is escaped, unless it is HTML already.

This module must never read anything: the content of a page is passed in.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TypeAlias

from msgspec import Struct

from registration.club.redaction import Redacted
from registration.club.steps import STEP_OF, STEPS
from registration.club.time_zone import LONDON
from registration.club.wording import first_name, show_value
from registration.flow.office_changes import CORRECTABLE
from registration.flow.transcript import Line
from registration.http.office.access import SignedIn
from registration.store.office import Listed
from registration.store.outbox import Job
from registration.store.payment_state import PaymentRecord
from registration.store.registrations import Registration
from registration.store.tasks import Task

Child: TypeAlias = "Html | str | int | Iterable[Child] | None"
Attribute: TypeAlias = str | int | bool | None

_VOID = frozenset({"input", "link", "meta", "br", "img", "hr"})


class Html:
    """A piece of HTML.

    Args:
        text: the HTML itself; it is not escaped.
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def el(tag: str, /, *children: Child, **attributes: Attribute) -> Html:
    """Return an element.

    Args:
        tag: its name.
        children: its content.
        attributes: its attributes; `_` stands for `-`, and one at the end is dropped. True is an
            attribute without a value, and False and None are none.

    >>> el("p", "1 < 2", class_="note").text
    '<p class="note">1 &lt; 2</p>'
    """
    written = "".join(_write_attribute(*pair) for pair in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{write_html(children)}</{tag}>")


def write_html(child: Child) -> str:
    """Return the HTML of content."""
    if child is None:
        return ""
    if isinstance(child, Html):
        return child.text
    if isinstance(child, str | int):
        return escape(str(child))
    return "".join(write_html(one) for one in child)


def _write_attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'


STATUS_WORDS: Mapping[str, str] = {
    "incomplete": "Not finished",
    "pending_payment": "Waiting for payment",
    "active": "Active",
    "suspended": "Suspended",
}
KIND_WORDS: Mapping[str, str] = {
    "in_doubt": "In doubt",
    "refused": "Refused",
    "duplicate": "Duplicate",
    "payment": "Payment",
    "suspended": "Suspended",
    "photo": "Photo",
    "restored": "After a restore",
    "corrected": "Corrected",
}


class Overview(Struct, frozen=True):
    """The content of the first page.

    Args:
        season: the season.
        statuses: how many registrations are in each status.
        tasks: how many open tasks there are of each kind.
    """

    season: str
    statuses: Mapping[str, int]
    tasks: Mapping[str, int]


class Listing(Redacted, frozen=True):
    """The content of a list of registrations.

    Args:
        title: the title of the list.
        found: the registrations.
        more: the address of the next page; "" for none.
    """

    title: str
    found: Sequence[Listed]
    more: str


class Details(Redacted, frozen=True):
    """The content of the page of a registration.

    Args:
        registration: the registration.
        payments: its payments.
        jobs: its jobs, done or not.
        tasks: its tasks, and the acts of the office.
        photo: the address of its photo, for some minutes; "" if there is none.
        note: the outcome of the last form.
        is_refused: whether that was refused.
    """

    registration: Registration
    payments: Sequence[PaymentRecord]
    jobs: Sequence[Job]
    tasks: Sequence[Task]
    photo: str = ""
    note: str = ""
    is_refused: bool = False


def write_sign_in(refusal: str = "") -> str:
    """Return the page of the sign-in."""
    form = el(
        "form",
        el("div", el("label", "Your name", for_="by"), _input("by", autocomplete="name")),
        el(
            "div",
            el("label", "Admin key", for_="key"),
            _input("key", type="password", autocomplete="current-password"),
        ),
        el("button", "Sign in"),
        method="post",
        action="/office/sign-in",
    )
    return _write_page("Sign in", [_say(refusal, is_refused=True), form], None)


def write_overview(shown: Overview, who: SignedIn) -> str:
    """Return the first page."""
    statuses = [
        el("li", el("a", f"{words}: {shown.statuses.get(status, 0)}", href=_list_link(status)))
        for status, words in STATUS_WORDS.items()
    ]
    missing = [
        el("li", el("a", "Payment missing", href="/office/registrations?missing=payment")),
        el("li", el("a", "Photo missing", href="/office/registrations?missing=photo")),
    ]
    open_tasks = [
        el("li", el("a", f"{KIND_WORDS.get(kind, kind)}: {number}", href="/office/tasks"))
        for kind, number in sorted(shown.tasks.items())
    ]
    return _write_page(
        f"Registrations of season {shown.season}",
        [
            el("ul", statuses, class_="cards"),
            el("h2", "Missing"),
            el("ul", missing, class_="cards"),
            el("h2", "Tasks for a person"),
            el("ul", open_tasks, class_="cards") if open_tasks else el("p", "None is open."),
            el("h2", "Export"),
            el("p", el("a", "All registrations as CSV", href="/office/export.csv", class_="act")),
        ],
        who,
    )


def write_list(shown: Listing, who: SignedIn) -> str:
    """Return a list of registrations."""
    cards = [el("li", _card(one)) for one in shown.found]
    return _write_page(
        shown.title,
        [
            el("ul", cards, class_="cards") if cards else el("p", "There is none."),
            el("p", el("a", "More", href=shown.more)) if shown.more else None,
        ],
        who,
    )


def _card(one: Listed) -> list[Html]:
    link = f"/office/registrations/{one.id}"
    rows: list[tuple[str, Child]] = [
        ("Team", f"{one.team} {one.age_group}"),
        ("Status", STATUS_WORDS.get(one.status, one.status)),
        ("Fee", _yes(one.signing_fee_paid, "paid", "not paid")),
        ("Mandate", _yes(one.mandate_authorised, "agreed", "missing")),
        ("Photo", _yes(one.photo_file is not None, "there", "missing")),
        ("Since", _show_time(one.created_at)),
    ]
    return [el("a", f"{one.player_first} {one.player_last}", href=link), _rows(rows)]


def write_registration(shown: Details, conversation: Sequence[Line], who: SignedIn) -> str:
    """Return the page of a registration."""
    one = shown.registration
    return _write_page(
        f"{one.player_first} {one.player_last}",
        [
            _say(shown.note, is_refused=shown.is_refused),
            _rows(_list_facts(one, shown.photo)),
            _resend_form(one, who),
            el("h2", "Answers"),
            _rows(_list_answers(one, who)),
            el("h2", "Payments"),
            _rows([(f"{p.kind} {p.month or ''}", p.status) for p in shown.payments])
            if shown.payments
            else el("p", "None yet."),
            el("h2", "Done, or to be done"),
            _list([_job(job) for job in shown.jobs]),
            el("h2", "Tasks, and what the office did"),
            _list([_task(task, who) for task in shown.tasks]),
            el("h2", "Conversation"),
            el("ol", [_line(line) for line in conversation], class_="talk")
            if conversation
            else el("p", "It is not kept any more."),
        ],
        who,
    )


def _list_facts(one: Registration, photo: str) -> list[tuple[str, Child]]:
    return [
        ("Team", f"{one.team} {one.age_group}"),
        ("Status", STATUS_WORDS.get(one.status, one.status)),
        ("Signing-on fee", f"{_pounds(one.fee_pence)}, {_yes(one.signing_fee_paid)}"),
        ("Monthly fee", _pounds(one.monthly_pence)),
        ("Mandate", _yes(one.mandate_authorised, "agreed", "missing")),
        ("Subscription", _yes(one.subscription_activated, "active", "not active")),
        ("Message with the link", one.sms_status or "not sent"),
        ("Reminders", one.follow_ups),
        ("Kit", one.kit_type or "-"),
        ("Shirt number", "-" if one.shirt_number is None else one.shirt_number),
        ("Photo", el("a", "Show the photo", href=photo) if photo else "missing"),
        ("Begun", _show_time(one.created_at)),
    ]


def _list_answers(one: Registration, who: SignedIn) -> list[tuple[str, Child]]:
    child = first_name(one.answers.get("child_name"), "the child")
    rows: list[tuple[str, Child]] = []
    for field in CORRECTABLE:
        title = _title_for_office(STEPS[STEP_OF[field]].title).replace("{child}", child)
        known = one.answers.get(field) is not None
        value = show_value(field, one.answers) if known else "-"
        rows.append((title, [el("div", value), _correction(one, field, title, who)]))
    return rows


def _title_for_office(title: str) -> str:
    """Return the title of an answer for somebody who is not the parent.

    >>> _title_for_office("Your child's name"), _title_for_office("Your mobile number")
    ("Child's name", "Parent's mobile number")
    """
    return title.replace("Your child's", "Child's").replace("Your ", "Parent's ")


def _correction(one: Registration, field: str, title: str, who: SignedIn) -> Html:
    name = f"value-{field}"
    form = el(
        "form",
        _hidden(who, field=field),
        el("div", el("label", f"{title}: new value", for_=name), _input("value", id=name)),
        el("button", "Save"),
        method="post",
        action=f"/office/registrations/{one.id}/correct",
    )
    summary = el("summary", "Correct", el("span", f" {title}", class_="dim"))
    return el("details", summary, form)


def _resend_form(one: Registration, who: SignedIn) -> Html | None:
    if one.signing_fee_paid and one.mandate_authorised:
        return None
    return el(
        "form",
        _hidden(who),
        el("button", "Send the payment link again"),
        method="post",
        action=f"/office/registrations/{one.id}/resend",
    )


def write_tasks(open_tasks: Sequence[Task], done: Sequence[Task], who: SignedIn) -> str:
    """Return the page of the tasks."""
    return _write_page(
        "Tasks for a person",
        [
            el("ul", [_task(task, who) for task in open_tasks], class_="cards")
            if open_tasks
            else el("p", "None is open."),
            el("h2", "Done"),
            _list([_task(task, who) for task in done]),
        ],
        who,
    )


def _list(items: Sequence[Html]) -> Html:
    return el("ul", items, class_="cards") if items else el("p", "None yet.")


def _task(task: Task, who: SignedIn) -> Html:
    link = f"/office/registrations/{task.registration_id}"
    parts: list[Child] = [
        el("strong", KIND_WORDS.get(task.kind, task.kind)),
        el("p", task.reason),
        el("p", _show_time(task.done_at or task.created_at), class_="dim"),
        el("a", "Registration", href=link) if task.registration_id else None,
    ]
    if task.state == "open":
        parts.append(_task_form(who, task, "finish", "Done"))
        if task.key.endswith("/failed"):
            parts.append(_task_form(who, task, "retry", "Try it again"))
    return el("li", parts)


def _task_form(who: SignedIn, task: Task, act: str, words: str) -> Html:
    action = f"/office/tasks/{act}"
    return el(
        "form", _hidden(who, task=task.key), el("button", words), method="post", action=action
    )


def _job(job: Job) -> Html:
    reason = f": {job.reason}" if job.reason else ""
    is_done = job.state in ("sent", "delivered") and not job.kind.startswith("send_")
    state = "done" if is_done else job.state
    return el(
        "li",
        el("strong", job.kind.replace("_", " ").capitalize().replace("sms", "SMS")),
        el("p", f"{state}, attempts: {job.attempts}{reason}"),
        el("p", _show_time(job.updated_at), class_="dim"),
    )


def _line(line: Line) -> Html:
    who = "Parent" if line.by == "parent" else "Club"
    return el("li", el("strong", who), el("p", line.text), class_=line.by)


def write_problem(title: str, text: str, who: SignedIn | None) -> str:
    """Return a page about a problem."""
    back = el("p", el("a", "Back to the office", href="/office"))
    return _write_page(title, [el("p", text), back], who)


def _write_page(title: str, content: Child, who: SignedIn | None) -> str:
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{title} - Office"),
        el("link", rel="stylesheet", href="/office/style.css"),
    )
    main = el("main", el("h1", title), content, id="content")
    skip = el("a", "Skip to the content", href="#content", class_="skip")
    body = el("body", _header(who, skip), main)
    return f"<!doctype html>{write_html(el('html', head, body, lang='en-GB'))}"


def _header(who: SignedIn | None, skip: Html) -> Html:
    if who is None:
        return el("header", skip, el("strong", "The club's office"))
    links = (("/office", "Overview"), ("/office/tasks", "Tasks"))
    items = [el("li", el("a", words, href=link)) for link, words in links]
    out = el(
        "form", _hidden(who), el("button", "Sign out"), method="post", action="/office/sign-out"
    )
    return el("header", skip, el("nav", el("ul", items), aria_label="Office"), out)


def _hidden(who: SignedIn, **values: str) -> list[Html]:
    """Return the hidden inputs of a form: its token, an id of its own, and values."""
    named = {"token": who.token, "request": secrets.token_urlsafe(12), **values}
    return [el("input", type="hidden", name=name, value=value) for name, value in named.items()]


def _input(name: str, **attributes: str) -> Html:
    return el("input", **{"type": "text", "id": name, "name": name, **attributes}, required=True)


def _rows(rows: Sequence[tuple[str, Child]]) -> Html:
    return el("dl", [[el("dt", label), el("dd", value)] for label, value in rows])


def _say(note: str, *, is_refused: bool) -> Html | None:
    if not note:
        return None
    return el(
        "p", note, role="alert" if is_refused else "status", class_="bad" if is_refused else "good"
    )


def _yes(flag: bool, yes: str = "paid", no: str = "not paid") -> str:
    return yes if flag else no


def _list_link(status: str) -> str:
    return f"/office/registrations?status={status}"


def _show_time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, LONDON).strftime("%d-%m-%Y %H:%M")


def _pounds(pence: int) -> str:
    return f"£{pence // 100}.{pence % 100:02}"
