"""The blocks of a transcript: a message, an answer, a call of a tool, a note.

A block keeps its id as long as it exists, and changes in place. A reader of a long answer takes only the new
new: `AnswerBlock.pieces` only grows while `AnswerBlock.version` stays the same. A block must never hold a text
that was not escaped.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import Struct, field

from adh.transcript.outcome import OutcomeKind

SHOWN_LINES = 1_000
"""The lines of live output that a tool block keeps: the newest ones."""

SHOWN_PARAMETERS = 3
PARAMETER_LENGTH = 60


class ToolState(StrEnum):
    """The state of a call of a tool, with its icon and its words for a person.

    >>> ToolState.EXECUTING.icon, ToolState.EXECUTING.words
    ('🔧', 'Executing...')
    """

    PENDING = "pending"
    CONFIRMING = "confirming"
    EXECUTING = "executing"
    SUCCESS = "success"
    FAILED = "failed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"

    @property
    def icon(self) -> str:
        """Its sign in the header of the block."""
        return _ICONS[self]

    @property
    def words(self) -> str:
        """Its words in the header of the block."""
        return _WORDS[self]

    @property
    def is_final(self) -> bool:
        """Whether the call is over."""
        return self not in (ToolState.PENDING, ToolState.CONFIRMING, ToolState.EXECUTING)


_ICONS = {
    ToolState.PENDING: "⏳",
    ToolState.CONFIRMING: "⚠️",
    ToolState.EXECUTING: "🔧",
    ToolState.SUCCESS: "✅",
    ToolState.FAILED: "❌",
    ToolState.BLOCKED: "🚫",
    ToolState.CANCELLED: "⊗",
    ToolState.IN_DOUBT: "❓",
}
_WORDS = {
    ToolState.PENDING: "Pending",
    ToolState.CONFIRMING: "Awaiting Confirmation",
    ToolState.EXECUTING: "Executing...",
    ToolState.SUCCESS: "Completed",
    ToolState.FAILED: "Failed",
    ToolState.BLOCKED: "Blocked by Policy",
    ToolState.CANCELLED: "Cancelled",
    ToolState.IN_DOUBT: "In doubt: it may have taken effect",
}


class Parameter(Struct, frozen=True):
    """One parameter of a call as its header shows it.

    Args:
        name: its name.
        text: its value in one line of at most `PARAMETER_LENGTH` characters.
        length: the length of the whole value, if `text` is cut; otherwise 0.
    """

    name: str
    text: str
    length: int = 0

    def __str__(self) -> str:
        cut = f" ({self.length:,} characters)" if self.length else ""
        return f"{self.name}={self.text}{cut}"


class OutputLine(Struct, frozen=True):
    """A line of live output of a tool."""

    stream: Literal["stdout", "stderr"]
    text: str


class PersonBlock(Struct, kw_only=True):
    """A message of the person.

    Args:
        id: names the block.
        text: the message.
        turn: the number of its turn; 0 until the turn has begun.
        queued: whether it waits for the turns before it.
        undone: whether its turn was rewound.
    """

    id: str
    text: str
    turn: int = 0
    queued: bool = False
    undone: bool = False


class AnswerBlock(Struct, kw_only=True):
    """A text of the model.

    Args:
        id: names the block.
        turn: the number of its turn.
        pieces: the text in pieces. It only grows as long as `version` stays the same.
        version: changes when the text before is void, and `pieces` begins anew.
        state: "streaming" while it grows; "unfinished" when it broke off (shown grey, with "not finished").
        thought: the first line of the reasoning before it.
        agent: the agent that wrote it, when it is not the conversation's own.
        undone: whether its turn was rewound.
    """

    id: str
    turn: int
    pieces: list[str] = field(default_factory=list)
    version: int = 0
    state: Literal["streaming", "done", "unfinished"] = "streaming"
    thought: str = ""
    agent: str = ""
    undone: bool = False

    @property
    def text(self) -> str:
        """The whole text. It takes time in proportion to the length: read `pieces` while it streams."""
        return "".join(self.pieces)


class ToolBlock(Struct, kw_only=True):
    """A call of a tool.

    Args:
        id: names the block.
        turn: the number of its turn.
        name: the tool.
        state: how far the call is.
        parameters: the first parameters, cut for the header.
        hidden_parameters: how many parameters are not in `parameters`.
        arguments: all parameters as text, for the body.
        agent: the agent that delegated work runs in: shown as "(via {agent})"; empty for none.
        result: the result of the tool.
        error: why it failed, was blocked or cancelled.
        output: the newest lines of its live output.
        dropped_lines: how many lines of live output came before those.
        started: when it began, in seconds of the clock that `Transcript.apply` gets; None before.
        elapsed: how long it ran, in seconds; None if that was not measured.
        ending: how a command ended that did not succeed, such as "exit status 1"; otherwise empty.
        level, risk, rule: the decision of the rules; empty if there is none yet.
        undone: whether its turn was rewound.
    """

    id: str
    turn: int
    name: str
    state: ToolState = ToolState.PENDING
    parameters: tuple[Parameter, ...] = ()
    hidden_parameters: int = 0
    arguments: str = ""
    agent: str = ""
    result: str = ""
    error: str = ""
    output: deque[OutputLine] = field(default_factory=lambda: deque(maxlen=SHOWN_LINES))
    dropped_lines: int = 0
    started: float | None = None
    elapsed: float | None = None
    ending: str = ""
    level: str = ""
    risk: str = ""
    rule: str = ""
    undone: bool = False

    @property
    def header(self) -> str:
        """The first line of the block.

        >>> ToolBlock(id="t1.i0.tool.0", turn=1, name="read_file", agent="tester").header
        '⏳ read_file (via tester) · Pending'
        """
        shown = [str(one) for one in self.parameters]
        if self.hidden_parameters:
            shown.append(f"+{self.hidden_parameters} more")
        call = f"{self.name}({', '.join(shown)})" if shown else self.name
        via = f" (via {self.agent})" if self.agent else ""
        time = f" ({self.elapsed:.2f}s)" if self.elapsed is not None else ""
        ending = f", {self.ending}" if self.ending else ""
        return f"{self.state.icon} {call}{via} · {self.state.words}{ending}{time}"


class NoteBlock(Struct, kw_only=True):
    """A note of the program: why a turn ended, or something that the person must know.

    Args:
        id: names the block.
        text: the note.
        kind: the kind of the outcome that it shows; None for another note.
        turn: the number of its turn; 0 for none.
        undone: whether its turn was rewound.
    """

    id: str
    text: str
    kind: OutcomeKind | None = None
    turn: int = 0
    undone: bool = False


Block: TypeAlias = PersonBlock | AnswerBlock | ToolBlock | NoteBlock


class Countdown(Struct, frozen=True):
    """The wait before another attempt. Esc ends it with the turn.

    Args:
        until: when the wait ends, in seconds of the clock that `Transcript.apply` gets.
        attempt: the attempt that failed, from 1.
        most: how many retries are made at most.
        reason: why the attempt failed.
        tool: the tool that is tried again; empty for the model.
    """

    until: float
    attempt: int
    most: int
    reason: str
    tool: str = ""

    def describe(self, now: float) -> str:
        """Return the line for a person.

        >>> Countdown(112.2, 1, 3, "429 Too Many Requests").describe(100.0)
        '⏳ Trying again in 13 s (1 of 3): 429 Too Many Requests · Esc stops'
        """
        left = max(0, -int((now - self.until) // 1))
        return f"⏳ Trying again in {left} s ({self.attempt} of {self.most}): {self.reason} · Esc stops"
