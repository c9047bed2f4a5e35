"""`holdfast chat`: a conversation in the terminal.

Ctrl-C stops the turn but not the program; the interrupted turn stays in the conversation. Without a
terminal, each input line is a turn, and Ctrl-C stops the turn and the program. A failed turn does
not end the conversation.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import nullcontext
from importlib.util import find_spec

from holdfast.cli.options import (
    add_conversation_arguments,
    add_model_arguments,
    add_schema_argument,
    build_chat_agent,
    find_model,
    find_schema_type,
)


def add_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the arguments for the model or agent and the conversation."""
    add_model_arguments(sub)
    add_conversation_arguments(sub)
    add_schema_argument(sub)


def main(args: argparse.Namespace) -> int:
    """Chat until the input ends; return 1 when a turn failed and there is no terminal."""
    import asyncio

    from holdfast.cli.chat_commands import Conversation
    from holdfast.cli.chat_loop import ChatLoop
    from holdfast.cli.input_lines import LineReader, standard_input
    from holdfast.cli.markdown_stream import MarkdownStream
    from holdfast.cli.prompt import hold_typed_text, make_prompt_reader
    from holdfast.cli.run_printer import RunPrinter

    agent = build_chat_agent(args)
    source = standard_input()
    terminal = source.isatty() and sys.stdout.isatty()
    if terminal:
        print(f"{args.agent or find_model(args)}. Ctrl-C stops a turn, Ctrl-D or /quit ends. /help")
    lines = LineReader(source.fileno())
    markdown = MarkdownStream(sys.stdout) if terminal and find_spec("rich") else None
    talk = Conversation(agent, args.session, RunPrinter(sys.stdout, sys.stderr, markdown))
    talk.kind = find_schema_type(args)
    loop = ChatLoop(talk, lines.read_line, keep_open=bool(args.journal), prompts=terminal)
    if terminal:
        loop.read = make_prompt_reader(lines, loop.stop_turn, loop.catch_interrupts)
    try:
        with hold_typed_text() if terminal and find_spec("prompt_toolkit") else nullcontext():
            asyncio.run(loop.run_until_end())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    return 1 if loop.failures and not terminal else 0
