"""The table of the docs, made of the saved result.

It stands between two marks of the page; a test compares the page with the result that is saved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from benchmarks.sdk_calls.faults import FAULTS, Met, NamedFault

_ROOT = Path(__file__).parents[2]
RESULT = _ROOT / "benchmarks" / "results" / "sdk-calls.json"
PAGE = _ROOT / "docs" / "explanation" / "one-call-under-faults.md"
_BEGIN, _END = "<!-- generated: sdk calls -->", "<!-- end -->"

Result = Mapping[str, Mapping[str, Met]]
"""What was met, by the name of the fault and of the caller."""


def make_table(result: Result) -> str:
    """Return the table: a row for each fault, a column for each caller."""
    ways = list(next(iter(result.values())))
    lines = ["| | " + " | ".join(ways) + " |", "|---" * (len(ways) + 1) + "|"]
    faults = {fault.name: fault for fault in FAULTS}
    for name, met in result.items():
        cells = [_word_cell(faults[name], met[way]) for way in ways]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _word_cell(fault: NamedFault, met: Met) -> str:
    count = met["requests"]
    words = [f"{count} request{'s' if count != 1 else ''}"]
    if met["waits"]:
        words.append(f"after {', '.join(f'{wait:g}' for wait in met['waits'])} s")
        if fault.wait is not None:
            is_kept = all(wait >= fault.wait for wait in met["waits"])
            words.append("(kept)" if is_kept else "(too early)")
    if fault.bad and count > 1:
        words.append("with the problem" if met["names_problem"] else "without the problem")
    told = met["told"] if met["told"].startswith("the ") else f"`{met['told']}`"
    return f"{' '.join(words)}: {told} {'✓' if met['is_right'] else '✗'}"


def read_result() -> Result:
    """Return the result that is saved."""
    result: Result = json.loads(RESULT.read_text("utf-8"))
    return result


def put_table(page: str, result: Result) -> str:
    """Return a page with the table of this result."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n\n{make_table(result)}\n\n{_END}{after}"


def write_page(result: Result) -> None:
    """Write the table into the page."""
    PAGE.write_text(put_table(PAGE.read_text("utf-8"), result), "utf-8")
