"""`holdfast run "..."`: ask one question and print the answer, for a person or for a program.

A failure prints a message and sets the exit status. Output to a file never contains part of a reply
whose attempt failed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from holdfast.agent import Agent
from holdfast.cli.input_lines import standard_input
from holdfast.cli.options import (
    add_conversation_arguments,
    add_model_arguments,
    add_schema_argument,
    build_chat_agent,
    find_schema_type,
)
from holdfast.cli.run_printer import RunPrinter, describe_item, format_error, write_lines
from holdfast.core.errors import ConfigurationError, HoldfastError
from holdfast.core.events import Status
from holdfast.runtime.result import Result
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.tools.json_data import json_data

WAITS = 3
"""The exit status of a run that waits for an answer."""


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for the question, the agent and the form of the answer."""
    sub.add_argument(
        "question", nargs="?", default="-", help='the question; "-" or none reads standard input'
    )
    add_model_arguments(sub)
    add_conversation_arguments(sub, session=None)
    sub.add_argument(
        "--output",
        choices=("text", "json"),
        default="text",
        help="text: the answer; json: one object with the output, the status and the tokens",
    )
    add_schema_argument(sub)


def main(args: argparse.Namespace) -> int:
    """Print the answer to standard output and everything else to standard error."""
    agent = build_chat_agent(args)
    question = _read_question() if args.question == "-" else args.question
    if not question.strip():
        raise ConfigurationError("question", "is empty", fix="Pass the text of a question")
    kind = find_schema_type(args)
    ask = _ask_for_json if args.output == "json" else _ask_for_text
    status = asyncio.run(ask(agent, question, args.session, kind))
    if status is not Status.WAITING:
        return 0
    place = f"--session {args.session}" if args.session else "--session of this run"
    place += f" --schema {args.schema}" if args.schema else ""
    print(f"holdfast: the run waits for an answer: holdfast chat {place}", file=sys.stderr)
    return WAITS


async def _ask_for_text(
    agent: Agent[str], question: str, session: str | None, kind: type | None
) -> Status:
    if kind is not None:
        return await _ask_for_value(agent.stream(question, session=session, output=kind))
    show = RunPrinter(sys.stdout, sys.stderr)
    try:
        async with agent.stream(question, session=session) as run:
            async for item in run:
                show.print_item(item)
    finally:
        show.finish_line()
    return run.result.status


async def _ask_for_value(stream: RunStream[object]) -> Status:
    """Print the output as JSON, and not the text around it."""
    async with stream as run:
        async for item in run:
            line = describe_item(item)
            if line is not None:
                print(f"  {line}", file=sys.stderr, flush=True)
    if run.result.status is Status.COMPLETED:
        _print_object(json_data(run.result.output))
    return run.result.status


async def _ask_for_json(
    agent: Agent[str], question: str, session: str | None, kind: type | None
) -> Status:
    """Print one object also for a run that fails, and raise its error."""
    try:
        result: Result[str] | Result[object]
        if kind is None:
            result = await agent.run(question, session=session)
        else:
            result = await agent.run(question, session=session, output=kind)
    except HoldfastError as error:
        failure = {"category": error.info.category.value, "message": format_error(error)}
        _print_object({**_describe(error.result), "status": "failed", "error": failure})
        raise
    _print_object(_describe(result))
    return result.status


def _describe(result: object) -> dict[str, object]:
    """Return what a program may want to know of a result; nothing of a run that did not begin."""
    if not isinstance(result, Result):
        return {}
    return {
        "status": result.status.value,
        "output": json_data(result.output),
        "text": result.text,
        "run_id": result.run_id,
        "usage": {"input": result.usage.input, "output": result.usage.output},
    }


def _print_object(value: object) -> None:
    write_lines([msgspec.json.encode(value).decode()])


def _read_question() -> str:
    try:
        return standard_input().buffer.read().decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            "question", "standard input is not valid UTF-8", fix="Convert it to UTF-8"
        ) from error
