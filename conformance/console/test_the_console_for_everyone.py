"""The console for everyone: axe-core finds nothing serious, every width fits, the keyboard is enough.

The demo gives the runs. With HOLDFAST_PICTURES=1, the pictures of the documents are taken again.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.console.browser import HERE, HOLDFAST
from conformance.console.small_png import shrink_png

PICTURES = Path(__file__).parents[2] / "docs" / "images"
AXE = (HERE / "axe.min.js").read_text("utf-8")
VIEWS = {
    "runs": "#/runs",
    "chat": "#/runs/rate-limits",
    "failed": "#/runs/the-whole-archive",
    "timeline": "#/runs/refund-while-the-server-died/timeline",
    "replay": "#/runs/refund-while-the-server-died/replay?at=5",
    "approvals": "#/approvals",
    "compare": "#/compare/broken-lamp/delivered-twice",
    "health": "#/health",
    "queue": "#/queue",
    "new": "#/new",
    "missing": "#/runs/no-such-session",
}

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demo's console."""
    journal = f"sqlite:///{tmp_path_factory.mktemp('demo')}/demo.db"
    words = ["serve", "--demo", "--port", "0", "--journal", journal]
    process = subprocess.Popen([HOLDFAST, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = ""
        while not address:
            line = process.stdout.readline()
            assert line, "the demo has ended"
            name, _, value = line.strip().partition(" ")
            address = f"{value.strip()}/" if name == "console" else ""
        yield address
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def open_view(browser) -> Iterator[object]:
    """Opens a view at a size and in a theme, when its content is there."""
    contexts = []

    def open_it(address: str, width: int = 1280, height: int = 800, theme: str = "light"):
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce")
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(address)
        page.locator("main:not(.loading)").wait_for()
        page.wait_for_load_state("load")
        page.wait_for_timeout(700)
        return page

    yield open_it
    for context in contexts:
        context.close()


def find_serious(page) -> list[str]:
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_window(
    console, open_view, view: str
) -> None:
    page = open_view(console + VIEWS[view])
    assert find_serious(page) == []
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert find_serious(page) == [], "dark"
    check_widths(page)


def test_axe_finds_nothing_serious_in_dialogs_and_forms(console, open_view) -> None:
    page = open_view(f"{console}#/approvals")
    page.get_by_role("button", name="Edit").first.click()
    assert find_serious(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Deny").first.click()
    assert find_serious(page) == []
    page.goto(f"{console}#/runs/rate-limits")
    page.get_by_role("button", name="Rename").click()
    assert find_serious(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    assert find_serious(page) == []


def check_widths(page) -> None:
    for width, height in ((360, 740), (768, 1000), (1280, 800), (3840, 2160)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT) == [], width


CUT = """
[...document.querySelectorAll("button, a.button, h1")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width && (box.right > innerWidth + 1 || box.left < -1) && !one.closest(".skip");
}).concat(
    [...document.querySelectorAll(".span-turn, .event")].filter((one) => one.scrollWidth > one.clientWidth + 1)
).map((one) => one.outerHTML.slice(0, 100))
"""


def test_the_keyboard_is_enough(console, open_view) -> None:
    page = open_view(f"{console}#/runs")
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("New chat").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("]")
    page.keyboard.press("o")
    page.locator(".session-head").wait_for()
    page.keyboard.press("2")
    page.locator(".timeline").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("archive")
    page.locator(".summary", has_text="1 run").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.get_by_role("heading", name="New chat").wait_for()
    page.keyboard.press("Escape")  # out of the message
    page.keyboard.press("t")
    page.locator("html[data-theme=light]").wait_for()


def test_a_link_leads_to_the_same_place(console, open_view) -> None:
    page = open_view(f"{console}#/runs/refund-while-the-server-died/replay?at=4")
    page.get_by_role("heading", name="tool_finished").wait_for()
    page = open_view(f"{console}#/approvals/delivered-twice")
    assert "Delivered twice" in page.locator(".card.selected").inner_text()


TAKEN = {
    "console-runs": ("#/runs/refund-while-the-server-died", ("light", "dark")),
    "console-approvals": ("#/approvals", ("light",)),
    "console-replay": ("#/runs/refund-while-the-server-died/replay?at=8", ("light",)),
    "console-queue": ("#/queue", ("light",)),
    "console-compare": ("#/compare/broken-lamp/delivered-twice", ("dark",)),
}


@pytest.mark.skipif(not os.environ.get("HOLDFAST_PICTURES"), reason="takes pictures on request")
def test_take_the_pictures_of_the_documents(console, open_view) -> None:
    for name, (view, themes) in TAKEN.items():
        for theme in themes:
            take(open_view(console + view, 1180, 720, theme), f"{name}-{theme}")
    page = open_view(f"{console}#/new?agent=research", 1180, 720)
    for question in ("How do outages end?", "Which incidents lasted longest?"):
        page.get_by_label("Message", exact=True).fill(question)
        page.keyboard.press("Enter")
        page.locator(".session-head .state", has_text="Running").wait_for()
        page.locator(".session-head .state", has_text="Done").wait_for(timeout=90_000)
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    page.locator(".span").first.wait_for()
    take(page, "console-timeline-light")


def take(page, name: str) -> None:
    path = PICTURES / f"{name}.png"
    page.screenshot(path=str(path))
    shrink_png(path)


def test_no_key_answers_a_question_that_a_narrow_screen_does_not_show(open_view, console) -> None:
    page = open_view(f"{console}#/runs", width=360)
    waiting = page.locator("nav .badge")
    waiting.wait_for()
    before = waiting.inner_text()
    page.keyboard.press("a")
    page.keyboard.press("d")
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    assert "Approve" not in page.get_by_role("dialog").inner_text()
    assert waiting.inner_text() == before


def test_what_is_typed_in_a_new_chat_is_its_message(open_view, console) -> None:
    page = open_view(f"{console}#/runs")
    page.keyboard.press("c")
    page.get_by_role("heading", name="New chat").wait_for()
    page.keyboard.type("What can you do?")
    page.keyboard.press("Enter")
    page.locator(".message.user", has_text="What can you do?").wait_for()
    page.keyboard.type("and")
    assert page.get_by_role("textbox", name="Message").input_value() == "and"


def test_a_search_begins_beside_a_run_of_a_narrow_screen(open_view, console) -> None:
    page = open_view(f"{console}#/runs/first-steps", width=360)
    page.keyboard.press("/")
    search = page.get_by_role("searchbox", name="Search titles and messages")
    search.wait_for()
    page.wait_for_function("document.activeElement.type === 'search'")
