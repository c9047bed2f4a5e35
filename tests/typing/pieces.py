"""What a type checker must see of the pieces around calls; checked by mypy, never run."""

from __future__ import annotations

from typing import assert_type

from holdfast import RetryOptions, ToolContext, current_tool_call
from holdfast.calls import resilient, retry_on
from holdfast.resilience.retry.strategy import Retry


@resilient
async def waits(number: int) -> str:
    """Async, and stays so."""
    return str(number)


@resilient
def blocks(number: int) -> str:
    """Synchronous, and stays so."""
    return str(number)


@resilient(Retry(RetryOptions(max_retries=1)), classify=retry_on(KeyError))
def configured(number: int) -> str:
    """With strategies."""
    return str(number)


assert_type(blocks(1), str)
assert_type(configured(1), str)
assert_type(current_tool_call(), ToolContext[object] | None)


async def main() -> None:
    """What is awaited."""
    assert_type(await waits(1), str)
