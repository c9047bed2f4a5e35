"""Every example of the documents runs, and prints what stands below it.

In a process of its own: a page changes the current folder and the modules of its process.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)  # a quarter of a minute, and much longer beside other programs
def test_the_examples_run() -> None:
    options = ("--quiet", "-n", "0", "-p", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", *options, "README.md", "docs", "src"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


HOW_TO = ROOT / "docs" / "how-to"


def section(page: str, heading: str) -> str:
    """The text below a heading of a page, to the next one of the same level."""
    _, found, rest = (HOW_TO / page).read_text("utf-8").partition(f"\n{heading}\n")
    assert found, heading
    return rest.partition(f"\n{heading.split(maxsplit=1)[0]} ")[0]


def test_the_page_on_middleware_says_what_keeps_hooks_fast() -> None:
    advice = section("write-a-middleware.md", "## Keep hooks fast")
    points = [line for line in advice.splitlines() if line.startswith("- ")]
    do, _, do_not = advice.partition("And do not do this:")
    assert len(points) >= 6
    assert "into `before_turn`" in do
    assert "`asyncio.to_thread`" in do
    assert "Let `enabled` skip a hook" in do
    assert "Do not call a model or a database in `before_iteration`" in do_not


def test_the_page_on_middleware_shows_how_a_notice_is_emitted() -> None:
    text = section("write-a-middleware.md", "## Emit notices of your own")
    program, _, rest = text.partition("```python\n")[2].partition("```")
    assert re.search(r"class (\w+)\(CustomNotice, frozen=True\):", program)
    assert re.search(r"    async def before_\w+\(self, moment[^)]*\).*\n +moment\.emit\(", program)
    assert "```text" in rest  # what a reader of the run sees


def test_the_page_on_streams_names_the_event_that_ends_a_stopped_turn() -> None:
    table = section("stream-to-a-ui.md", "## Other items of a stream")
    (row,) = [line for line in table.splitlines() if line.startswith("| `TurnStopped` |")]
    assert "ends the turn" in row
    assert "`.text`" in row
    assert "`TurnStopped` has the final text" in section("stream-to-a-ui.md", "## Only final text")


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_a_page_hides_no_code_from_its_reader() -> None:
    comments = [
        (page.name, comment)
        for page in PAGES
        for comment in re.findall(r"<!--(.*?)-->", page.read_text("utf-8"), re.DOTALL)
    ]
    assert [one for one in comments if "\n" in one[1] or "skip" in one[1]] == []
