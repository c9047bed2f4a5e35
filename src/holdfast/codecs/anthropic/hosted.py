"""The tools that Anthropic runs itself: their entries in a request, and their blocks in a reply.

Source: the vendor's pages on the web search tool, the web fetch tool, the code execution tool and the tool
search tool. A call is a block `server_tool_use`, its result a block whose type ends in `_tool_result`. Both
are sent back unchanged; `history` leaves out searches for tools that a request does not have. This module
never raises on any block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.codecs.anthropic.history import WIRE, list_references
from holdfast.codecs.citation import Citation, first_string, objects_in
from holdfast.codecs.json_text import dump_json, string_or_empty
from holdfast.codecs.request_body import encode_location
from holdfast.core.deltas import HostedToolFinished, HostedToolStarted
from holdfast.core.errors import ConfigurationError
from holdfast.core.hosted_tools import (
    CodeExecution,
    HostedTool,
    WebFetch,
    WebSearch,
    check_hosted_options,
    missing_hosted_tool,
)
from holdfast.core.messages import Message, Opaque, Part, Text

_Object = dict[str, object]

SEARCH_NAME = "tool_search_tool_bm25"
_SEARCH: _Object = {"type": "tool_search_tool_bm25_20251119", "name": SEARCH_NAME}

# The vendor's versions of the tools, and the names in the header `anthropic-beta` for them.
_VERSIONS: dict[str, tuple[str, str]] = {
    "web_search": ("web_search_20250305", ""),
    "web_fetch": ("web_fetch_20250910", "web-fetch-2025-09-10"),
    "code_execution": ("code_execution_20250825", "code-execution-2025-08-25"),
}
_NAMES = {
    "bash_code_execution": "code_execution",
    "text_editor_code_execution": "code_execution",
    SEARCH_NAME: "tool_search",
    "tool_search_tool_regex": "tool_search",
}
_OPTIONS: dict[type[HostedTool], frozenset[str]] = {
    WebSearch: frozenset({"max_uses", "allowed_domains", "blocked_domains", "user_location"}),
    WebFetch: frozenset(
        {"max_uses", "allowed_domains", "blocked_domains", "max_content_tokens", "citations"}
    ),
    CodeExecution: frozenset(),
}


def add_tool_search(tools: Sequence[_Object], taken: frozenset[str]) -> list[_Object]:
    """Return the entries of `tools` with the search for those that are deferred, which come last.

    The server answers a query in words, and refuses a list without a tool that is not deferred.

    Args:
        tools: the entries of all other tools.
        taken: the names of the functions.

    Raises:
        ConfigurationError: a function has the name of the search.
    """
    if SEARCH_NAME in taken:
        raise _name_taken(SEARCH_NAME, "the search for tools")
    deferred = [entry for entry in tools if "defer_loading" in entry]
    return [*(entry for entry in tools if "defer_loading" not in entry), dict(_SEARCH), *deferred]


def encode_hosted_tools(tools: Sequence[HostedTool], taken: frozenset[str]) -> list[_Object]:
    """Return the entries of `tools`.

    Args:
        tools: the tools.
        taken: the names of the functions, which must differ from those of the tools.

    Raises:
        ConfigurationError: the wire does not have a tool or an option, or a name is taken.
    """
    return [_encode_tool(tool, taken) for tool in tools]


def beta_names(tools: Sequence[HostedTool]) -> list[str]:
    """Return the names for these tools in the header `anthropic-beta`.

    >>> beta_names([WebSearch(), CodeExecution()])
    ['code-execution-2025-08-25']
    """
    return [beta for tool in tools if (beta := _VERSIONS.get(tool.name, ("", ""))[1])]


def read_part(part: Part) -> list[HostedToolStarted | HostedToolFinished]:
    """Return the notices of these tools in a part of a reply."""
    if not isinstance(part, Opaque) or part.wire != WIRE:
        return []
    return read_block(part.data, {})


def read_block(
    block: Mapping[str, object], names: dict[str, str]
) -> list[HostedToolStarted | HostedToolFinished]:
    """Return the notices of these tools in a block: the begin of a call, or its result.

    Args:
        block: the block.
        names: the names of the calls so far, by id; a call adds its own.
    """
    kind = string_or_empty(block.get("type"))
    if kind in ("server_tool_use", "mcp_tool_use"):
        name = string_or_empty(block.get("name"))
        value = block.get("input")
        arguments = value if isinstance(value, str) else dump_json({} if value is None else value)
        call_id = string_or_empty(block.get("id"))
        names[call_id] = _NAMES.get(name, name)
        return [HostedToolStarted(call_id, names[call_id], arguments)]
    if not kind.endswith("_tool_result"):
        return []
    name = kind.removesuffix("_tool_result")
    content = block.get("content")
    failed = block.get("is_error") is True
    if isinstance(content, dict):
        failed = failed or string_or_empty(content.get("type")).endswith("_error")
    call_id = string_or_empty(block.get("tool_use_id"))
    lines = [line for one in _contents(content) if (line := _describe(one))]
    text = content if isinstance(content, str) else "\n".join(lines)
    name = names.get(call_id) or _NAMES.get(name, name)
    return [HostedToolFinished(call_id, name, "", text, failed)]


def read_citations(message: Message) -> Iterator[Citation]:
    """Return the sources in the citations of the texts; each text rests on its citations as a whole."""
    start = 0
    for part in message.parts:
        if not isinstance(part, Text):
            continue
        end = start + len(part.text)
        extra = part.extra or {}
        for note in objects_in(extra.get("citations") if extra.get("wire") == WIRE else None):
            yield Citation(
                url=first_string(note, "url", "source"),
                title=first_string(note, "title", "document_title"),
                cited_text=first_string(note, "cited_text"),
                start=start,
                end=end,
            )
        start = end


def _encode_tool(tool: HostedTool, taken: frozenset[str]) -> _Object:
    if tool.name not in _VERSIONS:
        raise missing_hosted_tool(tool, "Anthropic")
    check_hosted_options(tool, "Anthropic", _OPTIONS[type(tool)])
    if tool.name in taken:
        raise _name_taken(tool.name, type(tool).__name__)
    entry: _Object = {"type": _VERSIONS[tool.name][0], "name": tool.name}
    if isinstance(tool, WebSearch | WebFetch):
        entry |= {
            "max_uses": tool.max_uses,
            "allowed_domains": list(tool.allowed_domains) or None,
            "blocked_domains": list(tool.blocked_domains) or None,
        }
    if isinstance(tool, WebSearch):
        entry["user_location"] = encode_location(tool.user_location)
    if isinstance(tool, WebFetch):
        entry["max_content_tokens"] = tool.max_content_tokens
        entry["citations"] = None if tool.citations is None else {"enabled": tool.citations}
    given = {name: value for name, value in entry.items() if value is not None}
    return {**given, **(tool.extra or {})}


def _name_taken(name: str, owner: str) -> ConfigurationError:
    problem = f"{name!r} is the name of {owner} on the Anthropic wire"
    return ConfigurationError("tools", problem, fix="Rename your function")


def _contents(content: object) -> list[Mapping[str, object]]:
    return [content] if isinstance(content, dict) else objects_in(content)


def _describe(content: Mapping[str, object]) -> str:
    """Return one content of a result as text: an error, a page, or the output of code."""
    error = first_string(content, "error_code", "error_message")
    page = " ".join(filter(None, (first_string(content, "title"), first_string(content, "url"))))
    output = "".join(first_string(content, name) for name in ("stdout", "stderr"))
    tools = ", ".join(list_references(content))
    return error or page or output or tools or first_string(content, "text")
