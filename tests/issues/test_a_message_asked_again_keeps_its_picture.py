"""`/retry` in `holdfast chat` sent only the text of a message that another program had sent with a picture.

A message that was only a picture was no message: `/undo` also took the one before it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

from tests.cli.terminal import holdfast

from holdfast import Agent, Media, SqliteJournal, user
from holdfast.testing import Emulator

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_the_picture_is_sent_again(emulator: Callable[..., Emulator], tmp_path: Path) -> None:
    provider = emulator(["A bridge.", "A tower."])
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent("openai:any", base_url=provider.base_url, journal=journal)
        agent.run_sync(user("What is this?", Media("image/png", data=PIXEL)), session="ana")
    kept = ("--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    done = holdfast("chat", *address, *kept, said="/retry\n")
    assert (done.returncode, done.stdout) == (0, "A tower.\n")
    first, again = (request.body["messages"][-1] for request in provider.requests)
    assert again == first
    assert "image_url" in str(again)


def test_a_message_without_a_text_is_undone_alone(
    emulator: Callable[..., Emulator], tmp_path: Path
) -> None:
    provider = emulator(["Hello.", "A bridge.", "Still here."])
    address = ("--model", "openai:any", "--base-url", provider.base_url)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent("openai:any", base_url=provider.base_url, journal=journal)
        agent.run_sync("I am Ana.", session="ana")
        agent.run_sync(user(Media("image/png", data=PIXEL)), session="ana")
    kept = ("--journal", f"sqlite:///{tmp_path}/talk.db", "--session", "ana")
    done = holdfast("chat", *address, *kept, said="/undo\nWho am I?\n")
    assert "forgot: [image/png]" in done.stderr
    sent = str(provider.requests[-1].body["messages"])
    assert "I am Ana." in sent
    assert "image_url" not in sent
