"""The statements of the PostgreSQL engine about the tables of procrastinate. Each is atomic.

A parameter is written as the driver wants it, but in `PUT`, which is a statement of the inbox. No
statement may use procrastinate's `lock`: it makes fetching ten times as slow, and unlocking wakes nobody.
"""

from __future__ import annotations

from typing import Final

TASK: Final = "holdfast"
"""The name of the task of all jobs. Other tasks in these tables are somebody else's."""

PUT: Final = """
SELECT procrastinate_defer_jobs_v1(array_agg(CAST(
  ROW(job.queue, 'holdfast', 0, NULL, NULL, jsonb_build_object('id', job.id), NULL)
  AS procrastinate_job_to_defer_v1)))
FROM jsonb_to_recordset(CAST(:jobs AS jsonb)) AS job (id bigint, queue text)
"""

SCHEMA_UNLOCK: Final = "SELECT pg_advisory_unlock(%(key)s)"

HAS_TABLES: Final = """
SELECT to_regclass(quote_ident(current_schema()) || '.procrastinate_jobs') IS NOT NULL AS found
"""

MISSING_FUNCTIONS: Final = """
SELECT name FROM unnest(CAST(%(names)s AS text[])) AS wanted (name)
WHERE NOT EXISTS (SELECT FROM pg_proc AS p WHERE p.proname = name
  AND p.pronamespace = CAST(quote_ident(current_schema()) AS regnamespace))
"""

BEAT: Final = """
INSERT INTO procrastinate_workers (id, last_heartbeat) OVERRIDING SYSTEM VALUE
VALUES (%(worker)s, now()) ON CONFLICT (id) DO UPDATE SET last_heartbeat = now()
"""
"""A worker that was paused so long that others removed it is there again."""

_LIVE_WORKER: Final = """
EXISTS (SELECT FROM procrastinate_workers AS w WHERE w.id = job.worker_id
  AND w.last_heartbeat > now() - make_interval(secs => %(stall)s))
"""

FIND_MINE: Final = """
SELECT id FROM procrastinate_jobs
WHERE worker_id = %(worker)s AND status = 'doing' AND task_name = 'holdfast'
"""

PUT_STALLED_AGAIN: Final = f"""
WITH stalled AS (
  DELETE FROM procrastinate_jobs AS job WHERE job.task_name = 'holdfast' AND job.status = 'doing'
  AND (job.id = ANY(CAST(%(orphans)s AS bigint[]))
    OR job.worker_id IS DISTINCT FROM %(worker)s AND NOT {_LIVE_WORKER})
  RETURNING job.queue_name, job.args)
SELECT count(*) AS count, procrastinate_defer_jobs_v1(array_agg(CAST(
  ROW(queue_name, 'holdfast', 0, NULL, NULL, args, NULL) AS procrastinate_job_to_defer_v1)))
FROM stalled HAVING count(*) > 0
"""  # noqa: S608  # REASON: of constants only
"""Rows are made anew: an update would wake no worker, and a late worker would end the new delivery."""

FORGET_DEAD_WORKERS: Final = """
DELETE FROM procrastinate_workers
WHERE id <> %(worker)s AND last_heartbeat < now() - make_interval(secs => %(forget)s)
"""
"""A worker that asks is alive, even if it waited for an answer for long."""

FIND_LIVE: Final = f"""
SELECT CAST(job.args ->> 'id' AS bigint) AS id FROM procrastinate_jobs AS job
WHERE job.task_name = 'holdfast' AND job.args ->> 'id' = ANY(CAST(%(ids)s AS text[]))
  AND (job.status = 'todo' OR job.status = 'doing' AND {_LIVE_WORKER})
"""  # noqa: S608  # REASON: of constants only
