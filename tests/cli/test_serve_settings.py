"""Settings of `holdfast serve`: where they come from, and what a wrong one gets."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from holdfast.cli.main import main
from holdfast.cli.serve_settings import (
    TABLES,
    ServeSettings,
    list_options,
    merge,
    read_assignments,
    read_file,
)
from holdfast.core.errors import ConfigurationError

MODULE = """
from holdfast import Agent
from holdfast.testing import ScriptedModel

agent = Agent(ScriptedModel("Hello."), name="greeter")

async def allow(scope):
    return None
"""

WHOLE = """
targets = ["served:agent"]
journal = "memory:"
host = "127.0.0.1"
port = 0
root_path = "/agents"
grace = 10
logs_requests = false

[access]
auth = "keys"
allowed_hosts = ["agents.example"]
allowed_origins = ["https://app.example.com"]
trusted_proxies = ["10.0.0.0/8"]
allow_models = ["openai:gpt-5.2"]

[limits]
body_bytes = 1000
upload_bytes = 1000
body_seconds = 1
upload_seconds = 1.5
body_pause_seconds = 2
buffered_bytes = 5000
requests_per_minute = 1
requests_per_key = 2
turns_per_minute = 300
streams_per_key = 500
stored_bytes = 3
running_turns = 4
waiting_turns = 5
failed_tries = 6

[service]
hold_text = ["greeter"]
prices = "known"
on_disconnect = {greeter = "cancel"}
unread_seconds = 3
strict_fields = true
retry_window = 0
drain = 20

[queue]
parallel = 3
engine = "postgres"

[quarantine]
deaths_in_company = 3
deaths_alone = 4
drain_seconds = 5
ends_when_blocked = true
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "holdfast.toml"
    path.write_text(text)
    return path


def read(folder: Path, text: str) -> ServeSettings:
    return merge([read_file(write(folder, text))])


def test_every_field_of_every_record_can_be_set(tmp_path: Path) -> None:
    settings = read(tmp_path, WHOLE)
    fields = {
        f"{table}.{name}" if table else name
        for table, kind in TABLES.items()
        for name in kind.__struct_fields__
    }
    assert fields - settings.given.keys() == {"access.limits", "queue.quarantine"}
    assert settings.access.limits.turns_per_minute == 300
    assert settings.access.allowed_origins == ("https://app.example.com",)
    assert settings.queue is not None
    assert settings.queue.quarantine is not None
    assert settings.queue.quarantine.deaths_alone == 4
    assert settings.service.on_disconnect == {"greeter": "cancel"}
    assert (settings.service.drain, settings.process.grace) == (20, 10)


def test_without_anything_all_is_default() -> None:
    settings = merge([])
    assert settings.queue is None
    assert settings.process.port == 8000
    assert all(line.endswith("# default") for line in settings.describe().splitlines())


def test_the_description_is_toml_and_has_every_source(tmp_path: Path) -> None:
    assigned = read_assignments(["limits.turns_per_minute=7", "queue.engine=nats://h:4222"])
    settings = merge([read_file(write(tmp_path, WHOLE)), assigned])
    text = settings.describe()
    found = tomllib.loads(text)
    assert found["limits"]["turns_per_minute"] == 7
    assert found["service"]["on_disconnect"] == {"greeter": "cancel"}
    assert "limits.turns_per_minute = 7  # --set" in text
    assert 'access.auth = "keys"  # holdfast.toml:11' in text
    assert 'queue.engine = "nats://h:4222"  # --set' in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("port = 70000", "holdfast.toml:1: port: must be from 0 to 65535, got 70000"),
        ("\nprot = 8000", "holdfast.toml:2: prot: is not a setting. Did you mean port?"),
        ("limits = 3", "holdfast.toml:1: limits: must be a table"),
        (
            "[limits]\n\nturn_per_minute = 3",
            "holdfast.toml:3: limits.turn_per_minute: is not a setting. Did you mean turns_per_minute?",
        ),
        (
            '[limits]\nturns_per_minute = "many"',
            "holdfast.toml:2: limits.turns_per_minute: expected",
        ),
        ("[limits]\nturns_per_minute = 0", "holdfast.toml:2: limits.turns_per_minute: must be"),
        ('[access]\nauth = "open"', "holdfast.toml:2: access.auth: must be"),
        ('[access]\nauth = "nothing:here"', "holdfast.toml:2: access.auth: 'nothing' cannot be"),
        ('[access]\nallowed_hosts = ["http://x"]', "holdfast.toml:2: access.allowed_hosts: 'http"),
        (
            '[access]\nallowed_origins = ["x"]',
            "holdfast.toml:2: access.allowed_origins: 'x' is not",
        ),
        ("[access]\nlimits = {}", "holdfast.toml:2: access.limits: is not a setting"),
        ("[service]\ndrain = -1", "holdfast.toml:2: service.drain: must be"),
        ('[service]\non_disconnect = {a = "stop"}', "holdfast.toml:2: service.on_disconnect: "),
        ('[service]\nprices = "no.toml"', "holdfast.toml:2: service.prices: "),
        ("[queue]\nparallel = -1", "holdfast.toml:2: queue.parallel: must be"),
        ("[quarantine]\ndeaths_alone = 0", "holdfast.toml:2: quarantine.deaths_alone: must be"),
        ("[service]\nhold_text = [1]", "holdfast.toml:2: service.hold_text: expected str"),
        ("port = ", "holdfast.toml: is not TOML"),
        (
            'journal = "postgresql://me:hunter2secret@db/x"',
            "holdfast.toml:1: journal: looks like a secret, which must not be written here",
        ),
        (
            'journal = "postgresql://me:${NO_SUCH_VARIABLE}@db/x"',
            "holdfast.toml:1: journal: the environment variable NO_SUCH_VARIABLE is not set",
        ),
        ('journal = "${x y}"', "holdfast.toml:1: journal: has ${ without"),
    ],
)
def test_a_wrong_setting_has_its_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("limits.turns_per_minute", "--set: is not NAME=VALUE"),
        ("=3", "--set: is not NAME=VALUE"),
        ("service.drain=5\nport = 3", "--set: is not NAME=VALUE"),
        ("limits.turn_per_minute=3", "--set: limits.turn_per_minute: is not a setting. Did you"),
        ("limit.turns_per_minute=3", "--set: limit: is not a setting. Did you mean limits?"),
        ("limits=3", "--set: limits: must be a table"),
        ("port=many", "--set: port: expected int"),
        ("port=-1", "--set: port: must be"),
        ("port.x.y=1", "--set: port: expected int"),
        ("journal=postgresql://me:hunter2secret@db/x", "--set: journal: looks like a secret"),
    ],
)
def test_a_wrong_assignment_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        merge([read_assignments([text])])
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_the_password_of_an_option_is_not_shown() -> None:
    option = {"journal": ("--journal", "postgresql://me:hunter2secret@db/x")}
    settings = merge([list_options(option)])
    assert settings.process.journal == option["journal"][1]
    assert 'journal = "postgresql://[redacted]@db/x"  # --journal' in settings.describe()


