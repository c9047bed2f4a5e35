"""The export of a session: it is imported exactly, or refused with the number of the line."""

from __future__ import annotations

import asyncio
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sessions.conversations import look, sent, talk

from holdfast import Agent, MemoryJournal, SqliteJournal
from holdfast.cli import sessions_command
from holdfast.cli.run_printer import make_printable
from holdfast.cli.sessions_command import _write_new
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import TurnOpened
from holdfast.core.messages import Reply, Text, ToolCall, user
from holdfast.journal.encoding import decode, record_of
from holdfast.journal.journal_errors import JournalCorruptError, JournalError, JournalVersionError
from holdfast.journal.port import Journal, Record
from holdfast.sessions import session_export
from holdfast.sessions.session_export import export_lines, import_lines
from holdfast.sessions.sessions import Sessions
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.recording import load_recording

GOLDEN = Path(__file__).parents[1] / "golden" / "journals"
ODD = 'héllo \U0001f9ff \x00 \u2028 \ud800 \x9b2J "quoted" \\ \n'


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    with SqliteJournal(tmp_path / "talk.db") as kept:
        yield kept


async def made(journal: Journal) -> list[str]:
    """Return the lines of a session that has every kind of record."""
    clock = FakeClock()
    await talk(journal, clock, "ada", "one", ODD, tools=True)
    await talk(journal, clock, "ada/t1.i0.tool.0", "of a tool")
    kept = Sessions(journal, clock=clock.now)
    await kept.rename("ada", "Ada")
    await kept.compact("ada", keep=1, summary="one")
    await kept.rewind("ada", 1)
    return [line async for line in kept.export("ada")]


async def whole(journal: Journal, session: str) -> dict[str, list[Record]]:
    runs = [entry.run for entry in await journal.runs() if entry.run.startswith(session)]
    return {run[len(session) :]: list(await journal.read(run)) for run in runs}


@pytest.mark.anyio
async def test_what_was_exported_comes_back_exactly(journal: Journal) -> None:
    lines = await made(journal)
    before = await whole(journal, "ada")
    kept = Sessions(journal)
    assert await kept.import_(lines, session="copy") == "copy"
    assert await whole(journal, "copy") == before
    assert [line async for line in kept.export("ada")] == lines
    assert (await kept.info("copy")).title == "Ada"
    await kept.delete("ada")
    assert await kept.import_(f"{line}\r\n" for line in lines) == "ada"
    assert await whole(journal, "ada") == before
    assert await sent(journal, "ada") == ["one", "", "", "re one"]


@pytest.mark.anyio
async def test_lines_are_json_without_control_characters(journal: Journal) -> None:
    lines = await made(journal)
    for line in lines:
        assert not {"\x1b", "\x9b", "\n"} & set(line)
        json.loads(line)
    assert json.loads(lines[-1])["end"] == len(lines) - 1


@pytest.mark.anyio
async def test_an_import_never_overwrites(journal: Journal) -> None:
    lines = await made(journal)
    before = await whole(journal, "ada")
    kept = Sessions(journal)
    with pytest.raises(ConfigurationError, match="already"):
        await kept.import_(lines)
    name = await kept.create("named", session="named")
    with pytest.raises(ConfigurationError, match="already"):
        await kept.import_(lines, session=name)
    assert await whole(journal, "ada") == before


@pytest.mark.anyio
def lines_of_golden(name: str) -> list[str]:
    records = [
        record_of(decode(line)) for line in (GOLDEN / f"{name}.jsonl").read_bytes().splitlines()
    ]
    return list(export_lines({"golden": records}))


@pytest.mark.parametrize("name", sorted(file.stem for file in GOLDEN.glob("*.jsonl")))
def test_recorded_journals_are_exported_and_imported(name: str) -> None:
    records = [
        record_of(decode(line)) for line in (GOLDEN / f"{name}.jsonl").read_bytes().splitlines()
    ]
    assert import_lines(lines_of_golden(name), "x") == {"golden": records}


LINES = lines_of_golden("tools")


def refused(lines: list[str]) -> JournalError:
    with pytest.raises(JournalError) as caught:
        import_lines(lines, "talk.jsonl")
    return caught.value


