"""A page that somebody uploads is a file to download, and never a page of the service."""

from __future__ import annotations

import pytest
from tests.server.serving import Api, serve

from holdfast import Agent
from holdfast.server import create_app
from holdfast.testing import ScriptedModel


@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "application/xhtml+xml"])
async def test_an_uploaded_page_runs_in_no_origin(kind: str) -> None:
    app = create_app(Agent(ScriptedModel("Hi."), name="greeter"))
    async with serve(app) as base, Api(base) as api:
        page = b"<script>alert(1)</script>"
        sent = await api.call("POST", "/media", data=page, headers={"Content-Type": kind})
        got = await api.get(f"/media/{sent.json['media']}")
    assert got.body == page
    assert got.headers["content-disposition"] == "attachment"
    assert got.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert got.headers["x-content-type-options"] == "nosniff"
