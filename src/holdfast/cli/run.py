"""`holdfast run "..."`: ask once, stream the answer, and fail with a message and a status."""

from __future__ import annotations

import argparse
import asyncio
import sys

from holdfast.cli.options import add_model_arguments, agent_from
from holdfast.cli.show import Show
from holdfast.core.errors import ConfigurationError


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """The question, or `-` for standard input."""
    sub.add_argument("question", help='what to ask; "-" reads standard input')
    add_model_arguments(sub)


def main(given: argparse.Namespace) -> int:
    """Ask, and print the answer to standard output and everything else to standard error."""
    question = sys.stdin.read() if given.question == "-" else given.question
    if not question.strip():
        raise ConfigurationError("question", "is empty", fix="Say something")
    agent = agent_from(given)

    async def ask() -> None:
        show = Show(sys.stdout, sys.stderr)
        async with agent.stream(question) as run:
            async for item in run:
                show.item(item)
        show.end()
        run.result  # noqa: B018  # raises what the run raised

    asyncio.run(ask())
    return 0
