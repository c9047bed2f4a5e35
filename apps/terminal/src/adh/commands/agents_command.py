"""`adh agents`: the agents that are defined here, and the models that have an alias.

It must never use files of a folder that the person does not trust.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from adh.agents.agent_catalog import Catalog, load_catalog
from adh.storage.places import find_places
from adh.storage.settings import Settings, load_settings
from adh.storage.trust import TrustedFolders
from holdfast.middleware import escape_invisible


class AgentRow(Struct, frozen=True, kw_only=True):
    """An agent as the list shows it.

    Args:
        name: its name.
        description: its role.
        model: its model; empty for the one that the settings name.
        tools: its tools; "*" for all.
        origin: who wrote it: "built-in", "person" or "project".
        is_default: whether a conversation begins with it.
    """

    name: str
    description: str
    model: str
    tools: tuple[str, ...]
    origin: str
    is_default: bool


def main(args: argparse.Namespace) -> int:
    """Print the agents; return the exit status.

    Args:
        args: the words of the command.

    Raises:
        AgentFileError: a file of an agent has an error.
        StorageError: a file cannot be read.
    """
    places = find_places(os.environ, Path.cwd())
    trusted = TrustedFolders(places.trust_file).is_trusted(places.project)
    catalog = load_catalog(places, trusted=trusted)
    settings = load_settings(places)
    rows = list_agents(catalog, settings)
    if args.output == "json":
        print(msgspec.json.encode(rows).decode())
    else:
        for row in rows:
            print(escape_invisible(_format_row(row)))
        aliases = ", ".join(f"{name} ({one.model_id})" for name, one in catalog.aliases.items())
        print(escape_invisible(f"\nmodel: {settings.model}; aliases: {aliases}"))
    if catalog.untrusted:
        names = escape_invisible(", ".join(catalog.untrusted))
        print(f"adh: not used, since this folder is not trusted: {names}", file=sys.stderr)
    return 0


def list_agents(catalog: Catalog, settings: Settings) -> list[AgentRow]:
    """Return the agents, by name.

    Args:
        catalog: the agents.
        settings: the settings of the person.
    """
    return [
        AgentRow(
            name=agent.name,
            description=agent.description,
            model=agent.model,
            tools=agent.tools,
            origin=agent.origin,
            is_default=agent.name == settings.agent,
        )
        for _, agent in sorted(catalog.agents.items())
    ]


def _format_row(row: AgentRow) -> str:
    default = " (default)" if row.is_default else ""
    model = f"; model {row.model}" if row.model else ""
    tools = "all tools" if row.tools == ("*",) else f"tools {', '.join(row.tools) or 'none'}"
    return f"{row.name}{default}: {row.description}\n  {row.origin}{model}; {tools}"
