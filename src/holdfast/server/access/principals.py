"""Principals: who calls the service, with their rights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import quote_setting
from holdfast.journal.journal_names import DEFAULT_TENANT

Scope: TypeAlias = Literal["run", "read", "answer", "import", "admin", "read:redacted"]
"""The rights of a principal.

`run` starts, continues and changes turns and sessions. `read` reads everything of the tenant, and
`read:redacted` everything but the contents of messages. `answer` answers questions. `import` adds
sessions that were made elsewhere, so that an agent takes them for its own history. `admin`
may do all of these, and read the metrics.
"""

SCOPES: tuple[str, ...] = get_args(Scope)

_IMPLIED = {"read:redacted": ("read",)}


class Principal(Struct, frozen=True):
    """Who calls the service: the holder of a key, or the local user.

    Args:
        tenant: the tenant whose runs it can reach.
        name: who it is; answers and acts are recorded with it.
        scopes: its rights.
        key_id: the id of its key; "" for the local user.

    >>> Principal("", "ada", frozenset({"admin"})).may("run")
    True
    """

    tenant: str
    name: str
    scopes: frozenset[str]
    key_id: str = ""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def is_redacted(self) -> bool:
        """Whether the contents of messages are removed from all that it reads."""
        return self.may("read:redacted") and not self.may("read")

    def may(self, scope: Scope) -> bool:
        """Whether the principal has this scope, or one that implies it."""
        wanted = ("admin", scope, *_IMPLIED.get(scope, ()))
        return not self.scopes.isdisjoint(wanted)


LOCAL = Principal(DEFAULT_TENANT, "local", frozenset({"admin"}))
"""The user of this machine, who calls a service without keys."""


def parse_scopes(words: Iterable[str]) -> tuple[str, ...]:
    """Return scopes in their usual order.

    Raises:
        ConfigurationError: one is unknown, or there is none.

    >>> parse_scopes(["read", "run"])
    ('run', 'read')
    """
    given = {word.strip() for word in words} - {""}
    unknown = sorted(given - set(SCOPES))
    if unknown or not given:
        problem = f"unknown scope {quote_setting(unknown[0])}" if unknown else "has no scope"
        raise ConfigurationError("scopes", problem, fix=f"Use one of: {', '.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in given)
