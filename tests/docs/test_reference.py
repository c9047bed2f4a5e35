"""The tables of docs/reference are what the code says, and every link of the documents leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/*.md"))
    if "adr" not in path.parts
]


@pytest.mark.slow  # starts a program or a server
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


@cache
def list_anchors(page: Path) -> frozenset[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return frozenset(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in headings)


def leads_somewhere(page: Path, target: str) -> bool:
    file, _, anchor = target.partition("#")
    there = (page.parent / file).resolve() if file else page
    return there.exists() and (not anchor or anchor in list_anchors(there))


def test_links_lead_somewhere() -> None:
    links = [
        (page, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
        if not target.startswith(("http://", "https://"))
    ]
    assert [(page.name, link) for page, link in links if not leads_somewhere(page, link)] == []
    assert len(links) > 100


def test_every_how_to_is_in_the_index() -> None:
    folder = ROOT / "docs" / "how-to"
    listed = set(re.findall(r"\]\(([^)#]+)[)#]", (folder / "README.md").read_text("utf-8")))
    assert listed == {page.name for page in folder.glob("*.md")} - {"README.md"}
