"""Separates the answers in a copy of a session from those of the original.

An answer is for one session. So an answer to the original is refused by a copy, and a copy does not
remember what somebody allowed or denied for later calls. This matters most for a copy from
elsewhere, which could otherwise bring its own approvals. This module must never change a result.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.events import Event, QuestionAnswered, QuestionAsked, QuestionUnanswered
from holdfast.core.question_log import asked_key
from holdfast.journal.port import Record
from holdfast.resilience.system_clock import new_nonce


def detach_answers(records: Sequence[Record]) -> list[Record]:
    """Return the records of a copy: open questions get a new binding, and no answer is remembered.

    Args:
        records: all records of the original run.
    """
    ended = {
        asked_key(record.event.key)
        for record in records
        if isinstance(record.event, QuestionAnswered | QuestionUnanswered)
    }
    return [_detach(record, ended) for record in records]


def _detach(record: Record, ended: set[str]) -> Record:
    event: Event = record.event
    if isinstance(event, QuestionAsked) and event.key not in ended:
        event = msgspec.structs.replace(event, nonce=new_nonce())
    elif isinstance(event, QuestionAnswered) and isinstance(event.answer, dict):
        once = {name: value for name, value in event.answer.items() if name != "remember"}
        is_permission = once.get("type") in ("approved", "denied")
        event = msgspec.structs.replace(event, answer=once) if is_permission else event
    return record if event is record.event else msgspec.structs.replace(record, event=event)