@pytest.mark.parametrize("gone", range(len(LINES)))
def test_a_missing_line_is_detected(gone: int) -> None:
    error = refused(LINES[:gone] + LINES[gone + 1 :])
    assert error.path == f"talk.jsonl, line {gone + 1}"


@pytest.mark.parametrize("end", range(len(LINES)))
def test_a_file_that_was_truncated_is_detected(end: int) -> None:
    assert refused(LINES[:end]).path == f"talk.jsonl, line {end + 1}"


def test_a_truncated_line_is_reported() -> None:
    assert refused([*LINES[:2], LINES[2][:-30]]).path == "talk.jsonl, line 3"


@pytest.mark.parametrize("at", range(len(LINES)))
def test_a_repeated_line_is_reported(at: int) -> None:
    assert refused([*LINES[: at + 1], *LINES[at:]]).path == f"talk.jsonl, line {at + 2}"


@given(st.data())
def test_every_changed_letter_is_detected(data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(LINES) - 1))
    line = LINES[number]
    at = data.draw(st.integers(0, len(line) - 1))
    letter = data.draw(st.characters().filter(lambda one: one != line[at]))
    error = refused([*LINES[:number], line[:at] + letter + line[at + 1 :], *LINES[number + 1 :]])
    assert error.path == f"talk.jsonl, line {number + 1}"


@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_other_text_is_refused(lines: list[str]) -> None:
    refused(lines)


def test_a_newer_version_is_reported() -> None:
    lines = list(export_lines({"ada": [Record(TurnOpened("t1", 1.0, user("hi"), flags=1 << 30))]}))
    assert refused(lines).path == "import, line 1".replace("import", "talk.jsonl")
    newer = [line.replace('"schema":1', '"schema":9') for line in lines]
    assert isinstance(refused(newer), JournalCorruptError), "its sum does not fit"
    assert issubclass(JournalVersionError, JournalError)


def test_records_in_an_impossible_order_are_reported() -> None:
    twice = [Record(TurnOpened(f"t{n}", 1.0, user("hi"))) for n in (1, 2)]
    error = refused(list(export_lines({"ada": twice})))
    assert error.path == "talk.jsonl, line 2"
    assert "TurnOpened" in error.problem


@pytest.mark.anyio
async def test_a_changed_effect_is_reported(journal: Journal) -> None:
    """A forged line has a valid checksum, but the digest of the planned effect differs."""
    call = Reply((ToolCall("c", "look", '{"place": "Porto"}'),))
    agent = Agent(ScriptedModel(call, "done"), tools=[look], journal=journal)
    await agent.run("hi", session="ada")
    records = list(await journal.read("ada"))
    at = next(n for n, record in enumerate(records) if record.event.key == "t1.i0.model")
    other = Reply((Text("!"), ToolCall("c", "look", '{"place": "Faro"}')))
    event = records[at].event
    records[at] = Record(type(event)(event.key, event.at, other), records[at].digest)  # type: ignore[call-arg,arg-type]
    tool = next(n for n, record in enumerate(records) if ".tool." in record.event.key)
    assert refused(list(export_lines({"ada": records}))).path == f"talk.jsonl, line {tool + 1}"


@pytest.mark.anyio
async def test_two_sessions_in_one_file_are_refused(journal: Journal) -> None:
    records = [Record(TurnOpened("t1", 1.0, user("hi")))]
    lines = list(export_lines({"ada": records, "bob": records}))
    with pytest.raises(ConfigurationError, match="another session"):
        await Sessions(journal).import_(lines)
    for name in ("/:title", "", "x/t1.i0.tool.0"):
        with pytest.raises(ConfigurationError):
            await Sessions(journal).import_(list(export_lines({name: records})))


async def test_a_line_with_a_wrong_number_is_detected_despite_valid_checksums() -> None:
    given = [line.rpartition(',"sum":')[0] + "}" for line in await made(MemoryJournal())]
    given[1] = given[1].replace('"seq":2,', '"seq":3,')
    chain = session_export._ChecksumChain()
    with pytest.raises(JournalCorruptError, match=r"line 2: is record 3 of 'ada' and not 2"):
        import_lines([session_export._add_checksum(chain, text) for text in given], "it")


