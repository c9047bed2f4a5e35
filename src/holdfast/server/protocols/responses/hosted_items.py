"""The items of calls that the provider ran, and the annotations of cited sources. This module is pure.

Every provider's calls have the form of OpenAI's own, so that clients of Responses know them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence

from holdfast.codecs.citation import Citation
from holdfast.codecs.hosted_calls import HostedCall
from holdfast.server.protocols.display.tool_values import parse_arguments
from holdfast.server.protocols.openai_shapes import SegmentName
from holdfast.server.protocols.protocol_names import make_name
from holdfast.server.protocols.responses.response_object import Json
from holdfast.server.protocols.segments import HostedCallEnded

_TYPES = {
    "web_search": ("web_search_call", "ws_"),
    "web_fetch": ("web_search_call", "ws_"),
    "file_search": ("file_search_call", "fs_"),
    "code_execution": ("code_interpreter_call", "ci_"),
    "image_generation": ("image_generation_call", "ig_"),
}


def make_hosted_item(name: SegmentName, ended: HostedCallEnded) -> Json | None:
    """Return the item of a call that the provider ran; None if the protocol has no word for its tool.

    Args:
        name: the segment.
        ended: the call.
    """
    call = ended.call
    found = _TYPES.get(call.name)
    if found is None:
        return None
    kind, prefix = found
    place = f"{ended.key.removesuffix('.model')}.hosted.{ended.index}"
    return {
        "id": make_name(prefix, name.session, place),
        "type": kind,
        "status": "failed" if call.is_error else "completed",
        **_describe_call(ended),
    }


def _describe_call(ended: HostedCallEnded) -> Json:
    call = ended.call
    arguments = parse_arguments(call.arguments) or {}
    lines = [] if call.is_error else [line for line in call.result.splitlines() if line]
    if call.name == "web_search":
        return {"action": _describe_search(arguments, lines)}
    if call.name == "web_fetch":
        return {"action": {"type": "open_page", "url": next(iter(_find_texts(arguments)), None)}}
    if call.name == "file_search":
        found = [{"text": line} for line in lines]
        return {"queries": _find_texts(arguments), "results": found or None}
    if call.name == "code_execution":
        outputs = [{"type": "logs", "logs": call.result}] if call.result else []
        return {"code": _find_code(call, arguments), "container_id": "", "outputs": outputs}
    data = ended.image.data if ended.image is not None else None
    return {"result": None if data is None else b64encode(data).decode()}


def _describe_search(arguments: Mapping[str, object], lines: Sequence[str]) -> Json:
    queries = _find_texts(arguments)
    urls = [word for line in lines for word in line.split() if "://" in word]
    return {
        "type": "search",
        "query": queries[0] if queries else "",
        "queries": queries,
        "sources": [{"type": "url", "url": url} for url in urls],
    }


def _find_texts(arguments: Mapping[str, object]) -> list[str]:
    """Return the queries or addresses among arguments, which providers name differently."""
    values = [one if isinstance(one, list) else [one] for one in arguments.values()]
    return list(dict.fromkeys(text for one in values for text in one if isinstance(text, str)))


def _find_code(call: HostedCall, arguments: Mapping[str, object]) -> str:
    for field in ("code", "command"):
        code = arguments.get(field)
        if isinstance(code, str):
            return code
    return call.arguments


def make_annotations(citations: Sequence[Citation]) -> list[Json]:
    """Return the annotations of a text. Sources without an address have none.

    >>> [one["url"] for one in make_annotations([Citation(url="https://porto.pt"), Citation(title="a.pdf")])]
    ['https://porto.pt']
    """
    return [
        {
            "type": "url_citation",
            "start_index": one.start,
            "end_index": one.end,
            "url": one.url,
            "title": one.title,
        }
        for one in citations
        if one.url
    ]
