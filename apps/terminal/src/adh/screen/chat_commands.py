"""The actions of keys and palette on an open conversation, and the chat as plain text for the clipboard.

A command changes nothing before its dialog is confirmed. A failure is raised with a text for the person.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from rich.text import Text

from adh.screen.conversation_port import Choice, ConversationPort, UndoView, WorkspacePort
from adh.screen.dialogs import (
    ChoiceDialog,
    ConfirmDialog,
    RulesDialog,
    SettingsDialog,
    TextDialog,
    ValueDialog,
    read_key,
    read_max_tokens,
    read_temperature,
)
from adh.screen.key_table import KEYS
from adh.transcript.blocks import AnswerBlock, Block, PersonBlock, ToolBlock
from holdfast.middleware import escape_invisible

if TYPE_CHECKING:
    from adh.screen.block_log import BlockLog
    from adh.screen.chat_frame import ChatFrame


class ChatText(Struct, frozen=True):
    """A chat as text.

    Args:
        text: all of it.
        count: how many messages it has: those of the person and of agents.
        sent: the messages of the person, oldest first.
    """

    text: str
    count: int
    sent: list[str]


def describe_block(block: Block) -> str:
    """Return one block as text.

    >>> describe_block(PersonBlock(id="1", text="Hello"))
    'You: Hello'
    """
    if isinstance(block, PersonBlock):
        return f"You: {block.text}"
    if isinstance(block, AnswerBlock):
        mark = " (not finished)" if block.state == "unfinished" else ""
        return f"{block.agent or 'Agent'}{mark}: {block.text}"
    if isinstance(block, ToolBlock):
        parts = (block.header, block.result, block.error)
        return "\n".join(part for part in parts if part)
    return block.text


def collect_chat(blocks: Sequence[Block]) -> ChatText:
    """Return a chat as text."""
    messages = [block for block in blocks if isinstance(block, PersonBlock | AnswerBlock)]
    return ChatText(
        text="\n\n".join(describe_block(block) for block in blocks),
        count=len(messages),
        sent=[block.text for block in messages if isinstance(block, PersonBlock)],
    )


EXPORT_SECONDS = 15.0

SAFETY_OFF_TEXT = (
    "Calls that the rules confirm will run without a question, until you turn safety on again or this session ends.\n"
    "Rules that deny, manual calls, and calls of high or critical risk are judged as before."
)
TRUST_TEXT = (
    "{folder} has files that tell the agent what to do:\n\n{files}\n\n"
    "Trust it if you know who wrote them. Rules and checks hold in either case. Without your trust the agent works "
    "without these files; Ctrl+P, Trust This Folder asks again."
)
LEAVE_TEXT = (
    "The turn that runs is interrupted. `adh --resume` continues it; a question that is open is asked again, "
    "and no tool runs twice."
)


class CommandedSession(Protocol):
    """The open conversation on the screen, as the commands use it.

    The attribute `is_asking_to_leave` is true while the person is asked whether to leave.
    """

    app: ChatFrame
    conversation: ConversationPort
    workspace: WorkspacePort
    log: BlockLog
    is_asking_to_leave: bool

    @property
    def is_running(self) -> bool:
        """Whether a turn is in progress."""
        ...

    def greet_again(self) -> None:
        """Show the start of another session."""
        ...

    def refresh_lines(self) -> None:
        """Show titles, footer and status as they are now."""
        ...

    def refresh_all(self) -> None:
        """Show every block again, as it is now."""
        ...


class ChatCommands:
    """The commands of one session.

    Args:
        session: the open conversation on the screen.
    """

    def __init__(self, session: CommandedSession) -> None:
        self._session = session
        self._by_name: dict[str, Callable[[], Awaitable[None]]] = {
            "adjust_temperature": self._adjust_temperature,
            "ask_for_trust": self._ask_for_trust,
            "ask_to_leave": self._ask_to_leave,
            "clear": self._clear,
            "configure_key": self._configure_key,
            "configure_max_tokens": self._configure_max_tokens,
            "copy_chat": self._copy_chat,
            "edit_settings": self._edit_settings,
            "export": self._export,
            "select_agent": self._select_agent,
            "select_model": self._select_model,
            "show_keys": self._show_keys,
            "show_rules": self._show_rules,
            "toggle_safety": self._toggle_safety,
            "undo": self._undo,
        }

    async def perform(self, name: str) -> None:
        """Do the command of this name. Raises KeyError for an unknown one."""
        await self._by_name[name]()

    async def _copy_chat(self) -> None:
        chat = collect_chat(self._session.conversation.transcript.blocks)
        self._session.app.copy_to_clipboard(chat.text)
        self._session.app.show_notice(f"Copied {chat.count} messages to clipboard")

    async def _export(self) -> None:
        paths = await self._session.conversation.export()
        places = " and ".join(escape_invisible(str(path)) for path in paths)
        self._session.app.show_notice(f"Exported to {places}", EXPORT_SECONDS)

    async def _show_keys(self) -> None:
        text = Text()
        for key, does in KEYS:
            text.append(f"{key:<20} ", style="bold")
            text.append(f"{does}\n")
        text.rstrip()
        await self._session.app.push_screen_wait(TextDialog("Keys", text))

    async def _show_rules(self) -> None:
        rules = self._session.workspace.list_rules()
        await self._session.app.push_screen_wait(RulesDialog(rules))

    async def _toggle_safety(self) -> None:
        session = self._session
        turn_on = not session.workspace.facts.safety
        if not turn_on:
            dialog = ConfirmDialog("Turn safety off?", SAFETY_OFF_TEXT, "Turn off", danger=True)
            if not await session.app.push_screen_wait(dialog):
                return
        session.workspace.set_safety(turn_on)
        session.refresh_lines()
        session.app.show_notice(f"Safety is {'on' if turn_on else 'off'}.")

    async def _clear(self) -> None:
        session = self._session
        if session.is_running:
            body = "The turn that runs is stopped. The session stays and can be resumed."
            dialog = ConfirmDialog("Begin another session?", body, "Begin")
            if not await session.app.push_screen_wait(dialog):
                return
        await session.conversation.clear()
        session.greet_again()

    async def _ask_to_leave(self) -> None:
        session = self._session
        if session.is_asking_to_leave:
            return
        session.is_asking_to_leave = True
        try:
            dialog = ConfirmDialog("Leave while a turn runs?", LEAVE_TEXT, "Leave", "Stay")
            if await session.app.push_screen_wait(dialog):
                session.app.exit()
        finally:
            session.is_asking_to_leave = False

    async def _ask_for_trust(self) -> None:
        session = self._session
        names = list(session.workspace.untrusted)
        if not names:
            session.app.show_notice("There is nothing in this folder that needs your trust.")
            return
        folder = session.workspace.facts.folder
        body = TRUST_TEXT.format(folder=folder, files="\n".join(f"  {name}" for name in names))
        dialog = ConfirmDialog("Trust this folder?", body, "Trust", "Not now", danger=True)
        if await session.app.push_screen_wait(dialog):
            session.workspace.trust_project()
            session.app.show_notice("The folder is trusted from the next message on.")

    async def _undo(self) -> None:
        session = self._session
        plan = await session.conversation.undo_preview()
        if plan is None:
            session.app.show_notice("There is nothing to undo.")
            return
        dialog = ConfirmDialog("Undo the last turn?", describe_undo(plan), "Undo", danger=True)
        if await session.app.push_screen_wait(dialog):
            await session.conversation.undo(plan)
            session.refresh_all()
            session.app.show_notice("The turn was undone.")

    async def _edit_settings(self) -> None:
        session = self._session
        changes = await session.app.push_screen_wait(SettingsDialog(session.workspace.settings))
        if changes:
            self._change(dict(changes))

    def _change(self, changes: dict[str, object]) -> None:
        session = self._session
        session.workspace.change_settings(changes)
        settings = session.workspace.settings
        session.log.auto_follow = settings.auto_scroll
        session.app.use_theme(settings.theme)
        session.refresh_lines()
        session.app.show_notice("Saved: " + ", ".join(name.replace("_", " ") for name in changes))

    async def _choose(self, title: str, field: str, choices: list[Choice], *, free: bool) -> None:
        current = str(getattr(self._session.workspace.settings, field))
        dialog = ChoiceDialog(title, choices, current, free=free)
        value = await self._session.app.push_screen_wait(dialog)
        if value and value != current:
            self._change({field: value})

    async def _select_model(self) -> None:
        await self._choose("Model", "model", list(self._session.workspace.list_models()), free=True)

    async def _select_agent(self) -> None:
        agents = list(self._session.workspace.list_agents())
        await self._choose("Orchestrator agent", "agent", agents, free=False)

    async def _adjust_temperature(self) -> None:
        hint = "0 is exact, 2 is free. Empty: the model's own."
        await self._set_value("Temperature", "temperature", hint, read_temperature)

    async def _configure_max_tokens(self) -> None:
        hint = "The longest reply, in tokens. Empty: the model's own limit."
        await self._set_value("Max tokens", "max_tokens", hint, read_max_tokens)

    async def _set_value(
        self, title: str, field: str, hint: str, read: Callable[[str], object]
    ) -> None:
        current = getattr(self._session.workspace.settings, field)
        shown = "" if current is None else str(current)
        value = await self._session.app.push_screen_wait(ValueDialog(title, hint, shown, read))
        if value is not None and read(value) != current:
            self._change({field: read(value)})

    async def _configure_key(self) -> None:
        session = self._session
        names = list(session.workspace.list_key_names())
        name = await session.app.push_screen_wait(ChoiceDialog("API key", names))
        if name is None:
            return
        hint = "It goes to the system's keychain, and is never shown or written to a file."
        dialog = ValueDialog(name, hint, "", read_key, secret=True)
        key = await session.app.push_screen_wait(dialog)
        if key:
            place = session.workspace.save_key(name, read_key(key))
            session.app.show_notice(f"{name} is saved in {place}.")
            session.refresh_lines()


def describe_undo(plan: UndoView) -> Text:
    """Return the plan of an undo as text."""
    text = Text(escape_invisible(plan.summary) + "\n")
    if not plan.files:
        text.append("No file was changed in it.")
    for file in plan.files:
        text.append(f"\n{escape_invisible(file.action)} ", style="bold")
        text.append(escape_invisible(file.path))
        if file.refusal:
            text.append(f"\n  ✗ {escape_invisible(file.refusal)}", style="bold")
        if file.diff:
            for line in escape_invisible(file.diff).rstrip("\n").split("\n"):
                text.append(f"\n  {line}")
    return text
