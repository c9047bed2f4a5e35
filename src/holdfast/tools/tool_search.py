"""`ToolSearch`: many tools, of which the model is offered those that it finds by words.

Instead of the tools, the model gets one tool that searches them. Its hits are offered from the next model call on, at
the end of the list, until the turn ends. They are a fold over the results of the search in the journal. So a turn
that continues after a crash offers the same tools, and nothing about a turn is stored in a toolset. This module must
never run a tool that it found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property, partial
from operator import is_
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import NonNegativeInt, PositiveInt
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event, ToolFinished
from holdfast.middleware.decisions import Deny
from holdfast.middleware.hook_contexts import BeforeTool, RunFacts
from holdfast.middleware.hooks import Middleware
from holdfast.tools.tool import NAME_PATTERN, Tool, copy_as_deferred, tool
from holdfast.tools.tool_failures import ToolError
from holdfast.tools.toolset import AnyContext, Resources, Toolset, join_tools

if TYPE_CHECKING:
    from holdfast.core.word_index import WordIndex

MOST_FOUND: Final = 64
"""The most tools that one turn may find; with those that are always offered, it is less than any provider takes."""

_MOST_HITS: Final = 20
_LONGEST_LINE: Final = 240
_RECENT: Final = 4

NativeSearch: TypeAlias = Literal["never", "auto", "always"]
"""Whether the provider searches the tools, in place of this library."""

FOUND_TEXT: Final = "You can call these tools from your next message on:"
FULL_TEXT: Final = (
    f"This turn has found {MOST_FOUND} tools, which is the most. Call those that you have."
)
_LINE: Final = re.compile(rf"^- ({NAME_PATTERN.pattern})(?=:|$)", re.MULTILINE)


_Groups: TypeAlias = Sequence[tuple[str, Sequence[Tool]]]
"""The tools of each toolset, with its name."""


class _SearchSettings(Struct, frozen=True):
    """The arguments of `ToolSearch`, checked; `search` is the name of the tool that searches."""

    search: str
    above: NonNegativeInt
    hits: PositiveInt
    always: frozenset[str]
    native: NativeSearch

    def __post_init__(self) -> None:
        check_fields(self)
        if self.hits > _MOST_HITS:
            raise ConfigurationError("hits", f"must be at most {_MOST_HITS}, got {self.hits}")
        if not NAME_PATTERN.fullmatch(self.search):
            raise ConfigurationError(
                "name",
                f"providers reject {self.search[:80]!r}: 1 to 64 letters, digits, '_' and '-' are "
                "allowed",
                fix="It is the name of the tool that searches",
            )


class FoundTools(Middleware[tuple[str, ...]]):
    """Remembers which tools a search has found in a turn, by the results that the journal has.

    `ToolSearch` makes this middleware together with the tool that searches.

    Args:
        settings: the arguments of `ToolSearch`.
    """

    events = (ToolFinished,)

    def __init__(self, settings: _SearchSettings) -> None:
        self._settings = settings
        self.tools = (settings.search,)

    @property
    def initial(self) -> tuple[str, ...]:
        """The state before the first search."""
        return ()

    def describe(self) -> dict[str, object]:
        """The name of the tool that searches, and when and how it does."""
        settings = self._settings
        return {
            "search": settings.search,
            "above": settings.above,
            "hits": settings.hits,
            "native": settings.native,
        }

    def fold(self, state: tuple[str, ...], event: Event) -> tuple[str, ...]:
        """Add the tools that a search has found, in their order."""
        if not isinstance(event, ToolFinished):
            return state
        result = event.result
        if (
            result.name != self._settings.search
            or result.is_error
            or not result.text.startswith(FOUND_TEXT)
        ):
            return state
        return tuple(dict.fromkeys([*state, *_LINE.findall(result.text)]))[:MOST_FOUND]

    def enabled(self, hook: str, facts: RunFacts) -> bool:  # noqa: ARG002 - it has one hook
        """Whether this turn has found as many tools as it may."""
        return len(facts.state_of(self)) >= MOST_FOUND

    async def before_tool(self, context: BeforeTool) -> Deny:  # noqa: ARG002 - see `enabled`
        """Refuse another search."""
        return Deny(FULL_TEXT)


class ToolSearch(Toolset):
    """Toolsets of which the model is offered one tool, which finds the others by words.

    The tools that it finds are offered from the next model call of the turn on, after all others, and until
    the turn ends. They are called, asked about and limited like any other tool.

    Args:
        toolsets: the toolsets with the tools.
        above: up to this number of tools, all are offered and there is no search.
        hits: the most tools that one search finds, up to 20.
        always: the names of tools that are offered without a search.
        native: whether the provider searches instead, with its own ranking: "never"; if each model of the
            agent can ("auto"); or "always", which is an error for an agent with another model.
        name: the name of the tool that searches.

    Raises:
        ConfigurationError: an argument is wrong, two tools have the same name, or there is no tool of a name
            in `always`.

    >>> def add(a: int, b: int) -> int:
    ...     'Add two numbers.'
    ...     return a + b
    >>> ToolSearch(Toolset("numbers", [add]), above=0)
    ToolSearch('search_tools', prepared for each model call)
    """

    def __init__(
        self,
        *toolsets: Toolset,
        above: int = 30,
        hits: int = 5,
        always: Iterable[str] = (),
        native: NativeSearch = "never",
        name: str = "search_tools",
    ) -> None:
        check_value("toolsets", toolsets, Sequence[Toolset])
        check_value("always", always, Iterable[str])
        if not toolsets:
            raise ConfigurationError("toolsets", "there are none", fix="Write ToolSearch(toolset)")
        settings = _SearchSettings(name, above, hits, frozenset(always), native)
        super().__init__(name, toolsets)
        catalogs, fixed, known = _Catalogs(settings), self.fixed_tools, None
        if fixed is not None:
            _check_known(settings.always, fixed)
            if _count_offered(fixed) <= above:
                return
            catalog = catalogs.find([(one.name, one.fixed_tools or ()) for one in toolsets])
            known = (*fixed, catalog.search_tool)
        found = FoundTools(settings)
        self.__dict__.update(
            fixed_tools=None,
            known_tools=known,
            middlewares=(*self.middlewares, found),
            _list=partial(_list_found, catalogs, toolsets, found),
        )


class _Catalogs:
    """The catalogs of the last lists of tools, so that equal lists are indexed once."""

    def __init__(self, settings: _SearchSettings) -> None:
        self.settings = settings
        self._recent: tuple[_Catalog, ...] = ()

    def find(self, groups: _Groups) -> _Catalog:
        """Return the catalog of the tools of each toolset."""
        tools = [one for _, group in groups for one in group]
        for known in self._recent:
            if len(known.all_tools) == len(tools) and all(map(is_, known.all_tools, tools)):
                return known
        fresh = _Catalog(groups, self.settings)
        self._recent = (fresh, *self._recent[: _RECENT - 1])
        return fresh


class _Catalog:
    """The tools of one list, the tool that searches them, and their index, which the first search makes."""

    def __init__(self, groups: _Groups, settings: _SearchSettings) -> None:
        search, always = settings.search, settings.always
        self.all_tools = join_tools(_name_groups(groups))
        self.direct = tuple(
            [one for one in self.all_tools if not one.offered or one.name in always]
        )
        self._found = [
            (name, one)
            for name, tools in groups
            for one in tools
            if one.offered and one.name not in always
        ]
        self.by_name = {one.name: one for _, one in self._found}
        self._hits = settings.hits
        names = dict.fromkeys(" ".join(name.split()) for name, _ in self._found)
        self._groups = ", ".join(names)
        self._index: WordIndex | None = None
        description = (
            f"Find more tools by words. You have many tools that you do not see, of: {self._groups}. "
            "Search before you say that something cannot be done. You can call the tools that are found "
            "from your next message on."
        )
        # It repeats nothing and changes nothing, so it may run again after a crash.
        make = tool(name=search, description=description, effect="read")
        self.search_tool: Tool = make(self.search)
        join_tools([(f"toolset {search!r}", (self.search_tool,)), *_name_groups(groups)])

    @cached_property
    def deferred(self) -> tuple[Tool, ...]:
        """The tools that are found, in the form that the provider searches."""
        return tuple([copy_as_deferred(one, group) for group, one in self._found])

    def search(self, query: str) -> str:
        """Search the tools.

        Args:
            query: What the tool should do, in a few words, such as "create a folder".
        """
        from holdfast.core.word_forms import split_words  # only for a search
        from holdfast.core.word_index import IndexEntry, WordIndex

        if not split_words(query[:1_000]):
            raise ToolError(
                "The query has no word to search for. Write what the tool should do, such as"
                ' "create a folder".'
            )
        if self._index is None:
            self._index = WordIndex(
                IndexEntry(
                    name=one.name,
                    group=group,
                    text=one.description,
                    parameters=_read_parameters(one),
                    reads=None if one.effect is None else one.effect == "read",
                )
                for group, one in self._found
            )
        found = [self._found[one.at][1] for one in self._index.find(query, self._hits)]
        if not found:
            return (
                "No tool fits these words. Try other words for what it should do. "
                f"The tools are of: {self._groups}."
            )
        return "\n".join([FOUND_TEXT, *map(_write_line, found)])


async def _list_found(
    catalogs: _Catalogs,
    toolsets: Sequence[Toolset],
    found: FoundTools,
    context: AnyContext,
    resources: Resources,
) -> tuple[Tool, ...]:
    """List the tools that are always offered, the one that searches, and those that it has found."""
    groups = [(one.name, await one.list_tools(context, resources)) for one in toolsets]
    catalog, settings = catalogs.find(groups), catalogs.settings
    if _count_offered(catalog.all_tools) <= settings.above:
        return catalog.all_tools
    if settings.native != "never" and context.has_tool_search:
        return (*catalog.direct, *catalog.deferred)
    if settings.native == "always":
        raise ConfigurationError(
            "ToolSearch.native",
            "a model of the agent is not of a provider that searches tools itself",
            fix='Use claude from 4.5 or openai-responses with gpt from 5.4, or native="auto"',
        )
    names = context.state_of(found)
    hits = [one for name in names if (one := catalog.by_name.get(name)) is not None]
    return (*catalog.direct, catalog.search_tool, *hits)


def find_searched_tools(one: Tool) -> tuple[Tool, ...]:
    """Return the tools that a tool searches; none if it is not the tool of a `ToolSearch`."""
    catalog = getattr(one.function, "__self__", None)
    return catalog.all_tools if isinstance(catalog, _Catalog) else ()


def _name_groups(groups: _Groups) -> list[tuple[str, Sequence[Tool]]]:
    return [(f"toolset {name!r}", tools) for name, tools in groups]


def _count_offered(tools: Iterable[Tool]) -> int:
    return sum(one.offered for one in tools)


def _read_parameters(one: Tool) -> dict[str, str]:
    """Return the names of the parameters of a tool, with their descriptions."""
    properties = one.signature.schema.get("properties")
    found: dict[str, str] = {}
    for name, part in properties.items() if isinstance(properties, dict) else ():
        text = part.get("description") if isinstance(part, dict) else None
        found[str(name)] = text if isinstance(text, str) else ""
    return found


def _write_line(one: Tool) -> str:
    """Return one line about a tool, whose description may have any characters."""
    text = " ".join(one.description.split())
    if len(text) > _LONGEST_LINE:
        text = f"{text[:_LONGEST_LINE].rstrip()}..."
    return f"- {one.name}: {text}" if text else f"- {one.name}"


def _check_known(names: Iterable[str], tools: Sequence[Tool]) -> None:
    known = {one.name for one in tools}
    for name in sorted(names):
        if name not in known:
            near = get_close_matches(name, known, 1)
            fix = f"Did you mean {near[0]!r}?" if near else "Write names of the tools"
            raise ConfigurationError("always", f"there is no tool {name[:80]!r}", fix=fix)
