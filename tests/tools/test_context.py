"""What a tool may know about its call."""

import pytest

from holdfast.tools import ToolContext


def test_the_idempotency_key_is_of_the_call_and_not_of_the_attempt() -> None:
    first = ToolContext(run_id="r1", key="t1.i0.tool.0", attempt=1)
    second = ToolContext(run_id="r1", key="t1.i0.tool.0", attempt=2)
    other = ToolContext(run_id="r1", key="t1.i0.tool.1", attempt=1)
    assert first.idempotency_key == second.idempotency_key == "r1:t1.i0.tool.0:0"
    assert other.idempotency_key != first.idempotency_key


def test_it_is_frozen_and_does_not_show_the_users_objects() -> None:
    context = ToolContext(run_id="r1", key="k", deps="password=hunter2")
    with pytest.raises(AttributeError):
        context.attempt = 2  # type: ignore[misc]
    assert "hunter2" not in repr(context)
