"""The settings of who may call a service and how much."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import quote_setting
from holdfast.server.access.client_addresses import is_loopback, parse_networks
from holdfast.server.access.origin_rules import is_origin, split_host
from holdfast.server.access.principals import Principal

MIB = 1 << 20

Authenticate: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Principal | None]]
"""A function of yours: it receives the ASGI scope of a request, and returns who calls, or None."""


class AccessLimits(Struct, frozen=True, kw_only=True):
    """How much a caller may ask of one process of the service.

    Args:
        body_bytes: the longest body of a request.
        upload_bytes: the longest body of an upload: a picture, a file, an exported session.
        body_seconds: seconds in which a body must arrive.
        upload_seconds: seconds in which an upload must arrive.
        body_pause_seconds: the longest pause in a body or an upload, in seconds.
        buffered_bytes: bytes of all bodies that are arriving at the same time.
        requests_per_minute: requests that one key may send in a minute.
        requests_per_key: requests of one key that may be in progress, besides its streams.
        turns_per_minute: turns that one key may start or continue in a minute, and other calls of a
            model; also those that the schedules of a tenant may submit.
        streams_per_key: streams and held requests that one key may have open.
        stored_bytes: bytes that one tenant may have stored: sessions, queued messages and uploads.
        running_turns: turns of one tenant that may run at the same time.
        waiting_turns: turns of one tenant that may wait for an answer.
        failed_tries: tries with a wrong key that one address has in a minute.

    Raises:
        ConfigurationError: one is not a number above 0.
    """

    body_bytes: PositiveInt = 8 * MIB
    upload_bytes: PositiveInt = 64 * MIB
    body_seconds: PositiveFloat = 30.0
    upload_seconds: PositiveFloat = 300.0
    body_pause_seconds: PositiveFloat = 10.0
    buffered_bytes: PositiveInt = 256 * MIB
    requests_per_minute: PositiveInt = 6000
    requests_per_key: PositiveInt = 500
    turns_per_minute: PositiveInt = 120
    streams_per_key: PositiveInt = 100
    stored_bytes: PositiveInt = 10_240 * MIB
    running_turns: PositiveInt = 1000
    waiting_turns: PositiveInt = 10_000
    failed_tries: PositiveInt = 20

    def __post_init__(self) -> None:
        check_fields(self, "limits.")


class AccessOptions(Struct, frozen=True, kw_only=True):
    """Who may call a service.

    Args:
        auth: "auto" demands a key as soon as one was made, and until then answers only this machine;
            "keys" always demands one; a function of yours decides by itself.
        allowed_hosts: the names under which the service is reached. Without any, every name is
            answered if there are keys, and otherwise only those of this machine.
        allowed_origins: origins of web pages of other sites that may call the service with a key,
            such as "https://app.example.com".
        trusted_proxies: addresses or networks of proxies whose `X-Forwarded-*` headers count.
        limits: how much a caller may ask.
        allow_models: the names of models, such as "openai:gpt-5-mini", that a request may ask for in
            place of its agent's.

    Raises:
        ConfigurationError: a setting is wrong.

    >>> AccessOptions(auth="keys", trusted_proxies=("10.0.0.0/8",)).auth
    'keys'
    """

    auth: Literal["auto", "keys"] | Authenticate = "auto"
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    limits: AccessLimits = AccessLimits()
    allow_models: Collection[str] = ()

    def __post_init__(self) -> None:
        if not callable(self.auth):
            check_value("auth", self.auth, Literal["auto", "keys"])
        for name in ("allowed_hosts", "allowed_origins", "trusted_proxies"):
            check_value(name, getattr(self, name), tuple[str, ...])
        check_value("limits", self.limits, AccessLimits)
        check_value("allow_models", self.allow_models, Collection[str])
        parse_networks("trusted_proxies", self.trusted_proxies)
        for host in self.allowed_hosts:
            if not host or split_host(host) != host or "*" in host:
                raise ConfigurationError(
                    "allowed_hosts",
                    f"{quote_setting(host)} is not the name of a host",
                    fix="Write names without scheme and port, in lower case",
                )
        for origin in self.allowed_origins:
            if not is_origin(origin):
                raise ConfigurationError(
                    "allowed_origins",
                    f"{quote_setting(origin)} is not an origin",
                    fix='Write scheme, name and port, such as "https://app.example.com"',
                )


def check_bind(host: str, options: AccessOptions, *, has_keys: bool) -> None:
    """Refuse to listen on an address that other machines can reach while there is no key.

    Args:
        host: the address to listen on.
        options: the settings.
        has_keys: whether a key was ever made.

    Raises:
        ConfigurationError: the address is not one of this machine alone, and there are no keys.

    >>> check_bind("127.0.0.1", AccessOptions(), has_keys=False)
    """
    if is_loopback(host) or has_keys or callable(options.auth):
        return
    raise ConfigurationError(
        "host",
        f"{quote_setting(host)} can be reached by other machines, and the service has no keys: anybody "
        "could run its agents",
        fix="Make a key with `holdfast keys create`, or serve 127.0.0.1",
    )
