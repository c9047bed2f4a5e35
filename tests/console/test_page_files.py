"""The files of a page of one's own: what is sent, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from holdfast import ConfigurationError
from holdfast.server import PageFiles

POLICY = "default-src 'self'"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "index.html").write_text('<script src="{version}/parts/app.js"></script>')
    (tmp_path / "parts" / "app.js").write_text("let a = '{version}'")
    (tmp_path / "notes.md").write_text("private")
    return tmp_path


def open_page(sent: PageFiles) -> TestClient:
    routes = [Route("/", sent.send_page), Route("/{version}/{name:path}", sent.send_file)]
    return TestClient(Starlette(routes=routes))


def test_the_page_names_its_files_by_their_digest(folder: Path) -> None:
    sent = PageFiles(folder, policy=POLICY, headers={"Permissions-Policy": "camera=()"})
    client = open_page(sent)
    assert client.get("/").text == f'<script src="{sent.version}/parts/app.js"></script>'
    script = client.get(f"/{sent.version}/parts/app.js")
    assert script.text == "let a = '{version}'"
    for answer in (client.get("/"), script, client.get("/x/app.js")):
        assert answer.headers["Content-Security-Policy"] == POLICY
        assert answer.headers["Permissions-Policy"] == "camera=()"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_another_content_has_another_version(folder: Path) -> None:
    before = PageFiles(folder, policy=POLICY)
    (folder / "parts" / "app.js").write_text("let b = 1")
    after = PageFiles(folder, policy=POLICY)
    assert before.version != after.version
    assert open_page(after).get(f"/{before.version}/parts/app.js").status_code == 404


@pytest.mark.parametrize(
    "name", ["index.html", "notes.md", "parts", "parts/", "../secret.js", "", "app.js"]
)
def test_no_other_file_is_sent(folder: Path, name: str) -> None:
    (folder.parent / "secret.js").write_text("secret")
    sent = PageFiles(folder, policy=POLICY)
    escaped = name.replace(".", "%2e").replace("/", "%2f")
    for path in (name, escaped):
        assert open_page(sent).get(f"/{sent.version}/{path}").status_code == 404


def test_a_file_that_appears_later_is_not_sent(folder: Path) -> None:
    sent = PageFiles(folder, policy=POLICY)
    (folder / "late.js").write_text("1")
    assert open_page(sent).get(f"/{sent.version}/late.js").status_code == 404


def test_a_folder_without_a_page_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"folder: has no index\.html"):
        PageFiles(tmp_path, policy=POLICY)
