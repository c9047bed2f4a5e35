"""The tools that Gemini runs itself: their entries in a request, and their parts in a reply.

Source: Google's pages on grounding with Google Search, URL context, code execution and file search.
Code and its output are parts of the reply, and so are the calls of Gemini 3 when a request has
functions too (`toolCall`, `toolResponse`); they are sent back unchanged. Everything else that the server did is
only in the metadata of the reply. This module never raises on any part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.codecs.citation import Citation, first_string, objects_in, position_in
from holdfast.codecs.gemini.vocabulary import METADATA, WIRE
from holdfast.codecs.json_text import dump_json, string_or_empty
from holdfast.core.deltas import HostedToolFinished, HostedToolStarted
from holdfast.core.hosted_tools import (
    CodeExecution,
    FileSearch,
    HostedTool,
    WebFetch,
    WebSearch,
    check_hosted_options,
    missing_hosted_tool,
)
from holdfast.core.messages import Message, Opaque, Part

_Object = dict[str, object]
_Notices = list[HostedToolStarted | HostedToolFinished]

_FIELDS: dict[type[HostedTool], str] = {
    WebSearch: "googleSearch",
    WebFetch: "urlContext",
    CodeExecution: "codeExecution",
    FileSearch: "fileSearch",
}
_NAMES = {
    "GOOGLE_SEARCH_WEB": "web_search",
    "GOOGLE_SEARCH": "web_search",
    "URL_CONTEXT": "web_fetch",
    "FILE_SEARCH": "file_search",
    "CODE_EXECUTION": "code_execution",
}
_SUCCESS = ("OUTCOME_OK", "")


def encode_hosted_tools(tools: Sequence[HostedTool]) -> list[_Object]:
    """Return the entries of `tools`.

    Raises:
        ConfigurationError: the wire does not have a tool or an option.
    """
    return [_encode_tool(tool) for tool in tools]


def read_part(part: Part) -> list[HostedToolStarted | HostedToolFinished]:
    """Return the notices of these tools in a part of a reply."""
    if not isinstance(part, Opaque):
        return []
    if part.wire == METADATA:
        return read_metadata(part.data)
    return read_block(part.data) if part.wire == WIRE else []


def read_block(part: Mapping[str, object]) -> _Notices:
    """Return the notices of these tools in a part of the wire: the begin of a call, or its result."""
    code, output = part.get("executableCode"), part.get("codeExecutionResult")
    call, response = part.get("toolCall"), part.get("toolResponse")
    if isinstance(code, dict):
        fields = {name: code[name] for name in ("language", "code") if name in code}
        return [
            HostedToolStarted(string_or_empty(code.get("id")), "code_execution", dump_json(fields))
        ]
    if isinstance(output, dict):
        failed = string_or_empty(output.get("outcome")) not in _SUCCESS
        text = string_or_empty(output.get("output"))
        return [
            HostedToolFinished(
                string_or_empty(output.get("id")), "code_execution", "", text, failed
            )
        ]
    if isinstance(call, dict):
        return [
            HostedToolStarted(
                string_or_empty(call.get("id")), _name_of(call), dump_json(call.get("args") or {})
            )
        ]
    if isinstance(response, dict):
        text = dump_json(content) if (content := response.get("response")) else ""
        return [
            HostedToolFinished(string_or_empty(response.get("id")), _name_of(response), "", text)
        ]
    return []


def read_metadata(about: Mapping[str, object]) -> _Notices:
    """Return the calls that only the metadata of a reply shows: searches, and pages that were read."""
    notices: _Notices = []
    grounding, context = about.get("groundingMetadata"), about.get("urlContextMetadata")
    queries = grounding.get("webSearchQueries") if isinstance(grounding, dict) else None
    if isinstance(grounding, dict) and isinstance(queries, list) and queries:
        arguments = dump_json({"queries": queries})
        pages = [_source_of(chunk) for chunk in objects_in(grounding.get("groundingChunks"))]
        lines = [f"{title} {url}".strip() for url, title, _ in pages]
        notices += _both("web_search", arguments, "\n".join(filter(None, lines)))
    pages_read = objects_in(context.get("urlMetadata")) if isinstance(context, dict) else []
    if pages_read:
        urls = [first_string(page, "retrievedUrl") for page in pages_read]
        failed = all(
            "SUCCESS" not in first_string(page, "urlRetrievalStatus") for page in pages_read
        )
        notices += _both("web_fetch", dump_json({"urls": urls}), "\n".join(urls), failed=failed)
    return notices


def read_citations(message: Message) -> Iterator[Citation]:
    """Return the sources in the grounding and citation metadata of a reply."""
    for part in message.parts:
        if not isinstance(part, Opaque) or part.wire != METADATA:
            continue
        grounding, cited = part.data.get("groundingMetadata"), part.data.get("citationMetadata")
        if isinstance(grounding, dict):
            yield from _read_grounding(grounding, message.text)
        for source in objects_in(cited.get("citationSources") if isinstance(cited, dict) else None):
            start, end = _find_segment(source, message.text)
            url, title = first_string(source, "uri"), first_string(source, "title")
            yield Citation(url=url, title=title, start=start, end=end)


def _encode_tool(tool: HostedTool) -> _Object:
    field = _FIELDS.get(type(tool))
    if field is None:
        raise missing_hosted_tool(tool, "Gemini")
    check_hosted_options(tool, "Gemini", frozenset({"stores", "max_results"}))
    entry: _Object = {}
    if isinstance(tool, FileSearch):
        entry["fileSearchStoreNames"] = list(tool.stores)
        if tool.max_results is not None:
            entry["topK"] = tool.max_results
    return {field: {**entry, **(tool.extra or {})}}


def _name_of(call: Mapping[str, object]) -> str:
    kind = string_or_empty(call.get("toolType"))
    return _NAMES.get(kind, kind.lower())


def _both(name: str, arguments: str, text: str, *, failed: bool = False) -> _Notices:
    return [
        HostedToolStarted("", name, arguments),
        HostedToolFinished("", name, arguments, text, failed),
    ]


def _read_grounding(grounding: Mapping[str, object], text: str) -> Iterator[Citation]:
    sources = [_source_of(chunk) for chunk in objects_in(grounding.get("groundingChunks"))]
    for support in objects_in(grounding.get("groundingSupports")):
        segment = support.get("segment")
        start, end = _find_segment(segment if isinstance(segment, dict) else {}, text)
        numbers = support.get("groundingChunkIndices")
        for number in numbers if isinstance(numbers, list) else ():
            if isinstance(number, int) and 0 <= number < len(sources):
                url, title, cited_text = sources[number]
                yield Citation(url=url, title=title, cited_text=cited_text, start=start, end=end)


def _source_of(chunk: Mapping[str, object]) -> tuple[str, str, str]:
    """Return address, title and text of a source: a page, a place, or a passage of a file."""
    for kind in ("web", "retrievedContext", "maps"):
        source = chunk.get(kind)
        if isinstance(source, dict):
            return (
                first_string(source, "uri"),
                first_string(source, "title"),
                first_string(source, "text"),
            )
    return "", "", ""


def _find_segment(segment: Mapping[str, object], text: str) -> tuple[int, int]:
    """Return the position of a segment in the text; the wire counts bytes, and within one part."""
    words = first_string(segment, "text")
    encoded = text.encode("utf-8", "replace")
    start = position_in(segment.get("startIndex"), len(encoded), 0)
    end = position_in(segment.get("endIndex"), len(encoded), len(encoded))
    first = len(encoded[:start].decode("utf-8", "ignore"))
    if words and not text.startswith(words, first):
        found = text.find(words)
        if found >= 0:
            return found, found + len(words)
    return first, max(first, len(encoded[:end].decode("utf-8", "ignore")))
