"""The bodies and queries of requests to `/api/v1`, as types. Fields that are not listed are refused.

The client of the service makes its requests from the same types. This module must never read a
request.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.core.model_request import CacheTime, ReasoningEffort, Verbosity
from holdfast.core.questions import Remember
from holdfast.core.run_fold import LONGEST_TITLE
from holdfast.event_log.stream_items import SessionState
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.schedules.schedule import CatchUp, Overlap
from holdfast.sessions.names import LONGEST_NAME

NonEmpty: TypeAlias = Annotated[str, Meta(min_length=1)]
"""A text with at least one character."""

Positive: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]
"""A whole number from 1."""

Natural: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
"""A whole number from 0."""

Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
"""A number from -2 to 2."""

Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=1e9)]
"""A number of seconds above 0."""

WaitSeconds: TypeAlias = Annotated[float, Meta(ge=0, le=3600)]
"""A number of seconds that a request may be held open."""

PageSize: TypeAlias = Annotated[int, Meta(ge=1, le=200)]
"""How many entries a page has at most."""

SessionName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, pattern=r"^(?!\.{1,2}$)")
]
"""The name of a session. In a path, `/` in it is written `%2F`; `.` and `..` cannot be written there."""


Title: TypeAlias = Annotated[str, Meta(min_length=1, max_length=LONGEST_TITLE)]
"""The title of a session."""

Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
"""The name of an agent, a model, a schedule, or the like."""

LONGEST_FILE_NAME = 255

FileName: TypeAlias = Annotated[str, Meta(max_length=LONGEST_FILE_NAME)]
"""The name of a file, which may be empty."""

QuestionKey: TypeAlias = Annotated[str, Meta(min_length=1, max_length=3000)]
"""The key of a question; that of an agent in a tool has the name of its session."""

POSITION_PATTERN = r"^(0|[1-9][0-9]{0,15})(\.[1-9][0-9]{0,11}\.[0-9a-f]{12})?$"
"""The form of a position in the event log."""


class NoBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A request that carries nothing: `{}`, or no body at all."""


class NoQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A request without query parameters."""


class TextPart(Struct, frozen=True, forbid_unknown_fields=True, tag="text"):
    """A text in a message.

    Args:
        text: the text.
    """

    text: NonEmpty


class MediaPart(Struct, frozen=True, forbid_unknown_fields=True, tag="media", kw_only=True):
    """A picture, a sound or a file in a message: exactly one of `media`, `data` and `url`.

    Args:
        media: the name of bytes that were sent with `POST /media`.
        data: the bytes themselves, in base64.
        url: an address that the provider of the model reads.
        media_type: such as `image/png`; not with `media`, which has its own.
        name: the name of the file.
    """

    media: Name | UnsetType = UNSET
    data: bytes | UnsetType = UNSET
    url: NonEmpty | UnsetType = UNSET
    media_type: Name | UnsetType = UNSET
    name: Annotated[FileName, Meta(min_length=1)] | UnsetType = UNSET


MessageBody: TypeAlias = NonEmpty | Annotated[list[TextPart | MediaPart], Meta(min_length=1)]
"""The message of a user: a text, or a list of parts."""


class SettingsBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the model for one turn, in place of those of the agent, field by field.

    The fields are those of `ModelSettings`. Everything that would be added to the request of the provider
    unchanged is not among them.
    """

    max_tokens: Positive | UnsetType = UNSET
    temperature: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    top_p: Annotated[float, Meta(ge=0)] | UnsetType = UNSET
    stop: tuple[NonEmpty, ...] | UnsetType = UNSET
    seed: int | UnsetType = UNSET
    top_k: Positive | UnsetType = UNSET
    frequency_penalty: Penalty | UnsetType = UNSET
    presence_penalty: Penalty | UnsetType = UNSET
    verbosity: Verbosity | UnsetType = UNSET
    tool_choice: Name | UnsetType = UNSET
    parallel_tool_calls: bool | UnsetType = UNSET
    reasoning_effort: ReasoningEffort | UnsetType = UNSET
    reasoning_tokens: Natural | UnsetType = UNSET
    reasoning_summary: bool | UnsetType = UNSET
    cache: bool | CacheTime | UnsetType = UNSET
    cache_key: Name | UnsetType = UNSET


class LimitsBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of one turn. A request can lower the limits of an agent, and not raise them.

    The fields are those of `Limits`.
    """

    iterations: Positive | UnsetType = UNSET
    tool_calls: Positive | UnsetType = UNSET
    seconds: Seconds | UnsetType = UNSET
    tokens: Positive | UnsetType = UNSET
    output_repairs: Natural | UnsetType = UNSET


class NewTurn(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Starts a turn.

    Args:
        agent: the name of the agent.
        message: the message of the user.
        session: the session; without one, a new one is made.
        metadata: JSON values by name for hooks and tools. They are saved, so they must hold no secret.
        settings: settings of the model for this turn.
        limits: lower limits for this turn.
        model: the name of another model, if the service allows it.
        output_schema: a JSON Schema for the output of this turn.
        wait: seconds to wait for the end of the turn, or for a question.
    """

    agent: Name
    message: MessageBody
    session: SessionName | UnsetType = UNSET
    metadata: dict[str, object] | UnsetType = UNSET
    settings: SettingsBody | UnsetType = UNSET
    limits: LimitsBody | UnsetType = UNSET
    model: Name | UnsetType = UNSET
    output_schema: dict[str, object] | UnsetType = UNSET
    wait: WaitSeconds = 0.0


class NewSession(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Makes an empty session.

    Args:
        title: its title.
        session: its name; without one, a new one is made.
    """

    title: Title
    session: SessionName | UnsetType = UNSET


class SessionChange(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Changes a session.

    Args:
        title: its new title.
    """

    title: Title


class ForkEdit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Another message in place of that of a turn.

    Args:
        turn: the number of the turn; the fork has the turns before it.
        message: the message with which the fork goes on.
        agent: the name of the agent; by default the one of the session.
    """

    turn: Positive
    message: MessageBody
    agent: Name | UnsetType = UNSET


class Fork(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Copies a session.

    Args:
        at: the number of the last turn or change to copy; by default all that have ended.
        to: the name of the new session; by default a new one.
        edit: starts a turn in the new session in place of one of the old; not together with `at`.
    """

    at: Positive | UnsetType = UNSET
    to: SessionName | UnsetType = UNSET
    edit: ForkEdit | UnsetType = UNSET


class Rewind(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Goes back to a turn.

    Args:
        to: the number of the last turn or change that counts; 0 for none.
    """

    to: Natural


class Compact(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Replaces older turns by a summary.

    Args:
        keep: how many turns stay at the end.
        summary: the summary; by default the model of the session's agent writes it.
    """

    keep: Natural = 4
    summary: str | UnsetType = UNSET


class NewAnswer(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Answers a question.

    Args:
        key: the key of the question.
        binding: the binding of the question, which depends on its content.
        answer: "approve" or "deny" the call, "continue" beyond a limit, or give a "value".
        reason: with "deny": why, in words that the model may read.
        arguments: with "approve": the tool runs with these instead.
        remember: with "approve" and "deny": how far the answer applies.
        iterations: with "continue": how many more iterations; by default the number that is offered.
        value: with "value": the answer itself, of the type that the question asks for.
    """

    key: QuestionKey
    binding: Name
    answer: Literal["approve", "deny", "continue", "value"]
    reason: NonEmpty | UnsetType = UNSET
    arguments: dict[str, object] | UnsetType = UNSET
    remember: Remember | UnsetType = UNSET
    iterations: Annotated[int, Meta(ge=0, le=1000)] | UnsetType = UNSET
    value: object = UNSET


class SessionsQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which sessions are listed.

    Args:
        limit: how many. The first page has in addition the sessions whose first turn is queued.
        before: the `next` of the page before.
        agent: only sessions whose last turn had this agent.
        status: only sessions whose last turn is in this state.
        q: only sessions that contain this text.
        min_cost: only sessions whose last turn cost at least this much; the service needs prices.
    """

    limit: PageSize = 50
    before: NonEmpty | UnsetType = UNSET
    agent: Name | UnsetType = UNSET
    status: SessionState | UnsetType = UNSET
    q: Annotated[str, Meta(min_length=1, max_length=1000)] | UnsetType = UNSET
    min_cost: Annotated[float, Meta(ge=0, le=1e12)] | UnsetType = UNSET


class QuestionsQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which open questions are listed.

    Args:
        limit: how many. A page has some more if the last session on it asks several questions.
        after: the `next` of the page before.
        agent: only questions of turns with this agent.
    """

    limit: PageSize = 100
    after: NonEmpty | UnsetType = UNSET
    agent: Name | UnsetType = UNSET


class TurnQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a turn is read.

    Args:
        wait: seconds to wait for its end, or for a question.
    """

    wait: WaitSeconds = 0.0


class EventsQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """From where on, and until when, the event log of a session is read.

    Args:
        after: the position of the last item that the reader has; the header `Last-Event-ID` counts
            before it.
        until: "turn_end" ends the stream with the last turn.
    """

    after: Annotated[str, Meta(pattern=POSITION_PATTERN)] | UnsetType = UNSET
    until: Literal["turn_end"] | UnsetType = UNSET


class ChangesQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long changes are followed.

    Args:
        seconds: end the stream after so many seconds; by default it ends with the process.
    """

    seconds: Annotated[float, Meta(gt=0, le=86_400)] | UnsetType = UNSET


class ImportQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where an exported session is imported.

    Args:
        session: the name of the session; by default the name that was exported.
    """

    session: SessionName | UnsetType = UNSET


class UsageQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which usage is added up.

    Args:
        by: the unit of the totals.
        since: only turns that were opened after this time, in seconds since the epoch.
    """

    by: Literal["agent", "model", "day"] = "agent"
    since: Annotated[float, Meta(ge=0, le=1e11)] | UnsetType = UNSET


class EntriesQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which entries of the queue are listed.

    Args:
        limit: how many at most.
        before: the `next` of the page before.
        state: only those in this state.
        session: only those of this session.
        agent: only those of this agent.
    """

    limit: PageSize = 50
    before: Positive | UnsetType = UNSET
    state: EntryState | UnsetType = UNSET
    session: SessionName | UnsetType = UNSET
    agent: Name | UnsetType = UNSET


class NewSchedule(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Makes a schedule, or replaces the one with its name: exactly one of `cron` and `every`.

    Args:
        name: its name: letters, digits, `_`, `-` and `.`.
        agent: the name of the agent.
        message: the message of each turn.
        session: the session of all turns; without one, each turn has a new one.
        cron: a cron expression of five fields, such as "0 9 * * MON-FRI".
        every: seconds between two turns.
        zone: the time zone of `cron`, such as "Europe/Berlin".
        jitter: a turn begins up to this many seconds later, differently for each tick.
        overlap: the rule while an earlier turn has not ended: "skip" or "queue".
        catch_up: which turns that were missed are made up for: "none", "last" or "all".
        priority: a greater number goes before a smaller one.
    """

    name: Name
    agent: Name
    message: NonEmpty
    session: SessionName | UnsetType = UNSET
    cron: Name | UnsetType = UNSET
    every: Positive | UnsetType = UNSET
    zone: Name = "UTC"
    jitter: Natural = 0
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LAST
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0


class HistoryQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How much of the history of a schedule is listed.

    Args:
        limit: how many ticks, the latest first.
    """

    limit: PageSize = 50
