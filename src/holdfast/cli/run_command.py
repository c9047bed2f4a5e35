"""`holdfast run "..."`: ask one question and print the answer, for a person or for a program.

A failure prints a message and sets the exit status. Output to a file never contains part of a reply
whose attempt failed.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.cli.options import (
    add_conversation_arguments,
    add_model_arguments,
    add_otel,
    add_schema_argument,
    build_chat_agent,
    find_schema_type,
    keeps_questions_open,
    observe_agents,
)
from holdfast.cli.run_printer import (
    RunPrinter,
    describe_item,
    format_error,
    make_printable,
    shorten,
    write_lines,
)
from holdfast.core.errors import ConfigurationError, HoldfastError, WaitingError
from holdfast.core.events import Status
from holdfast.core.questions import Question
from holdfast.core.redaction import redact

if TYPE_CHECKING:
    from holdfast.agent import Agent
    from holdfast.runtime.result import Result
    from holdfast.runtime.streams.run_stream import RunStream

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
    add_otel(sub)


def main(args: argparse.Namespace) -> int:
    """Print the answer to standard output and everything else to standard error."""
    import asyncio

    agent = build_chat_agent(args)
    (agent,) = observe_agents(args, [agent])
    question = _read_question() if args.question == "-" else args.question
    if not question.strip():
        raise ConfigurationError("question", "is empty", fix="Pass the text of a question")
    kind = find_schema_type(args)
    ask = _ask_for_json if args.output == "json" else _ask_for_text
    try:
        result = asyncio.run(ask(agent, question, args, kind))
    except WaitingError:  # an earlier turn of the session waits, and this one did not begin
        _print_chat_command("the session", args, args.session)
        return WAITS
    if result.status is not Status.WAITING:
        return 0
    _print_chat_command("the run", args, result.run_id)
    return WAITS


def _print_chat_command(what: str, args: argparse.Namespace, session: str) -> None:
    """Print the command that asks the open question and continues the turn."""
    words = ["holdfast", "chat", "--session", session]
    for option in ("agent", "journal", "tenant", "schema"):
        value = getattr(args, option)
        words += [f"--{option}", str(value)] if value is not None else []
    command = make_printable(redact(shlex.join(words)))
    print(f"holdfast: {what} waits for an answer: {command}", file=sys.stderr)


async def _ask_for_text(
    agent: Agent[str], question: str, args: argparse.Namespace, kind: type | None
) -> Result[str] | Result[object]:
    keeps_open = keeps_questions_open(args)
    if kind is not None:
        stream: RunStream[object] = agent.stream(question, session=args.session, output=kind)
        return await _ask_for_value(stream, keeps_open=keeps_open)
    show = RunPrinter(sys.stdout, sys.stderr)
    try:
        async with agent.stream(question, session=args.session) as run:
            async for item in run:
                show.print_item(item)
                if isinstance(item, Question) and not keeps_open:
                    show.finish_line()
                    _dismiss_question(run, item)
    finally:
        show.finish_line()
    return run.result


async def _ask_for_value(stream: RunStream[object], *, keeps_open: bool) -> Result[object]:
    """Print the output as JSON, and not the text around it."""
    from holdfast.tools.json_data import json_data

    async with stream as run:
        async for item in run:
            line = describe_item(item)
            if line is not None:
                print(f"  {line}", file=sys.stderr, flush=True)
            if isinstance(item, Question) and not keeps_open:
                _dismiss_question(run, item)
    if run.result.status is Status.COMPLETED:
        _print_object(json_data(run.result.output))
    return run.result


def _dismiss_question(run: RunStream[str] | RunStream[object], question: Question[Any]) -> None:
    """Let a question count as no, because no later program could answer it."""
    from holdfast.cli.terminal_questions import format_question

    asked = shorten(format_question(question)[0], 40)
    note = "nobody can answer it here, which counts as no; --journal keeps it open"
    print(f"  {asked}: {note}", file=sys.stderr, flush=True)
    run.dismiss(question)


async def _ask_for_json(
    agent: Agent[str], question: str, args: argparse.Namespace, kind: type | None
) -> Result[str] | Result[object]:
    """Print one object also for a run that fails, and raise its error."""
    try:
        result: Result[str] | Result[object]
        if kind is None:
            result = await agent.run(question, session=args.session)
        else:
            result = await agent.run(question, session=args.session, output=kind)
    except HoldfastError as error:
        status = Status.WAITING if isinstance(error, WaitingError) else Status.FAILED
        failure = {"category": error.info.category.value, "message": format_error(error)}
        _print_object({**_describe(error.result), "status": status.value, "error": failure})
        raise
    _print_object(_describe(result))
    return result


def _describe(result: object) -> dict[str, object]:
    """Return the facts about a result for a program; nothing of a run that did not begin."""
    from holdfast.runtime.result import Result
    from holdfast.tools.json_data import json_data

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
    from holdfast.cli.input_lines import standard_input

    try:
        return standard_input().buffer.read().decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            "question", "standard input is not valid UTF-8", fix="Convert it to UTF-8"
        ) from error
