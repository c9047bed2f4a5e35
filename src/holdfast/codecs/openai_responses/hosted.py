"""The tools that OpenAI runs itself: their entries in a request, and their items in a reply.

Source: the vendor's guides to web search, file search, the code interpreter, image generation and tool
search. A call and its result are one item, such as `web_search_call`, which is sent back unchanged; a search
for tools is two items. This module never raises on any item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from holdfast.codecs.citation import Citation, first_string, objects_in, position_in
from holdfast.codecs.json_text import dump_json, string_or_empty
from holdfast.codecs.openai_responses.vocabulary import WIRE
from holdfast.codecs.request_body import encode_location
from holdfast.core.deltas import HostedToolFinished, HostedToolStarted
from holdfast.core.hosted_tools import (
    CodeExecution,
    FileSearch,
    HostedTool,
    ImageGeneration,
    WebFetch,
    WebSearch,
    check_hosted_options,
    missing_hosted_tool,
)
from holdfast.core.messages import Media, Message, Opaque, Part, Text
from holdfast.core.model_request import ToolSpec

_Object = dict[str, object]

_NAMES = {
    "web_search_call": "web_search",
    "code_interpreter_call": "code_execution",
    "file_search_call": "file_search",
    "image_generation_call": "image_generation",
    "tool_search_call": "tool_search",
}
_OPTIONS: dict[type[HostedTool], frozenset[str]] = {
    WebSearch: frozenset({"allowed_domains", "user_location", "search_context_size"}),
    CodeExecution: frozenset(),
    FileSearch: frozenset({"stores", "max_results"}),
    ImageGeneration: frozenset({"size", "quality", "output_format"}),
}
_STRANGE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64
_MOST_NAMED = 20
# Without these names in `include`, the server leaves the results out.
_RESULTS: dict[type[HostedTool], str] = {
    CodeExecution: "code_interpreter_call.outputs",
    FileSearch: "file_search_call.results",
}


def encode_hosted_tools(tools: Sequence[HostedTool]) -> list[_Object]:
    """Return the entries of `tools`.

    Raises:
        ConfigurationError: the wire does not have a tool or an option.
    """
    return [_encode_tool(tool) for tool in tools]


def group_deferred(tools: Sequence[ToolSpec], entries: Sequence[_Object]) -> list[_Object]:
    """Return the entries of `tools`, with those that are deferred in namespaces, and the search for them.

    The model sees the names and the descriptions of the namespaces, and loads tools of them by a search.

    Args:
        tools: the tools.
        entries: their entries, in the same order.
    """
    direct: list[_Object] = []
    groups: dict[str, list[_Object]] = {}
    for tool, entry in zip(tools, entries, strict=True):
        if tool.deferred_group is None:
            direct.append(entry)
        else:
            name = _STRANGE.sub("_", tool.deferred_group)[:_LONGEST_NAME]
            groups.setdefault(name, []).append({**entry, "defer_loading": True})
    if not groups:
        return direct
    spaces = [_make_namespace(name, inner) for name, inner in groups.items()]
    return [*direct, {"type": "tool_search"}, *spaces]


def _make_namespace(name: str, entries: list[_Object]) -> _Object:
    names = [str(entry["name"]) for entry in entries]
    shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    description = f"{len(names)} tools of {name}: {shown}"
    return {"type": "namespace", "name": name, "description": description, "tools": entries}


def include_names(tools: Sequence[HostedTool]) -> list[str]:
    """Return the values of `include` with which the reply holds the results of these tools.

    >>> include_names([WebSearch(), CodeExecution()])
    ['code_interpreter_call.outputs']
    """
    return [name for tool in tools if (name := _RESULTS.get(type(tool)))]


def read_part(part: Part) -> list[HostedToolStarted | HostedToolFinished]:
    """Return the notices of these tools in a part of a reply."""
    if isinstance(part, Opaque) and part.wire == WIRE:
        return read_item(part.data)
    extra = part.extra if isinstance(part, Media) else None
    item = extra.get("item") if extra and extra.get("wire") == WIRE else None
    return read_item(item) if isinstance(item, dict) else []


def read_item(item: Mapping[str, object]) -> list[HostedToolStarted | HostedToolFinished]:
    """Return the notices of these tools in an item: the begin of the call, and its result if it ended."""
    kind = string_or_empty(item.get("type"))
    name = string_or_empty(item.get("name")) if kind == "mcp_call" else _NAMES.get(kind, "")
    if not name:
        return []
    call_id, arguments = string_or_empty(item.get("id")), _arguments_of(item)
    started = HostedToolStarted(call_id, name, arguments)
    status = item.get("status")
    if status in ("in_progress", "searching", "interpreting", "generating", "calling"):
        return [started]
    failed = status in ("failed", "incomplete") or bool(item.get("error"))
    return [started, HostedToolFinished(call_id, name, arguments, _result_of(item), failed)]


def read_citations(message: Message) -> Iterator[Citation]:
    """Return the sources in the annotations of the texts."""
    start = 0
    for part in message.parts:
        if not isinstance(part, Text):
            continue
        extra, length = part.extra or {}, len(part.text)
        content = extra.get("part") if extra.get("wire") == WIRE else None
        notes = content.get("annotations") if isinstance(content, dict) else None
        for note in objects_in(notes):
            yield Citation(
                url=first_string(note, "url"),
                title=first_string(note, "title", "filename", "file_id"),
                start=start + position_in(note.get("start_index"), length, 0),
                end=start + position_in(note.get("end_index"), length, length),
            )
        start += length


def _encode_tool(tool: HostedTool) -> _Object:
    if isinstance(tool, WebFetch):
        raise missing_hosted_tool(tool, "Responses")
    check_hosted_options(tool, "Responses", _OPTIONS[type(tool)])
    given = {name: value for name, value in _entry_of(tool).items() if value is not None}
    return {**given, **(tool.extra or {})}


def _entry_of(tool: WebSearch | CodeExecution | FileSearch | ImageGeneration) -> _Object:
    if isinstance(tool, WebSearch):
        domains = list(tool.allowed_domains)
        return {
            "type": "web_search",
            "filters": {"allowed_domains": domains} if domains else None,
            "user_location": encode_location(tool.user_location),
            "search_context_size": tool.search_context_size,
        }
    if isinstance(tool, CodeExecution):
        return {"type": "code_interpreter", "container": {"type": "auto"}}
    if isinstance(tool, FileSearch):
        stores = list(tool.stores)
        return {
            "type": "file_search",
            "vector_store_ids": stores,
            "max_num_results": tool.max_results,
        }
    return {
        "type": "image_generation",
        "size": tool.size,
        "quality": tool.quality,
        "output_format": tool.output_format,
    }


def _arguments_of(item: Mapping[str, object]) -> str:
    arguments = item.get("arguments")
    if isinstance(arguments, str):
        return arguments
    if isinstance(arguments, dict):
        return dump_json(arguments)
    action = item.get("action")
    if isinstance(action, dict):
        return dump_json({k: v for k, v in action.items() if k not in ("type", "sources")})
    for field in ("code", "queries"):
        if item.get(field):
            return dump_json({field: item[field]})
    return ""


def _result_of(item: Mapping[str, object]) -> str:
    if text := first_string(item, "output"):
        return text
    if error := item.get("error"):
        return error if isinstance(error, str) else dump_json(error)
    action = item.get("action")
    sources = action.get("sources") if isinstance(action, dict) else None
    found = [
        *objects_in(sources),
        *objects_in(item.get("outputs")),
        *objects_in(item.get("results")),
    ]
    return "\n".join(
        filter(None, (first_string(one, "url", "logs", "text", "filename") for one in found))
    )
