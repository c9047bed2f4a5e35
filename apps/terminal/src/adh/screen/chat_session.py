"""An open conversation on the screen: shows changes, asks questions, and carries out keys.

It must never answer for the person, and must never end the program because a conversation failed to do something.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING

from adh.screen.block_log import BlockLog
from adh.screen.chat_commands import ChatCommands, collect_chat, describe_block
from adh.screen.chat_frame import ChangingLine, TitledFrame, describe_session
from adh.screen.conversation_port import AskedQuestion, OpenChat
from adh.screen.question_queue import QuestionQueue
from adh.transcript.blocks import Block, NoteBlock
from holdfast.middleware import escape_invisible

if TYPE_CHECKING:
    from adh.screen.chat_frame import ChatFrame

FLUSH_SECONDS = 0.04
"""The shortest time between two paints of changes."""

MOST_FLUSH_SECONDS = 0.25
"""The longest time between two paints, on a machine on which a paint takes long."""

TOOL_FLUSH_SECONDS = 0.1
"""The shortest time between two paints of a tool's live output."""

KEYS_LINE = "Enter sends · Ctrl+J new line · Esc stops · Ctrl+P commands · F1 all keys"
POLICIES_LINE = "Tools will be executed according to configured policies."


class ChatSession:
    """The conversation of a `ChatFrame`.

    Args:
        app: the screen.
        chat: the conversation and its workspace.
    """

    def __init__(self, app: ChatFrame, chat: OpenChat) -> None:
        self.app = app
        self.conversation = chat.conversation
        self.workspace = chat.workspace
        self.log = BlockLog(follows=chat.workspace.settings.auto_scroll)
        self.is_ready = False
        self.is_asking_to_leave = False
        self._commands = ChatCommands(self)
        self._questions = QuestionQueue(app, self._answer)
        self._preamble: list[NoteBlock] = []
        self._changed: set[str] = set()
        self._flush_pending = False
        self._flush_seconds = FLUSH_SECONDS
        self._tools_at = 0.0
        self._stopping = False
        self._notes = 0

    async def start(self) -> None:
        """Show the conversation, and begin."""
        conversation = self.conversation
        conversation.on_change = self._record_change
        conversation.on_question = self._ask
        conversation.on_question_closed = self._questions.close
        conversation.on_notify = self.app.show_notice
        self.app.use_theme(self.workspace.settings.theme)
        self._chat_frame.set_class(not self.workspace.facts.safety, "unsafe")
        await self._chat_frame.mount(self.log)
        self.app.theme_changed_signal.subscribe(self.log, lambda _: self.log.repaint_all())
        await conversation.start()
        self._greet()
        self.is_ready = True
        self.app.prompt.remember(collect_chat(conversation.transcript.blocks).sent)
        self._flush()
        self.app.set_interval(1.0, self._tick)
        if self.workspace.untrusted:
            self.perform("ask_for_trust")

    async def close(self) -> None:
        """Stop showing. The conversation closes itself: an open question stays open."""
        self.is_ready = False
        await self.conversation.close()

    @property
    def _chat_frame(self) -> TitledFrame:
        return self.app.screen_stack[0].query_one("#chat", TitledFrame)

    @property
    def is_running(self) -> bool:
        """Whether a turn is in progress."""
        return self.conversation.is_running

    @property
    def is_up_to_date(self) -> bool:
        """Whether everything that changed is painted."""
        return not self._flush_pending

    def _greet(self) -> None:
        lines = [POLICIES_LINE, KEYS_LINE]
        if not self.conversation.problem:
            lines.append(f"Policy-Aware Chat Ready (Agent: {self.workspace.facts.agent})")
        self._preamble = []
        for line in lines:
            self.add_note(line)

    def add_note(self, text: str) -> None:
        """Show a note of the screen above the conversation."""
        self._notes += 1
        note = NoteBlock(id=f"screen.{self._notes}", text=escape_invisible(text))
        self._preamble.append(note)

    def greet_again(self) -> None:
        """Show the start of another session."""
        self._greet()
        self._flush()

    def send(self, text: str) -> None:
        """Send a message of the person."""
        self.conversation.send(text)
        self.log.action_go_end()
        self._record_change(())

    def stop_turn(self) -> bool:
        """Stop the turn; returns whether there was one to stop that was not being stopped."""
        if not self.conversation.is_running or self._stopping:
            return False
        self._stopping = True
        self.conversation.stop()
        self.app.show_notice("Stopping the turn ...")
        return True

    def scroll_chat(self, step: int) -> None:
        """Scroll by a page."""
        self.log.action_page(step)

    def perform(self, name: str) -> None:
        """Carry out a key or a command of the palette."""
        self.spawn(self._commands.perform(name))

    def spawn(self, work: Coroutine[object, object, None]) -> None:
        """Run something; the person sees its failure."""
        self.app.run_worker(self._guard(work), exit_on_error=False)

    async def _guard(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  # REASON: the place where errors become a line
            self.app.log.error(repr(error))
            self.app.show_notice(f"❌ {str(error) or type(error).__name__}", 15.0)

    def _ask(self, asked: AskedQuestion) -> None:
        self._questions.add(asked)

    def _answer(self, asked: AskedQuestion, answer: object) -> None:
        receipt = self.conversation.answer(asked.question, answer)
        if not receipt:
            reason = str(getattr(receipt, "reason", "") or "it is not open any more")
            self.app.show_notice(f"The answer was not taken: {reason}")
        self._record_change(())

    def _record_change(self, ids: tuple[str, ...]) -> None:
        self._changed.update(ids)
        if not self._flush_pending and self.is_ready:
            self._flush_pending = True
            self.app.set_timer(self._flush_seconds, self._flush)

    def _flush(self) -> None:
        """Paint the changes."""
        self._flush_pending = False
        transcript = self.conversation.transcript
        late = self._take_late_tools()
        blocks = [*self._preamble, *transcript.blocks]
        self.log.show_blocks(blocks, frozenset(self._changed - late))
        self._changed = late
        if late:
            self._flush_pending = True
            self.app.set_timer(TOOL_FLUSH_SECONDS, self._flush)
        self._show_lines()
        self.app.call_after_refresh(self._measure_paint, self.app.clock())

    def _measure_paint(self, begun: float) -> None:
        """Wait as long before the next paint as this one took, so that painting takes half of the time at most."""
        took = self.app.clock() - begun
        self._flush_seconds = min(max(took, FLUSH_SECONDS), MOST_FLUSH_SECONDS)

    def _take_late_tools(self) -> set[str]:
        """Return the tools whose output was painted a moment ago, and waits for the next time."""
        now = self.app.clock()
        if now - self._tools_at >= TOOL_FLUSH_SECONDS:
            self._tools_at = now
            return set()
        return {name for name in self._changed if self.log.is_executing(name)}

    def _show_lines(self) -> None:
        app, conversation, facts = self.app, self.conversation, self.workspace.facts
        transcript = conversation.transcript
        running = conversation.is_running
        self._stopping = self._stopping and running
        frame = self._chat_frame
        self.log.name_agent(facts.agent)
        frame.set_class(running, "busy")
        frame.set_class(not facts.safety, "unsafe")
        frame.show_titles(
            f"{app.TITLE} • Safety: {'ON' if facts.safety else 'OFF'}"
            + (" • ⏳ Processing..." if running else ""),
            escape_invisible(self._describe_status()),
        )
        thought = escape_invisible(transcript.thought)
        app.prompt.show_title(f"💭 {thought}" if thought else "")
        app.show_queue([escape_invisible(text) for text in conversation.queue])
        width = max(10, app.size.width - 4)
        tokens = transcript.usage.total
        footer = describe_session(facts, tokens, transcript.cost, width)
        app.screen_stack[0].query_one("#footer", ChangingLine).show_text(escape_invisible(footer))

    def _describe_status(self) -> str:
        countdown = self.conversation.transcript.countdown
        if countdown is not None:
            return countdown.describe(self.app.clock())
        return self.conversation.transcript.status

    def _tick(self) -> None:
        if self.is_ready and self.conversation.transcript.countdown is not None:
            self._show_lines()

    def refresh_lines(self) -> None:
        """Show titles, footer and status as they are now."""
        self._show_lines()

    def refresh_all(self) -> None:
        """Show every block again, as it is now."""
        self._changed.update(block.id for block in self.conversation.transcript.blocks)
        self._flush()

    def copy_block(self, block: Block) -> None:
        """Copy the text of one block."""
        self.app.copy_to_clipboard(describe_block(block))
        self.app.show_notice("Copied 1 message to clipboard")
