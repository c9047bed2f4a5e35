"""The full-screen chat: its keys, and the prompt, which is there before the agent is.

It must never import the agent or the library before the prompt is painted, and must never wait for a model.
"""

from __future__ import annotations

import asyncio
import importlib
import re
import signal
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen

from adh.screen.chat_frame import ChatFrame
from adh.screen.conversation_port import ChatOpener
from adh.screen.key_table import PALETTE, SLASH_COMMANDS
from adh.screen.prompt_input import PromptInput

if TYPE_CHECKING:
    from adh.screen.block_log import BlockLog
    from adh.screen.chat_session import ChatSession

_LEAVE_SECONDS = 3.0
_SLASH_WORD = re.compile(r"/[a-z]+")


class ChatApp(ChatFrame):
    """The chat.

    Args:
        opener: opens the conversation, once the prompt is there.
        clock: returns seconds that only grow; the same as that of the transcript.
        theme: "dark" or "light", until the settings are read.
        message: the text of the input at the start.

    The attribute `failure` is the exception that ended the chat, and `ended_by` the number of the signal, if one did.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop_or_leave", "Stop", show=False),
        Binding("ctrl+c", "interrupt", "Stop", show=False, priority=True),
        Binding("ctrl+q", "ask_to_leave", "Leave", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, priority=True),
        Binding("ctrl+l", "session('clear')", "Clear", show=False, priority=True),
        Binding("ctrl+y", "session('copy_chat')", "Copy", show=False, priority=True),
        Binding("ctrl+e", "session('export')", "Export", show=False, priority=True),
        Binding(
            "ctrl+slash,ctrl+underscore,f3",
            "session('show_rules')",
            "Rules",
            show=False,
            priority=True,
        ),
        Binding("ctrl+s,f4", "session('toggle_safety')", "Safety", show=False, priority=True),
        Binding("ctrl+comma,f2", "session('edit_settings')", "Settings", show=False, priority=True),
        Binding("f1", "session('show_keys')", "Keys", show=False, priority=True),
    ]
    _ONLY_WITHOUT_DIALOG: ClassVar[frozenset[str]] = frozenset({"session", "command_palette"})
    _ABOVE_QUESTION: ClassVar[frozenset[str]] = frozenset({"show_keys", "show_rules"})

    def __init__(
        self,
        opener: ChatOpener,
        clock: Callable[[], float] = time.monotonic,
        theme: str = "dark",
        message: str = "",
    ) -> None:
        super().__init__(clock, theme)
        self.failure: BaseException | None = None
        self.ended_by: int | None = None
        self.session: ChatSession | None = None
        self._opener = opener
        self._message = message
        self._leaving = asyncio.Event()
        self._chat_task: asyncio.Task[None] | None = None
        self._early: list[str] = []
        self._leave_until = 0.0

    def on_mount(self) -> None:
        """Open the conversation, once the prompt is painted."""
        self.prompt.focus()
        self.app_resume_signal.subscribe(self, self._paint_again)
        if self._message:
            self.prompt.put(self._message)
        self.call_after_refresh(self._begin)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, self._leave_on_signal, number)

    def _paint_again(self, _app: object) -> None:
        """Paint everything: the terminal has forgotten the screen of a program that was suspended."""
        self.refresh(repaint=True, layout=True)
        for screen in self.screen_stack:
            screen.refresh(repaint=True, layout=True)

    def _leave_on_signal(self, number: int) -> None:
        """Leave: the terminal is gone, or the system stops. A turn that runs stays open and can be resumed."""
        self.ended_by = number
        self.exit()

    def _begin(self) -> None:
        self._chat_task = asyncio.create_task(self._hold_chat(), name="chat")

    async def _hold_chat(self) -> None:
        try:
            module = await asyncio.to_thread(importlib.import_module, "adh.screen.chat_session")
            async with self._opener() as chat:
                self.session = module.ChatSession(self, chat)
                await self.session.start()
                self._send_early()
                await self._leaving.wait()
                await self.session.close()
        except Exception as error:  # noqa: BLE001  # REASON: the program that runs the chat words it
            self.failure = error
            self.exit(return_code=1)
        finally:
            self.session = None

    async def on_unmount(self) -> None:
        """Close the conversation. A question that is open stays open in its journal."""
        self._leaving.set()
        if self._chat_task is not None:
            await asyncio.wait([self._chat_task])

    def _send_early(self) -> None:
        early, self._early = self._early, []
        for text in early:
            self._send(text)

    @on(PromptInput.Sent)
    def _take_message(self, event: PromptInput.Sent) -> None:
        name = SLASH_COMMANDS.get(event.text)
        if name == "ask_to_leave":
            self.action_ask_to_leave()
        elif name is not None:
            self.action_session(name)
        elif _SLASH_WORD.fullmatch(event.text):
            self.show_notice(f"There is no command {event.text}; /help shows those that there are.")
            self.prompt.put(event.text)
        else:
            self._send(event.text)

    def _send(self, text: str) -> None:
        if self.session is not None and self.session.is_ready:
            self.session.send(text)
        else:
            self._early.append(text)
            self.show_queue(self._early)

    @on(PromptInput.UndoRequested)
    def _undo(self) -> None:
        self.action_session("undo")

    @on(PromptInput.ChatScrolled)
    def _scroll(self, event: PromptInput.ChatScrolled) -> None:
        if self.session is not None:
            self.session.scroll_chat(event.step)

    def on_block_log_copy_requested(self, event: BlockLog.CopyRequested) -> None:
        """Copy a block."""
        if self.session is not None:
            self.session.copy_block(event.block)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action may run: most keys of the chat are quiet while a dialog is open.

        A question is no obstacle to reading the keys or the rules.
        """
        if action in self._ONLY_WITHOUT_DIALOG and isinstance(self.screen, ModalScreen):
            is_question = getattr(self.screen, "is_question", False)
            return bool(is_question and self._ABOVE_QUESTION.issuperset(parameters))
        return super().check_action(action, parameters)

    def action_session(self, name: str) -> None:
        """Carry out a key or a command of the palette."""
        if self.session is None or not self.session.is_ready:
            self.show_notice("The agent is not ready yet.")
        else:
            self.session.perform(name)

    def action_interrupt(self) -> None:
        """Copy the selection; without one, stop or leave."""
        selected = self.screen.get_selected_text()
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self.show_notice("Copied the selection to the clipboard")
        else:
            self.action_stop_or_leave()

    def action_stop_or_leave(self) -> None:
        """Stop the turn; when none runs, leave at the second time."""
        if self.session is not None and self.session.stop_turn():
            return
        if self.session is not None and self.session.is_running:
            self.action_ask_to_leave()
        elif self.clock() < self._leave_until:
            self.exit()
        else:
            self._leave_until = self.clock() + _LEAVE_SECONDS
            self.show_notice("Press Esc or Ctrl+C once more to leave.", _LEAVE_SECONDS)

    def action_ask_to_leave(self) -> None:
        """Leave; while a turn runs, ask before."""
        session = self.session
        if session is None or not session.is_running or session.is_asking_to_leave:
            self.exit()
        else:
            session.perform("ask_to_leave")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the commands of the palette."""
        del screen
        for title, about, name in PALETTE:
            yield SystemCommand(title, about, lambda name=name: self.action_session(name))
