"""The same work in several forks at once."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable

from tests.crash.kills import Tally


def in_workers(work: Callable[[int], Tally], workers: int) -> Tally:
    """What all of them counted, together."""
    pipes = []
    for worker in range(workers):
        reading, writing = os.pipe()
        if os.fork() == 0:
            status = 1
            try:
                os.close(reading)
                os.write(writing, pickle.dumps(work(worker)))
                status = 0
            except BaseException:  # noqa: BLE001  # REASON: nobody is above a fork
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writing)
        pipes.append(reading)
    total = Tally()
    for reading in pipes:
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        _, status = os.wait()
        assert status == 0, "a worker died"
        total.add(pickle.loads(said))
    return total
