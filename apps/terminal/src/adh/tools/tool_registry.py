"""The registry of tools: each with its effects and tags. A name twice is an error.

Importing it must never run a tool or touch a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

from msgspec import Struct

from holdfast.errors import ConfigurationError
from holdfast.tools import Tool

Effect = Literal[
    "reads_fs",
    "writes_fs",
    "deletes_fs",
    "executes_process",
    "network_read",
    "external_search",
    "external_content",
]
EFFECTS: tuple[str, ...] = get_args(Effect)
"""The effects that a tool may declare."""

_WRITES = frozenset({"writes_fs", "deletes_fs", "executes_process"})

TOOL_EFFECTS: Mapping[str, frozenset[str]] = {
    "read_file": frozenset({"reads_fs"}),
    "list_directory": frozenset({"reads_fs"}),
    "get_file_info": frozenset({"reads_fs"}),
    "write_file": frozenset({"reads_fs", "writes_fs"}),
    "create_directory": frozenset({"writes_fs"}),
    "delete_file": frozenset({"reads_fs", "deletes_fs"}),
    "execute_command": frozenset({"executes_process"}),
    "fetch_url": frozenset({"network_read", "external_content"}),
    "web_search": frozenset({"external_search", "external_content"}),
    "web_fetch": frozenset({"network_read", "external_content"}),
    "delegate_to_agent": frozenset(),
}
"""The effects of each tool, by its name. Those of a delegation are those of the other agent's calls."""


class ToolSpec(Struct, frozen=True, kw_only=True):
    """A tool with its description for rules and documents.

    Args:
        handler: the tool.
        effects: its effects on the world.
        tags: its subjects, such as "files".
    """

    handler: Tool
    effects: frozenset[str]
    tags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.handler.name

    @property
    def description(self) -> str:
        """The description that the model reads."""
        return self.handler.description

    @property
    def schema(self) -> Mapping[str, object]:
        """The JSON schema of its parameters."""
        return self.handler.spec.schema


class ToolRegistry:
    """The tools of the program, by name.

    Args:
        specs: the tools.

    Raises:
        ConfigurationError: a name is there twice, an effect is unknown, or the effects of a tool do not
            fit its declaration to the library.
    """

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        self._specs: dict[str, ToolSpec] = {}
        for spec in specs:
            self.add(spec)

    def add(self, spec: ToolSpec) -> None:
        """Add a tool. It raises as the class does."""
        if spec.name in self._specs:
            raise ConfigurationError(
                "tools", f"two of them are named {spec.name!r}", fix="Rename one of them"
            )
        unknown = sorted(spec.effects - set(EFFECTS))
        if unknown:
            known = ", ".join(EFFECTS)
            raise ConfigurationError(
                f"tools.{spec.name}.effects", f"{unknown[0]!r} is unknown", fix=f"Use {known}"
            )
        needed = find_library_effect(spec.effects)
        if spec.handler.effect != needed:
            raise ConfigurationError(
                f"tools.{spec.name}.effect",
                f"is {spec.handler.effect!r} and not {needed!r}",
                fix="Declare with @tool(effect=...) what its effects say",
            )
        self._specs[spec.name] = spec

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self._specs.values())

    def __len__(self) -> int:
        return len(self._specs)

    def __getitem__(self, name: str) -> ToolSpec:
        return self._specs[name]


def find_library_effect(effects: Iterable[str]) -> Literal["read", "write"]:
    """Return the effect that the library knows: a write that is in doubt is not repeated.

    >>> find_library_effect({"reads_fs", "deletes_fs"}), find_library_effect({"network_read"})
    ('write', 'read')
    """
    return "read" if _WRITES.isdisjoint(effects) else "write"
