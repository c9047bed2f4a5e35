"""Some hostile inputs raised a KeyError, a ValueError, a RecursionError or an AttributeError."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from holdfast import Agent, ConfigurationError
from holdfast.journal.journal_errors import JournalCorruptError
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.sqlite import SqliteJournal
from holdfast.sessions.session_export import _add_checksum, _ChecksumChain
from holdfast.testing import Emulator, ScriptedModel

PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1beta/models/a:generateContent",
)


async def test_an_import_with_an_empty_key() -> None:
    agent = Agent(ScriptedModel("hi"), journal=MemoryJournal())
    await agent.run("go", session="ada")
    records = [json.loads(line) async for line in agent.sessions.export("ada")]
    chain = _ChecksumChain()
    for record in records:
        del record["sum"]
        if "key" in record:
            record["key"] = ""
    signed = [_add_checksum(chain, json.dumps(record)) for record in records]
    with pytest.raises(JournalCorruptError, match="line 1"):
        await agent.sessions.import_(signed, session="eve")


async def test_a_later_record_with_an_empty_key() -> None:
    agent = Agent(ScriptedModel("hi"), journal=MemoryJournal())
    await agent.run("go", session="ada")
    records = [json.loads(line) async for line in agent.sessions.export("ada")]
    for at in range(len(records) - 1):
        chain = _ChecksumChain()
        changed = [
            {**record, "key": ""} if number == at else record
            for number, record in enumerate(records)
        ]
        plain = [{key: value for key, value in one.items() if key != "sum"} for one in changed]
        signed = [_add_checksum(chain, json.dumps(one)) for one in plain]
        with pytest.raises(JournalCorruptError, match=f"line {at + 1}"):
            await agent.sessions.import_(signed, session="eve")


def test_an_agent_file_with_a_number_of_five_thousand_digits(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('model = "ollama:a"\nparallel_tools = ' + "1" * 5_000)
    with pytest.raises(ConfigurationError, match=r"agent\.toml: cannot be read"):
        Agent.from_file(file)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"[" * 2_000, b'{"a":' * 2_000, b'"\xff"', b'{"model": "\xff"}'])
def test_a_request_to_the_emulator_that_no_reader_takes(path: str, body: bytes) -> None:
    with Emulator() as emulator:
        address = emulator.base_url.removesuffix("/v1") + path
        headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        request = urllib.request.Request(address, body, headers)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        assert caught.value.code == 400
        assert b"error" in caught.value.read()


@pytest.mark.parametrize("kind", [Agent, SqliteJournal])
def test_the_repr_of_an_object_that_was_not_constructed(kind: type) -> None:
    assert repr(kind.__new__(kind)).startswith(kind.__name__)
