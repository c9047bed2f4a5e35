"""A batch of documents, of which the provider refuses one, and then the same call again.

Only the refused document is requested a second time. It prints:

    8 items, 1 failed; requests so far: 8
    8 items, 0 failed; requests so far: 9
    Ana has paid 160 euros
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass

from holdfast import Agent
from holdfast.batches import BatchResult
from holdfast.journal import open_journal
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, ErrorResponse

DOCUMENTS = [f"Invoice #{number} of Ana: 20 euros" for number in range(8)]


@dataclass
class Invoice:
    """One invoice."""

    number: str
    euros: float


def read(request: EmulatedRequest) -> str:
    number = request.text.split("#")[1].split()[0]
    return json.dumps({"number": number, "euros": 20})


class Faults:
    """The key of the provider does not cover one document, until somebody repairs it."""

    is_repaired = False

    def __call__(self, request: EmulatedRequest) -> ErrorResponse | None:
        """Refuse the document."""
        refused = "#5 " in request.text and not self.is_repaired
        return ErrorResponse("bad_key") if refused else None


def report(batch: BatchResult[str, Invoice], provider: Emulator) -> None:
    failed = len(batch.failures)
    print(f"{len(batch.items)} items, {failed} failed; requests so far: {len(provider.requests)}")


async def main() -> None:
    faults = Faults()
    with tempfile.TemporaryDirectory() as folder, Emulator(read, faults=faults) as provider:
        reader = Agent("openai:demo", base_url=provider.base_url, api_key="any", output=Invoice)
        journal = f"sqlite:///{folder}/batch.db"
        report(await reader.map(DOCUMENTS, journal=journal, parallel=4), provider)
        faults.is_repaired = True
        batch = await reader.map(DOCUMENTS, journal=journal, parallel=4)
        report(batch, provider)
        open_journal(journal).close()
    print(f"Ana has paid {sum(item.output.euros for item in batch.items):g} euros")


if __name__ == "__main__":
    asyncio.run(main())
