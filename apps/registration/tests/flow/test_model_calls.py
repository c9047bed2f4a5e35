"""Calls of a model that is away: how long the parents of others wait."""

from __future__ import annotations

import pytest

from holdfast import Reply
from holdfast.errors import HoldfastError
from holdfast.resilience import BreakerOpenError, CallMetrics
from registration.flow.model_calls import CallKind, ModelCalls

KIND = CallKind(call_type="Registration", session="s1", step=3, seconds=25.0)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 3.9, 60.0])
async def test_an_open_breaker_is_not_waited_for(seconds: float) -> None:
    waits: list[float] = []

    async def note_wait(wait: float) -> None:
        waits.append(wait)

    asked = 0

    async def ask() -> Reply:
        nonlocal asked
        asked += 1
        raise BreakerOpenError("gpt-4.1", seconds)

    with pytest.raises(HoldfastError) as caught:
        await ModelCalls(CallMetrics(), sleep=note_wait).read_answer(ask, KIND)
    assert (asked, waits) == (1, [])
    assert caught.value.info.retry_after == seconds
    assert caught.value.info.code == "breaker_open"
