"""Words open questions as interrupts, and reads the answers that `resume` gives. This module is pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.errors import ConfigurationError
from holdfast.core.questions import (
    CANCELLED_TEXT,
    AnyAnswer,
    AnyQuestion,
    ClarificationQuestion,
    ContinuationQuestion,
    PermissionQuestion,
    question_content,
    restore_answer,
)
from holdfast.event_log.display.display_items import QuestionShown, question_id
from holdfast.event_log.text_fold import notice_name

_DECISION: dict[str, object] = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


class ResumeEntry(Struct, frozen=True, rename="camel"):
    """The answer to one interrupt.

    Args:
        interrupt_id: the interrupt.
        status: whether it was answered or given up.
        payload: the answer.
    """

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: object = None


def format_interrupt(shown: QuestionShown) -> dict[str, object]:
    """Return an open question as an interrupt."""
    question = shown.question
    interrupt: dict[str, object] = {
        "id": question_id(question),
        "reason": _reason_of(question),
        "message": _message_of(question),
        "metadata": {"kind": notice_name(type(question)), **question_content(question)},
    }
    schema = _schema_of(question)
    if schema is not None:
        interrupt["responseSchema"] = schema
    if shown.call:
        interrupt["toolCallId"] = shown.call
    if shown.until is not None:
        until = datetime.fromtimestamp(shown.until, UTC)
        interrupt["expiresAt"] = until.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return interrupt


def _reason_of(question: AnyQuestion) -> str:
    if isinstance(question, PermissionQuestion):
        return "tool_call"
    return "confirmation" if isinstance(question, ContinuationQuestion) else "input_required"


def _message_of(question: AnyQuestion) -> str:
    if isinstance(question, PermissionQuestion):
        return f"May {question.tool} run?"
    if isinstance(question, ContinuationQuestion):
        return f"The limit of {question.limit} iterations is reached. May the turn continue?"
    if isinstance(question, ClarificationQuestion):
        return question.question
    return f"An answer is needed: {type(question).__name__}"


def _schema_of(question: AnyQuestion) -> dict[str, object] | None:
    if isinstance(question, PermissionQuestion):
        edited = {"arguments": {"type": "object"}}
        properties = _DECISION["properties"]
        both = {**properties, **edited} if isinstance(properties, dict) else edited
        return {**_DECISION, "properties": both}
    if isinstance(question, ContinuationQuestion):
        return _DECISION
    if isinstance(question, ClarificationQuestion):
        schema: dict[str, object] = {"type": "string"}
        return {**schema, "examples": list(question.options)} if question.options else schema
    return None


def read_resume(question: AnyQuestion, entry: ResumeEntry, by: str) -> AnyAnswer | None:
    """Return the answer of an entry; None if it gives up a question that has no "no".

    Args:
        question: the question that the entry names.
        entry: the entry.
        by: who answers.

    Raises:
        ConfigurationError: the payload is not an answer to the question.
        AnswerTypeError: the question asks for another type.
    """
    if entry.status == "cancelled":
        if isinstance(question, PermissionQuestion | ContinuationQuestion):
            return question.deny(CANCELLED_TEXT, by=by)
        if isinstance(question, ClientToolQuestion):
            return question.give(CANCELLED_TEXT, is_error=True, by=by)
        return None
    if isinstance(question, PermissionQuestion | ContinuationQuestion):
        return _read_decision(question, entry.payload, by)
    return question.answer(restore_answer(question, entry.payload), by=by)


def _read_decision(
    question: PermissionQuestion | ContinuationQuestion, payload: object, by: str
) -> AnyAnswer:
    given = payload if isinstance(payload, Mapping) else {"approved": payload}
    approved, reason, edited = given.get("approved"), given.get("reason"), given.get("arguments")
    if not isinstance(approved, bool):
        raise ConfigurationError(
            "resume.payload.approved", "must be true or false", fix='Send {"approved": true}'
        )
    if not approved:
        is_said = isinstance(reason, str) and reason
        return question.deny(str(reason), by=by) if is_said else question.deny(by=by)
    if edited is not None and not isinstance(edited, Mapping):
        raise ConfigurationError("resume.payload.arguments", "must be an object")
    if isinstance(question, PermissionQuestion):
        return question.approve(arguments=edited, by=by)
    return question.approve(by=by)
