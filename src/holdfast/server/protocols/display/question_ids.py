"""The ids of questions in protocols: they name a question and its binding, so an answer fits one only."""

from __future__ import annotations

from holdfast.core.questions import AnyQuestion

_BETWEEN = "~"


def question_id(question: AnyQuestion) -> str:
    """Return the id of a question that was asked.

    >>> from holdfast.core.questions import ClarificationQuestion
    >>> question_id(ClarificationQuestion(question="Where?", key="t1.i0.tool.0.ask.0", binding="0f"))
    't1.i0.tool.0.ask.0~0f'
    """
    return f"{question.key}{_BETWEEN}{question.binding}"


def parse_question_id(text: str) -> tuple[str, str] | None:
    """Return the key and the binding that an id names; None if it is the id of something else.

    >>> parse_question_id("t1.i0.tool.0.ask.0~0f")
    ('t1.i0.tool.0.ask.0', '0f')
    """
    key, between, binding = text.partition(_BETWEEN)
    return (key, binding) if between and ".ask." in key and binding else None
