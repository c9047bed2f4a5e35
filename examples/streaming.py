"""Show text while it comes, and take it back when an attempt fails.

The stream breaks off after a few words. What was shown is struck out, and the reply is asked for
again; the text that stays is one attempt's, whole.

It prints:

    The Douro flows
    [taken back, again in 0.1 s]
    The Douro flows through Porto into the Atlantic.
    [accepted: 48 letters]
"""

import asyncio

from holdfast import (
    Agent,
    AttemptAbandoned,
    ModelReplied,
    RetryOptions,
    RetryScheduled,
    TextDelta,
)
from holdfast.testing import Emulator, FixedRng
from holdfast.testing.emulator import DropAfter

ANSWER = "The Douro flows through Porto into the Atlantic."


async def main() -> None:
    """Ask, and watch."""
    async with Emulator([ANSWER], faults=[DropAfter(4)]) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="any",
            retry=RetryOptions(retry_delay=0.1),
            rng=FixedRng(0.5),
        )
        async with agent.stream("Where does the Douro end?") as run:
            async for item in run:
                if isinstance(item, TextDelta):
                    print(item.text, end="", flush=True)
                elif isinstance(item, AttemptAbandoned):
                    print("\n[taken back", end="")
                elif isinstance(item, RetryScheduled):
                    print(f", again in {item.delay:.1f} s]")
                elif isinstance(item, ModelReplied):
                    print(f"\n[accepted: {len(item.reply.text)} letters]")


if __name__ == "__main__":
    asyncio.run(main())
