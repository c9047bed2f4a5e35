"""An object instead of text, mended by the model itself when it does not fit.

The first answer has a night too few and a means of transport that does not exist. The model reads
what is wrong and sends a better one.

It prints:

    the model was told:
      - stops[0].nights: must be at least 1; got 0
      - by: must be one of "train", "plane"; got "boat"
    by train: Porto (3 nights), Lisbon (2 nights)
"""

import asyncio
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

from holdfast import Agent
from holdfast.testing import Emulator


class Stop(BaseModel):
    """Where to sleep, and how often."""

    city: str
    nights: int = Field(ge=1)


@dataclass
class Trip:
    """The wanted answer."""

    stops: list[Stop]
    by: Literal["train", "plane"]


ANSWERS = [
    '{"stops": [{"city": "Porto", "nights": 0}], "by": "boat"}',
    '{"stops": [{"city": "Porto", "nights": 3}, {"city": "Lisbon", "nights": 2}], "by": "train"}',
]


async def main() -> None:
    """Plan a trip."""
    async with Emulator(ANSWERS) as provider:
        agent = Agent("openai:demo", base_url=provider.base_url, api_key="any", output=Trip)
        result = await agent.run("Five nights in Portugal.")
    print("the model was told:")
    for line in result.messages[2].text.splitlines():
        if line.startswith("- "):
            print(f"  {line}")
    trip = result.output
    stops = ", ".join(f"{stop.city} ({stop.nights} nights)" for stop in trip.stops)
    print(f"by {trip.by}: {stops}")


if __name__ == "__main__":
    asyncio.run(main())
