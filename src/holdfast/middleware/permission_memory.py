"""What `ToolPermission` remembers of questions and answers, as a fold over events.

It must never keep an answer that was given to another agent: a question that is passed on for a
subagent is about a tool of that agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from holdfast.core.events import Event, QuestionAnswered, QuestionAsked, QuestionUnanswered
from holdfast.core.question_log import ASKED, asker_key
from holdfast.core.questions import Approved, Denied, PermissionQuestion

SOURCE = "ToolPermission"
CHANGED_SOURCE = "ToolPermission, for a call that a hook changed"

Arguments: TypeAlias = Mapping[str, object]
V = TypeVar("V")

_encode = msgspec.json.Encoder(order="deterministic").encode


class Preference(Struct, frozen=True, gc=False):
    """A remembered answer, which ends at `expires_at`, in seconds since the epoch."""

    allows: bool
    expires_at: float | None = None

    def counts_at(self, now: float) -> bool:
        """Whether it still counts."""
        return self.expires_at is None or now < self.expires_at


class PermissionMemory(Struct, frozen=True):
    """The answers of this session.

    Args:
        open_questions: the tool and the call of each open question, by the key of the question.
        tools: the remembered answers for all calls of a tool, by its name.
        calls: the remembered answers for one tool with its arguments, by the signature of the call.
        shown_arguments: the arguments that a person was asked about, by the key of the call.
        approved_arguments: the arguments that a person approved, by the key of the call.
    """

    open_questions: Mapping[str, tuple[str, str]] = {}
    tools: Mapping[str, Preference] = {}
    calls: Mapping[str, Preference] = {}
    shown_arguments: Mapping[str, Arguments] = {}
    approved_arguments: Mapping[str, Arguments] = {}

    def find_preference(self, tool: str, arguments: Arguments, now: float) -> bool | None:
        """Return the remembered answer for a call, or None. The call itself counts before its tool."""
        for found in (self.calls.get(call_signature(tool, arguments)), self.tools.get(tool)):
            if found is not None and found.counts_at(now):
                return found.allows
        return None

    def approved_call(self, key: str, arguments: Arguments | None) -> bool:
        """Whether a person approved exactly these arguments for the call with this key."""
        approved = self.approved_arguments.get(key)
        return approved is not None and arguments is not None and is_same(approved, arguments)


def is_same(one: Arguments, other: Arguments) -> bool:
    """Whether two mappings of arguments are equal as JSON."""
    return _encode(one) == _encode(other)


def argument_text(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else _encode(value).decode()


def call_signature(tool: str, arguments: Arguments) -> str:
    """Return a text that is the same for equal calls."""
    return argument_text([tool, arguments])


def fold_answers(memory: PermissionMemory, event: Event) -> PermissionMemory:
    """Return the memory after an event. The end of a call removes what belongs to this call alone."""
    if isinstance(event, QuestionAsked):
        return _record_question(memory, event)
    if isinstance(event, QuestionAnswered) and event.key in memory.open_questions:
        return _record_answer(memory, event)
    if isinstance(event, QuestionUnanswered) and event.key in memory.open_questions:
        left = _without(memory.open_questions, event.key)
        return msgspec.structs.replace(memory, open_questions=left)
    if event.key in memory.shown_arguments:
        return msgspec.structs.replace(
            memory,
            shown_arguments=_without(memory.shown_arguments, event.key),
            approved_arguments=_without(memory.approved_arguments, event.key),
        )
    return memory


def _without(mapping: Mapping[str, V], key: str) -> Mapping[str, V]:
    return {other: value for other, value in mapping.items() if other != key}


def _record_question(memory: PermissionMemory, event: QuestionAsked) -> PermissionMemory:
    if event.kind != PermissionQuestion.__name__ or event.origin:
        return memory
    question = msgspec.convert(event.question, PermissionQuestion)
    if question.source not in (SOURCE, CHANGED_SOURCE):
        return memory
    key = event.key.removesuffix(ASKED)
    call = (question.tool, call_signature(question.tool, question.arguments))
    shown = memory.shown_arguments
    if question.source == SOURCE:
        shown = {**shown, asker_key(key): question.arguments}
    return msgspec.structs.replace(
        memory, open_questions={**memory.open_questions, key: call}, shown_arguments=shown
    )


def _record_answer(memory: PermissionMemory, event: QuestionAnswered) -> PermissionMemory:
    tool, call = memory.open_questions[event.key]
    answer = msgspec.convert(event.answer, Approved | Denied)
    changed = answer.arguments if isinstance(answer, Approved) else None
    preference = Preference(isinstance(answer, Approved), event.expires_at)
    tools, calls, approved = memory.tools, memory.calls, memory.approved_arguments
    if answer.remember == "tool":
        tools = {**tools, tool: preference}
    elif answer.remember == "call":
        calls = {**calls, call if changed is None else call_signature(tool, changed): preference}
    key = asker_key(event.key)
    arguments = memory.shown_arguments.get(key) if changed is None else changed
    if isinstance(answer, Approved) and arguments is not None:
        approved = {**approved, key: arguments}
    left = _without(memory.open_questions, event.key)
    return PermissionMemory(left, tools, calls, memory.shown_arguments, approved)
