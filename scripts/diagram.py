"""Draws the transition table of the run machine into docs/explanation/the-run.md.

`--write` writes it, `--check` fails when the document is not what the table says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from holdfast.core.session_state import TRANSITIONS, Phase

DOCUMENT = Path(__file__).parents[1] / "docs" / "explanation" / "the-run.md"
BEGIN, END = "<!-- transitions -->", "<!-- /transitions -->"


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Phase.IDLE.value}"]
    for phase, events in TRANSITIONS.items():
        for event, following in events.items():
            arrows = [f"    {phase.value} --> {after.value}" for after in following]
            lines += [f"{arrow}: {event.__name__}" for arrow in arrows]
    return "\n".join([*lines, "```"])


def main(arguments: list[str]) -> int:
    """Write or check; 1 when the document is out of date."""
    text = DOCUMENT.read_text("utf-8")
    head, rest = text.split(BEGIN)
    wanted = f"{head}{BEGIN}\n{diagram()}\n{END}{rest.split(END)[1]}"
    if "--write" in arguments:
        DOCUMENT.write_text(wanted, "utf-8")
    elif text != wanted:
        print(f"{DOCUMENT.name} does not show the transition table: run ./run generate")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
