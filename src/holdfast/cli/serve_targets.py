"""Loads the agents that a command is asked for: files, folders, and names in modules."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.run_printer import shorten
from holdfast.core.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.hosting.bound_agents import AnyAgent

SETTINGS_FILE = "holdfast.toml"
"""The file with the settings of `holdfast serve`, which describes no agent."""

ABOUT_TARGET = "TOML file of an agent, a folder with such files, or module:agent"
"""The help of a command about its targets."""

FIX = "Pass the TOML file of an agent, a folder of them, or module:agent"


def load_targets(targets: Sequence[str]) -> list[AnyAgent]:
    """Return the agents of targets, in their order.

    Args:
        targets: TOML files, folders of them, or `module:name` of an agent or a list of agents. An
            agent whose file gives no name is called like the file.

    Raises:
        ConfigurationError: one cannot be loaded.
    """
    return [agent for target in targets for agent in _load_target(target)]


def _load_target(target: str) -> list[AnyAgent]:
    path = Path(target)
    if path.is_dir():
        files = sorted(one for one in path.glob("*.toml") if one.name != SETTINGS_FILE)
        if not files:
            raise ConfigurationError("TARGET", f"the folder {target!r} has no .toml file", fix=FIX)
        return [_load_file(file) for file in files]
    if path.suffix == ".py":
        raise ConfigurationError(
            "TARGET",
            f"{target!r} is a module",
            fix=f"Name the agent in it, such as {path.stem}:agent",
        )
    if path.suffix == ".toml" or path.is_file():
        return [_load_file(path)]
    return _load_name(target)


def _load_file(path: Path) -> AnyAgent:
    from holdfast.agent_file.load_agent import load_agent

    return load_agent(path, partial(_make_agent, path.stem))


def _make_agent(default_name: str, **keywords: Any) -> AnyAgent:
    from holdfast.agent import Agent

    return Agent(**{"name": default_name, **keywords})


def _load_name(target: str) -> list[AnyAgent]:
    """Import `module:name`; the module may lie in the current folder."""
    from holdfast.agent import Agent

    module, colon, name = target.partition(":")
    if not colon or not module or not name:
        raise ConfigurationError("TARGET", f"there is no file {target!r}", fix=FIX)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)  # at the end, so that no file of it hides an installed module
    try:
        found: Any = import_module(module)
    except (ImportError, ValueError, SyntaxError) as error:
        raise ConfigurationError("TARGET", f"{module!r} cannot be imported: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigurationError("TARGET", f"{module!r} has no {part!r}")
        found = getattr(found, part)
    agents: list[Any] = found if isinstance(found, list) else [found]
    if not agents or not all(isinstance(agent, Agent) for agent in agents):
        raise ConfigurationError(
            "TARGET", f"{target!r} is not an Agent", fix="Name an Agent object"
        )
    return agents


def default_journal(targets: Sequence[str]) -> str:
    """Return the address of the journal beside the first target: a SQLite file.

    >>> default_journal(["shop:agent"]).endswith("/holdfast.db")
    True
    """
    first = Path(targets[0])
    folder = first if first.is_dir() else first.parent if first.is_file() else Path.cwd()
    return f"sqlite:///{folder.resolve() / 'holdfast.db'}"


def describe_served(names: Iterable[str], journal: str) -> str:
    """Return the lines about the served agents; of the journal, nothing that may be a password.

    >>> print(describe_served(["shop"], "postgresql://me:secret@db/runs"))
    agents   shop
    journal  postgresql
    """
    place = journal.partition(":")[0]
    if place == "sqlite":
        place = shorten(journal.removeprefix("sqlite:///"), 100)
    return f"agents   {', '.join(names)}\njournal  {place}"