def test_a_variable_is_filled_in_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    settings = read(tmp_path, 'journal = "postgresql://me:${DB_PASSWORD}@db/x"')
    assert settings.process.journal == "postgresql://me:hunter2@db/x"
    assert (
        'journal = "postgresql://me:${DB_PASSWORD}@db/x"  # holdfast.toml:1' in settings.describe()
    )
    assert "hunter2" not in settings.describe()


def test_false_stands_for_nothing(tmp_path: Path) -> None:
    settings = read(tmp_path, "[queue]\nengine = false\n")
    assert settings.queue is not None
    assert settings.queue.engine is None
    assert "# queue.engine is not set  # holdfast.toml:2" in settings.describe()


# -- the command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "served.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "served", raising=False)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["serve", *arguments, "--check"])
    out, err = capsys.readouterr()
    return code, out, err


def test_check_prints_what_is_in_force_and_ends(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(folder, 'targets = ["served:agent"]\nport = 9000\n[limits]\nstreams_per_key = 5\n')
    code, out, err = check(capsys, "--grace", "7", "--set", "limits.turns_per_minute=300")
    assert (code, err) == (0, "")
    for line in (
        'targets = ["served:agent"]  # holdfast.toml:1',
        "port = 9000  # holdfast.toml:2",
        "limits.streams_per_key = 5  # holdfast.toml:4",
        "grace = 7.0  # --grace",
        "limits.turns_per_minute = 300  # --set",
        "service.drain = 30.0  # default",
    ):
        assert line in out.splitlines()


def test_an_option_counts_more_than_the_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "other.toml"
    path.write_text("port = 9000\n")
    write(folder, "port = 1\n")
    code, out, _ = check(capsys, "served:agent", "--config", str(path), "--port", "9001")
    assert code == 0
    assert "port = 9001  # --port" in out
    code, out, _ = check(capsys, "served:agent", "--config", str(path))
    assert "port = 9000  # other.toml:1" in out


@pytest.mark.parametrize(
    ("text", "arguments", "problem"),
    [
        (
            "",
            ["served:agent", "--port", "1", "--set", "port=2"],
            "--set: gives port, and so does --port",
        ),
        ("", ["served:agent", "--set", "port=1", "--set", "port=2"], "--set: gives port twice"),
        ("", [], "TARGET: is missing"),
        ("", ["served:agent", "--config", "nothing.toml"], "nothing.toml: cannot be read"),
        (
            '[service]\nhold_text = ["nobody"]',
            ["served:agent"],
            "holdfast.toml:2: service.hold_text: there is no agent 'nobody'",
        ),
        ('targets = ["gone:agent"]', [], "TARGET: 'gone' cannot be imported"),
    ],
)
def test_a_wrong_beginning_is_refused(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    arguments: list[str],
    problem: str,
) -> None:
    write(folder, text)
    code, _, err = check(capsys, *arguments)
    assert code == 2
    assert problem in err


def test_targets_are_relative_to_the_file_which_is_no_agent(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    agents = folder / "etc"
    agents.mkdir()
    (agents / "ada.toml").write_text('model = "openai:gpt-5.2"\n')
    path = agents / "holdfast.toml"
    path.write_text('targets = ["."]\n')
    code, out, err = check(capsys, "--config", str(path))
    assert (code, err) == (0, "")
    assert f"targets = {msgspec.json.encode(['.']).decode()}  # holdfast.toml:1" in out


def test_a_function_decides_who_calls(folder: Path) -> None:
    settings = read(folder, '[access]\nauth = "served:allow"\n')
    assert callable(settings.access.auth)
    assert 'access.auth = "served:allow"  # holdfast.toml:2' in settings.describe()
