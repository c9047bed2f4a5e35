"""`holdfast worker`, `submit` and `queue` as processes that share a PostgreSQL journal."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import io
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli import terminal
from tests.journal.inbox.queued_turns import make_submission

from holdfast import MemoryJournal, SqliteJournal
from holdfast.cli.main import main
from holdfast.cli.options import name_user
from holdfast.cli.queue_command import count_of_scope
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.opening_inbox import open_inbox

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
QUEUED_AGAIN = "(ready|admitted|done)"
"""The state of an entry that a worker may have begun before the command reads it."""
MODULE = """
import asyncio
from holdfast import Agent, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.middleware import ToolPermission
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call

@tool(effect="write")
async def pay(amount: int) -> str:
    "Pay."
    return f"paid {amount}"

@tool(effect="read")
async def look() -> str:
    "Look for long."
    print("looking", flush=True)
    await asyncio.sleep(60)
    return "nothing"

wrong = ProviderError("no", info=ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="The key is wrong."))
agents = [
    Agent(ScriptedModel(*["Hello."] * 50), name="greeter"),
    Agent(ScriptedModel(wrong, "Better."), name="failing"),
    Agent(ScriptedModel(call("pay", {"amount": 3}), "Paid."), name="asking", tools=[pay],
          middleware=[ToolPermission(ask=["pay"])]),
    Agent(ScriptedModel(call("look")), name="slow", tools=[look]),
]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agents")
    (path / "my_agents.py").write_text(MODULE)
    return path


