"""The table of dialects: how many output types and tools each provider enforces, wholly or in part.

usage: python -m tests.codecs.schemas.dialect_table --write | --check
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from tests.codecs.schemas.output_types import OUTPUT_TYPES
from tests.codecs.schemas.tool_schemas import load_tools
from tests.corpus import ROOT

from holdfast.codecs.schemas.conversion import (
    RefusedSchema,
    check_request_sizes,
    convert_schema,
)
from holdfast.codecs.schemas.dialects import DIALECTS, Dialect
from holdfast.codecs.schemas.request_schemas import describe_refusal
from holdfast.output.structured_output import compile_output

PAGE = ROOT / "docs" / "reference" / "schema-dialects.md"
OPENING, CLOSING = "<!-- generated: schema dialects -->\n", "<!-- end -->"

Outcome: TypeAlias = Literal["unchanged", "converted", "downgraded", "refused"]
OUTCOMES: tuple[Outcome, ...] = ("unchanged", "converted", "downgraded", "refused")


class Judged(NamedTuple):
    """What becomes of a schema in a dialect; why it is refused."""

    outcome: Outcome
    why: str = ""


def judge(schema: Mapping[str, object], dialect: Dialect) -> Judged:
    made = convert_schema(schema, dialect)
    if isinstance(made, RefusedSchema):
        return Judged("refused", describe_refusal(made))
    if excess := check_request_sizes(dialect, [made.size]):
        return Judged("refused", excess)
    if made.unenforced:
        return Judged("downgraded")
    return Judged("unchanged" if made.is_lossless else "converted")


def list_outputs() -> dict[str, Mapping[str, object]]:
    """Return the schemas of the output types, in the form in which they are requested, by name."""
    schemas = [compile_output(kind).schema for kind in OUTPUT_TYPES]
    names = [getattr(kind, "__name__", str(kind)) for kind in OUTPUT_TYPES]
    pairs = zip(names, schemas, strict=True)
    return {name: schema.envelope or schema.schema for name, schema in pairs}


def list_tools() -> dict[str, Mapping[str, object]]:
    return {f"{one.package} {one.name}": one.schema for one in load_tools()}


def write_counts(corpus: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return a table with a line for each dialect."""
    lines = [f"| dialect | {' | '.join(OUTCOMES)} |", "| --- | ---: | ---: | ---: | ---: |"]
    for dialect in DIALECTS.values():
        counts = Counter(judge(schema, dialect).outcome for schema in corpus.values())
        cells = " | ".join(str(counts[outcome]) for outcome in OUTCOMES)
        lines.append(f"| {dialect.vendor} (`{dialect.name}`) | {cells} |")
    return lines


def write_refusals(corpus: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return a table with the schemas that are refused, and the reason."""
    lines = ["| refused | by | because |", "| --- | --- | --- |"]
    for name, schema in corpus.items():
        reasons: dict[str, list[str]] = {}
        for dialect in DIALECTS.values():
            judged = judge(schema, dialect)
            if judged.why:
                why = judged.why.replace(dialect.vendor, "it").replace("|", "\\|")
                reasons.setdefault(why, []).append(dialect.vendor)
        lines += [f"| `{name}` | {', '.join(by)} | {why} |" for why, by in reasons.items()]
    return lines


def write_tables() -> str:
    outputs, tools = list_outputs(), list_tools()
    parts: Sequence[Sequence[str]] = (
        [f"## {len(outputs)} output types"],
        write_counts(outputs),
        [f"## {len(tools)} tools"],
        write_counts(tools),
        ["## What cannot be expressed"],
        write_refusals({**outputs, **tools}),
    )
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def fill_page(page: str) -> str:
    """Return the page with the tables of today."""
    before, opening, rest = page.partition(OPENING)
    _, closing, after = rest.partition(CLOSING)
    assert opening
    assert closing
    return f"{before}{opening}\n{write_tables()}\n{closing}{after}"


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is current."""
    page = PAGE.read_text("utf-8")
    wanted = fill_page(page)
    if arguments == ["--write"]:
        PAGE.write_text(wanted, "utf-8")
        return 0
    return int(wanted != page)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
