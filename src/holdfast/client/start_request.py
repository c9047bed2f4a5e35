"""Makes the request that starts a turn from the arguments of a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypedDict

from msgspec import UNSET

from holdfast.client.service_connection import Sending, encode
from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import Limits
from holdfast.core.messages import Media, Text
from holdfast.core.model_request import ModelSettings
from holdfast.server.api.request_bodies import (
    LimitsBody,
    MediaPart,
    MessageBody,
    NewTurn,
    SettingsBody,
    TextPart,
)
from holdfast.server.api.views import MediaView

MessageParts: TypeAlias = str | Sequence[str | Text | Media | MediaView]
"""A message: a text, or a list of texts and media. `media.upload` returns a `MediaView`."""


class StartKeywords(TypedDict, total=False):
    """The keywords of a call that starts a turn."""

    session: str | None
    metadata: Mapping[str, object] | None
    settings: ModelSettings | None
    limits: Limits | None
    model: str | None
    output_schema: Mapping[str, object] | None
    request: str | None


_NAMES = frozenset(StartKeywords.__annotations__)


def make_start(
    agent: str, message: MessageParts, keywords: StartKeywords, *, wait: float = 0.0
) -> Sending:
    """Return the request that starts a turn.

    Args:
        agent: the name of the agent.
        message: the message of the user.
        keywords: the other arguments.
        wait: seconds to wait for the end of the turn.

    Raises:
        ConfigurationError: an argument is wrong.
    """
    given: dict[str, Any] = {name: value for name, value in keywords.items() if value is not None}
    for name in given:
        if name not in _NAMES:
            fix = f"Use {', '.join(sorted(_NAMES))}"
            raise ConfigurationError(name, "is not an argument of a turn", fix=fix)
    check_value("agent", agent, str)
    key = given.pop("request", "")
    if "settings" in given:
        given["settings"] = SettingsBody(**_changed(ModelSettings(), given["settings"], "settings"))
    if "limits" in given:
        given["limits"] = LimitsBody(**_changed(Limits(), given["limits"], "limits"))
    for name in ("metadata", "output_schema"):
        if name in given:
            given[name] = dict(given[name])
    body = NewTurn(agent=agent, message=make_message(message), wait=wait, **given)
    return Sending(method="POST", path="/turns", body=encode(body), wait=wait, key=key)


def make_message(message: MessageParts) -> MessageBody:
    """Return a message as the service takes it. Raises ConfigurationError."""
    if isinstance(message, str):
        return message
    check_value("message", message, Sequence[str | Text | Media | MediaView])
    return [_make_part(part) for part in message]


def _make_part(part: str | Text | Media | MediaView) -> TextPart | MediaPart:
    if isinstance(part, str):
        return TextPart(part)
    if isinstance(part, Text):
        return TextPart(part.text)
    if isinstance(part, MediaView):
        return MediaPart(media=part.media)
    return MediaPart(
        data=UNSET if part.data is None else part.data,
        url=UNSET if part.url is None else part.url,
        media_type=part.media_type,
        name=UNSET if part.name is None else part.name,
    )


def _changed(
    default: ModelSettings | Limits, given: ModelSettings | Limits, argument: str
) -> dict[str, Any]:
    """Return the fields that are not defaults. Raises ConfigurationError for one that is not sent."""
    check_value(argument, given, type(default))
    sent = SettingsBody if argument == "settings" else LimitsBody
    changed = {
        name: value
        for name in given.__struct_fields__
        if (value := getattr(given, name)) != getattr(default, name) and value is not None
    }
    for name in changed:
        if name not in sent.__struct_fields__:
            problem = "is not accepted by a service"
            raise ConfigurationError(f"{argument}.{name}", problem, fix="Leave it out")
    return changed
