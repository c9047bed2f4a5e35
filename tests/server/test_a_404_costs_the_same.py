"""What another tenant has costs a caller as many calls of functions as what nobody has.

The time of the answer tells nothing then either: `python -m benchmarks.tenants` measures it. The clock of the service
stands still, since a key is looked for again after some seconds, and no garbage is collected between two calls.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

import pytest
from benchmarks.tenants import ROUTES, Names, ask, fill_tenant
from tests.server.every_route import make_protected_app

from holdfast.server import app as app_module
from holdfast.server.access.keys import make_key
from holdfast.server.access.stack import AccessControl


class CallCount:
    """Which functions of the package the task of the test has called, and not one in the background."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._task = asyncio.current_task()

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_globals.get("__name__", "")
        is_ours = event == "call" and str(name).startswith("holdfast.")
        if is_ours and asyncio.current_task() is self._task:
            self.calls.append(f"{name}.{frame.f_code.co_qualname}")


@contextmanager
def counting() -> Iterator[CallCount]:
    count, before = CallCount(), sys.getprofile()
    gc.disable()
    sys.setprofile(count.note)
    try:
        yield count
    finally:
        sys.setprofile(before)
        gc.enable()


async def test_a_404_takes_the_same_calls_whoever_has_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = partial(AccessControl, now=lambda: 1.0, monotonic=lambda: 1.0)
    monkeypatch.setattr(app_module, "AccessControl", stopped)
    app = make_protected_app()
    async with app.router.lifespan_context(app):
        existing, missing = Names("a", 2), Names("b", 2)
        await fill_tenant(app, "alpha", "clerk", existing)
        text, key = make_key("reader", scopes=("read",), now=0.0, tenant="bravo")
        await app.state.access.keys.store.add_key(key)
        for route in ROUTES:
            told: list[list[str]] = []
            for names in (missing, existing, missing, existing):  # the first one fills caches
                with counting() as count:
                    await ask(app, names.fill(route, 0), f"Bearer {text}")
                told.append(count.calls)
            assert told[1] == told[2] == told[3], route
            assert len(told[1]) > 10
