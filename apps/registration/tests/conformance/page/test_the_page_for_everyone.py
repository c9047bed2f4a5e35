"""The page for everyone: axe-core finds nothing serious, a small screen is enough, and so is the keyboard.

With HOLDFAST_PICTURES=1, the picture of the README is taken again.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from apps.registration.tests.conformance.page.browser_club import FailingClub
from apps.registration.tests.conformance.page.parent import Parent
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE, TO_PHOTO
from apps.registration.tests.photos.samples import photo
from conformance.console.browser import HERE
from conformance.console.small_png import shrink_png

from holdfast.testing.emulator import ErrorResponse

pytestmark = pytest.mark.timeout(180)

AXE = (HERE / "axe.min.js").read_text("utf-8")
PICTURE = Path(__file__).parents[3] / "docs" / "images" / "page.png"
SCHEMES = ("light", "dark")
WIDE = {"width": 1180, "height": 760}
NARROW = {"width": 360, "height": 740}


def find_serious(parent: Parent) -> list[str]:
    """Return what axe-core calls serious or critical."""
    parent.page.evaluate(AXE)
    found = parent.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


def measure_buttons(parent: Parent) -> dict[str, float]:
    """Return the shorter side of each button that is shown, all at one moment."""
    read = """all => all.map(one => [one.innerText, one.getBoundingClientRect()])
        .map(([name, box]) => [name, Math.min(box.width, box.height)])"""
    return dict(parent.page.locator("button:visible").evaluate_all(read))


def check(parent: Parent) -> None:
    """Look at the page in both colour schemes, on a wide and a narrow screen."""
    for size in (WIDE, NARROW):
        parent.page.set_viewport_size(size)
        assert parent.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert parent.page.evaluate("document.documentElement.scrollHeight") <= size["height"]
        for scheme in SCHEMES:
            parent.page.emulate_media(color_scheme=scheme)
            assert find_serious(parent) == [], (size, scheme)


def test_axe_finds_nothing_serious(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    check(parent)
    parent.say(*TO_HOUSE[:4])
    check(parent)
    parent.page.set_viewport_size(NARROW)
    parent.page.get_by_role("button", name="Your answers").click()
    parent.page.get_by_role("heading", name="What is saved so far").wait_for()
    check(parent)
    parent.page.keyboard.press("Escape")
    parent.page.get_by_role("button", name="Forget this conversation").click()
    check(parent)
    parent.page.keyboard.press("Escape")
    club.model_fault = ErrorResponse("invalid_request")
    parent.write("well, you see, it is complicated")
    parent.wait_trouble("Nothing is lost")
    check(parent)


def test_axe_finds_nothing_serious_beside_a_photo(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.arrive(*TO_PHOTO)
    parent.wait_step(34)
    with parent.page.expect_file_chooser() as chooser:
        parent.page.get_by_role("button", name="Add the photo").click()
    chooser.value.set_files([{"name": "me.jpg", "mimeType": "image/jpeg", "buffer": photo()}])
    parent.page.get_by_role("img", name="The photo that you chose").wait_for()
    check(parent)


def test_a_phone_is_enough(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address, **NARROW, color_scheme="dark", has_touch=True, is_mobile=True)
    parent.say(*TO_HOUSE[:6])
    answers = parent.page.get_by_role("button", name="Your answers")
    answers.tap()
    assert answers.get_attribute("aria-expanded") == "true"
    assert not parent.page.get_by_label("Your message").is_visible()
    parent.page.get_by_role("button", name="Change: Gender").tap()
    # The page shows an answer first, and then asks which buttons go with it.
    parent.page.get_by_role("button", name="Keep it as it was").wait_for()
    parent.wait_answered()
    assert parent.page.get_by_label("Your message").is_visible()
    assert len(sizes := measure_buttons(parent)) >= 4
    assert {name: size for name, size in sizes.items() if size < 44} == {}
    last = parent.page.locator("#talk > :last-child").bounding_box()
    composer = parent.page.locator("#composer").bounding_box()
    assert last["y"] + last["height"] <= composer["y"], "the last question is in sight"


def test_the_keyboard_is_enough(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.page.keyboard.type(TO_HOUSE[0])
    parent.page.keyboard.press("Enter")
    parent.wait_answered()
    parent.page.keyboard.type("Sarah")
    parent.page.keyboard.press("Shift+Enter")
    parent.page.keyboard.type("Jones")
    parent.page.keyboard.press("Enter")
    parent.wait_answered()
    parent.wait_step(2)
    change = parent.page.get_by_role("button", name="Change: Your name")
    change.focus()
    parent.page.keyboard.press("Enter")
    parent.page.get_by_role("button", name="Keep it as it was").wait_for()
    parent.wait_answered()
    assert parent.page.evaluate("document.activeElement.id") == "message"
    forget = parent.page.get_by_role("button", name="Forget this conversation")
    forget.focus()
    parent.page.keyboard.press("Enter")
    parent.page.keyboard.press("Escape")
    assert len(parent.written()) == 3
    parent.page.locator("#message:focus").wait_for()  # the dialog gives it back a little later


def test_a_screen_reader_hears_each_answer_once(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address)
    parent.say(TO_HOUSE[0], "Sarah Jones")
    log = parent.page.get_by_role("log", name="Conversation")
    heard = log.aria_snapshot()
    assert heard.count("Thank you, Sarah") == 1
    assert "You: Sarah Jones" in heard
    bar = parent.page.get_by_role("progressbar", name="Step 2 of 35")
    assert bar.get_attribute("value") == "2"


@pytest.mark.skipif(not os.environ.get("HOLDFAST_PICTURES"), reason="takes a picture on request")
def test_take_the_picture_of_the_readme(open_page: Any, club: FailingClub) -> None:
    parent = open_page(club.address, 1000, 640, color_scheme="light")
    parent.say(*TO_HOUSE, "12")
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    parent.page.screenshot(path=str(PICTURE))
    shrink_png(PICTURE)
