"""A conversation that this process has open, and the error of a model whose provider has no key."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from adh.agents.build_agent import ChatAgent
from adh.storage.call_context import CallContext
from holdfast import ConfigurationError
from holdfast.journal import Journal


class OpenSession(Struct, frozen=True, kw_only=True):
    """A conversation that this process has open.

    Args:
        id: its id.
        journal: its records.
        agent: the agent that answers.
        context: for whom and where its calls run; each turn gets a request of its own.
        saved: whether it is saved; otherwise it ends with the process.
        close: closes its journal.
    """

    id: str
    journal: Journal
    agent: ChatAgent
    context: CallContext
    saved: bool
    close: Callable[[], None]


class MissingKeyError(ConfigurationError):
    """There is no API key for the provider of a model; the text names the variable to set."""
