"""The tables of docs/reference are what the code says, and every link of the documents leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.md"))
    if "adr" not in path.parts
]


def test_the_tables_are_the_code() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"run ./run generate\n{done.stdout}{done.stderr}"


def test_every_public_name_is_described() -> None:
    names = (ROOT / "docs" / "reference" / "names.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|  \|$", names, re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
            known = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings}
            assert anchor in known, f"{page.name}: {target}"


def test_every_how_to_is_in_the_index() -> None:
    folder = ROOT / "docs" / "how-to"
    listed = set(re.findall(r"\]\(([^)#]+)[)#]", (folder / "README.md").read_text("utf-8")))
    assert listed == {page.name for page in folder.glob("*.md")} - {"README.md"}
