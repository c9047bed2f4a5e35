"""SIGTERM for a worker that is a program of its own. This module must never end the process."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_at_sigterm(begin_stop: Callable[[], object]) -> Iterator[None]:
    """Call a function at SIGTERM, where it would end the process at once.

    Args:
        begin_stop: the function.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield  # a server, which has a handler, is told to stop as well
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, begin_stop)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
