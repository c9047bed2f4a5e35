"""The files of the console: what is sent, with which headers, and that nothing comes from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from holdfast import Agent
from holdfast.server import create_app
from holdfast.testing import ScriptedModel

STATIC = Path(__file__).parents[2] / "src" / "holdfast" / "console" / "static"
VENDOR = STATIC / "vendor"
OWN = sorted(path for path in STATIC.rglob("*.js") if VENDOR not in path.parents)


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = create_app(Agent(ScriptedModel("Hello."), name="greeter"))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as client:
        yield client


def version_of(page: str) -> str:
    found = re.search(r'src="([0-9a-f]{16})/app\.js"', page)
    assert found, page
    return found[1]


def test_the_page_is_asked_for_each_time_and_its_files_are_kept(client: TestClient) -> None:
    page = client.get("/console/")
    assert page.headers["Cache-Control"] == "no-cache"
    again = client.get("/console/", headers={"If-None-Match": page.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    file = client.get(f"/console/{version_of(page.text)}/app.js")
    assert file.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert file.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    weak = f"W/{file.headers['ETag']}"
    assert client.get(file.url.path, headers={"If-None-Match": weak}).status_code == 304


def test_every_file_has_a_strict_policy(client: TestClient) -> None:
    page = client.get("/console/")
    for answer in (page, client.get(f"/console/{version_of(page.text)}/console.css")):
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "0123456789abcdef/app.js",
        "{version}/no.js",
        "{version}/%2e%2e/__init__.py",
        "{version}/",
        "x",
    ],
)
def test_what_is_no_file_of_this_version_is_not_found(client: TestClient, path: str) -> None:
    version = version_of(client.get("/console/").text)
    found = client.get("/console/" + path.format(version=version), follow_redirects=True)
    assert found.status_code == 404


def test_the_address_without_a_slash_leads_to_the_page_also_below_a_path() -> None:
    app = create_app(Agent(ScriptedModel("Hello."), name="greeter"))
    outer = Starlette(routes=[Mount("/inner", app)])
    client = TestClient(outer, base_url="http://localhost", follow_redirects=False)
    assert client.get("/inner/console").headers["Location"] == "/inner/console/"
    assert client.get("/inner/console/").status_code == 200


def test_every_import_of_a_module_is_a_file_of_the_console() -> None:
    for path in OWN:
        for name in re.findall(r'from "([^"]+)"', path.read_text("utf-8")):
            assert (path.parent / name).resolve().is_file(), f"{path.name} imports {name}"


def test_no_file_loads_anything_from_another_address_or_makes_html_of_text() -> None:
    for path in [*OWN, STATIC / "index.html", STATIC / "console.css"]:
        text = path.read_text("utf-8")
        code = re.sub(r"^\s*(//|\*|/\*\*?).*$", "", text, flags=re.MULTILINE)
        assert not re.search(r"""["'(]https?://(?!\$)""", code.replace("https?:", "")), path.name
        for word in ("innerHTML", "dangerouslySetInnerHTML", "insertAdjacentHTML", "outerHTML"):
            assert word not in code, f"{path.name}: {word}"
        assert not re.search(r"\b(eval|Function)\(|document\.write", code), path.name


def test_the_page_has_nothing_inline() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert "<style" not in page
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\son\w+=|\sstyle=", page)


VENDORED = json.loads((VENDOR / "vendor.json").read_text("utf-8"))


@pytest.mark.parametrize("package", VENDORED, ids=lambda one: one["package"])
def test_a_vendored_module_is_the_one_of_its_package(package: dict[str, object]) -> None:
    files = package["files"]
    assert isinstance(files, list)
    assert any(str(one["file"]).startswith("LICENSE") for one in files)
    for one in files:
        content = (VENDOR / one["file"]).read_bytes()
        if changed := one.get("changed"):
            content = content.replace(changed["to"].encode(), changed["from"].encode())
        assert hashlib.sha256(content).hexdigest() == one["sha256"], one["file"]


def test_every_vendored_file_is_listed() -> None:
    listed = {one["file"] for package in VENDORED for one in package["files"]}
    found = {path.name for path in VENDOR.iterdir()} - {"vendor.json", "README.txt"}
    assert found == listed


def test_modules_stay_small() -> None:
    sizes = {path.name: len(path.read_text("utf-8").splitlines()) for path in OWN}
    assert {name: size for name, size in sizes.items() if size > 350} == {}
