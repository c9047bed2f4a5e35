"""The transcript of a conversation: a fold over its events, notices and questions.

Live items and saved records go through the same fold, so that a conversation that is opened again looks as it
did. The fold knows no clock: each item comes with its time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from adh.transcript.answer_fold import AnswerFold
from adh.transcript.block_list import BlockList
from adh.transcript.blocks import Block, Countdown, NoteBlock, PersonBlock, ToolBlock, ToolState
from adh.transcript.outcome import Outcome, OutcomeKind, describe_end, describe_failure
from adh.transcript.tool_fold import Stream, ToolFold
from adh.transcript.wording import to_line
from holdfast import (
    AttemptAbandoned,
    ErrorInfo,
    Event,
    Message,
    ModelReplied,
    Notice,
    Question,
    RetryScheduled,
    Status,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnClosed,
    Usage,
)
from holdfast.events import (
    AttemptStarted,
    BreakerChanged,
    FromAgent,
    HistoryCompacted,
    ModelFailed,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
    ReasoningDelta,
    ReplyReplaced,
    ResultsWithheld,
    SessionRewound,
    ToolCallDelta,
    TurnInterrupted,
    TurnOpened,
    TurnStopped,
)
from holdfast.middleware import UsageLimits, escape_invisible
from holdfast.sessions import list_surviving_turns

Item: TypeAlias = Event | Notice | Question[Any]

SENDING = "⏳ Sending message to AI..."
COMPACTED_TEXT = "The older part of this conversation was replaced by a summary for the model."

_TURN = re.compile(r"t(\d+)")


class Transcript:
    """The blocks of a conversation, as the person sees them.

    Args:
        price: returns the cost of a usage; None if the price is not known.
    """

    def __init__(self, price: Callable[[Usage], float | None] | None = None) -> None:
        self._list = BlockList()
        self._answer = AnswerFold(self._list)
        self._tools = ToolFold(self._list)
        self._price = price
        self._handlers = self._make_handlers()
        self._sent: list[PersonBlock] = []
        self._count = 0
        self._rewinds: dict[int, int] = {}
        self._stopped: TurnStopped | None = None
        self._text = self._partial = self._last_tool = ""
        self.status = ""
        """The line about the current activity."""
        self.thought = ""
        """The first line of the model's present reasoning."""
        self.countdown: Countdown | None = None
        """The wait before another attempt."""
        self.turn = 0
        """The number of the last turn."""
        self.running = False
        """Whether a turn is in progress."""
        self.usage = Usage()
        """The tokens of all turns, those that were rewound too: they were paid for."""
        self.cost: float | None = price(Usage()) if price is not None else None
        self.outcome: Outcome | None = None
        """How the last turn ended; None while one runs."""

    @property
    def blocks(self) -> Sequence[Block]:
        """The blocks, in order; without messages that wait for their turn."""
        return self._list.blocks

    @property
    def queued(self) -> Sequence[PersonBlock]:
        """The messages that wait for the turns before them, in order."""
        return [block for block in self._sent if block.queued]

    @property
    def executions(self) -> Sequence[ToolBlock]:
        """The newest 100 calls of tools, in order."""
        return self._tools.executions

    def find(self, block_id: str) -> Block | None:
        """Return the block with this id; None if its text is void."""
        found = self._list.find(block_id)
        return found or next((one for one in self._sent if one.id == block_id), None)

    def send(self, text: str, *, queued: bool = False) -> PersonBlock:
        """Add a message of the person.

        Args:
            text: the message.
            queued: whether it waits for other turns; it is then in `queued` and not in `blocks`.
        """
        self._count += 1
        block = PersonBlock(id=f"sent.{self._count}", text=escape_invisible(text), queued=queued)
        self._sent.append(block)
        if not queued:
            self._list.add(block)
            self.status = SENDING
        return block

    def begin(self, block: PersonBlock) -> tuple[str, ...]:
        """Record that the turn of a message begins: it waits no longer."""
        if block.queued:
            block.queued = False
            self._list.add(block)
        self.status = SENDING
        return self._list.take_changed()

    def give_up_sent(self) -> tuple[str, ...]:
        """Record that no turn will come of the message that was sent. It stays to be read."""
        self._sent = [block for block in self._sent if block.queued]
        self.status = ""
        return self._list.take_changed()

    def add_note(self, text: str, kind: OutcomeKind | None = None) -> NoteBlock:
        """Add a note of the program."""
        self._count += 1
        block = NoteBlock(id=f"note.{self._count}", text=escape_invisible(text), kind=kind)
        return self._list.add(block)

    def fail(self, info: ErrorInfo) -> tuple[str, ...]:
        """Record that a turn ended without a record of it, such as when the journal failed."""
        self.give_up_sent()
        self._count += 1
        self._end_turn(describe_failure(info, self._partial), f"failed.{self._count}")
        return self._list.take_changed()

    def pause(self) -> tuple[str, ...]:
        """Record that the turn waits, and goes on when it is resumed."""
        self._end_turn(describe_end(Status.WAITING, None, ""), f"waiting.{self._count}")
        return self._list.take_changed()

    def add_output(self, block_id: str, stream: Stream, text: str) -> tuple[str, ...]:
        """Add live output of the call with this block; return the ids of the changed blocks."""
        self._tools.add_output(block_id, stream, text)
        return self._list.take_changed()

    def judge(self, block_id: str, *, level: str, risk: str, rule: str) -> tuple[str, ...]:
        """Record the decision of the rules about a call; return the ids of the changed blocks."""
        self._tools.judge(block_id, level, risk, rule)
        return self._list.take_changed()

    def take_changed(self) -> tuple[str, ...]:
        """Return the ids of the blocks that changed outside of `apply`."""
        return self._list.take_changed()

    def apply(self, item: Item, at: float) -> tuple[str, ...]:
        """Apply one item; return the ids of the blocks that changed, also of removed ones.

        Args:
            item: the event, notice or question.
            at: when it came, in seconds of a clock that never jumps.
        """
        handler = self._handlers.get(type(item))
        if handler is not None:
            handler(item, at)
        return self._list.take_changed()

    def _open(self, event: TurnOpened, _at: float) -> None:
        self.turn = _turn_of(event.key)
        self.running, self.outcome, self._stopped = True, None, None
        self._text = self._partial = self._last_tool = ""
        self._answer.leave()
        self.status, self.thought = SENDING, ""
        if event.message is None:
            return
        block = self._sent.pop(0) if self._sent else None
        if block is None:
            text = escape_invisible(_text_of(event.message))
            block = PersonBlock(id=f"{event.key}.person", text=text)
        block.turn, block.queued = self.turn, False
        if self._list.find(block.id) is None:
            self._list.add(block)
        self._list.mark(block)

    def _begin_attempt(self, notice: AttemptStarted, _at: float) -> None:
        if notice.key.endswith(".model"):
            self._answer.begin(notice.key, self.turn)
            if notice.continues:
                self._answer.go_on()
            elif notice.attempt > 1:
                self._answer.abandon()
                self.thought = ""
            self.status = SENDING
        self.countdown = None

    def _add_text(self, delta: TextDelta, _at: float) -> None:
        if self._stopped is None:
            self.countdown = None
            self.status = self._answer.add_text(delta.text)

    def _add_thought(self, delta: ReasoningDelta, _at: float) -> None:
        self.thought = self._answer.add_thought(delta.text) or self.thought

    def _name_tool(self, delta: ToolCallDelta, _at: float) -> None:
        if delta.name:
            self.status = f"🔧 Using {to_line(delta.name, 80)}..."

    def _abandon(self, notice: AttemptAbandoned, _at: float) -> None:
        if notice.key.endswith(".model"):
            self._answer.abandon()

    def _replace(self, _notice: ReplyReplaced, _at: float) -> None:
        self._answer.forget()

    def _reply(self, event: ModelReplied, at: float) -> None:
        self.countdown, self.thought = None, ""
        self._count_usage(event.reply.usage, event.lost)
        self._answer.finish(event.key, self.turn, event.reply)
        self._text = event.reply.text
        self._add_calls("", event, at, "")

    def _add_calls(self, scope: str, event: ModelReplied, _at: float, agent: str) -> None:
        self._tools.add_calls(scope, self.turn, event.key, event.reply, agent)
        if event.reply.calls:
            self.status = f"🔧 Using {to_line(event.reply.calls[-1].name, 80)}..."

    def _fail_reply(self, event: ModelFailed, _at: float) -> None:
        self.countdown, self.thought = None, ""
        self._count_usage(event.partial.usage if event.partial else Usage(), event.lost)
        self._end_partial(event.key, event)

    def _withhold(self, event: ResultsWithheld, _at: float) -> None:
        self.countdown, self.thought = None, ""
        self._count_usage(event.lost or Usage(), None)
        names = to_line(", ".join(event.tools), 80)
        self.status = f"⚠️ The provider refused a request; the results of {names} are withheld"

    def _end_partial(self, key: str, event: ModelFailed | TurnInterrupted) -> None:
        if event.partial is None:
            self._answer.break_off()
            return
        self._partial = escape_invisible(event.partial.text)
        self._answer.finish(key, self.turn, event.partial, unfinished=True)

    def _schedule(self, notice: RetryScheduled, at: float) -> None:
        self.countdown = Countdown(
            until=at + notice.delay,
            attempt=notice.attempt,
            most=notice.max_retries,
            reason=to_line(notice.error.safe, 120),
            tool=to_line(notice.tool, 80),
        )

    def _change_breaker(self, notice: BreakerChanged, _at: float) -> None:
        if notice.after == "open":
            pause = f" for {notice.seconds:.0f} s" if notice.seconds else ""
            self.status = f"⚠️ {to_line(notice.target, 80)} fails too often and is not called{pause}"

    def _start_tool(self, notice: ToolStarted, at: float) -> None:
        self.countdown = None
        self.status = f"🔧 Using {to_line(notice.name, 80)}..."
        self._tools.start("", notice, at)

    def _finish_tool(self, event: ToolFinished, at: float) -> None:
        self._count_usage(event.usage, None)
        block = self._tools.finish("", event, at)
        done = block is not None and block.state is ToolState.SUCCESS
        self._last_tool = block.name if block is not None and done else ""

    def _ask(self, event: QuestionAsked, _at: float) -> None:
        self._tools.ask("", event)

    def _take_answer(self, event: QuestionAnswered | QuestionUnanswered, _at: float) -> None:
        self._tools.answer("", event)

    def _interrupt(self, event: TurnInterrupted, _at: float) -> None:
        self._count_usage(event.partial.usage if event.partial else Usage(), event.usage)
        if event.partial is not None and event.partial.text:
            self._end_partial(self._answer.key or f"{event.key}.model", event)
        else:
            self._answer.break_off()
        self._tools.interrupt("", event)

    def _stop(self, event: TurnStopped, _at: float) -> None:
        self._stopped = event
        self._answer.break_off()

    def _close(self, event: TurnClosed, _at: float) -> None:
        self._tools.close("")
        stopped = self._stopped
        info = event.error or (stopped.error if stopped is not None else None)
        text = escape_invisible(stopped.text or stopped.reason) if stopped else self._text
        by_limit = stopped is not None and stopped.by == UsageLimits.__name__
        outcome = describe_end(event.status, info, text, self._partial, by_limit=by_limit)
        if outcome.kind is OutcomeKind.DONE and not text.strip() and self._last_tool:
            done = f"Analysis complete. Executed {self._last_tool} successfully."
            outcome = Outcome(kind=OutcomeKind.DONE, text=done)
            self._list.add(NoteBlock(id=event.key, text=done, turn=self.turn))
        self._end_turn(outcome, event.key)

    def _end_turn(self, outcome: Outcome, note_id: str) -> None:
        self._answer.break_off()
        self.running, self.countdown, self.thought = False, None, ""
        self.outcome, self.status = outcome, outcome.status
        if outcome.kind not in (OutcomeKind.DONE, OutcomeKind.WAITING):
            self._list.add(
                NoteBlock(id=note_id, text=outcome.text, kind=outcome.kind, turn=self.turn)
            )

    def _rewind(self, event: SessionRewound, _at: float) -> None:
        number = self.turn = _turn_of(event.key)
        self._rewinds[number] = event.to
        alive = set(list_surviving_turns(number, self._rewinds))
        for block in self._list.blocks:
            undone = bool(block.turn) and block.turn not in alive
            if block.undone != undone:
                block.undone = undone
                self._list.mark(block)

    def _compact(self, event: HistoryCompacted, _at: float) -> None:
        self.turn = _turn_of(event.key)
        self._list.add(NoteBlock(id=event.key, text=COMPACTED_TEXT))

    def _apply_nested(self, nested: FromAgent, at: float) -> None:
        """Apply an item of an agent that works for a tool: its calls are shown, its texts are not."""
        scope = f"{nested.key}/" if len(nested.chain) == 1 else f"{nested.key}/{nested.chain[:-1]}/"
        agent = nested.chain[-1]
        match nested.item:
            case ModelReplied() as event:
                self._add_calls(scope, event, at, agent)
            case ToolStarted() as event:
                self.status = f"🔧 Using {to_line(event.name, 80)} (via {to_line(agent, 80)})..."
                self._tools.start(scope, event, at)
            case ToolFinished() as event:
                self._tools.finish(scope, event, at)
            case QuestionAsked() as event:
                self._tools.ask(scope, event)
            case QuestionAnswered() | QuestionUnanswered() as event:
                self._tools.answer(scope, event)
            case TurnInterrupted() as event:
                self._tools.interrupt(scope, event)
            case TurnClosed():
                self._tools.close(scope)
            case RetryScheduled() as event:
                self._schedule(event, at)
            case _:
                pass

    def _count_usage(self, usage: Usage, lost: Usage | None) -> None:
        for one in (usage, lost):
            if one is not None:
                self.usage += one
                if self._price is not None and self.cost is not None:
                    cost = self._price(one)
                    self.cost = None if cost is None else self.cost + cost

    def _make_handlers(self) -> dict[type, Callable[[Any, float], None]]:
        return {
            TurnOpened: self._open,
            AttemptStarted: self._begin_attempt,
            TextDelta: self._add_text,
            ReasoningDelta: self._add_thought,
            ToolCallDelta: self._name_tool,
            AttemptAbandoned: self._abandon,
            ReplyReplaced: self._replace,
            ModelReplied: self._reply,
            ModelFailed: self._fail_reply,
            ResultsWithheld: self._withhold,
            RetryScheduled: self._schedule,
            BreakerChanged: self._change_breaker,
            ToolStarted: self._start_tool,
            ToolFinished: self._finish_tool,
            QuestionAsked: self._ask,
            QuestionAnswered: self._take_answer,
            QuestionUnanswered: self._take_answer,
            TurnInterrupted: self._interrupt,
            TurnStopped: self._stop,
            TurnClosed: self._close,
            SessionRewound: self._rewind,
            HistoryCompacted: self._compact,
            FromAgent: self._apply_nested,
        }


def place_of(notice_key: str, chain: Sequence[str] = ()) -> str:
    """Return the id of the block of the call with this key, for `add_output` and `judge`.

    Args:
        notice_key: the key of the call in its own run.
        chain: where that run is, as `FromAgent` says: the key of the calling tool, and the agents.
    """
    if not chain:
        return notice_key
    key, *agents = chain
    scope = f"{key}/" if len(agents) == 1 else f"{key}/{tuple(agents[:-1])}/"
    return scope + notice_key


def _turn_of(key: str) -> int:
    match = _TURN.match(key)
    return int(match[1]) if match else 0


def _text_of(message: Message) -> str:
    media = [getattr(part, "media_type", "") for part in message.parts]
    shown = ", ".join(kind for kind in media if kind)
    return message.text or f"[{shown}]"
