"""Turns the body of `POST /turns` into the arguments of a turn, within what the service allows.

A caller is not the author of the agent: a request can lower limits and not raise them, and it reaches
no model and no field of a provider's request that the agent does not open. This module must never
start a turn.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import Limits
from holdfast.core.messages import Media, Text
from holdfast.core.model_request import ModelSettings
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.runtime.turn_state.turn_input import Prompt
from holdfast.server.api.request_bodies import (
    LimitsBody,
    MediaPart,
    MessageBody,
    NewTurn,
    SettingsBody,
)
from holdfast.server.bound_agents import AnyAgent, plan_of


def make_keywords(agent: AnyAgent, body: NewTurn) -> RunKeywords[Any]:
    """Return the keywords of `Agent.stream` for a turn.

    Args:
        agent: the agent.
        body: what the caller wants.

    Raises:
        ConfigurationError: a value does not fit, or is not allowed.
    """
    keywords: RunKeywords[Any] = {}
    if body.session is not UNSET:
        keywords["session"] = body.session
    if body.metadata is not UNSET:
        keywords["metadata"] = body.metadata
    if body.settings is not UNSET:
        keywords["settings"] = make_settings(body.settings)
    if body.limits is not UNSET:
        keywords["limits"] = lower_limits(plan_of(agent).limits, body.limits)
    return keywords


def make_settings(body: SettingsBody) -> ModelSettings:
    """Return the settings of the model. Raises ConfigurationError."""
    return ModelSettings(**_given_fields(body))


def lower_limits(limits: Limits, body: LimitsBody) -> Limits:
    """Return the limits of an agent, lowered where a request says so.

    >>> lower_limits(Limits(iterations=10), LimitsBody(iterations=3, tokens=500)).iterations
    3
    >>> lower_limits(Limits(iterations=10), LimitsBody(iterations=50)).iterations
    10
    """
    lower = {}
    for name, value in _given_fields(body).items():
        most = getattr(limits, name)
        lower[name] = value if most is None else min(most, value)
    return msgspec.structs.replace(limits, **lower)


def _given_fields(body: Struct) -> dict[str, Any]:
    values = {name: getattr(body, name) for name in body.__struct_fields__}
    return {name: value for name, value in values.items() if value is not UNSET}


def make_prompt(message: MessageBody) -> Prompt:
    """Return the message of a user. Raises ConfigurationError for a medium that is not complete."""
    if isinstance(message, str):
        return message
    return [
        _make_media(part, f"message[{at}]") if isinstance(part, MediaPart) else Text(part.text)
        for at, part in enumerate(message)
    ]


def _make_media(part: MediaPart, place: str) -> Media:
    given = [name for name in ("media", "data", "url") if getattr(part, name) is not UNSET]
    if len(given) != 1:
        problem = f"has {' and '.join(given) or 'none'} of media, data and url"
        raise ConfigurationError(place, problem, fix="Pass exactly one of them")
    if part.media_type is UNSET:
        raise ConfigurationError(f"{place}.media_type", "is missing", fix="Pass it")
    check_value(f"{place}.media_type", part.media_type, str)
    return Media(
        part.media_type,
        data=None if part.data is UNSET else part.data,
        url=None if part.url is UNSET else part.url,
        name=None if part.name is UNSET else part.name,
    )
