"""The commands of `holdfast chat`, which begin with a slash, and the conversation that they change.

A command never sends anything to the model; `/retry` returns the message that is sent again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import uuid4

from msgspec import Struct

from holdfast.agent import Agent
from holdfast.cli.run_printer import RunPrinter, make_printable, shorten
from holdfast.cli.times import format_count, format_time
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Message, ToolResult, Usage, user
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.sessions.session_history import describe_prompt

QUIT = ("/quit", "/exit")
"""The lines that end the program."""

_SPEAKERS = {"user": "You", "assistant": "Agent", "tool": "Results of tools"}


class Conversation(Struct):
    """The state that the commands read and change.

    Args:
        agent: the agent.
        session: the name of the current conversation.
        show: prints the answers of the commands.
        used: the tokens of the turns of this program.
        model: the model of the next turns; None is the agent's.
        kind: the output type of the turns; None is the agent's.
    """

    agent: Agent[str]
    session: str
    show: RunPrinter
    used: Usage = Usage()
    model: str | None = None
    kind: type | None = None

    def stream(self, message: str | Message) -> RunStream[str] | RunStream[object]:
        """Return the stream of a turn of the current conversation."""
        if self.kind is None:
            return self.agent.stream(message, session=self.session, model=self.model)
        return self.agent.stream(message, session=self.session, model=self.model, output=self.kind)

    def resume_stream(self) -> RunStream[str] | RunStream[object]:
        """Return the stream that continues the open turn of the current conversation."""
        if self.kind is None:
            return self.agent.resume_stream(self.session)
        return self.agent.resume_stream(self.session, output=self.kind)

    def format_footer(self, turn: Usage) -> str:
        """Return the line below a turn: its tokens, and those of the conversations so far."""
        tokens = f"{turn.input:,} tokens in, {turn.output:,} out"
        return f"· {tokens} · {self.used.input:,} and {self.used.output:,} so far"


class ChatCommand(Struct, frozen=True):
    """One command: its argument, its description, and the function that carries it out."""

    argument: str
    about: str
    run: Callable[[Conversation, str], Awaitable[Message | None]]


def find_command(line: str) -> tuple[ChatCommand, str] | None:
    """Return the command of a typed line and its argument; None if the line is a message.

    Raises:
        ConfigurationError: the line looks like a command, and there is none of that name, or it
            takes no argument.
    """
    word, _, rest = line.strip().partition(" ")
    if not word.startswith("/") or not word[1:].isalpha():
        return None
    command = COMMANDS.get(word[1:])
    if command is None and word not in QUIT:
        raise ConfigurationError(word, "is not a command", fix="/help lists the commands")
    if command is None or (rest.strip() and not command.argument):
        raise ConfigurationError(word, "takes no argument", fix=f"Type {word} alone")
    return command, rest.strip()


async def _print_help(talk: Conversation, argument: str) -> None:  # noqa: ARG001  # REASON: one signature for all commands
    for name, command in COMMANDS.items():
        talk.show.print_note(f"{f'/{name} {command.argument}':<18}{command.about}")
    talk.show.print_note(f"{'/quit':<18}end the program, like Ctrl-D")
    talk.show.print_note("Ctrl-C stops a turn. A paste is one message.")


async def _begin_conversation(talk: Conversation, argument: str) -> None:
    talk.session = argument or f"chat-{uuid4().hex[:8]}"
    talk.show.print_note(f"the conversation is now {make_printable(talk.session)}")


async def _change_model(talk: Conversation, argument: str) -> None:
    before = talk.model
    if argument:
        talk.model = argument
        try:
            talk.stream("?")  # not started: it only refuses a model that cannot be called
        except ConfigurationError:
            talk.model = before
            raise
    _, _, own = talk.agent.describe().partition("\n    model: ")
    talk.show.print_note(f"model: {make_printable(talk.model or own.partition(chr(10))[0])}")


async def _list_tools(talk: Conversation, argument: str) -> None:  # noqa: ARG001
    _, _, below = talk.agent.describe().partition("\n  tools: ")
    for line in f"tools: {below}".splitlines():
        talk.show.print_note(make_printable(line.strip()))


async def _list_sessions(talk: Conversation, argument: str) -> None:
    if argument:
        await talk.agent.sessions.info(argument)
        await _begin_conversation(talk, argument)
        return
    for info in await talk.agent.sessions.list(limit=20):
        mark = "*" if info.session == talk.session else " "
        turns = format_count(info.turns, "turn")
        about = f"{mark} {info.session}  {format_time(info.changed_at)}  {turns}"
        talk.show.print_note(shorten(f"{about}  {info.title}"))


async def _undo_turn(talk: Conversation, argument: str) -> None:  # noqa: ARG001
    message = await _rewind_last_turn(talk)
    talk.show.print_note(shorten(f"forgot: {describe_prompt(message)}"))


async def _retry_turn(talk: Conversation, argument: str) -> Message | None:  # noqa: ARG001
    return await _rewind_last_turn(talk)


async def _rewind_last_turn(talk: Conversation) -> Message:
    """Go back to before the last message of the user that counts, and return that message."""
    history = await talk.agent.sessions.read(talk.session)
    turns = [point for point in history.points if point.kind == "turn" and point.counts]
    said = [turn for turn in turns if turn.text]
    if not said:
        raise ConfigurationError("the conversation", "has no message that could be undone")
    text = said[-1].text
    # The message itself, because a message of another program may have pictures.
    prompts = (one for one in reversed(history.messages) if one.role == "user")
    message = next((one for one in prompts if describe_prompt(one) == text), user(text))
    await talk.agent.sessions.rewind(talk.session, said[-1].number - 1)
    return message


async def _save_conversation(talk: Conversation, argument: str) -> None:
    history = await talk.agent.sessions.read(talk.session)
    path = Path(argument or f"{talk.session}.md")
    text = "\n\n".join(_format_message(message) for message in history.as_run)
    try:
        _write_new_file(path, text + "\n")
    except OSError as error:
        problem = f"cannot be written: {error.strerror}"
        raise ConfigurationError(str(path), problem, fix="/save NAME takes another name") from error
    messages = format_count(len(history.messages), "message")
    talk.show.print_note(f"saved {messages} in {make_printable(str(path))}")


def _write_new_file(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def _format_message(message: Message) -> str:
    calls = [f"`{call.name}({call.arguments})`" for call in message.calls]
    results = [f"> {part.text}" for part in message.parts if isinstance(part, ToolResult)]
    texts = [message.text] if message.text else []
    return "\n\n".join(
        [f"**{_SPEAKERS.get(message.role, message.role)}**", *texts, *calls, *results]
    )


COMMANDS = {
    "help": ChatCommand("", "list the commands", _print_help),
    "new": ChatCommand("[NAME]", "begin a conversation", _begin_conversation),
    "model": ChatCommand("[NAME]", "show or change the model of the next turns", _change_model),
    "tools": ChatCommand("", "list the tools", _list_tools),
    "sessions": ChatCommand("[NAME]", "list the conversations, or go to one", _list_sessions),
    "undo": ChatCommand("", "forget the last message and its answer", _undo_turn),
    "retry": ChatCommand("", "ask the last message again", _retry_turn),
    "save": ChatCommand(
        "[FILE]", "write the conversation into a Markdown file", _save_conversation
    ),
}
