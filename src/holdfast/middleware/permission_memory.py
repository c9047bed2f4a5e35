"""The memory of `ToolPermission`: its questions and answers, as a fold over events.

It must never keep an answer that was given to another agent: a question that is passed on for a
subagent is about a tool of that agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.events import Event, QuestionAnswered, QuestionAsked, QuestionUnanswered
from holdfast.core.question_log import ASKED, asker_key, restore_question
from holdfast.core.questions import Approved, Denied, PermissionQuestion

SOURCE = "ToolPermission"
_OF_SOURCE = SOURCE + " by "
_CHANGED = ", for a call that a hook changed"

Arguments: TypeAlias = Mapping[str, object]

_encode = msgspec.json.Encoder(order="deterministic").encode


def source_label(source: str) -> str:
    """Return the value of the field `source` of questions; "" is for pattern rules.

    >>> source_label(""), source_label("Budget")
    ('ToolPermission', 'ToolPermission by Budget')
    """
    return _OF_SOURCE + source if source else SOURCE


def changed_label(label: str) -> str:
    """Return the label of questions about a call that a hook changed after it was judged."""
    return label + _CHANGED


def is_about_written_call(source: object) -> bool:
    """Whether a `ToolPermission` asked this question about a call as the model wrote it."""
    label = source if isinstance(source, str) else ""
    is_ours = label == SOURCE or label.startswith(_OF_SOURCE)
    return is_ours and not label.endswith(_CHANGED)


class Preference(Struct, frozen=True, gc=False):
    """A remembered answer, which ends at `expires_at`, in seconds since the epoch.

    A yes counts only for the tool with the digest that it was given to.
    """

    allows: bool
    expires_at: float | None = None
    tool_digest: str = ""

    def counts_at(self, now: float) -> bool:
        """Whether it still counts."""
        return self.expires_at is None or now < self.expires_at


class Inquiry(Struct, frozen=True):
    """A question about a call that has no result yet, and how it ended.

    Args:
        asked: the question as it was saved.
        ended: its end; None while it is open.
    """

    asked: QuestionAsked
    ended: QuestionAnswered | QuestionUnanswered | None = None

    @property
    def key(self) -> str:
        """The key of the question."""
        return self.asked.key.removesuffix(ASKED)

    @property
    def fields(self) -> PermissionQuestion:
        """The fields that every permission question has, of any class."""
        return _read_fields(self.asked)

    def question(self) -> PermissionQuestion | None:
        """Return the question in its own class, without its key; None if this process lacks the class."""
        found = restore_question(self.asked, "")
        if not isinstance(found, PermissionQuestion):
            return None
        return msgspec.structs.replace(found, key="", binding="")

    def approved_question(self) -> PermissionQuestion:
        """Return the question with the arguments that a person approved."""
        question = self.question() or self.fields
        return msgspec.structs.replace(question, arguments=self.arguments)

    def answer_at(self, now: float) -> Approved | Denied | None:
        """Return the answer that counts at this time; None while the question is open.

        Args:
            now: seconds since the epoch.
        """
        ended = self.ended
        if ended is None:
            return None
        if isinstance(ended, QuestionUnanswered):
            return self.fields.default_answer(ended.why)
        if ended.expires_at is not None and now >= ended.expires_at:
            return self.fields.default_answer("expired")
        return _read_answer(ended)

    @property
    def is_approved(self) -> bool:
        """Whether a person said yes."""
        return isinstance(self.ended, QuestionAnswered) and isinstance(
            _read_answer(self.ended), Approved
        )

    @property
    def arguments(self) -> Arguments:
        """The arguments that a person approved, or was asked about."""
        answer = _read_answer(self.ended) if isinstance(self.ended, QuestionAnswered) else None
        changed = answer.arguments if isinstance(answer, Approved) else None
        return self.fields.arguments if changed is None else changed


class PermissionMemory(Struct, frozen=True):
    """The answers of this session.

    Args:
        inquiries: the questions about each call that has no result yet, in the order in which they
            were asked, by the key of the call.
        tools: the remembered answers for all calls of a tool, by its name.
        calls: the remembered answers for one tool with its arguments, by the signature of the call.
    """

    inquiries: Mapping[str, tuple[Inquiry, ...]] = {}
    tools: Mapping[str, Preference] = {}
    calls: Mapping[str, Preference] = {}

    def find_preference(
        self, tool: str, arguments: Arguments, now: float, digest: str = ""
    ) -> bool | None:
        """Return the remembered answer for a call, or None. The call itself counts before its tool.

        Args:
            tool: the name of the tool.
            arguments: its arguments.
            now: seconds since the epoch.
            digest: the digest of a tool of a server. A yes to a tool with another one does not count.
        """
        for found in (self.calls.get(call_signature(tool, arguments)), self.tools.get(tool)):
            if found is not None and found.counts_at(now):
                if found.allows and found.tool_digest != digest:
                    continue
                return found.allows
        return None

    def find_approved_digest(self, tool: str, arguments: Arguments, key: str) -> str:
        """Return the digest of the tool that a person approved before; "" for none.

        Args:
            tool: the name of the tool.
            arguments: the arguments of a call.
            key: the key of the call.
        """
        for one in reversed(self.inquiries.get(key, ())):
            if one.is_approved:
                return one.fields.tool_digest
        for found in (self.calls.get(call_signature(tool, arguments)), self.tools.get(tool)):
            if found is not None and found.allows:
                return found.tool_digest
        return ""

    def asked_before(self, key: str, changed_to: Arguments | None) -> tuple[Inquiry, ...]:
        """Return the questions about a call, in the order in which they were asked.

        Args:
            key: the key of the call.
            changed_to: the arguments that a hook gave to the call; then only the questions about these
                arguments count, and the approvals of them. None for the call as the model wrote it.
        """
        found = self.inquiries.get(key)
        if found is None:
            return ()
        if changed_to is None:
            return tuple(one for one in found if is_about_written_call(one.fields.source))
        return tuple(
            one
            for one in found
            if is_same(one.arguments, changed_to)
            and (one.is_approved or not is_about_written_call(one.fields.source))
        )

    def approved_arguments(self, key: str) -> Arguments | None:
        """Return the arguments that a person approved last for the call with this key."""
        for one in reversed(self.asked_before(key, None)):
            if one.is_approved:
                return one.arguments
        return None


_PARTS = ("its name", "its description", "its arguments")


def describe_change(before: str, now: str) -> str:
    """Return what changed between two digests of a tool; "" if nothing, or if one of them is of no server.

    >>> describe_change("a.b.c", "a.x.y")
    'its description and its arguments'
    """
    if not before or not now:
        return ""
    pairs = zip(before.split("."), now.split("."), _PARTS, strict=False)
    return " and ".join(part for old, new, part in pairs if old != new)


def is_same(one: Arguments, other: Arguments) -> bool:
    """Whether two mappings of arguments are equal as JSON."""
    return _encode(one) == _encode(other)


def argument_text(value: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else _encode(value).decode()


def call_signature(tool: str, arguments: Arguments) -> str:
    """Return a text that is the same for equal calls."""
    return argument_text([tool, arguments])


def fold_answers(memory: PermissionMemory, event: Event, label: str = SOURCE) -> PermissionMemory:
    """Return the memory after an event. The end of a call removes the entries that belong to this call alone.

    Args:
        memory: the memory before it.
        event: the event.
        label: the label of the source whose questions are remembered.
    """
    if isinstance(event, QuestionAsked):
        return _record_question(memory, event, (label, changed_label(label)))
    if isinstance(event, QuestionAnswered | QuestionUnanswered):
        return _record_end(memory, event)
    if event.key in memory.inquiries:
        left = {key: found for key, found in memory.inquiries.items() if key != event.key}
        return msgspec.structs.replace(memory, inquiries=left)
    return memory


def _record_question(
    memory: PermissionMemory, event: QuestionAsked, labels: tuple[str, str]
) -> PermissionMemory:
    if event.origin or not isinstance(event.question, dict):
        return memory
    if event.question.get("source") not in labels:
        return memory
    try:
        _read_fields(event)
    except msgspec.ValidationError:
        return memory  # a question of another kind, whose author wrote the same source
    key = asker_key(event.key)
    found = (*memory.inquiries.get(key, ()), Inquiry(event))
    return msgspec.structs.replace(memory, inquiries={**memory.inquiries, key: found})


def _record_end(
    memory: PermissionMemory, event: QuestionAnswered | QuestionUnanswered
) -> PermissionMemory:
    key = asker_key(event.key)
    before = memory.inquiries.get(key, ())
    after = tuple(
        msgspec.structs.replace(one, ended=event)
        if one.key == event.key and one.ended is None
        else one
        for one in before
    )
    if after == before:
        return memory
    memory = msgspec.structs.replace(memory, inquiries={**memory.inquiries, key: after})
    if isinstance(event, QuestionUnanswered):
        return memory
    (answered,) = (one for one in after if one.key == event.key)
    return _remember_answer(memory, answered, event)


def _remember_answer(
    memory: PermissionMemory, inquiry: Inquiry, event: QuestionAnswered
) -> PermissionMemory:
    """Remember an answer that is for later calls too. A yes is not, unless its question may be."""
    question, answer = inquiry.fields, _read_answer(event)
    allows = isinstance(answer, Approved)
    if allows and not question.may_remember:
        return memory
    preference = Preference(allows, event.expires_at, question.tool_digest)
    if answer.remember == "tool":
        tools = {**memory.tools, question.tool: preference}
        return msgspec.structs.replace(memory, tools=tools)
    if answer.remember == "call":
        signature = call_signature(question.tool, inquiry.arguments)
        return msgspec.structs.replace(memory, calls={**memory.calls, signature: preference})
    return memory


def _read_fields(event: QuestionAsked) -> PermissionQuestion:
    return msgspec.convert(event.question, PermissionQuestion)


def _read_answer(event: QuestionAnswered) -> Approved | Denied:
    return msgspec.convert(event.answer, Approved | Denied)
