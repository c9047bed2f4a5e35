"""The agents of the service: registration, re-registration, general questions, and the photo check.

The registrations repeat a call of their model by the row of its kind, so the retry of the library is
off there. This module must never give a tool to the agent that answers general questions, and must never show
JSON that was cut, or a page of HTML, as its answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field

from holdfast import Agent, Limits, Reply, RetryOptions
from holdfast.compat import (
    SEED_003_BREAKER,
    AgentResponse,
    ReRegistrationAgentResponse,
)
from holdfast.middleware import HistoryReduction, IterationCache, Middleware, ModelCall
from holdfast.resilience import Resilience
from registration.flow.answers import SaveAnswers
from registration.flow.model_calls import CallKind
from registration.flow.parts import Parts
from registration.flow.payment_tools import PaymentTools
from registration.flow.prompts import PHOTO, UNIVERSAL
from registration.flow.registration_hooks import ConductRegistration
from registration.flow.step_tools import StepTools
from registration.flow.tool_scope import ToolScope

NEW = "new_registration"
AGAIN = "re_registration"
GENERAL = "universal"
PHOTO_CHECK = "photo_check"

_HISTORY = 80
_ATTEMPT_SECONDS = 10.0
_CACHE_SECONDS = 86_400.0
_CACHE_ENTRIES = 100

GENERAL_CALL: Final = "Universal Agent"
PHOTO_CALL: Final = "Photo Upload"
PHOTO_SECONDS: Final = 80.0


class PhotoVerdict(BaseModel):
    """What the model says of a picture; `reason` is a sentence for the parent."""

    model_config = ConfigDict(extra="forbid")

    acceptable: bool
    reason: str = Field(default="", max_length=300)


class ModelChoice(Struct, frozen=True, kw_only=True):
    """Which model answers.

    Args:
        name: such as "openai:gpt-4.1".
        base_url: another address of its provider.
        api_key: the key; by default the provider's environment variable is read.
    """

    name: str
    base_url: str | None = None
    api_key: str | None = None


def make_agents(parts: Parts, choice: ModelChoice, journal: str) -> dict[str, Agent[Any]]:
    """Return the agents of conversations by name.

    Args:
        parts: the parts that the conversations work with.
        choice: which model answers.
        journal: the address of the journal.
    """
    return {
        NEW: _make_registration(parts, choice, journal, NEW),
        AGAIN: _make_registration(parts, choice, journal, AGAIN),
        GENERAL: _make_universal(parts, choice, journal),
    }


def _make_registration(parts: Parts, choice: ModelChoice, journal: str, name: str) -> Agent[Any]:
    names_routine, scope = name == NEW, ToolScope(parts)
    return Agent(
        choice.name,
        base_url=choice.base_url,
        api_key=choice.api_key,
        name=name,
        tools=[*StepTools(scope).list_tools(), *PaymentTools(scope).list_tools()],
        output=AgentResponse if names_routine else ReRegistrationAgentResponse,
        middleware=[
            HistoryReduction(_HISTORY, 0),
            ConductRegistration(parts, names_routine=names_routine),
            SaveAnswers(parts),
        ],
        retry=RetryOptions(max_retries=0, max_breaker_wait=0),
        resilience=Resilience(
            breaker=SEED_003_BREAKER, attempt_timeout=_ATTEMPT_SECONDS, metrics=parts.calls.metrics
        ),
        limits=Limits(iterations=16, output_repairs=0),
        on_busy="refuse",
        journal=journal,
    )


def _make_universal(parts: Parts, choice: ModelChoice, journal: str) -> Agent[Any]:
    settings = parts.settings
    return Agent(
        choice.name,
        base_url=choice.base_url,
        api_key=choice.api_key,
        name=GENERAL,
        instructions=UNIVERSAL.format(
            club=settings.club_name, season=settings.season, office=settings.club_mail
        ),
        middleware=[
            HistoryReduction(_HISTORY, 0),
            IterationCache(seconds=_CACHE_SECONDS, entries=_CACHE_ENTRIES),
            AnswerInProse(parts),
            SaveAnswers(parts),
        ],
        retry=RetryOptions(max_retries=0, max_breaker_wait=0),
        resilience=Resilience(
            breaker=SEED_003_BREAKER,
            attempt_timeout=_ATTEMPT_SECONDS,
            metrics=parts.calls.metrics,
        ),
        on_busy="refuse",
        journal=journal,
    )


def make_photo_check(parts: Parts, choice: ModelChoice) -> Agent[Any]:
    """Return the agent that looks at photos. It has no journal: a photo is saved in one place.

    Args:
        parts: repeats its calls.
        choice: which model answers.
    """
    return Agent(
        choice.name,
        base_url=choice.base_url,
        api_key=choice.api_key,
        name=PHOTO_CHECK,
        instructions=PHOTO,
        output=PhotoVerdict,
        middleware=[RepeatPhotoCalls(parts)],
        retry=RetryOptions(max_retries=0, max_breaker_wait=0),
        resilience=Resilience(
            breaker=SEED_003_BREAKER, attempt_timeout=30.0, metrics=parts.calls.metrics
        ),
    )


class RepeatPhotoCalls(Middleware):
    """Repeats the call of the model until there is a reply.

    Args:
        parts: repeats the call.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def wrap_model(
        self, context: ModelCall[Any], call_next: Callable[[ModelCall[Any]], Awaitable[Reply]]
    ) -> Reply:
        """Repeat the call until there is a reply."""
        session = context.metadata.get("session")
        kind = CallKind(
            call_type=PHOTO_CALL,
            session=session if isinstance(session, str) else "",
            step=None,
            seconds=PHOTO_SECONDS,
        )
        return await self._parts.calls.look_at_photo(lambda: call_next(context), kind)


class AnswerInProse(Middleware):
    """Repeats the call of the model until its reply can be shown.

    Args:
        parts: repeats the call.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def wrap_model(
        self, context: ModelCall[Any], call_next: Callable[[ModelCall[Any]], Awaitable[Reply]]
    ) -> Reply:
        """Repeat the call until its reply can be shown."""
        kind = CallKind(
            call_type=GENERAL_CALL,
            session=context.session or "",
            step=None,
            seconds=self._parts.settings.model_seconds,
        )
        return await self._parts.calls.answer_freely(lambda: call_next(context), kind)
