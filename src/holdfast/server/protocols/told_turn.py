"""A turn as its caller was told it, segment by segment: what text and calls, and with what answers.

It follows from the journal alone. This module must never wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast.core.client_tools import ClientToolResult
from holdfast.core.events import Event, QuestionAnswered, QuestionAsked, TurnOpened
from holdfast.core.question_log import ASKED
from holdfast.event_log.positions import Position
from holdfast.event_log.text_fold import TextFold
from holdfast.server.protocols.segments import (
    Hold,
    SegmentEnded,
    SegmentFold,
    TextAdded,
    find_void_replies,
)

BETWEEN_MESSAGES = "\n\n"
"""What stands between two messages of the model that a protocol tells as one text."""


class ToldSegment(Struct):
    """One segment.

    Args:
        text: its text.
        questions: the questions for which it waits or waited.
        has_ended: whether the turn waits at its end, waited there, or has ended.
    """

    text: str = ""
    questions: tuple[QuestionAsked, ...] = ()
    has_ended: bool = False


class ToldTurn(Struct, frozen=True):
    """A turn as its caller was told it.

    Args:
        opened: the event that opened it.
        segments: its segments so far.
        answers: the results that the caller gave, by the keys of the questions.
        open_keys: the keys of the questions without an answer.
        void: the keys of replies that do not count.
    """

    opened: TurnOpened
    segments: tuple[ToldSegment, ...]
    answers: dict[str, ClientToolResult]
    open_keys: frozenset[str]
    void: frozenset[str]


def tell_turn(events: Sequence[Event], hold: Hold) -> ToldTurn | None:
    """Return the turn to which events belong; None if the first one does not open a turn.

    Args:
        events: its events, from the first on.
        hold: when text is told.
    """
    opened = events[0] if events else None
    if not isinstance(opened, TurnOpened):
        return None
    void = find_void_replies(events)
    # Nothing of the journal is withdrawn, so what was accepted is what was told.
    fold = SegmentFold(None, "accepted" if hold == "no" else hold, void)
    segments, lines = TextFold(Position()), [ToldSegment()]
    key = ""
    for event in events:
        for item in segments.feed(event):
            for told in fold.feed(item):
                if isinstance(told, TextAdded):
                    between = BETWEEN_MESSAGES if lines[-1].text and told.key != key else ""
                    lines[-1].text += between + told.text
                    key = told.key
                elif isinstance(told, SegmentEnded):
                    lines[-1].questions, lines[-1].has_ended = told.questions, True
                    lines.append(ToldSegment())
    del lines[fold.current + 1 :]
    open_keys = frozenset(asked.key.removesuffix(ASKED) for asked in fold.open_questions)
    if not lines[-1].has_ended:
        lines[-1].questions = fold.open_questions
    return ToldTurn(opened, tuple(lines), _collect_answers(events), open_keys, void)


def _collect_answers(events: Sequence[Event]) -> dict[str, ClientToolResult]:
    """Return the results of client tools among the answers."""
    found = {}
    for event in events:
        if isinstance(event, QuestionAnswered):
            try:
                found[event.key] = msgspec.convert(event.answer, ClientToolResult)
            except msgspec.ValidationError:
                continue  # the answer to another kind of question
    return found
