"""Every example of the documents runs, and prints what stands below it.

In a process of its own: the blocks of a page belong together, in their order, and the workers of a
test run share out single blocks.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("places", [("README.md", "docs"), ("src",)], ids=" ".join)
def test_the_examples_run(places: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_hides_no_code_from_its_reader(page: Path) -> None:
    comments = re.findall(r"<!--(.*?)-->", page.read_text("utf-8"), re.DOTALL)
    assert [comment for comment in comments if "\n" in comment or "skip" in comment] == []
