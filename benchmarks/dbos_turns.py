"""The work of `benchmarks.queued_turns` on DBOS with its own queue: `python -m benchmarks.dbos_turns work|submit URL`.

It runs in the environment `benchmarks/peers`, which `./run bench --peers` installs. A workflow with one step is
what a turn with one model call is: both record their begin, the step and their end. This module must
import nothing of Holdfast.
"""

from __future__ import annotations

import os
import sys
import threading
import time

SCHEMA, QUEUE, VERSION, PARALLEL = "dbos_turns", "turns", "1", 16
SECONDS_BETWEEN_POLLS = 0.2
"""The queue is polled; by default once a second, which is the delay then."""


def work(url: str) -> None:
    """Drive workflows until the process is killed."""
    from dbos import DBOS, DBOSConfig  # noqa: PLC0415  # REASON: of another environment

    config: DBOSConfig = {
        "name": "turns",
        "system_database_url": url,
        "dbos_system_schema": SCHEMA,
        "application_version": VERSION,
        "executor_id": str(os.getpid()),
        "log_level": "ERROR",
    }
    DBOS(config=config)

    @DBOS.step()
    def reply(word: str) -> str:
        # One write: the steps are in threads.
        os.write(sys.stdout.fileno(), f"{word} {time.monotonic()}\n".encode())
        return "Done."

    @DBOS.workflow(name="turn")
    def turn(word: str) -> str:
        return reply(word)

    DBOS.launch()
    DBOS.register_queue(
        QUEUE, worker_concurrency=PARALLEL, polling_interval_sec=SECONDS_BETWEEN_POLLS
    )
    print("begun", flush=True)
    threading.Event().wait()


def submit(url: str) -> None:
    """Submit a workflow for each word that is read, and print when that began."""
    from dbos import DBOSClient  # noqa: PLC0415  # REASON: of another environment

    client = DBOSClient(system_database_url=url, dbos_system_schema=SCHEMA)
    print("begun", flush=True)
    for line in sys.stdin:
        at = time.monotonic()
        options = {"workflow_name": "turn", "queue_name": QUEUE, "app_version": VERSION}
        client.enqueue(options, line.strip())
        print(line.strip(), at, flush=True)


if __name__ == "__main__":
    {"work": work, "submit": submit}[sys.argv[1]](sys.argv[2])
