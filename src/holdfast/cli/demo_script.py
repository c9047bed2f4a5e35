"""The demo's emulated model, and the script of its provider's faults.

The model is a function of the request: it calls the tools whose results are missing, and answers
when it has all of them. It counts nothing itself: every number in its answer is from a tool result.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from holdfast.cli.demo_folder import FolderCounts
from holdfast.cli.times import format_count
from holdfast.core.messages import Part, Text, ToolCall, ToolResult
from holdfast.testing.emulator import (
    CutToolArguments,
    DropAfter,
    EmulatedRequest,
    ErrorResponse,
    Fault,
    call,
)

WORD = "return"
QUESTION = (
    "How many text files and lines are here, which file is the longest,\n"
    f"and how many lines contain '{WORD}'?"
)
NO_FILES = "There are no text files here."


class Trouble(Struct, frozen=True):
    """A fault of one model request, and its name in the output."""

    fault: Fault
    name: str


TROUBLES: Mapping[int, Trouble] = {
    1: Trouble(ErrorResponse("rate_limit", {"retry-after": "1"}), "429, Retry-After: 1"),
    3: Trouble(CutToolArguments(), "tool calls with cut JSON"),
    6: Trouble(DropAfter(6), "the stream drops midway"),
}
"""Faults by the number of the model request; all other requests succeed."""


def trouble_for(request: EmulatedRequest) -> Trouble | None:
    """Return the fault of this request, or None. Only a tool call's arguments can be cut."""
    trouble = TROUBLES.get(request.number)
    if (
        trouble
        and isinstance(trouble.fault, CutToolArguments)
        and isinstance(choose_reply(request), str)
    ):
        return None
    return trouble


def choose_reply(request: EmulatedRequest) -> str | list[Part]:
    """Choose the model's next reply from the tool results so far."""
    known = _good_results(request)
    if "list_files" not in known:
        return [Text("Let me look."), call("list_files")]
    paths = msgspec.json.decode(known["list_files"], type=list[str])
    if not paths:
        return NO_FILES
    calls: list[Part] = []
    if "count_lines" not in known:
        calls.append(call("count_lines", {"paths": paths}))
    if "search_text" not in known:
        calls.append(_make_search_call(request))
    return calls or format_conclusion(_total_counts(paths, known))


def format_conclusion(known: FolderCounts) -> str:
    """Format the final answer."""
    if not known.files:
        return NO_FILES
    return (
        f"{format_count(known.files, 'text file')} with {format_count(known.lines, 'line')}.\n"
        f"The longest is {known.longest} with {format_count(known.longest_lines, 'line')}.\n"
        f"{format_count(known.mentions, 'line')} with '{WORD}'."
    )


def _make_search_call(request: EmulatedRequest) -> ToolCall:
    """Search on the server first, and in the files after that failed."""
    failed = any(
        part.name == "search_text" and "failed" in part.text for part in _collect_results(request)
    )
    return call("search_text", {"word": WORD, "index": "local" if failed else "server"})


def _total_counts(paths: list[str], known: dict[str, str]) -> FolderCounts:
    sizes = msgspec.json.decode(known["count_lines"], type=dict[str, int])
    longest = max(sizes, key=lambda name: (sizes[name], name))
    mentions = int(known["search_text"])
    return FolderCounts(len(paths), sum(sizes.values()), longest, sizes[longest], mentions)


def _collect_results(request: EmulatedRequest) -> list[ToolResult]:
    parts = (part for message in request.messages for part in message.parts)
    return [part for part in parts if isinstance(part, ToolResult)]


def _good_results(request: EmulatedRequest) -> dict[str, str]:
    """Return the successful results. The wire does not mark errors, so the text is examined."""
    results = _collect_results(request)
    return {part.name: part.text for part in results if not part.text.startswith("Error")}
