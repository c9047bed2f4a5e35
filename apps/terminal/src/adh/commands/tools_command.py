"""`adh tools`: the tools, their effects on the world, and the defaults of their parameters.

It must never run a tool.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from adh.storage.places import find_places
from adh.tools.all_tools import make_registry
from adh.tools.tool_registry import ToolSpec
from adh.tools.tools_context import make_tools_context
from holdfast.middleware import escape_invisible


class ToolRow(Struct, frozen=True, kw_only=True):
    """A tool as the list shows it.

    Args:
        name: its name.
        description: its description, in a sentence.
        effects: its effects on the world.
        parameters: its parameters with their defaults, such as "max_lines: integer = null".
    """

    name: str
    description: str
    effects: tuple[str, ...]
    parameters: tuple[str, ...]


def main(args: argparse.Namespace) -> int:
    """Print the tools; return the exit status.

    Args:
        args: the words of the command.
    """
    places = find_places(os.environ, Path.cwd())
    rows = [describe_tool(spec) for spec in make_registry(make_tools_context(places, os.environ))]
    if args.output == "json":
        print(msgspec.json.encode(rows).decode())
        return 0
    for row in rows:
        print(escape_invisible(f"{row.name}: {row.description}"))
        print(f"  effects: {', '.join(row.effects) or 'none'}")
        for parameter in row.parameters:
            print(escape_invisible(f"  {parameter}"))
    return 0


def describe_tool(spec: ToolSpec) -> ToolRow:
    """Return the row of a tool.

    Args:
        spec: the tool.
    """
    properties = spec.schema.get("properties")
    required = spec.schema.get("required")
    names = required if isinstance(required, list | tuple) else ()
    fields = properties if isinstance(properties, Mapping) else {}
    return ToolRow(
        name=spec.name,
        description=" ".join(spec.description.split("\n\n")[0].split()),
        effects=tuple(sorted(spec.effects)),
        parameters=tuple(
            _describe_parameter(name, schema, is_required=name in names)
            for name, schema in fields.items()
        ),
    )


def _describe_parameter(name: str, schema: Mapping[str, object], *, is_required: bool) -> str:
    kind = _name_type(schema)
    if is_required:
        return f"{name}: {kind}"
    return f"{name}: {kind} = {msgspec.json.encode(schema.get('default')).decode()}"


def _name_type(schema: Mapping[str, object]) -> str:
    """Return the name of a type.

    >>> _name_type({"anyOf": [{"type": "integer"}, {"type": "null"}]})
    'integer or null'
    """
    kinds = schema.get("anyOf")
    if isinstance(kinds, list):
        return " or ".join(_name_type(one) for one in kinds)
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
