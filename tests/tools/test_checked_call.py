"""A checked call: the arguments that hooks and people see."""

from __future__ import annotations

import pytest

from holdfast import tool
from holdfast.core.errors import ToolNotFoundError
from holdfast.core.messages import ToolCall
from holdfast.tools.checked_call import CheckedCall, Invocation, check_call
from holdfast.tools.registry import Registry


@tool
def pay(euros: float, to: str = "ann") -> str:
    """Pay."""
    return f"{euros} {to}"


REGISTRY = Registry([pay])


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('{"euros": 1.5, "to": "ann"}', '{"euros": 1.5, "to": "ann"}'),
        ('{"to": "ann", "euros": 1.5}', '{"euros":1.5,"to":"ann"}'),
        ('{"euros": 1}', '{"euros":1.0,"to":"ann"}'),
        ('{"euros": "1.50", "to": "bob"}', '{"euros":1.5,"to":"bob"}'),
    ],
)
def test_a_call_stays_as_it_was_written_where_that_says_the_same(written: str, shown: str) -> None:
    call = ToolCall("1", "pay", written, "anthropic", {"a": 1})
    found = check_call(REGISTRY, call)
    assert isinstance(found, CheckedCall)
    assert found.visible_call == ToolCall("1", "pay", shown, "anthropic", {"a": 1})
    assert (found.visible_call is call) == (written == shown)


@pytest.mark.parametrize(
    ("call", "unfinished", "code"),
    [
        (ToolCall("1", "play", "{}"), False, "unknown_tool"),
        (ToolCall("1", "play", "{}"), True, "unknown_tool"),
        (ToolCall("1", "pay", '{"euros": 1}'), True, "unfinished_arguments"),
        (ToolCall("1", "pay", "{}"), False, "invalid_arguments"),
        (ToolCall("1", "pay", '{"euros": NaN}'), False, "invalid_arguments"),
        (ToolCall("1", "pay", "[1]"), False, "invalid_arguments"),
    ],
)
def test_a_call_that_cannot_be_run(call: ToolCall, unfinished: bool, code: str) -> None:
    found = check_call(REGISTRY, call, unfinished=unfinished)
    assert isinstance(found, Invocation)
    assert found.info is not None
    assert found.result is not None
    assert found.info.code in (code, "malformed_arguments")
    assert isinstance(found.error, ToolNotFoundError) == (code == "unknown_tool")
