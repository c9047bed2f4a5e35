"""The office for everyone: axe-core finds nothing serious, a small screen is enough, and no script runs."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from apps.registration.tests.conformance.page.browser_club import FailingClub
from apps.registration.tests.flow.chat_club import KEYS
from apps.registration.tests.store.samples import NOON, player, register
from conformance.console.browser import HERE

from registration.store import open_database
from registration.store.outbox import NewJob, enqueue
from registration.store.registrations import update_registration
from registration.store.tasks import NewTask, open_task

pytestmark = pytest.mark.timeout(180)

AXE = (HERE / "axe.min.js").read_text("utf-8")
HOSTILE = "<img src=x onerror=alert(1)>Bobby"
TALK = [{"by": "parent", "text": "I am " + "very " * 40 + "long"}, {"by": "club", "text": "Hi"}]


async def fill(url: str) -> str:
    """Store registrations with everything that a page can show; return the id of one."""
    database = await open_database(url)
    owner = await register(database)
    await register(database, "s2", player(HOSTILE), NOON + 1)

    def work(tx: Any) -> None:
        update_registration(tx, owner, NOON, conversation=TALK)
        enqueue(tx, NewJob("k", "odd", {}, owner), NOON)
        open_task(tx, NewTask("k/failed", "refused", "It did not happen.", owner), NOON)

    await database.transact(work)
    await database.close()
    return owner


def check(page: Any) -> None:
    """Look at a page in both colour schemes, on a wide and a narrow screen."""
    for width in (1180, 360):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, page.url
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.evaluate(AXE)
            found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            serious = [
                f"{one['id']}: {[node['target'] for node in one['nodes']]}"
                for one in found["violations"]
                if one["impact"] in {"serious", "critical"}
            ]
            assert serious == [], (page.url, width, scheme)


def test_the_office_is_for_everyone(browser: Any, club: FailingClub, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as other:  # the browser has an event loop in this thread
        owner = other.submit(asyncio.run, fill(f"sqlite:///{tmp_path}/club.db")).result()
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(60_000)
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.goto(f"{club.address}/office")
    check(page)
    page.get_by_label("Your name").fill("Anna")
    page.get_by_label("Admin key").fill(KEYS["REGISTRATION_ADMIN_KEY"])
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Registrations of season 2526").wait_for()
    check(page)
    page.get_by_role("link", name="Waiting for payment: 2").click()
    page.get_by_role("link", name=f"{HOSTILE} Quackenbush").wait_for()
    check(page)
    page.get_by_role("link", name="Zebedee Quackenbush").click()
    page.get_by_text("Correct Parent's mobile number").click()
    page.get_by_label("Parent's mobile number: new value").fill("12")
    check(page)
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for()
    check(page)
    page.get_by_text("Correct Parent's mobile number").click()
    page.get_by_label("Parent's mobile number: new value").fill("07700 900 999")
    page.keyboard.press("Enter")
    page.get_by_text("Anna corrected parent_phone").wait_for()
    assert page.url.endswith(owner)
    page.get_by_role("link", name="Tasks").click()
    page.get_by_role("heading", name="Tasks for a person").wait_for()
    check(page)
    page.get_by_role("button", name="Done").click()
    page.get_by_text("None is open.").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_label("Admin key").wait_for()
    context.close()
    assert dialogs == []
