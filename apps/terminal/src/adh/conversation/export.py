"""Writes a conversation as Markdown for people, and as JSON lines for programs.

    {"type": "session", "session": "...", ...}
    {"type": "chat_turn", "turn": 1, "user": "...", "assistant": "...", ...}
    {"type": "tool_invocation", "turn": 1, "tool": "read_file", ...}
    {"type": "agent_delegation", "turn": 1, "tool": "delegate_to_agent", ...}

A file that is there is never overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from adh.agents.delegation import DELEGATE_TOOL
from adh.storage.private_files import replace_private_file
from adh.transcript.blocks import AnswerBlock, Block, NoteBlock, PersonBlock, ToolBlock

LONGEST_RESULT = 1_000
"""Characters of a result in an export."""


class ExportPaths(Struct, frozen=True):
    """The files of an export."""

    markdown: Path
    jsonl: Path

    def __iter__(self) -> Iterator[Path]:
        return iter((self.markdown, self.jsonl))


def write_export(
    folder: Path, session: str, blocks: Sequence[Block], facts: Mapping[str, object]
) -> ExportPaths:
    """Write a conversation to two files.

    Args:
        folder: where they are written.
        session: the conversation.
        blocks: its blocks.
        facts: JSON values about it, such as its model.

    Raises:
        StorageError: a file cannot be written.
    """
    name = _choose_name(folder, session)
    paths = ExportPaths(folder / f"{name}.md", folder / f"{name}.jsonl")
    replace_private_file(paths.markdown, write_markdown(session, blocks).encode())
    lines = [json.dumps(line, ensure_ascii=False) for line in list_lines(session, blocks, facts)]
    replace_private_file(paths.jsonl, ("\n".join(lines) + "\n").encode())
    return paths


def _choose_name(folder: Path, session: str) -> str:
    name, number = session, 1
    while any((folder / f"{name}.{ending}").exists() for ending in ("md", "jsonl")):
        number += 1
        name = f"{session}-{number}"
    return name


def write_markdown(session: str, blocks: Sequence[Block]) -> str:
    """Return a conversation as Markdown."""
    parts = [f"# Session {session}"]
    for block in blocks:
        if block.undone:
            continue
        match block:
            case PersonBlock():
                parts.append(f"## You\n\n{block.text}")
            case AnswerBlock():
                unfinished = "\n\n*(not finished)*" if block.state == "unfinished" else ""
                parts.append(f"## Agent\n\n{block.text}{unfinished}")
            case ToolBlock():
                parts.append(_write_tool(block))
            case NoteBlock():
                parts.append("\n".join(f"> {line}".rstrip() for line in block.text.split("\n")))
    return "\n\n".join(parts) + "\n"


def _write_tool(block: ToolBlock) -> str:
    body = "\n\n".join(
        text for text in (block.arguments, _shorten(block.result or block.error)) if text
    )
    fence = "`" * max(3, _longest_ticks(body) + 1)
    return f"### {block.header}\n\n{fence}text\n{body}\n{fence}"


def _longest_ticks(text: str) -> int:
    """Return the length of the longest row of backticks.

    >>> _longest_ticks("a ``` b `")
    3
    """
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def list_lines(
    session: str, blocks: Sequence[Block], facts: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    """Yield the JSON lines of a conversation."""
    yield {"type": "session", "session": session, **facts}
    turns: dict[int, dict[str, object]] = {}
    for block in blocks:
        if isinstance(block, ToolBlock):
            continue
        turn = turns.setdefault(
            block.turn,
            {"type": "chat_turn", "turn": block.turn, "user": "", "assistant": "", "notes": []},
        )
        turn["undone"] = block.undone
        if isinstance(block, PersonBlock):
            turn["user"] = block.text
        elif isinstance(block, AnswerBlock):
            earlier = f"{turn['assistant']}\n\n" if turn["assistant"] else ""
            turn["assistant"] = f"{earlier}{block.text}"
        else:
            turn["notes"] = [*_as_list(turn["notes"]), block.text]
    tools = [block for block in blocks if isinstance(block, ToolBlock)]
    for number, turn in sorted(turns.items()):
        yield turn
        yield from (_describe_tool(block) for block in tools if block.turn == number)


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _describe_tool(block: ToolBlock) -> dict[str, object]:
    return {
        "type": "agent_delegation" if block.name == DELEGATE_TOOL else "tool_invocation",
        "turn": block.turn,
        "tool": block.name,
        "agent": block.agent,
        "parameters": block.arguments,
        "state": block.state.value,
        "level": block.level,
        "rule": block.rule,
        "result": _shorten(block.result),
        "error": _shorten(block.error),
        "seconds": block.elapsed,
        "undone": block.undone,
    }


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_RESULT else f"{text[: LONGEST_RESULT - 1]}…"