class RunningWorker:
    """A process of `holdfast worker`; `wait_for` reads what it prints."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.printed: dict[str, str] = {}

    def wait_for(self, word: str) -> str:
        """Read lines until one begins with a word; return the rest of it."""
        assert self.process.stdout is not None
        while word not in self.printed:
            line = self.process.stdout.readline()
            assert line, f"it ended before {word!r}: {self.printed}"
            name, _, value = line.strip().partition(" ")
            self.printed[name] = value.strip()
        return self.printed[word]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) == 0


@contextmanager
def working(url: str, folder: Path, *words: str, **environment: str) -> Iterator[RunningWorker]:
    command = [HOLDFAST, "worker", "my_agents:agents", "--journal", url, *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=folder, env={**os.environ, **environment}
    )
    timer = threading.Timer(60, process.kill)
    timer.start()
    try:
        worker = RunningWorker(process)
        worker.wait_for("ready")
        yield worker
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def holdfast(*words: object) -> tuple[int, str, str]:
    done = terminal.holdfast(*map(str, words))
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def submit(url: str, *words: object) -> tuple[int, str, str]:
    return holdfast("submit", *words, "--journal", url)


def queue(url: str, *words: object) -> tuple[int, str, str]:
    return holdfast("queue", *words, "--journal", url)


def read_json(url: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.slow  # starts a program or a server
def test_whoever_waits_for_a_turn_that_was_dropped_is_told_that(url: str) -> None:
    submitted = submit(url, "greeter", "Hi.", "--request", "r1", "--session", "ada")
    assert queue(url, "drop", submitted[1].split()[0])[0] == 0
    again = submit(url, "greeter", "Hi.", "--request", "r1", "--session", "ada", "--wait")
    assert (again[0], "holdfast: the turn is dropped\n" in again[2]) == (1, True)


@pytest.mark.slow  # starts workers as processes
def test_a_submitted_turn_is_driven_and_its_answer_printed(url: str, folder: Path) -> None:
    status, out, _ = submit(url, "greeter", "Hi.", "--request", "r1", "--session", "ada")
    assert status == 0
    assert re.fullmatch(r"1  session ada  request r1  ready\n", out)
    assert queue(url, "list")[1].startswith("ready 1, the oldest ")
    with working(url, folder, "--parallel", "2", "--tenants", "") as worker:
        assert worker.printed["agents"] == "greeter, failing, asking, slow"
        assert worker.printed["journal"] == "postgresql"
        assert worker.printed["engine"] == "postgres"
        again = submit(url, "greeter", "Hi.", "--request", "r1", "--session", "ada", "--wait")
        assert again[:2] == (0, "Hello.\n")
        other = submit(url, "greeter", "Ho.", "--request", "r1", "--session", "ada")
        assert other[0] == 1
        assert "another turn was submitted with the request 'r1'" in other[2]
        assert worker.printed["worker"] in queue(url, "workers")[1]
        worker.stop()
    assert "no worker is alive" in queue(url, "workers")[2]


@pytest.mark.slow  # starts workers as processes
def test_a_dead_letter_is_retried_and_a_question_ends_with_three(url: str, folder: Path) -> None:
    with working(url, folder):
        status, _, err = submit(url, "failing", "Hi.", "--request", "r1", "--wait", "30")
        assert status == 1
        assert "The key is wrong." in err
        shown = queue(url, "list")[1]
        assert "dead letters:" in shown
        assert "The key is wrong." in shown
        status, out, err = queue(url, "retry", "1")
        assert (status, err) == (0, "")
        assert re.fullmatch(f"1  {QUEUED_AGAIN}\n", out)
        assert submit(url, "failing", "Hi.", "--request", "r1", "--wait")[:2] == (0, "Better.\n")
        assert queue(url, "drop", "1") == (1, "1  done: it cannot drop\n", "")
        assert queue(url, "retry", "7")[0] == 2
        status, _, err = submit(url, "asking", "Pay.", "--session", "ada", "--wait")
        assert status == 3
        assert "waits for an answer" in err
        status, out, err = queue(url, "cancel", "2")
        assert (status, err) == (0, "")
        assert re.fullmatch(f"2  {QUEUED_AGAIN}\n", out)


@pytest.mark.slow  # starts workers as processes
def test_sigterm_hands_a_turn_in_progress_back(url: str, folder: Path) -> None:
    with working(url, folder) as worker:
        submit(url, "slow", "Look.")
        worker.wait_for("looking")
        assert "slow" in queue(url, "workers")[1]
        worker.stop()
    assert "1  admitted" in queue(url, "list", "--state", "admitted")[1].replace(
        "ready", "admitted"
    )


@pytest.mark.slow  # starts workers as processes
def test_pause_resume_limits_and_drain(url: str, folder: Path) -> None:
    assert queue(url, "pause") == (0, "all  paused\n", "")
    assert queue(url, "limits", "tenant", "--running", "4", "--queued", "1") == (
        0,
        "tenant  running 4, queued 1\n",
        "",
    )
    assert submit(url, "greeter", "Hi.")[0] == 0
    full = submit(url, "greeter", "Hi.")
    assert full[0] == 1
    assert "has 1 turns already. Try again in" in full[2]
    with working(url, folder):
        assert "ready 1" in queue(url, "list")[1]
        assert queue(url, "resume")[0] == 0
        assert queue(url, "limits", "tenant", "--queued", "none")[1] == "tenant  running 4\n"
        status, out, err = queue(url, "drain", "--wait")
        assert (status, out) == (0, "all  draining\n")
        assert "empty" in err
        refused = submit(url, "greeter", "Hi.")
        assert refused[0] == 1
        assert "takes no turns now" in refused[2]
        assert queue(url, "limits")[1] == "all  draining\ntenant  running 4\n"


@pytest.mark.slow  # starts workers as processes
def test_a_worker_says_whether_it_is_well(url: str, folder: Path, tmp_path: Path) -> None:
    notified = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(notified))
        manager.settimeout(30)
        with working(url, folder, "--health", "127.0.0.1:0", NOTIFY_SOCKET=str(notified)) as worker:
            assert manager.recv(100) == b"READY=1"
            address = worker.printed["health"]
            assert read_json(f"{address}/health") == (200, {"status": "ok"})
            assert read_json(f"{address}/ready") == (200, {"status": "ready"})
            submit(url, "greeter", "Hi.", "--tenant", "acme secret", "--wait")
            submit(url, "failing", "Hi.", "--wait")
            with urllib.request.urlopen(f"{address}/metrics", timeout=10) as answer:
                metrics = answer.read().decode()
            assert "holdfast_worker_slots 16\n" in metrics
            assert 'holdfast_worker_handled_total{outcome="done"} 1\n' in metrics
            assert 'holdfast_worker_handled_total{outcome="failed"} 1\n' in metrics
            assert 'holdfast_queue_depth{state="failed"} 1\n' in metrics
            assert "holdfast_worker_failed_sweeps_total 0\n" in metrics
            assert "acme" not in metrics
            worker.stop()


@pytest.mark.slow  # starts a program or a server
def test_schedules_are_added_run_and_deleted(url: str, folder: Path) -> None:
    def schedules(*words: object) -> tuple[int, str, str]:
        return holdfast("schedules", *words, "--journal", url)

    cron = ["--cron", "0 9 * * MON-FRI", "--zone", "Europe/Berlin"]
    status, out, _ = schedules("add", "report", "greeter", "Hi.", *cron)
    assert status == 0
    assert out.startswith("report  agent greeter  0 9 * * MON-FRI Europe/Berlin  next 20")
    with working(url, folder) as worker:
        assert schedules("add", "often", "greeter", "Hi.", "--every", "1s")[0] == 0
        assert schedules("run", "report")[0] == 0
        while schedules("history", "often")[1].count("is done") < 2:
            time.sleep(0.2)
        worker.stop()
    assert "triggered  entry " in schedules("history", "report")[1]
    assert schedules("pause", "often")[1] == "often  agent greeter  every 1s  paused\n"
    assert schedules("delete", "often")[1] == "often is deleted\n"
    assert schedules("delete", "often")[0] == 2
    assert schedules("resume", "report")[1] == schedules("list")[1] == out
    assert "--zone" in schedules("add", "x", "a", "b", "--every", "1h", "--zone", "Moon")[2]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["worker", "x:y", "--journal", "postgresql://h/d", "--parallel", "0"], "--parallel: must"),
        (
            ["worker", "json:loads", "--journal", "sqlite:///x.db"],
            "TARGET: 'json:loads' is not an Agent",
        ),
        (
            ["worker", "my_agents:agents", "--journal", "sqlite:///x.db", "--engine", "postgres"],
            "--engine",
        ),
        (
            ["worker", "my_agents:agents", "--journal", "sqlite:///x.db", "--health", "x"],
            "--health: is",
        ),
        (
            ["worker", "my_agents:agents", "--journal", "sqlite:///x.db", "--tenants", "a,,b"],
            "--tenants",
        ),
        (["submit", "a", " ", "--journal", "sqlite:///x.db"], "MESSAGE: is empty"),
        (
            ["submit", "a", "b", "--journal", "sqlite:///x.db", "--not-before", "soon"],
            "--not-before",
        ),
        (["submit", "a", "b", "--journal", "sqlite:///x.db", "--priority", "5000"], "--priority"),
        (["submit", "a", "b", "--journal", "x:y"], "--journal"),
        (["queue", "pause", "everything", "--journal", "sqlite:///x.db"], "SCOPE: must be"),
        (["queue", "limits", "--running", "2", "--journal", "sqlite:///x.db"], "SCOPE: is missing"),
        (["queue", "limits", "all", "--running", "x", "--journal", "sqlite:///x.db"], "--running"),
        (
            ["queue", "limits", "all", "--queued", f"{2**54}", "--journal", "sqlite:///x.db"],
            "--queued",
        ),
        (["queue", "list", "--limit", "0", "--journal", "sqlite:///x.db"], "--limit: must"),
        (["queue", "drop", "9", "--journal", "sqlite:///x.db"], "there is no entry 9"),
    ],
)
def test_wrong_arguments_name_the_option(
    words: list[str], problem: str, folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.chdir(tmp_path)
    SqliteJournal("x.db").close()
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert main(words) == 2, said.getvalue()
    assert problem.lower() in said.getvalue().lower()


@pytest.mark.slow  # starts a program or a server
def test_a_turn_of_a_file_is_done_by_a_worker_of_the_same_file(
    folder: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "talk.db"
    assert queue(str(journal), "list")[0] == 2
    early = ["--not-before", "2001-01-01T00:00Z", "--request", "r1", "--session", "ada"]
    assert submit(str(journal), "greeter", "Hi.", *early)[0] == 0
    with working(str(journal), folder) as worker:
        while read_states(journal) != {"done"}:
            time.sleep(0.1)
        worker.stop()
    assert (
        "1  done  agent greeter  session ada" in queue(str(journal), "list", "--state", "done")[1]
    )


def read_states(journal: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as database:
        return {state for (state,) in database.execute("SELECT state FROM holdfast_inbox")}


# The tenant without a name is one tenant, and a user may have no name.

READY = (EntryState.READY,)


@pytest.mark.parametrize(
    ("scope", "count"),
    [
        ("all", 6),
        ("tenant", 6),
        ("tenant:", 1),
        ("tenant:acme", 2),
        ("agent:cook", 5),
        ("agent:nobody", 0),
    ],
)
async def test_a_scope_has_the_turns_of_its_tenants_or_of_its_agent(scope: str, count: int) -> None:
    inbox = open_inbox(MemoryJournal())
    for number, tenant in enumerate(["", "acme", "acme", "b", "b", "b"]):
        agent = "baker" if number == 0 else "cook"
        turn = make_submission(f"s{number}", f"r{number}", tenant=tenant, agent=agent)
        await inbox.submit(turn)
    assert await count_of_scope(inbox, scope, READY) == count


async def test_a_request_is_one_turn_whoever_submits_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"sqlite:///{tmp_path / 'talk.db'}"
    words = ["submit", "greeter", "Hi.", "--journal", address, "--request", "r1"]
    for user in ("ann", "ben"):
        monkeypatch.setenv("LOGNAME", user)
        assert await asyncio.to_thread(main, words) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    with SqliteJournal(tmp_path / "talk.db") as journal:
        (entry,) = await open_inbox(journal).list_entries()
    assert entry.made_by == "cli:ann"


def test_a_user_without_a_name_may_use_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", find_none)
    assert name_user() == "cli"
