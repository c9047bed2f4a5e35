"""`on_context_window` was called while the result that it looked at was still on its way to the disk."""

from __future__ import annotations

import pytest
from tests.runtime.test_write_behind import CALL, Bench

from holdfast import Middleware
from holdfast.core.errors import ErrorCategory, ErrorInfo, exception_for
from holdfast.middleware import Patch
from holdfast.middleware.hook_contexts import ModelCall

pytestmark = pytest.mark.anyio

TOO_LONG = ErrorInfo(category=ErrorCategory.CONTEXT_WINDOW, safe="too long")


class Less(Middleware):
    def __init__(self) -> None:
        self.called = 0

    async def on_context_window(self, context: ModelCall) -> Patch:
        self.called += 1
        return Patch(messages=context.messages[:1])


async def test_it_is_not_called_before_what_it_sees_is_kept() -> None:
    less = Less()
    bench = Bench(CALL, exception_for(TOO_LONG), "Done.", middleware=(less,))
    task = await bench.begun()
    await bench.journal.until("t1.i0.tool.0")
    assert (bench.asked, less.called) == (2, 0)
    bench.journal.let_go()
    assert await task == "Done."
    assert (bench.asked, less.called) == (3, 1)
