"""The tools of one agent, by name; a registry does not change.

The function of a tool that the caller of a turn runs asks for its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from holdfast.core.argument_checks import check_value
from holdfast.core.client_tools import CLIENT_TIMEOUT, ClientTool, ClientToolQuestion
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    Landed,
    ToolNotFoundError,
    UnansweredError,
)
from holdfast.core.model_request import ToolSpec
from holdfast.tools.context import ToolContext
from holdfast.tools.results import replace_surrogates
from holdfast.tools.tool import (
    NAME_PATTERN,
    Tool,
    ToolOptions,
    as_tool,
    make_tool_with_signature,
)
from holdfast.tools.tool_failures import ToolError

UNKNOWN_TOOL = "unknown_tool"
"""The code of a call whose tool does not exist."""

LONGEST_NAME = 64
_MOST_NAMES = 128


class Registry:
    """Tools by name, checked when the registry is created.

    Args:
        tools: functions, tools created by `@tool`, or tools that the caller runs.

    Raises:
        ConfigurationError: two tools have one name, or a tool cannot be called by a model.

    >>> def add(a: int, b: int) -> int:
    ...     return a + b
    >>> Registry([add]).names
    ('add',)
    """

    __slots__ = ("_by_name", "has_checks", "specs")

    def __init__(self, tools: Iterable[Callable[..., object] | Tool | ClientTool] = ()) -> None:
        self._by_name: dict[str, Tool] = {}
        check_value("tools", tools, Iterable[object])
        for function in tools:
            tool = _to_tool(function)
            _check_bound(tool)
            other = self._by_name.get(tool.name)
            if other is not None:
                raise ConfigurationError(
                    "tools",
                    f"two of them are named {tool.name!r} ({_definition_of(other)} and {_definition_of(tool)})",
                    fix="Rename one with tool(name=...)",
                )
            self._by_name[tool.name] = tool
        specs = [(tool.offered, tool.spec) for tool in self._by_name.values()]
        self.specs: tuple[ToolSpec, ...] = tuple(spec for offered, spec in specs if offered)
        """The specifications of the tools that are offered; always the same object, so that it is encoded once."""
        self.has_checks = any(tool.check is not None for tool in self._by_name.values())
        """Whether a tool has a check, which looks whether a write took effect."""

    def with_output_functions(self, functions: Iterable[Tool]) -> Registry:
        """Return a registry that also finds the output functions, and does not offer them as tools.

        Args:
            functions: the functions. Their names differ from those of the tools.
        """
        copied = Registry()
        copied.specs = self.specs
        copied._by_name = {**self._by_name, **{one.name: one for one in functions}}
        copied.has_checks = any(tool.check is not None for tool in copied._by_name.values())
        return copied

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, without the output functions."""
        return tuple(tool for tool in self._by_name.values() if not tool.gives_output)

    def get(self, name: str) -> Tool | None:
        """Return the tool with this name, or None."""
        return self._by_name.get(name)

    def find(self, name: str, *, by_code: bool = False) -> Tool:
        """The tool of this name.

        Args:
            name: the name.
            by_code: code calls it, and not a model, which finds no tool that is not offered.

        Raises:
            ToolNotFoundError: there is none; the message lists the tools that there are.
        """
        found = self._by_name.get(name)
        if found is None or not (found.offered or by_code):
            raise _not_found(name, self.names)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools that are offered, in their order."""
        return tuple(spec.name for spec in self.specs)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __repr__(self) -> str:
        return f"Registry({', '.join(self._by_name)})"


def _to_tool(given: Callable[..., object] | Tool | ClientTool) -> Tool:
    return _make_client_tool(given) if isinstance(given, ClientTool) else as_tool(given)


def _make_client_tool(client_tool: ClientTool) -> Tool:
    """Return a tool whose call asks for the result of the caller's tool."""
    from holdfast.tools.schema_signature import ClientSignature  # imports pydantic

    options = ToolOptions(
        name=client_tool.name,
        description=client_tool.description,
        effect="idempotent",  # to ask again finds the same question
        strict=client_tool.strict,
    )
    return make_tool_with_signature(_ask_caller, options, ClientSignature(client_tool))


async def _ask_caller(context: ToolContext) -> str:
    question = ClientToolQuestion(
        tool=context.tool, arguments=context.arguments, call_id=context.call_id
    )
    try:
        result = await context.ask(question, timeout=CLIENT_TIMEOUT)
    except UnansweredError as error:
        if error.why != "timeout":
            raise
        late = f"The caller gave no result of '{context.tool}' within {CLIENT_TIMEOUT:g} seconds."
        raise ToolError(late) from error
    if result.is_error:
        raise ToolError(result.text)
    return result.text


def _not_found(name: str, names: tuple[str, ...]) -> ToolNotFoundError:
    shown = shorten_name(name)
    info = ErrorInfo(
        category=ErrorCategory.CLIENT_ERROR,
        landed=Landed.NO,
        safe=f"Function '{shown}' was not run: there is no such function.",
        code=UNKNOWN_TOOL,
    )
    return ToolNotFoundError(shown, _list_names(name, names), info=info)


def _list_names(name: str, names: tuple[str, ...]) -> str:
    """The names that there are, and the one that was probably meant."""
    if not names:
        return "there is no such function, and there are no others."
    # Needed only when a model errs.
    from difflib import get_close_matches

    close = get_close_matches(name[:LONGEST_NAME], names, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    listed = ", ".join(names[:_MOST_NAMES])
    return f"there is no such function.{hint} The functions are: {listed}{more}."


def shorten_name(name: str) -> str:
    """The name of a tool as a model wrote it, fit for a message; "Unknown" for an empty one."""
    shown = name if NAME_PATTERN.fullmatch(name) else name[:LONGEST_NAME]
    return replace_surrogates(shown) or "Unknown"


def _check_bound(tool: Tool) -> None:
    if tool.binds != "no":
        raise ConfigurationError(
            f"tool {tool.name!r}",
            "is a method without its object",
            fix=f"Pass the method of an object, such as `thing.{tool.name}`",
        )


def _definition_of(tool: Tool) -> str:
    return f"{tool.__module__}.{getattr(tool, '__qualname__', tool.name)}"
