"""The parts of a conversation and of its workspace that the screen needs, as protocols and plain values.

It must never import their implementations, so that the screen starts before the agent is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from adh.storage.settings import Settings
    from adh.transcript.blocks import Block, Countdown


class FooterFacts(Struct, frozen=True, kw_only=True):
    """The facts of a session that the footer shows.

    Args:
        folder: the folder of the project.
        branch: the git branch; empty without a repository.
        agent: the name of the agent.
        model: the model, as the settings name it.
        session: the id of the session.
        safety: whether the safety switch is on.
    """

    folder: str
    branch: str = ""
    agent: str = ""
    model: str = ""
    session: str = ""
    safety: bool = True


class RuleRow(Struct, frozen=True, kw_only=True):
    """A rule as the viewer shows it, in the order of decision."""

    name: str
    pattern: str
    level: str
    risk: str
    priority: int
    origin: str
    conditions: str = ""
    checks: str = ""
    restrictions: str = ""
    enabled: bool = True


class Choice(Struct, frozen=True):
    """One of several things to choose from: its value, and a line about it."""

    value: str
    about: str = ""


class UndoneFile(Protocol):
    """A file that an undo changes."""

    @property
    def path(self) -> str:
        """The absolute path."""
        ...

    @property
    def action(self) -> str:
        """The action on it."""
        ...

    @property
    def refusal(self) -> str:
        """Why it cannot be undone; empty if it can."""
        ...

    @property
    def diff(self) -> str:
        """The difference that the undo makes; empty if it is not text."""
        ...


class UndoView(Protocol):
    """The plan of an undo, as the person reads it before it is done."""

    @property
    def summary(self) -> str:
        """The turn that would be undone, in a line."""
        ...

    @property
    def files(self) -> Sequence[UndoneFile]:
        """The files that would change."""
        ...


class UsageView(Protocol):
    """The tokens of a session."""

    @property
    def total(self) -> int:
        """All tokens so far."""
        ...


class TranscriptView(Protocol):
    """The part of a transcript that the screen reads."""

    @property
    def blocks(self) -> Sequence[Block]:
        """All blocks, in order."""
        ...

    @property
    def status(self) -> str:
        """The status line of the turn in progress; empty for none."""
        ...

    @property
    def thought(self) -> str:
        """The first line of the model's newest thought; empty for none."""
        ...

    @property
    def countdown(self) -> Countdown | None:
        """The wait before another attempt."""
        ...

    @property
    def usage(self) -> UsageView:
        """The tokens so far."""
        ...

    @property
    def cost(self) -> float | None:
        """Their price, in dollars; None if it is unknown."""
        ...


class AskedQuestion(Protocol):
    """A question of the conversation that waits for its answer."""

    @property
    def question(self) -> object:
        """The question of the library."""
        ...


class ConversationPort(Protocol):
    """A conversation, as the screen drives it.

    The screen sets these before `start`. They are called on the event loop: `on_change` with the ids of changed
    blocks; `on_question` with a question; `on_question_closed` with one that needs no answer from here any
    more, because its time is over or it was answered elsewhere; `on_notify` with a line to show for five seconds.
    """

    on_change: Callable[[tuple[str, ...]], None]
    on_question: Callable[[Any], None] | None
    on_question_closed: Callable[[Any], None]
    on_notify: Callable[[str], None]

    @property
    def transcript(self) -> TranscriptView:
        """The transcript so far."""
        ...

    @property
    def queue(self) -> Sequence[str]:
        """The messages that wait for the turns before them."""
        ...

    @property
    def is_running(self) -> bool:
        """Whether a turn is in progress."""
        ...

    @property
    def problem(self) -> str:
        """Why no message can be answered, which is also a note of the transcript; empty if one can."""
        ...

    async def start(self) -> None:
        """Begin; an interrupted turn continues, and its questions are asked again."""
        ...

    def send(self, text: str) -> None:
        """Send a message, now or after the turns before it."""
        ...

    def answer(self, question: Any, answer: Any) -> object:
        """Give an answer. The result is false if it came too late, and has a `reason` then."""
        ...

    def stop(self) -> None:
        """Stop the turn in progress, and the wait before a retry."""
        ...

    async def close(self) -> None:
        """End, and leave an open question open."""
        ...

    async def undo_preview(self) -> UndoView | None:
        """Return the plan to undo the newest turn; None if there is nothing to undo."""
        ...

    async def undo(self, plan: Any) -> object:
        """Undo as planned. Raises an exception with a text for the person."""
        ...

    async def clear(self) -> None:
        """Close this session and begin another."""
        ...

    async def export(self) -> Iterable[Path]:
        """Write the session as Markdown and as JSON lines, and return the files."""
        ...


class WorkspacePort(Protocol):
    """The surroundings of a conversation: settings, rules, models, agents, keys."""

    @property
    def facts(self) -> FooterFacts:
        """The facts that the footer shows."""
        ...

    @property
    def settings(self) -> Settings:
        """The settings that hold."""
        ...

    def change_settings(self, changes: Mapping[str, object]) -> None:
        """Change and save settings. Raises an exception with a text for the person."""
        ...

    @property
    def untrusted(self) -> Sequence[str]:
        """The files for agents of the project that are not used, since its folder is not trusted."""
        ...

    def trust_project(self) -> None:
        """Trust the folder of the project. Raises an exception with a text for the person."""
        ...

    def list_rules(self) -> Sequence[RuleRow]:
        """Return the rules that hold, in the order of decision."""
        ...

    def list_models(self) -> Sequence[Choice]:
        """Return the models to choose from."""
        ...

    def list_agents(self) -> Sequence[Choice]:
        """Return the agents to choose from."""
        ...

    def list_key_names(self) -> Sequence[Choice]:
        """Return the names of the API keys that can be saved, such as "GEMINI_API_KEY"."""
        ...

    def set_safety(self, on: bool) -> None:
        """Turn the safety switch, for this session."""
        ...

    def save_key(self, name: str, key: str) -> str:
        """Save an API key in the system's keychain, and return where it is. Raises with a text."""
        ...


class OpenChat(Struct, frozen=True):
    """A conversation that is open, and the workspace around it."""

    conversation: ConversationPort
    workspace: WorkspacePort


ChatOpener: TypeAlias = Callable[[], AbstractAsyncContextManager[OpenChat]]
"""Opens the workspace and a conversation in it, and closes both. The screen shows its prompt before."""
