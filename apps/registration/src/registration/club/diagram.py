"""Draws the table of steps as a page of Markdown: a Mermaid diagram and a table.

usage: python -m registration.club.diagram > apps/registration/docs/steps.md
"""

import sys
from collections.abc import Iterator

from registration.club.steps import FURTHER, STEPS, Step

HEAD = """\
# The steps of a registration

This page is written from the table in `club/steps.py` by `./run generate`. Code decides every step: a model only reads
what a parent says and words the reply.

A registration of a new player begins at step 1. One of a player of last season begins at step 28, with the answers of
last season, after the parent has named the mobile number or e-mail address in them. The steps 17, 25, 26 and 27 do not
exist.
"""


def write_page() -> str:
    """Return the whole page."""
    table = "\n".join(write_table())
    further = "\n".join(write_further())
    return f"{HEAD}\n## Diagram\n\n{draw_diagram()}\n\n## Table\n\n{table}\n\n## Further questions\n\n{further}\n"


def draw_diagram() -> str:
    """Return the Mermaid diagram, as a fenced block."""
    lines = [
        "```mermaid",
        "flowchart TD",
        "    start([code 200]) --> s1",
        "    again([code 100]) --> s28",
    ]
    for step in STEPS.values():
        opening, closing = "[]" if step.check else "{}"
        lines.append(f'    s{step.number}{opening}"{step.number} {name_step(step)}"{closing}')
        for branch in step.next:
            label = f"|{branch.when}|" if branch.when else ""
            lines.append(f"    s{step.number} -->{label} s{branch.to}")
    lines.append("    s28 -.->|a field is wrong| correction([the step of that field]) -.-> s28")
    return "\n".join([*lines, "```"])


def write_table() -> Iterator[str]:
    """Yield the rows of the table of steps."""
    yield "| n | asks for | rule | then the server | next |"
    yield "|---|---|---|---|---|"
    for step in STEPS.values():
        duties = "<br>".join(
            f"`{duty.effect}`" + (f" ({duty.when})" if duty.when else "") for duty in step.duties
        )
        branches = "<br>".join(
            f"{branch.to}" + (f" ({branch.when})" if branch.when else "") for branch in step.next
        )
        yield f"| {step.number} | {name_step(step)} | {step.rule} | {duties or '-'} | {branches or '-'} |"


def write_further() -> Iterator[str]:
    """Yield the rows of the table of further questions."""
    yield "| at step | asks for | question | accepts |"
    yield "|---|---|---|---|"
    for step in FURTHER.values():
        question = step.asks.replace("{child}", "the child")
        yield f"| {step.number} | {step.title} | {question} | {step.rule} |"


def name_step(step: Step) -> str:
    """Return a step's title, from the club's point of view."""
    return step.title.replace("{child}", "Your child")


if __name__ == "__main__":
    sys.stdout.write(write_page())
