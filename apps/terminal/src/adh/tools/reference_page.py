"""Writes the reference page of the tools from the tools themselves: `python -m adh.tools.reference_page`.

It must never run a tool.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from adh.storage.backups import Backups
from adh.storage.changes import ChangeStore
from adh.storage.pending_writes import PendingWrites
from adh.tools.all_tools import make_registry
from adh.tools.tool_registry import ToolRegistry, ToolSpec
from adh.tools.tools_context import ToolsContext

_HEAD = """\
# Tools

This page is written from the tools by `./run generate`. Rules see a tool by its name, its parameters and its effects.
A tool that writes is not repeated after a crash: its call is *in doubt*, and the model is told to check.

Two more tools are there only where the provider runs them: `web_search` and `web_fetch`. With `delegate_to_agent`, an
agent gives a task to another one, whose calls are judged like its own.
"""


def write_page(registry: ToolRegistry) -> str:
    """Return the reference page as Markdown.

    Args:
        registry: the tools.
    """
    return "\n".join([_HEAD, *(line for spec in registry for line in _write_tool(spec))])


def _write_tool(spec: ToolSpec) -> Iterator[str]:
    yield f"## {spec.name}"
    yield ""
    yield spec.description
    yield ""
    yield f"Effects: {', '.join(f'`{effect}`' for effect in sorted(spec.effects))}."
    yield ""
    yield "| parameter | what it is | type | if it is not given |"
    yield "|---|---|---|---|"
    required = cast("list[str]", spec.schema.get("required", []))
    properties = cast("Mapping[str, Mapping[str, object]]", spec.schema["properties"])
    for name, schema in properties.items():
        default = "required" if name in required else _write_default(schema)
        yield f"| `{name}` | {_write_purpose(schema)} | {_write_type(schema)} | {default} |"
    yield ""


def _write_purpose(schema: Mapping[str, object]) -> str:
    return str(schema.get("description", "")).removesuffix(".")


def _write_type(schema: Mapping[str, object]) -> str:
    choices = cast("list[Mapping[str, object]]", schema.get("anyOf", [schema]))
    words = [_write_choice(choice) for choice in choices if choice.get("type") != "null"]
    return " or ".join(words)


def _write_choice(schema: Mapping[str, object]) -> str:
    bounds = [
        f"{word} {_write_number(schema[key])}"
        for key, word in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "more than"),
            ("maximum", "at most"),
        )
        if key in schema
    ]
    return ", ".join([str(schema.get("type", "any")), *bounds])


def _write_default(schema: Mapping[str, object]) -> str:
    default = schema.get("default")
    if default is None:
        return "none"
    return f"`{str(default).lower() if isinstance(default, bool) else _write_number(default)}`"


def _write_number(value: object) -> str:
    return str(value).removesuffix(".0")


def make_page() -> str:
    """Return the reference page of this program's tools."""
    nowhere = Path("/nonexistent")
    context = ToolsContext(
        changes=ChangeStore(nowhere),
        backups=Backups(nowhere),
        pending=PendingWrites(nowhere),
        environ={},
        home="/",
    )
    return write_page(make_registry(context))


if __name__ == "__main__":
    sys.stdout.write(make_page())
