"""The statements of schedules, for SQLite and PostgreSQL; see `inbox_statements`."""

from __future__ import annotations

from typing import Final

PUT: Final = """
INSERT INTO holdfast_schedules (tenant, name, definition, next_tick, changed_at)
VALUES (:tenant, :name, :definition, :next_tick, :now)
ON CONFLICT (tenant, name) DO UPDATE
SET definition = excluded.definition, next_tick = excluded.next_tick, changed_at = excluded.changed_at
"""

FIND: Final = """
SELECT definition, next_tick, is_paused, :now FROM holdfast_schedules
WHERE tenant = :tenant AND name = :name
"""

LIST: Final = "SELECT definition, next_tick, is_paused FROM holdfast_schedules"

OF_TENANT: Final = " WHERE tenant = :tenant"

IN_ORDER: Final = " ORDER BY tenant, name"

DUE: Final = """
SELECT next_tick, tenant, name FROM holdfast_schedules
WHERE is_paused = 0 AND next_tick IS NOT NULL AND next_tick <= :now
  AND (next_tick, tenant, name) > (:tick, :tenant, :name)
ORDER BY next_tick, tenant, name LIMIT :limit
"""

MOVE: Final = """
UPDATE holdfast_schedules SET next_tick = :next_tick
WHERE tenant = :tenant AND name = :name AND next_tick = :tick AND is_paused = 0
  AND definition = :definition
RETURNING name
"""
"""Moves the next tick on, for the one who is first."""

SET_PAUSED: Final = """
UPDATE holdfast_schedules SET is_paused = :is_paused, next_tick = :next_tick, changed_at = :now
WHERE tenant = :tenant AND name = :name RETURNING name
"""

DELETE: Final = (
    "DELETE FROM holdfast_schedules WHERE tenant = :tenant AND name = :name RETURNING name"
)

DELETE_HISTORY: Final = (
    "DELETE FROM holdfast_schedule_ticks WHERE tenant = :tenant AND name = :name"
)

IS_UNDER_WAY: Final = """
SELECT 1 FROM holdfast_inbox WHERE state NOT IN ('done', 'failed', 'dropped', 'parked') AND id IN (
  SELECT entry FROM holdfast_schedule_ticks
  WHERE tenant = :tenant AND name = :name AND entry IS NOT NULL)
LIMIT 1
"""

NOTE: Final = """
INSERT INTO holdfast_schedule_ticks (tenant, name, tick, outcome, entry, missed, at)
VALUES (:tenant, :name, :tick, :outcome, :entry, :missed, :now)
"""

FORGET_OLD: Final = """
DELETE FROM holdfast_schedule_ticks WHERE tenant = :tenant AND name = :name AND id <= (
  SELECT id FROM holdfast_schedule_ticks WHERE tenant = :tenant AND name = :name
  ORDER BY id DESC LIMIT 1 OFFSET :keep)
"""

HISTORY: Final = """
SELECT t.tick, t.outcome, t.entry, t.missed, t.at, i.state, i.error
FROM holdfast_schedule_ticks AS t LEFT JOIN holdfast_inbox AS i ON i.id = t.entry
WHERE t.tenant = :tenant AND t.name = :name ORDER BY t.id DESC LIMIT :limit
"""
