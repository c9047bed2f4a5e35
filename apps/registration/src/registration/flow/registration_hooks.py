"""The middleware of a registration: the server decides each iteration, and the model reads or words.

Its hooks ask `next_action` for the next action. Where the model fails, code reads the answer if it can, and the
text of the step is said as it is. This module must never change a conversation; the tools do. A mistake of this
program is named by its kind and place: its text may quote a parent, so it must never be read.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from holdfast import HoldfastError, Message, ModelSettings, Reply, ToolResult
from holdfast.compat import AgentResponse, ReRegistrationAgentResponse
from holdfast.middleware import (
    AfterReply,
    BeforeIteration,
    CallTools,
    Middleware,
    ModelCall,
    Patch,
    Stop,
    ToolUse,
    UseReply,
)
from holdfast.tools import ToolError
from registration.club.codes import read_code
from registration.club.journey import ask_of
from registration.club.plain_reading import read_plainly
from registration.club.progress import Progress, Reading
from registration.club.wording import ask, open_question
from registration.flow.checked_words import find_fault
from registration.flow.conversations import Conversation, load_conversation
from registration.flow.model_calls import (
    SUBMIT,
    CallKind,
    calls_exactly_once,
    find_reading,
)
from registration.flow.next_action import (
    AskAgain,
    CallTool,
    EndTurn,
    LetRead,
    LetWord,
    TurnNotes,
    choose_next,
)
from registration.flow.parts import Parts
from registration.flow.prompts import make_reading_prompt, make_wording_prompt
from registration.providers.connection import ProviderFailure
from registration.store import StoreError

_log = logging.getLogger("registration")

REGISTRATION = "Registration"
CONTINUATION = "Registration Continuation"
"""Types of calls, as the metrics name them."""
_SUPERSEDED = "Your last message was for an earlier question, so I did not use it for this one."


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    agent_final_response: Annotated[str, msgspec.Meta(min_length=1)]
    routine_number: int | None = None


class ConductRegistration(Middleware):
    """Lets the server decide each iteration of a registration.

    Args:
        parts: the parts that the conversation works with.
        names_routine: whether a reply names the number of its step.
    """

    def __init__(self, parts: Parts, *, names_routine: bool) -> None:
        self._parts = parts
        self._names_routine = names_routine

    async def before_iteration(
        self, context: BeforeIteration[Any]
    ) -> Patch | UseReply | CallTools | Stop | None:
        """Call the next tool, or give the model its task."""
        notes = context.shared(TurnNotes)
        notes.began = context.clock() if notes.began is None else notes.began
        session, message = context.session or "", _last_message(context.messages)
        notes.conversation = await load_conversation(self._parts.database, session)
        called = _names_called(context.messages)
        is_code = read_code(message, self._parts.settings.season, ()) is not None
        seen = context.metadata.get("answers_turn")
        notes.next = choose_next(
            notes.conversation,
            _find_turn(context, notes.conversation),
            message,
            called,
            is_code=is_code,
            is_stale=seen not in (None, notes.conversation.turn),
        )
        match notes.next:
            case CallTool(name, arguments):
                return CallTools((name, arguments))
            case LetRead():
                return self._ask_to_read(context, notes.conversation)
            case LetWord():
                return self._ask_for_wording(notes.conversation)
            case AskAgain():
                return self._ask_again(notes.conversation)
            case EndTurn():
                return Stop("a tool fails each time", "")

    def _ask_to_read(self, context: BeforeIteration[Any], conversation: Conversation) -> Patch:
        progress, said = conversation.progress, conversation.said
        assert progress is not None  # noqa: S101  # REASON: `choose_next` lets read only then
        return Patch(
            instructions=make_reading_prompt(
                open_question(progress), said.text if said else "", tuple(progress.answers)
            ),
            tools=tuple(tool for tool in context.tools if tool.name == SUBMIT),
            settings=ModelSettings(tool_choice=SUBMIT),
        )

    def _ask_for_wording(self, conversation: Conversation) -> Patch | UseReply:
        said, progress = conversation.said, conversation.progress
        assert said is not None  # noqa: S101  # REASON: `choose_next` lets only a reply be worded
        if conversation.fixed:
            return UseReply(self._write(said.text, progress))
        step = progress.step if progress is not None and self._names_routine else None
        return Patch(
            instructions=make_wording_prompt(
                said.text, step, said.question or "", self._parts.settings.club_mail
            ),
            tools=(),
        )

    def _ask_again(self, conversation: Conversation) -> UseReply:
        progress = conversation.progress
        assert progress is not None  # noqa: S101  # REASON: a question is open only then
        self._parts.counts.add("messages_superseded")
        return UseReply(self._write(f"{_SUPERSEDED} {ask(progress)}", progress))

    async def wrap_model(
        self, context: ModelCall[Any], call_next: Callable[[ModelCall[Any]], Awaitable[Reply]]
    ) -> Reply:
        """Repeat the call until its reply can be read."""
        notes = context.shared(TurnNotes)
        progress = notes.conversation.progress
        is_reading = isinstance(notes.next, LetRead)
        spent = context.clock() - (notes.began or context.clock())
        limit = self._parts.settings.model_seconds
        kind = CallKind(
            call_type=str(context.metadata.get("call_type", REGISTRATION))
            if self._names_routine
            else "Re-registration",
            session=context.session or "",
            step=None if progress is None else progress.step,
            seconds=max((limit / 2 if is_reading else limit) - spent, 0.1),
        )
        calls = self._parts.calls
        repeat = calls.read_answer if is_reading else calls.phrase_reply
        return await repeat(lambda: call_next(context), kind)

    async def wrap_attempt(
        self,
        context: ToolUse[Any],  # noqa: ARG002  # REASON: the hook has it
        call_next: Callable[[], Awaitable[ToolResult]],
    ) -> ToolResult:
        """Let a mistake in a tool be known by its kind and place: its text may quote a parent."""
        try:
            return await call_next()
        except (HoldfastError, ToolError, StoreError, ProviderFailure):
            raise  # their texts have no personal data
        except Exception as error:  # noqa: BLE001  # REASON: each is named
            raise ToolMistake(name_mistake(error)) from None

    async def after_reply(self, context: AfterReply[Any]) -> UseReply | CallTools | None:
        """Read the answer by code, or say the text as it is, where the model failed."""
        notes = context.shared(TurnNotes)
        if context.replaced or isinstance(notes.next, CallTool):
            return None
        if isinstance(notes.next, LetRead):
            return self._take_reading(context, notes)
        return self._take_wording(context, notes)

    def _take_reading(self, context: AfterReply[Any], notes: TurnNotes) -> CallTools | None:
        reading = None if context.reply is None else find_reading(context.reply)
        if reading is not None:
            is_exact = context.reply is not None and calls_exactly_once(context.reply)
            return None if is_exact else CallTools((SUBMIT, to_arguments(reading)))
        progress = notes.conversation.progress
        assert progress is not None  # noqa: S101  # REASON: as in `_ask_to_read`
        words, asked = _last_message(context.messages), ask_of(progress, self._parts.today())
        plain = read_plainly(open_question(progress), words, asked)
        if not plain.understood:
            return None  # nothing is saved, and the parent is asked to send it again
        notes.degraded = True
        return CallTools((SUBMIT, to_arguments(plain)))

    def _take_wording(self, context: AfterReply[Any], notes: TurnNotes) -> UseReply | None:
        said, progress = notes.conversation.said, notes.conversation.progress
        assert said is not None  # noqa: S101  # REASON: as in `_ask_for_wording`
        words = None if context.reply is None else _read_words(context.reply)
        if words is None:
            notes.degraded = True
            return UseReply(self._write(said.text, progress))
        text, routine = words
        fault = find_fault(text, said.text, self._parts.settings.club_mail)
        if fault is not None:
            _log.warning("session %s: a wording was not shown: %s", context.session, fault)
            self._parts.counts.add("wordings_refused")
            return UseReply(self._write(said.text, progress))
        if not self._names_routine and routine is not None:
            return UseReply(self._write(text, progress))
        if progress is None or not self._names_routine or routine == progress.step:
            return None
        _log.warning("session %s: the model named step %s", context.session, routine)
        self._parts.counts.add("routines_overruled")
        return UseReply(self._write(text, progress))

    def _write(self, text: str, progress: Progress | None) -> str:
        if not self._names_routine:
            return ReRegistrationAgentResponse(agent_final_response=text).model_dump_json()
        step = 1 if progress is None else progress.step
        return AgentResponse(agent_final_response=text, routine_number=step).model_dump_json()


def to_arguments(reading: Reading) -> Mapping[str, object]:
    """Return the arguments of `submit_answer` for a reading."""
    arguments: dict[str, object] = msgspec.to_builtins(reading)
    return arguments


def _read_words(reply: Reply) -> tuple[str, int | None] | None:
    """Return the text and the step that a reply names; None if it is no reply of the wanted form."""
    try:
        found = msgspec.json.decode(reply.text.encode(), type=_Words)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return found.agent_final_response, found.routine_number


def _find_turn(context: BeforeIteration[Any], conversation: Conversation) -> int:
    """Return the turn in which a message was taken: this one, or one that failed after that."""
    message = context.metadata.get("message")
    return conversation.turn if message and message == conversation.message else context.turn


def _this_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages of the turn in progress, which begins with the last message of the parent."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            return messages[index:]
    return messages


def _last_message(messages: Sequence[Message]) -> str:
    return _this_turn(messages)[0].text


def _names_called(messages: Sequence[Message]) -> list[str]:
    return [call.name for message in _this_turn(messages) for call in message.calls]


class ToolMistake(Exception):
    """A tool raised an unexpected exception; the text names its kind and place."""


def name_mistake(error: Exception) -> str:
    """Return the kind of an exception, and the file and line that raised it.

    >>> try:
    ...     {}["07700 900123"]
    ... except KeyError as error:
    ...     name_mistake(error).partition(" at ")[0]
    'KeyError'
    """
    kind, frames = type(error).__name__, traceback.extract_tb(error.__traceback__)
    return f"{kind} at {Path(frames[-1].filename).stem}:{frames[-1].lineno}" if frames else kind
