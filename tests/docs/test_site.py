"""The documentation site builds strictly: no dead link, no page that the navigation misses, no wrong docstring."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A build takes a quarter of a minute, and much longer beside other programs.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [ROOT / ".venv" / "bin" / "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder


def test_a_public_name_has_a_signature_and_its_docstring(site: Path) -> None:
    page = (site / "reference" / "api" / "holdfast.html").read_text("utf-8")
    assert 'id="holdfast.Limits"' in page
    assert "output_repairs" in page, "the fields of a struct are its arguments"


def test_the_front_page_is_the_readme_and_its_links_lead_to_pages(site: Path) -> None:
    page = (site / "index.html").read_text("utf-8")
    assert "keep working when models, networks, tools and people fail" in page
    assert 'href="how-to/stream-to-a-ui.html"' in page
    assert (site / "files" / "ARCHITECTURE.md.page.html").exists()


def test_programs_can_read_the_whole_site_as_one_text(site: Path) -> None:
    assert "tutorial" in (site / "llms.txt").read_text("utf-8")
    assert "Five ways to use it" in (site / "llms-full.txt").read_text("utf-8")
