"""White space kept a stream alive on a loop that was held up again and again.

A limit that passes while the loop is held up lets the response be read once more before it is cut.
Each read moved the limit by what it took, which was a new limit that could pass, and so on.
"""

from __future__ import annotations

from tests.transport.test_timeouts import CountingLoop

from holdfast.transport.port import Timeouts
from holdfast.transport.timers import TimerWheel, Watchdog


async def test_it_is_cut_when_it_was_read_once_more() -> None:
    loop = CountingLoop()
    watch = Watchdog(TimerWheel(loop), Timeouts(between_chunks=10))  # type: ignore[arg-type]
    watch.start(lambda: True)
    watch.note_body_start()
    for _ in range(18):
        loop.pass_time(0.5)
        watch.end_wait()
        loop.now += 0.001  # white space is looked at, and is no content
        watch.begin_wait()
    loop.pass_time(2)  # held up, beyond the limit
    assert not watch.expired_limit
    watch.end_wait()
    loop.now += 0.001
    watch.begin_wait()
    loop.pass_time(1)  # and again
    assert watch.expired_limit == "stalled"
