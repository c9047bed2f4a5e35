"""The fixtures of the page's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apps.registration.tests.conformance.page.browser_club import FailingClub, KillableClub
from apps.registration.tests.conformance.page.parent import Parent
from conformance.console.browser import chromium

OpenPage = Callable[..., Parent]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as running:
        yield running


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """Opens the page in a browser of its own; an error of the page fails the test."""
    contexts: list[Any] = []
    errors: list[str] = []

    def open_it(address: str, width: int = 1180, height: int = 760, **options: Any) -> Parent:
        size = {"width": width, "height": height}
        context = browser.new_context(viewport=size, reduced_motion="reduce", **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on(
            "console",
            lambda message: (
                errors.append(message.text) if "Content Security" in message.text else None
            ),
        )
        page.goto(f"{address}/")
        return Parent(page)

    yield open_it
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def club(tmp_path: Path) -> Iterator[FailingClub]:
    with FailingClub(tmp_path).serve() as serving:
        yield serving


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[KillableClub]:
    club = KillableClub(tmp_path)
    club.start()
    try:
        yield club
    finally:
        club.kill()
