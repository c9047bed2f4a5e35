"""The console shows what the provider and an agent in a tool did."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.protocols.chat_processes import ChatProcess

from holdfast.testing.emulator import Delay

pytestmark = pytest.mark.timeout(240)


def test_a_search_its_source_and_an_agent_in_a_tool(page, tmp_path: Path) -> None:
    with ChatProcess(tmp_path, [None, None, Delay(2)]) as service:  # the page is there by then
        for text, shown in (("Faro", "Rain."), ("ask", "It says: Sun.")):
            page.goto(f"{service.url}/console#/new?agent=finder")
            page.get_by_role("heading", name="New chat").wait_for()
            page.get_by_role("textbox", name="Message").fill(text)
            page.keyboard.press("Enter")
            page.locator(".said", has_text=shown).last.wait_for()
            if text == "Faro":
                call = page.locator(".call", has_text="by the provider")
                assert "web_search" in call.inner_text()
                assert 'query: "Faro"' in call.inner_text()
                source = page.locator(".sources li a")
                assert source.get_attribute("href") == "https://faro.pt"
                assert "Rain." in page.locator(".sources li").inner_text()
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Timeline").click()
        page.locator(".timeline").wait_for()
        names = page.locator(".span .name b").all_inner_texts()
        assert "searcher" in names
        assert "searcher model #1" in names
        assert all(" d " not in one for one in page.locator(".span .seconds").all_inner_texts())
