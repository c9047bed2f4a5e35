"""The files of the page: kept by browsers for as long as they are the same, and nothing else is sent."""

from __future__ import annotations

import re

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from registration.http import page_files


@pytest.fixture
def client() -> TestClient:
    return TestClient(Starlette(routes=page_files.routes()))


def test_the_page_names_files_that_are_there(client: TestClient) -> None:
    page = client.get("/")
    named = re.findall(r'(?:href|src)="(page/[^"]+)"', page.text)
    assert len(named) == 3
    for name in named:
        sent = client.get(f"/{name}")
        assert sent.status_code == 200
        assert "immutable" in sent.headers["cache-control"]
        assert sent.headers["content-security-policy"].startswith("default-src 'none'")
        for imported in re.findall(r'from "\./([\w.]+)"', sent.text):
            beside = name.rpartition("/")[0] + "/" + imported
            assert client.get(f"/{beside}").headers["content-type"].startswith("text/javascript")


def test_a_browser_asks_again_and_is_told_that_nothing_changed(client: TestClient) -> None:
    page = client.get("/")
    again = client.get("/", headers={"If-None-Match": f'"other", W/{page.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["index.html", "main.js.map", "..%2Fpage_files.py", "none.js"])
def test_other_files_are_not_sent(client: TestClient, name: str) -> None:
    version = re.search(r"page/(\w+)/", client.get("/").text)
    assert version is not None
    assert client.get(f"/page/{version[1]}/{name}").status_code == 404
    assert client.get("/page/0123456789abcdef/main.js").status_code == 404


def test_nothing_in_the_page_is_inline(client: TestClient) -> None:
    page = client.get("/").text
    assert not re.search(r"<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", page)
