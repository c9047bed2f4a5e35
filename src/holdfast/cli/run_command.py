"""`holdfast run "..."`: ask one question and stream the answer.

A failure prints a message and sets the exit status. Output to a file never contains part of a reply
whose attempt failed.
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
    """Add the arguments for the question and the model."""
    sub.add_argument("question", help='the question; "-" reads standard input')
    add_model_arguments(sub)


def main(args: argparse.Namespace) -> int:
    """Print the answer to standard output and everything else to standard error."""
    agent = build_agent(args)
    question = _read_question() if args.question == "-" else args.question
    if not question.strip():
        raise ConfigurationError("question", "is empty", fix="Pass the text of a question")
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


def _read_question() -> str:
    try:
        return standard_input().buffer.read().decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            "question", "standard input is not valid UTF-8", fix="Convert it to UTF-8"
        ) from error
