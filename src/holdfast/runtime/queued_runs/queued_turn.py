"""A turn as the inbox saves it: the message, and the arguments that JSON can express.

This module must never start a turn.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.errors import ConfigurationError
from holdfast.core.json_schema import JsonSchema
from holdfast.core.limits import Limits
from holdfast.core.messages import Message
from holdfast.core.turn_options import NO_OPTIONS, TurnOptions
from holdfast.journal.encoding import parse_json, to_ascii_json
from holdfast.runtime.turn_state.turn_input import TurnInput, to_message


class QueuedTurn(Struct, frozen=True, omit_defaults=True):
    """The data with which a worker begins a turn.

    Args:
        message: the message.
        history: the messages before the first turn of the session.
        limits: the limits of the turn; None for those of the agent.
        options: the other options of the turn.
    """

    message: Message
    history: tuple[Message, ...] = ()
    limits: Limits | None = None
    options: TurnOptions = NO_OPTIONS

    @property
    def output(self) -> JsonSchema | None:
        """The type of the output; None for that of the agent."""
        return self.options.output

    def make_keywords(self) -> dict[str, Any]:
        """Return the keywords for `Agent.stream`, without the message and the output."""
        options = self.options
        given: dict[str, Any] = {
            "history": self.history,
            "limits": self.limits,
            "model": options.model,
            "settings": options.settings,
            "metadata": options.metadata,
            "instructions": options.instructions,
            "tools": options.client_tools,
            "by": options.by,
            "trace": options.trace,
        }
        return {name: value for name, value in given.items() if value}


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(QueuedTurn)


def _encode(value: object) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return to_ascii_json(value, "deterministic")


def _decode(body: bytes) -> QueuedTurn:
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError:
        return msgspec.convert(parse_json(body), QueuedTurn)  # which accepts lone surrogates


def encode_turn(turn: TurnInput) -> bytes:
    """Return a turn as JSON.

    Args:
        turn: the arguments of the turn.

    Raises:
        ConfigurationError: JSON cannot express one of them, such as a function.
    """
    options = turn.options or NO_OPTIONS
    for name in options.fingerprints:
        raise ConfigurationError(
            name,
            "cannot be queued: another process runs the turn",
            fix="Give it to the Agent, which each worker has",
        )
    if turn.deps is not None:
        raise ConfigurationError(
            "deps",
            "cannot be queued: another process runs the turn",
            fix="Pass metadata=..., or let the tools open what they need",
        )
    return _encode(QueuedTurn(turn.message, tuple(turn.history), turn.limits, options))


def encode_message_turn(message: str, *, by: str = "") -> bytes:
    """Return a turn that is only a message, as JSON, for an agent that only its workers have.

    Args:
        message: the text of the message.
        by: who wants the turn.

    Raises:
        ConfigurationError: the message is empty.
    """
    options = TurnOptions(by=by) if by else None
    return encode_turn(TurnInput(message=to_message(message), options=options))


def decode_turn(body: bytes) -> QueuedTurn:
    """Return the turn of an entry.

    Raises:
        ConfigurationError: a newer version of Holdfast submitted it.

    >>> from holdfast.core.messages import user
    >>> decode_turn(encode_turn(TurnInput(message=user("Hi.")))).message.text
    'Hi.'
    """
    try:
        return _decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ConfigurationError(
            "body", f"is not a turn that this version of Holdfast knows: {error}"
        ) from error


def digest_submission(agent: str, turn: TurnInput) -> str:
    """Return a digest that shows whether two submissions with one request are equal.

    Who makes them, and in which trace, does not count.

    Args:
        agent: the name of the agent.
        turn: the arguments of the turn.

    Raises:
        ConfigurationError: as for `encode_turn`.
    """
    options = replace(turn.options or NO_OPTIONS, by="", trace="")
    parts = _encode([agent, turn.session]) + encode_turn(replace(turn, options=options))
    return sha256(parts).hexdigest()
