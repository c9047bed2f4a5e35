"""What type checkers must see of output functions. Checked by mypy and pyright, never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from holdfast import Agent, StructuredOutput, ToolContext, tool


@dataclass
class Booking:
    number: int


@dataclass
class Refusal:
    reason: str


def book(room: str) -> Booking:
    return Booking(len(room))


async def book_later(room: str, context: ToolContext[str]) -> Booking:
    return Booking(len(room + context.deps))


@tool(effect="idempotent")
def reserve(room: str) -> Booking:
    return Booking(len(room))


async def use() -> None:
    assert_type((await Agent("ollama:qwen3", output=book).run("Hi")).output, Booking)
    assert_type((await Agent("ollama:qwen3", output=reserve).run("Hi")).output, Booking)
    # mypy does not find the type of an async function among several alternatives.
    later = Agent[Booking, str]("ollama:qwen3", output=book_later, deps_type=str)
    assert_type((await later.run("Hi", deps="a")).output, Booking)
    tuned = StructuredOutput(book_later, mode="tool")
    assert_type((await Agent("ollama:qwen3", output=tuned).run("Hi")).output, Booking)
    several = Agent[Booking | Refusal]("ollama:qwen3", output=[book, Refusal])
    assert_type((await several.run("Hi")).output, Booking | Refusal)
