"""A schedule: when which turn is submitted, and the rules when that cannot be done in time.

This module must never know a clock or a database.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import between
from holdfast.core.errors import ConfigurationError
from holdfast.journal.inbox.schedules.cron import parse_cron

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_LONGEST: Final = 366 * 86_400
_LATEST: Final = 253_402_300_799.0  # the year 9999


class Overlap(StrEnum):
    """The rule for a tick while an earlier turn of the schedule has not ended.

    SKIP: no turn is submitted.
    QUEUE: the turn is submitted, and waits as every turn does.
    """

    SKIP = "skip"
    QUEUE = "queue"


class CatchUp(StrEnum):
    """The rule for ticks that were missed, because no worker ran or the queue was full.

    NONE: nothing, if a tick is more than a minute old.
    LAST: the latest one is done, if it is not older than `catch_up_within`.
    ALL: all are done that are not older than `catch_up_within`.
    """

    NONE = "none"
    LAST = "last"
    ALL = "all"


class Schedule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a turn is submitted. Give `cron` or `every`.

    A time that summer time skips is a tick at the end of the gap, once, whatever number of ticks would
    have been in it. A time that occurs twice is a tick the first time. A cron expression for every hour
    follows the elapsed time instead: it has ticks in both of the two equal hours, and none in the gap.

    Args:
        name: names the schedule of a tenant: letters, digits, `_`, `-` and `.`.
        tenant: whose turns they are.
        agent: the name of the agent.
        body: the message and the arguments of the turn, as JSON.
        session: the session of all turns; "" for a session for each tick.
        cron: a cron expression, see `parse_cron`.
        every: seconds between two ticks, from `starts_at`, or else from the epoch.
        zone: the time zone of `cron`, such as "Europe/Berlin".
        jitter: a tick begins up to so many seconds later; how many depends on the schedule and the tick.
        overlap: the rule for a tick while an earlier turn has not ended.
        catch_up: the rule for ticks that were missed.
        catch_up_within: the largest age of a tick that is caught up, in seconds.
        starts_at: the first time of a tick, in seconds since the epoch.
        ends_at: the time after which there is no tick.
        priority: that of the turns.
        made_by: who made the schedule.

    Raises:
        ConfigurationError: a field is wrong.

    >>> Schedule(name="report", agent="writer", cron="0 9 * * MON-FRI", zone="Europe/Berlin").overlap
    <Overlap.SKIP: 'skip'>
    >>> Schedule(name="report", agent="writer")
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: cron: give either cron or every
    """

    name: str
    agent: str
    tenant: str = ""
    body: bytes = b"{}"
    session: str = ""
    cron: str = ""
    every: Annotated[int, between(0, _LONGEST)] = 0
    zone: str = "UTC"
    jitter: Annotated[int, between(0, _LONGEST)] = 0
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LAST
    catch_up_within: Annotated[int, between(0, _LONGEST)] = 86_400
    starts_at: Annotated[float, between(0.0, _LATEST)] = 0.0
    ends_at: Annotated[float, between(0.0, _LATEST)] = _LATEST
    priority: int = 0
    made_by: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                "name",
                f"is not the name of a schedule: {self.name!r}",
                fix="Use up to 100 letters, digits, '_', '-' and '.'",
            )
        if bool(self.cron) == bool(self.every):
            raise ConfigurationError("cron", "give either cron or every")
        if self.cron:
            parse_cron(self.cron)
        find_zone(self.zone)

    @property
    def timing(self) -> tuple[object, ...]:
        """The settings that the ticks depend on."""
        return self.cron, self.every, self.zone, self.starts_at, self.ends_at


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone. Raises ConfigurationError if it is unknown."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise ConfigurationError(
            "zone",
            f"is an unknown time zone: {name!r}",
            fix='Use a name such as "Europe/Berlin"; a system without time zones needs tzdata',
        ) from None
