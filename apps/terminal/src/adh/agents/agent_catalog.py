"""The agents that can be used: built-in ones, the person's own, and those of a trusted project.

An agent of the person takes the place of a built-in one with the same name. An agent of a project takes the
place of none, since a project must never change an agent that the person knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from msgspec import Struct

from adh.agents.agent_file import AgentFile, AgentFileError, Origin, parse_agent_file
from adh.agents.model_aliases import ModelAlias, built_in_aliases, parse_aliases
from adh.storage.api_keys import list_key_variables, read_env_file
from adh.storage.places import Places
from adh.storage.storage_errors import StorageError

LARGEST_FILE = 200_000
"""Bytes of the largest file of an agent, of aliases or of project instructions."""

PROJECT_FOLDER = ".adh"
PROJECT_INSTRUCTIONS = "AGENTS.md"


class Catalog(Struct, frozen=True, kw_only=True):
    """Everything that agents are made of.

    Args:
        agents: the agents, by name.
        aliases: the aliases of models.
        project_instructions: the text of the project's AGENTS.md; empty without one, or without trust.
        skill_folders: the folders of skills that may be used.
        untrusted: the files for agents in a project whose folder is not trusted; they are not used.
    """

    agents: dict[str, AgentFile]
    aliases: dict[str, ModelAlias]
    project_instructions: str = ""
    skill_folders: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()

    def find(self, name: str) -> AgentFile:
        """Return the agent with this name. Raises AgentFileError."""
        if name not in self.agents:
            fix = f"The agents are: {', '.join(sorted(self.agents))}"
            raise AgentFileError("agents", f"there is no agent {name!r}", fix)
        return self.agents[name]


def load_catalog(places: Places, *, trusted: bool) -> Catalog:
    """Read everything that agents are made of.

    Args:
        places: the folders of the person and the project.
        trusted: whether the person trusts the folder of the project.

    Raises:
        AgentFileError: a file cannot be read or is wrong.
    """
    agents = {one.name: one for one in _read_agents(files("adh.agents") / "built_in", "built-in")}
    agents |= {one.name: one for one in _read_agents(places.agents, "person")}
    aliases = built_in_aliases()
    if (text := _read_text(places.aliases_file)) is not None:
        aliases |= parse_aliases(text, str(places.aliases_file))
    project = places.project / PROJECT_FOLDER
    found = _find_project_files(places)
    if not trusted:
        return Catalog(
            agents=agents,
            aliases=aliases,
            skill_folders=_find_skills(places.config),
            untrusted=tuple(str(path.relative_to(places.project)) for path in found),
        )
    for one in _read_agents(project / "agents", "project"):
        if one.name in agents:
            problem = f"there is another agent {one.name!r}"
            raise AgentFileError(one.file, problem, "Give the project's agent another name")
        agents[one.name] = one
    return Catalog(
        agents=agents,
        aliases=aliases,
        project_instructions=_read_text(places.project / PROJECT_INSTRUCTIONS) or "",
        skill_folders=(*_find_skills(places.config), *_find_skills(project)),
    )


def _find_project_files(places: Places) -> list[Path]:
    """Return the files that the project has for agents."""
    project = places.project / PROJECT_FOLDER
    candidates = (
        places.project / PROJECT_INSTRUCTIONS,
        project / "agents",
        project / "skills",
    )
    found = [path for path in candidates if path.exists()]
    return [*found, places.project_env_file] if _has_keys(places.project_env_file) else found


def _has_keys(env_file: Path) -> bool:
    try:
        return not read_env_file(env_file).keys().isdisjoint(list_key_variables())
    except StorageError:
        return False


def _find_skills(folder: Path) -> tuple[str, ...]:
    skills = folder / "skills"
    return (str(skills),) if skills.is_dir() else ()


def _read_agents(folder: Traversable, origin: Origin) -> Iterator[AgentFile]:
    try:
        entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _unreadable(str(folder), error) from error
    for entry in entries:
        if not entry.is_dir() or entry.name.startswith((".", "_")):
            continue
        text = _read_text(entry / "agent.md")
        if text is None:
            raise AgentFileError(str(entry), "there is no agent.md", "Add it, or move the folder")
        shown = f"built-in agents/{entry.name}/agent.md" if origin == "built-in" else ""
        yield parse_agent_file(text, shown or str(entry / "agent.md"), entry.name, origin)


def _read_text(path: Traversable) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(str(path), error) from error
    if len(content) > LARGEST_FILE:
        fix = f"Shorten it to {LARGEST_FILE:,} bytes"
        raise AgentFileError(str(path), "the file is too large", fix)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise AgentFileError(str(path), "is not UTF-8", "Save it as UTF-8", line) from None


def _unreadable(path: str, error: OSError) -> AgentFileError:
    reason = error.strerror or type(error).__name__
    return AgentFileError(path, f"cannot be read ({reason})", "Check its permissions")
