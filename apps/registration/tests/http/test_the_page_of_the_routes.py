"""The page about the routes names every route, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from registration.http.app import list_routes

PAGE = Path(__file__).parents[2] / "docs" / "http.md"


def test_the_page_names_every_route() -> None:
    served = {
        f"{method} {route.path}"
        for route in list_routes()
        for method in (route.methods or set()) - {"HEAD"}
        if not route.path.startswith("/office/")
    }
    assert set(re.findall(r"`((?:GET|POST) /[^` ]*)`", PAGE.read_text("utf-8"))) == served
