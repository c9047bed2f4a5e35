"""Turns the body of `POST /turns` into the arguments of a turn, within the limits of the service.

A caller is not the author of the agent: a request can lower limits and not raise them, and it reaches
no model and no field of a provider's request that the agent does not open. This module must never
start a turn.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.json_schema import JsonSchema
from holdfast.core.limits import Limits
from holdfast.core.messages import Media, Text
from holdfast.core.model_request import ModelSettings
from holdfast.hosting.bound_agents import AnyAgent, plan_of
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.runtime.compile import compile_output_type
from holdfast.runtime.turn_state.turn_input import Prompt
from holdfast.server.api.media_routes import find_media
from holdfast.server.api.operations import Call
from holdfast.server.api.request_bodies import (
    LimitsBody,
    MediaPart,
    MessageBody,
    NewTurn,
    SettingsBody,
)


def make_keywords(agent: AnyAgent, body: NewTurn, models: Collection[str] = ()) -> RunKeywords[Any]:
    """Return the keywords of `Agent.stream` for a turn.

    Args:
        agent: the agent.
        body: the body of the request.
        models: the names of the models that callers may ask for.

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
    if body.model is not UNSET:
        keywords["model"] = check_model(body.model, models)
    return keywords


def make_settings(body: SettingsBody) -> ModelSettings:
    """Return the settings of the model.

    Raises:
        ConfigurationError: a value does not fit, or the cache key is the name of a cached content: it
            belongs to the account of the provider, and may hold texts of another tenant.
    """
    if body.cache_key is not UNSET and "cachedContents/" in body.cache_key:
        problem = "must not name a cached content, which only the author of the agent chooses"
        raise ConfigurationError("settings.cache_key", problem, fix="Use a key of your own")
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


async def make_prompt(call: Call[Any, Any], message: MessageBody) -> Prompt:
    """Return the message of a user, with the bytes of its uploads.

    Raises:
        ConfigurationError: a medium is not complete, or is not there.
    """
    if isinstance(message, str):
        return message
    return [
        await _make_media(call, part, f"message[{at}]")
        if isinstance(part, MediaPart)
        else Text(part.text)
        for at, part in enumerate(message)
    ]


async def _make_media(call: Call[Any, Any], part: MediaPart, place: str) -> Media:
    given = [name for name in ("media", "data", "url") if getattr(part, name) is not UNSET]
    if len(given) != 1:
        problem = f"has {' and '.join(given) or 'none'} of media, data and url"
        raise ConfigurationError(place, problem, fix="Pass exactly one of them")
    name = None if part.name is UNSET else part.name
    if part.media is not UNSET:
        if part.media_type is not UNSET:
            problem = "cannot be given together with media, which has its own"
            raise ConfigurationError(f"{place}.media_type", problem, fix="Leave it out")
        found = await find_media(call.store, call.principal.tenant, part.media, f"{place}.media")
        return Media(found.media_type, data=found.data, name=name)
    if part.media_type is UNSET:
        raise ConfigurationError(f"{place}.media_type", "is missing", fix="Pass it")
    return Media(
        part.media_type,
        data=None if part.data is UNSET else part.data,
        url=None if part.url is UNSET else part.url,
        name=name,
    )


def make_output(body: NewTurn) -> JsonSchema | None:
    """Return the type of the output that a request asks for. Raises ConfigurationError."""
    if body.output_schema is UNSET:
        return None
    try:
        output = JsonSchema(body.output_schema)
        compile_output_type(output)
    except ConfigurationError as error:
        raise ConfigurationError("output_schema", error.problem, fix=error.fix) from error
    return output


def check_model(name: str, allowed: Collection[str]) -> str:
    """Return the name of a model that a request asks for. Raises ConfigurationError."""
    if name not in allowed:
        fix = f"Use one of {', '.join(sorted(allowed))}" if allowed else "Leave it out"
        raise ConfigurationError("model", "is not allowed by the service", fix=fix)
    return name
