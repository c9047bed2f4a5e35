"""`holdfast run "..."`: ask once, stream the answer, and fail with a message and a status.

It must never print a part of an answer into a file that a failed attempt left behind.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from holdfast.agent import Agent
from holdfast.cli.input_lines import standard_input
from holdfast.cli.options import add_model_arguments, build_agent
from holdfast.cli.run_printer import RunPrinter
from holdfast.core.errors import ConfigurationError


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """The question, or `-` for standard input."""
    sub.add_argument("question", help='what to ask; "-" reads standard input')
    add_model_arguments(sub)


def main(given: argparse.Namespace) -> int:
    """Ask, and print the answer to standard output and everything else to standard error."""
    agent = build_agent(given)
    question = _read_question() if given.question == "-" else given.question
    if not question.strip():
        raise ConfigurationError("question", "is empty", fix="Say what you want to know")
    asyncio.run(_ask_once(agent, question))
    return 0


async def _ask_once(agent: Agent[str], question: str) -> None:
    show = RunPrinter(sys.stdout, sys.stderr)
    try:
        async with agent.stream(question) as run:
            async for item in run:
                show.print_item(item)
    finally:
        show.finish_line()
    run.result  # noqa: B018  # raises what the run raised


def _read_question() -> str:
    try:
        return standard_input().buffer.read().decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            "question", "standard input is no text in UTF-8", fix="Convert it first"
        ) from error
