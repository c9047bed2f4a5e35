"""Restores questions from the events of a journal.

Only a class that this process has imported can say what type an answer must have. A question of any
other kind is restored as `UnknownQuestion`; this module must never guess the type of its answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b

import msgspec

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import QuestionAsked
from holdfast.core.question_log import ASKED
from holdfast.core.questions import AnyQuestion, Question

_encode = msgspec.json.Encoder(order="deterministic").encode


class UnknownQuestion(Question[object], frozen=True, kw_only=True):
    """A question whose class this process does not know.

    Args:
        kind: the name of its class.
        content: its fields.
    """

    kind: str
    content: Mapping[str, object] = {}


def compute_binding(event: QuestionAsked, run_id: str) -> str:
    """Return a digest of the run, the question and what it shows.

    The nonce distinguishes questions that are otherwise equal, such as those of two sessions that had
    the same name one after the other.

    Args:
        event: the saved question.
        run_id: the run that asks it.
    """
    parts = (run_id, event.nonce, event.key, event.kind, event.question, event.origin)
    return blake2b(_encode(parts), digest_size=16).hexdigest()


def restore_question(event: QuestionAsked, run_id: str) -> AnyQuestion:
    """Return the question of a saved event, with its key and its binding.

    Args:
        event: the saved question.
        run_id: the run that asks it.

    >>> event = QuestionAsked("t1.i0.tool.0.ask.0.asked", 0.0, "Permit", {"tool": "pay"})
    >>> restore_question(event, "ada").content
    {'tool': 'pay'}
    """
    key, binding = event.key.removesuffix(ASKED), compute_binding(event, run_id)
    plain = event.question if isinstance(event.question, dict) else {}
    # In a notebook two classes may have one name; the newer definition counts.
    for kind in reversed(list(_subclasses_of(Question))):
        if kind.__name__ != event.kind:
            continue
        try:
            return msgspec.convert({**plain, "key": key, "binding": binding}, kind, str_keys=True)
        except (msgspec.ValidationError, ConfigurationError):
            continue
    return UnknownQuestion(key=key, binding=binding, kind=event.kind, content=plain)


def require_known_kind(question: AnyQuestion) -> AnyQuestion:
    """Return the question if this process knows its class. Raises ConfigurationError otherwise."""
    if isinstance(question, UnknownQuestion):
        raise ConfigurationError(
            "answer",
            f"belongs to a {question.kind}, which this process does not know",
            fix="Import the module that defines it",
        )
    return question


def _subclasses_of(parent: type[AnyQuestion]) -> Iterator[type[AnyQuestion]]:
    for kind in parent.__subclasses__():
        yield kind
        yield from _subclasses_of(kind)
