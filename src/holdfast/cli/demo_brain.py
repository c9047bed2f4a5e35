"""The demo's emulated model, and the script of what goes wrong around it.

The brain is a rule over what the request holds: it asks for what it does not know yet, and answers
when it knows everything. It must never count anything itself: every number of its answer comes
from a tool result.
"""

from __future__ import annotations

import msgspec

from holdfast.core.messages import Part, Text, ToolCall, ToolResult
from holdfast.testing.emulator import (
    CutToolArguments,
    DropAfter,
    EmulatedRequest,
    Refused,
    call,
)
from holdfast.testing.emulator.faults import FaultEntry

WORD = "return"
QUESTION = f"How many text files and lines are here, which file is the longest, and how many lines say '{WORD}'?"

FAULTS: dict[int, tuple[FaultEntry, str]] = {
    1: (Refused("rate_limit", {"retry-after": "1"}), "429, Retry-After: 1"),
    3: (CutToolArguments(), "a tool call with cut JSON"),
    6: (DropAfter(6), "the stream drops in the middle"),
}
"""By the number of the model request; everything else is served as it should be."""


def answer(request: EmulatedRequest) -> str | list[Part]:
    """What the model says next, from the tool results so far."""
    known = _good_results(request)
    if "list_files" not in known:
        return [Text("Let me look. "), call("list_files")]
    paths = msgspec.json.decode(known["list_files"], type=list[str])
    if not paths:
        return "There are no text files here."
    asked: list[Part] = []
    if "count_lines" not in known:
        asked.append(call("count_lines", {"paths": paths}))
    if "search_text" not in known:
        asked.append(_search(request))
    return asked or _conclusion(paths, known)


def _search(request: EmulatedRequest) -> ToolCall:
    """The remote index first; the local one when that failed."""
    failed = any(part.name == "search_text" and "failed" in part.text for part in _results(request))
    return call("search_text", {"word": WORD, "index": "local" if failed else "remote"})


def _conclusion(paths: list[str], known: dict[str, str]) -> str:
    sizes = msgspec.json.decode(known["count_lines"], type=dict[str, int])
    longest = max(sizes, key=lambda name: (sizes[name], name))
    return (
        f"There are {len(paths)} text files with {sum(sizes.values())} lines. "
        f"The longest is {longest} with {sizes[longest]} lines. "
        f"{known['search_text']} lines say '{WORD}'."
    )


def _results(request: EmulatedRequest) -> list[ToolResult]:
    parts = (part for message in request.messages for part in message.parts)
    return [part for part in parts if isinstance(part, ToolResult)]


def _good_results(request: EmulatedRequest) -> dict[str, str]:
    """What is known. The wire has no mark for an error: its text tells."""
    results = _results(request)
    return {part.name: part.text for part in results if not part.text.startswith("Error")}
