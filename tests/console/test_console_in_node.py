"""The modules of the console in Node: on recorded streams, and on streams that this test makes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.console.record import TEXT, make_tenant

from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.reading import TURN_RESTS, ReadingEnd
from holdfast.event_log.positions import START
from holdfast.testing import Emulator
from holdfast.testing.emulator import (
    DropAfter,
    ErrorEvent,
    ErrorResponse,
    ResetBeforeHeaders,
    chaos,
)

HERE = Path(__file__).parent
NODE = shutil.which("node")
SHOW = """
import { foldItems } from "%s";
import { readFileSync } from "node:fs";
const session = foldItems(readFileSync(0, "utf-8").split("\\n").filter(Boolean).map((line) => JSON.parse(line)));
const turns = [...session.turns.values()];
process.stdout.write(JSON.stringify(turns.map((turn) => turn.iterations.map((one) => one.call.text.text))));
"""

pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node")


@pytest.mark.slow  # starts a program or a server
def test_the_modules_pass_their_own_tests() -> None:
    files = sorted(map(str, HERE.glob("*.test.mjs")))
    done = subprocess.run(
        [str(NODE), "--test", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("seed", range(6))
async def test_a_page_shows_the_text_that_the_service_streams_whatever_fails(seed: int) -> None:
    faults = chaos(
        seed=seed,
        share=0.6,
        faults=(DropAfter(9), ErrorEvent(5), ErrorResponse("overloaded"), ResetBeforeHeaders()),
    )
    async with Emulator([TEXT, "Short."], faults=faults) as provider:
        tenant = make_tenant(provider)
        accepted = await tenant.start("keeper", "How many?", session="s")
        entries = tenant.reader.follow("s", START, ReadingEnd(accepted.number, TURN_RESTS))
        items = [encode_item(entry.item).decode() async for entry in entries]
        replies = [
            record.event.reply.text
            for record in await tenant.journal.read("s")
            if record.event.key.endswith(".model") and hasattr(record.event, "reply")
        ]
    until = next((at for at, item in enumerate(items) if '"model_replied"' in item), len(items))
    for seen in (items, items[:until]):
        if replies:
            assert shown_texts(seen)[:1] == replies[:1]


def shown_texts(items: list[str]) -> list[str]:
    """Return the texts of replies that the page shows after these items."""
    fold = (HERE.parents[1] / "src/holdfast/console/static/lib/fold.js").as_uri()
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-e", SHOW % fold],
        input="\n".join(items),
        capture_output=True,
        text=True,
        check=True,
    )
    return [text for turn in json.loads(done.stdout) for text in turn]
