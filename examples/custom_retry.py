"""Decide yourself what is tried again, and count what it cost.

The gateway answers 401 while it rotates its keys, which the rules never retry. `custom_retry` gives
such an answer one more chance and leaves everything else to the rules. Metrics count the calls.

It prints:

    asked about attempt 0: auth_error
    asked about attempt 1: server_error
    It is in Portugal.
    1 call in 3 attempts, 1 succeeded
"""

import asyncio

from holdfast import Agent, HoldfastError, Resilience, RetryOptions
from holdfast.resilience import DEFER, CallMetrics, RetryAnswer
from holdfast.testing import Emulator
from holdfast.testing.emulator import ErrorResponse


def patient_with_keys(error: BaseException, attempt: int) -> RetryAnswer:
    """Seconds to wait, None to stop, or DEFER to leave it to the rules."""
    if not isinstance(error, HoldfastError):
        return DEFER
    print(f"asked about attempt {attempt}: {error.info.category.value}")
    return 0.05 if error.info.status == 401 and attempt == 0 else DEFER


async def main() -> None:
    """Ask through a gateway that is not at its best."""
    metrics = CallMetrics()
    faults = [ErrorResponse("bad_key"), ErrorResponse("server_error")]
    async with Emulator(["It is in Portugal."], faults=faults) as gateway:
        agent = Agent(
            "openai:demo",
            base_url=gateway.base_url,
            api_key="any",
            retry=RetryOptions(custom_retry=patient_with_keys, retry_delay=0.05),
            resilience=Resilience(metrics=metrics),
        )
        result = await agent.run("Where is Porto?")
        print(result.output)
        attempts = len(gateway.requests)
    seen = metrics.snapshot("model")
    print(f"{seen.total_calls} call in {attempts} attempts, {seen.successful_calls} succeeded")


if __name__ == "__main__":
    asyncio.run(main())