# An export is complete in any encoding of the terminal.

ODD_ODD = "Olá \u2028 \x85 \u202e ☃ \U0001f9ff"
PROGRAM = "import sys; from holdfast.cli.main import main; sys.exit(main())"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def talk() -> None:
        with SqliteJournal(tmp_path / "talk.db") as journal:
            agent = Agent(ScriptedModel(ODD_ODD), journal=journal)
            await agent.run(ODD_ODD, session="ada")
            await agent.sessions.rename("ada", "A title beside it")

    asyncio.run(talk())
    return tmp_path / "talk.db"


def holdfast(*words: object, encoding: str = "utf-8") -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_printed_export_can_be_imported(path: Path, tmp_path: Path, encoding: str) -> None:
    lines, other = tmp_path / "ada.jsonl", tmp_path / "other.db"
    lines.write_bytes(holdfast("sessions", "export", path, "ada", encoding=encoding))
    assert holdfast("sessions", "import", other, lines, encoding=encoding).split() == [b"ada"]
    assert ODD_ODD in str(asyncio.run(load_recording(other)).records[0].event.message.text)  # type: ignore[union-attr]
    for words in (("journal", "export", path, "ada"), ("replay", "--json", path)):
        found = holdfast(*words, encoding=encoding).decode()
        assert "Olá" in found
        assert "☃" in found


@pytest.mark.parametrize("word", ["sessions", "journal"])
def test_a_recording_may_hold_what_ends_lines_elsewhere(
    path: Path, tmp_path: Path, word: str
) -> None:
    lines = tmp_path / "ada.jsonl"
    text = holdfast(word, "export", path, "ada").decode()
    assert len(text.splitlines()) == text.count("\n")
    for escaped in (True, False):
        if not escaped and word == "journal":  # as it was written before it was escaped
            text = text.replace("\\u2028", "\u2028")
        lines.write_text(text, "utf-8")
        (opened, *_) = asyncio.run(load_recording(lines)).records
        assert isinstance(opened.event, TurnOpened)
        assert opened.event.message.text == ODD_ODD
    assert decode(text.split("\n")[0]).run == "ada"


def test_the_only_session_is_played_whatever_stands_beside_it(path: Path) -> None:
    assert asyncio.run(load_recording(path)).run == "ada"


@pytest.mark.slow  # starts a program or a server
def test_a_name_in_an_export_is_no_command_to_a_terminal(tmp_path: Path) -> None:
    name = "ada\x1b]0;mine\x07\u202e"
    db, lines = tmp_path / "talk.db", tmp_path / "ada.jsonl"
    with SqliteJournal(db) as journal:
        asyncio.run(Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session=name))
    lines.write_bytes(holdfast("sessions", "export", db, name))
    out = holdfast("sessions", "import", tmp_path / "other.db", lines)
    assert out.decode() == "ada\\x1b]0;mine\\x07\\u202e\n"
    out = holdfast("sessions", "fork", db, name, "--to", "b\x1bob")
    assert out.decode() == "b\\x1bob\n"


def test_what_turns_the_direction_of_a_text_is_shown_and_not_obeyed() -> None:
    assert make_printable("pay \u202e01\u2066x\u2069") == "pay \\u202e01\\u2066x\\u2069"
    assert make_printable("שלום \u200f") == "שלום \\u200f"


def test_half_a_file_is_not_left_when_the_disk_is_full(tmp_path: Path) -> None:
    file = tmp_path / "ada.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(OSError, match="large"):
            _write_new(file, "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not file.exists()
    _write_new(file, "x")
    assert file.read_text() == "x"


class Interrupted(io.StringIO):
    def write(self, _: str) -> int:
        raise KeyboardInterrupt


def test_half_a_file_is_not_left_after_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ada.jsonl"

    def opened(path: Path, *_: str, **__: str) -> Interrupted:
        path.touch()
        return Interrupted()

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(KeyboardInterrupt):
        sessions_command._write_new(file, "x")
    assert not file.exists()
