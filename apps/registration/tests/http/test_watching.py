"""What those see who watch the service: each part, metrics without people, and alerts that can fire."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from apps.registration.tests.flow.chat_club import KEYS, no_wait
from apps.registration.tests.flow.test_registration_by_chat import TO_HOUSE
from apps.registration.tests.http.served_club import Served, serve_club
from apps.registration.tests.store.samples import NOON, register

from holdfast.resilience import PROCESS
from holdfast.testing.emulator import ErrorResponse
from registration.emulators.faults import Faults
from registration.http.running import Time
from registration.store.outbox import NewJob, claim_job, enqueue, record_failure
from registration.store.photo_jobs import NewPhoto, submit_photo
from registration.store.tasks import NewTask, open_task

ALERTS = Path(__file__).parents[2] / "alerts.yml"


@pytest.fixture(autouse=True)
def _breakers() -> Iterator[None]:
    """Close the circuit breakers, which all services of a process share."""
    yield
    for breaker in PROCESS.all_breakers():
        breaker.reset()


SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? ([-+.e\d]+|NaN|\+Inf)$")
SELECTOR = re.compile(r"\b((?:registration|holdfast)_[a-z_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)(=~?)"([^"]*)"')


def read_samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    found = []
    for line in text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.match(line)
            assert match, line
            labels = {name: value for name, _, value in LABEL.findall(match[2] or "")}
            found.append((match[1], labels, float(match[3])))
    return found


async def make_trouble(club: Served) -> None:
    """Let every metric have a value."""
    owner = await register(club.database)

    def work(tx: object) -> None:
        submit_photo(tx, NewPhoto("j1", "s1", owner, "hash", "up.heic", "Received"), NOON)
        enqueue(tx, NewJob("k", "odd", {}), NOON)
        job = claim_job(tx, ("odd",), "lease", NOON, NOON + 60)
        record_failure(tx, job, "refused", NOON)
        enqueue(tx, NewJob("late", "never_done", {}), NOON)
        open_task(tx, NewTask("d", "duplicate", "Two are alike."), NOON)

    await club.database.transact(work)
    await club.say_all(*TO_HOUSE[:3])
    await club.say("14-03-2016", routine_number=34)


@pytest.mark.slow  # starts a program or a server
async def test_every_alert_looks_at_metrics_that_there_are(tmp_path: Path) -> None:
    fails = iter([False] * 7 + [True] * 1000)

    def faults(_request: object) -> ErrorResponse | None:
        return ErrorResponse("server_error") if next(fails) else None

    async with serve_club(tmp_path, faults=faults, clock=Time(sleep=no_wait)) as club:
        await make_trouble(club)
        for number in range(6):  # questions without a model: the circuit breaker opens
            await club.say(f"Why is that so, number {number}?")
        await club.call("GET", "/nowhere")
        text = (await club.call("GET", "/metrics")).json
        samples = read_samples(text)
        assert club.session not in text
        assert "Zebedee" not in text
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        selectors = SELECTOR.findall(rule["expr"])
        assert selectors, rule
        for name, wanted in selectors:
            of_name = [labels for seen, labels, _ in samples if seen == name]
            assert of_name, f"{rule['alert']}: there is no {name}"
            for label, how, value in LABEL.findall(wanted):
                values = {labels[label] for labels in of_name}
                pattern = value if how == "=~" else re.escape(value)
                assert any(re.fullmatch(pattern, one) for one in values), (rule["alert"], values)
    counted = {(name, *sorted(labels.items())): value for name, labels, value in samples}
    assert counted[("registration_client_steps_ignored_total",)] == 1
    assert counted["registration_turns_total", ("status", "ok")] >= 3
    assert counted["registration_jobs", ("kind", "odd"), ("state", "failed")] == 1
    assert (
        counted["registration_breaker_state", ("state", "open"), ("target", "openai:gpt-4.1")] == 1
    )
    assert sum(v for name, _, v in samples if name == "registration_sessions_by_retries") >= 1


@pytest.mark.slow  # starts a program or a server
async def test_each_part_says_how_it_is(tmp_path: Path) -> None:
    away = {"addresses": Faults(["late"] * 20, late=9.0)}
    async with serve_club(tmp_path, provider_faults=away, addresses_total_seconds="0.1") as club:
        health = (await club.call("GET", "/health")).json
        assert health["status"] == "healthy"
        names = {"database", "journal", "store", "model", "payments", "sms", "mail", "addresses"}
        assert set(health["parts"]) == names
        assert (await club.call("GET", "/ready")).json == {"status": "ready"}
        await club.say_all(*TO_HOUSE, "12")
        parts = (await club.call("GET", "/health")).json["parts"]
        assert parts["addresses"]["failures"] >= 1
        assert parts["addresses"]["reason"] == "timeout"


async def test_without_its_database_the_service_is_not_ready(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        for name in ("club.db-wal", "club.db"):
            file = tmp_path / name
            file.write_bytes(b"x" * file.stat().st_size)
        reply = await club.call("GET", "/ready")
        assert (reply.status, reply.json["missing"]) == (503, ["database"])
        assert (await club.call("GET", "/health")).json["status"] == "degraded"
        text = (await club.call("GET", "/metrics")).json
        assert "registration_database_up 0" in text
        assert "registration_turns_total" in text


async def test_the_agents_are_for_the_admin_to_look_at(tmp_path: Path) -> None:
    async with serve_club(tmp_path) as club:
        assert (await club.call("GET", "/agent/status")).status == 401
        assert (await club.call("POST", "/agent/mode", {"mode": "local"})).status == 401
        club.token = KEYS["REGISTRATION_ADMIN_KEY"]
        status = (await club.call("GET", "/agent/status")).json
        assert (status["mode"], status["model"]) == ("local", "openai:gpt-4.1")
        assert (await club.call("POST", "/agent/mode", {"mode": "local"})).status == 200
        assert (await club.call("POST", "/agent/mode", {"mode": "other"})).status == 422


async def test_without_an_mcp_server_there_is_one_mode(tmp_path: Path) -> None:
    async with serve_club(tmp_path, mcp_address="") as club:
        club.token = KEYS["REGISTRATION_ADMIN_KEY"]
        refused = await club.call("POST", "/agent/mode", {"mode": "mcp"})
        assert (refused.status, refused.json["error"]["kind"]) == (501, "not_available")
        status = (await club.call("GET", "/agent/status")).json
        assert (status["mode"], status["modes"]) == ("local", ["local"])
