"""`holdfast replay`: the timeline of a run from its journal, as text and as JSON."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

from holdfast import Agent, SqliteJournal
from holdfast.cli.main import main
from holdfast.cli.timeline import build_timeline, state_at
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.core.events import (
    Event,
    FailedTarget,
    ModelFailed,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    Status,
    ToolFinished,
    ToolsBegun,
    TurnClosed,
    TurnInterrupted,
    TurnOpened,
)
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult, Usage, user
from holdfast.journal.port import Record
from holdfast.models.prices import Prices
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened

AT = 1_700_000_000.0
OVERLOADED = ErrorInfo(
    category=ErrorCategory.SERVER_ERROR, safe="It is overloaded.", status=529, request_id="req_7"
)
WHERE = "server_error, status 529, request req_7"
LOST = ErrorInfo(category=ErrorCategory.TIMEOUT, safe="It took too long.", code="timeout")
CALLS = (ToolCall("a", "pay", '{"amount": 10}'), ToolCall("b", "look", "{}"))


def events() -> list[Event]:
    return [
        TurnOpened("t1", AT, user("Pay \x1b[2J and look.")),
        ModelReplied(
            "t1.i0.model",
            AT + 2,
            Reply(CALLS, usage=Usage(100, 20, cached_input=50)),
            3,
            (FailedTarget("openai:a", 2, OVERLOADED),),
        ),
        ToolsBegun("t1.i0.begun", AT + 2),
        QuestionAsked("t1.i0.tool.0.ask.0.asked", AT + 2.5, "PermissionQuestion", {"tool": "pay"}),
        ToolFinished("t1.i0.tool.1", AT + 3, ToolResult("b", "look", (Text("clear"),))),
        QuestionAnswered("t1.i0.tool.0.ask.0", AT + 62.5, {"type": "approved"}),
        ToolFinished(
            "t1.i0.tool.0",
            AT + 64,
            ToolResult("a", "pay", (Text("Error: Function 'pay' failed."),), is_error=True),
            LOST,
            2,
        ),
        ModelReplied("t1.i1.model", AT + 65, Reply((Text("Done."),), usage=Usage(200, 5))),
        TurnClosed("t1.closed", AT + 65, Status.COMPLETED),
        TurnOpened("t2", AT + 100, user("Again?")),
        ModelFailed("t2.i0.model", AT + 101, OVERLOADED, attempts=4),
        TurnClosed("t2.closed", AT + 101, Status.FAILED, OVERLOADED),
        TurnOpened("t3", AT + 200, user("And now?")),
    ]


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "talk.db"

    async def fill(journal: SqliteJournal) -> None:
        for event in events():
            await journal.append("ada", event)

    with SqliteJournal(file) as journal:
        asyncio.run(fill(journal))
    return str(file)


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["replay", *words]) == 0
    return capsys.readouterr().out


def test_the_timeline_has_the_duration_of_each_effect(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shown(capsys, path)
    assert "\x1b" not in out
    first = out.split("\n\n")[1].splitlines()
    assert first == [
        "turn 1  2023-11-14 22:13:20Z  completed in 65.00 s, 60.00 s of it waiting for answers",
        "  said          Pay \\x1b[2J and look.",
        '  i0.model            +2.00 s    2.00 s  the model asks for pay({"amount": 10}…',
        f"{'':16}openai:a failed after 2 attempts: {OVERLOADED.safe} [{WHERE}]",
        "                3 attempts",
        "                100 tokens in (50 cached), 20 out",
        "  i0.tool.0.ask.0     +2.50 s            PermissionQuestion {'tool': 'pay'}",
        "  i0.tool.1           +3.00 s    1.00 s  look returns 'clear'",
        "  i0.tool.0.ask.0    +62.50 s   60.00 s  the answer {'type': 'approved'}",
        "  i0.tool.0          +64.00 s   62.00 s  pay returns \"Error: Function 'pay' fa…",
        "                2 attempts",
        "                It took too long. [timeout, code timeout]",
        "  i1.model           +65.00 s    1.00 s  the model says 'Done.'",
        "                200 tokens in, 5 out",
        "  answer        Done.",
        "  used          300 tokens in (50 cached), 25 out",
    ]


def test_failed_and_open_turns_are_marked(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    failed, running = shown(capsys, path).split("\n\n")[2:]
    assert failed.startswith("turn 2  2023-11-14 22:15:00Z  failed in 1.00 s")
    assert "error         It is overloaded. [server_error, status 529, request req_7]" in failed
    assert running.startswith("turn 3  2023-11-14 22:16:40Z  running in 0.00 s")


def test_prices_give_the_cost(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('["*"]\ninput = 10\noutput = 100\ncached_input = 1.0\n')
    out = shown(capsys, path, "--turn", "1", "--prices", str(prices))
    assert "100 tokens in (50 cached), 20 out, 0.00255 USD paid" in out
    assert "used          300 tokens in (50 cached), 25 out, 0.00505 USD paid" in out
    assert "turn 2" not in out


def test_json_has_every_field(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, path, "ada", "--json")
    assert "\x1b" not in out
    found = json.loads(out)
    assert found["run"] == "ada"
    turn = found["turns"][0]
    assert (turn["status"], turn["seconds"], turn["waited"]) == ("completed", 65.0, 60.0)
    model = turn["entries"][0]
    assert (model["key"], model["took"], model["attempts"]) == ("t1.i0.model", 2.0, 3)
    assert model["tried"][0]["error"]["request_id"] == "req_7"


def test_the_state_after_an_event_is_shown(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, path, "ada", "--at", "t1.i0.tool.1").splitlines()
    assert out == [
        "run ada after t1.i0.tool.1",
        "  turn 1, iteration 0, running",
        "  waits for tools: t1.i0.tool.0",
        "  1 tools run, 100 tokens in (50 cached), 20 out",
        "  result 1      look: clear",
        "  2 messages",
        "    user        Pay \\x1b[2J and look.",
        '    assistant   pay({"amount": 10}) | look({})',
    ]
    found = json.loads(shown(capsys, path, "ada", "--at", "t1.i0.tool.1", "--json"))
    assert found["pending"] == ["t1.i0.tool.0"]
    assert found["state"]["tools_run"] == 1


def test_an_export_is_shown_as_the_journal_is(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = shown(capsys, path)
    assert main(["journal", "export", path]) == 0
    lines = tmp_path / "ada.jsonl"
    lines.write_text(capsys.readouterr().out)
    assert shown(capsys, str(lines)) == whole
    assert shown(capsys, f"sqlite:///{path}") == whole


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bob"], "has no run 'bob'"),
        (["ada", "--at", "t9"], "the run has no event 't9'"),
        (["ada", "--turn", "9"], "there is no turn 9; the last is 3"),
        (["ada", "--prices", "much"], "--prices: much cannot be read: No such file"),
    ],
)
def test_wrong_arguments_are_one_line(
    path: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", path, *words]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_not_there_is_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(tmp_path / "no.db")]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_export_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "ada.jsonl"
    lines.write_text('{"schema":1,"run":"ada"}\n')
    assert main(["replay", str(lines)]) == 1
    assert "ada.jsonl, line 1" in capsys.readouterr().err


# The usage of attempts that failed or were cut.

OPENED = TurnOpened("t1", 0.0, user("hi"))
INFO = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="It is overloaded.")
ASKED = ModelReplied(
    "t1.i0.model",
    1.0,
    Reply((ToolCall("a", "agent", "{}"), ToolCall("b", "agent", "{}")), usage=Usage(10, 5)),
    2,
    lost=Usage(100, 50, cached_input=20),
)
BEGUN = ToolsBegun("t1.i0.begun", 1.0)
WORKED = ToolFinished(
    "t1.i0.tool.0", 2.0, ToolResult("a", "agent", (Text("ok"),)), usage=Usage(7, 3)
)
CUT = TurnInterrupted("t1.interrupted", 3.0, "cancelled", ("t1.i0.tool.1",), usage=Usage(1000, 1))
FAILED = ModelFailed(
    "t1.i0.model", 1.0, INFO, Reply((Text("a"),), usage=Usage(4, 2)), 3, lost=Usage(40, 20)
)
UNANSWERED = ModelFailed("t1.i0.model", 1.0, INFO, None, 3, lost=Usage(40, 20))


@pytest.mark.parametrize(
    ("events", "status", "wanted"),
    [
        ((ASKED, BEGUN, WORKED, CUT), Status.CANCELLED, Usage(1117, 59, cached_input=20)),
        ((FAILED,), Status.FAILED, Usage(44, 22)),
        ((UNANSWERED,), Status.FAILED, Usage(40, 20)),
    ],
)
def test_the_timeline_has_the_usage_of_the_result(
    events: tuple[Event, ...], status: Status, wanted: Usage
) -> None:
    ended = TurnClosed("t1.closed", 4.0, status)
    records = [Record(event) for event in (OPENED, *events, ended)]
    found = state_at(records, ended.key)
    assert found is not None
    (turn,) = build_timeline(records, Prices({"*": {"input": 1_000_000, "output": 1_000_000}}))
    assert turn.usage == found[0].usage == wanted
    assert turn.cost is not None
    assert turn.cost.amount == wanted.total


async def talk(path: Path) -> int:
    """Number 3 is rewound by 4, and 6 sums up; how many turns the session has."""
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel("One.", "Two.", "Three.", "Four."), journal=journal)
        for said in ("one", "two", "three"):
            await agent.run(said, session="ada")
        await agent.sessions.rename("ada", "Numbers")
        await agent.sessions.rewind("ada", 2)
        await agent.run("four", session="ada")
        await agent.sessions.compact("ada", keep=1, summary="They counted.")
        return (await agent.sessions.info("ada")).turns


def test_a_replay_numbers_turns_as_sessions_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.db"
    turns = asyncio.run(talk(path))
    assert main(["replay", str(path), "ada"]) == 0
    first, *blocks = capsys.readouterr().out.split("\n\n")
    assert first == f"run ada: {turns} turns, 14 records"
    heads = [block.splitlines()[0] for block in blocks]
    names = ["turn 1", "turn 2", "turn 3", "change 4", "turn 5", "change 6"]
    assert [head.partition("  ")[0] for head in heads] == names
    assert [head.endswith(" (rewound)") for head in heads] == [False, False, True, *[False] * 3]
    assert main(["replay", str(path), "ada", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["turns"]
    counted = [one for one in found if one.get("counts", True) and "kind" not in one]
    assert len(counted) == turns
    assert main(["replay", str(path), "ada", "--turn", "7"]) == 2
    assert "there is no turn 7; the last is 6" in capsys.readouterr().err


# A file that is not a journal.


@pytest.mark.parametrize(
    "content",
    [b"# Holdfast\n\nAn introduction.\n", b'{"openapi": "3.1.0"}\n', b"[1]\n", b"\x89PNG\r\n\xff"],
)
def test_a_file_that_is_not_a_journal_is_reported_as_that(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    done = holdfast("replay", str(file))
    assert done.returncode == 1
    assert done.stderr == (
        f"holdfast: journal {file}: is neither a journal nor an export of one. Pass the file of a"
        " journal, or what `holdfast journal export` printed\n"
    )


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("words", [("sessions", "export"), ("journal", "export")])
def test_a_damaged_line_of_an_export_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    path, file = tmp_path / "talk.db", tmp_path / "export"
    with SqliteJournal(path) as journal:
        Agent(ScriptedModel("Hello!"), journal=journal).run_sync("Hi.", session="ada")
    exported = holdfast(*words, str(path), "ada")
    assert exported.returncode == 0, exported.stderr
    file.write_text(exported.stdout)
    assert holdfast("replay", str(file)).returncode == 0
    file.write_text("damaged" + exported.stdout)
    done = holdfast("replay", str(file))
    assert done.returncode != 0
    assert "line 1" in done.stderr
    assert "backup" in done.stderr


# The tenant of a run.


@pytest.fixture
def path_of_tenants(tmp_path: Path) -> Path:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1, "of nobody")))
        asyncio.run(journal.for_tenant("acme").append("ada", make_turn_opened(1, "of acme")))
    return path


def test_replay_shows_the_run_of_a_tenant(
    path_of_tenants: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(path_of_tenants), "ada", "--tenant", "acme"]) == 0
    assert "of acme" in capsys.readouterr().out
    assert main(["replay", str(path_of_tenants), "ada"]) == 0
    assert "of nobody" in capsys.readouterr().out
    assert main(["replay", str(path_of_tenants), "ada", "--tenant", "other"]) == 2
    assert "ada" in capsys.readouterr().err


def test_an_export_has_no_tenant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export = tmp_path / "ada.jsonl"
    export.write_text("")
    assert main(["replay", str(export), "--tenant", "acme"]) == 2
    assert "tenant" in capsys.readouterr().err
