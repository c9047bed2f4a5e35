"""Runs the emulated providers in a folder until it is killed, and prints where they are."""

import asyncio
import json
import sys
from pathlib import Path

from registration.emulators import WebhookPlan, run_emulators


async def main(folder: str) -> None:
    async with run_emulators(Path(folder), plan=WebhookPlan(copies=1)) as emulators:
        print(json.dumps(dict(emulators.environment)), flush=True)
        await asyncio.Event().wait()


asyncio.run(main(sys.argv[1]))
