"""The fixtures of the console's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conformance.console.browser import KillableService, choose_faults, choose_reply, chromium

from holdfast.testing import Emulator


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with chromium() as running:
        yield running


@pytest.fixture
def page(browser) -> Iterator[object]:
    """A page whose errors fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(60_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def service(tmp_path) -> Iterator[KillableService]:
    with Emulator(choose_reply, faults=choose_faults) as provider:
        service = KillableService(tmp_path, provider.base_url)
        service.start()
        try:
            yield service
        finally:
            service.kill()
