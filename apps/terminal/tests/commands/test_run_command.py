"""`adh run` with everything real but the provider: answers, questions without a person, reports, statuses."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from apps.terminal.tests.commands.person import KEY, Person

from holdfast.testing.emulator import ErrorResponse, call

WRITE = call("write_file", {"file_path": "new.txt", "content": "hello\n"})


@pytest.fixture
def person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    return Person(tmp_path, monkeypatch, capsys)


def test_an_answer_is_all_that_standard_output_has(person: Person) -> None:
    with person.provide("It is **done**."):
        printed = person.run("Do it.")
    assert (printed.status, printed.out) == (0, "It is **done**.\n")
    assert "Conversations are saved on this computer" in printed.err


def test_json_has_the_fields_of_the_contract_and_nothing_else(person: Person) -> None:
    (person.project / "a.txt").write_text("hi")
    with person.provide([call("read_file", {"file_path": "a.txt"})], "Read."):
        printed = person.run("Read a.txt.", "--output", "json")
    report = json.loads(printed.out)
    assert printed.out.count("\n") == 1
    metadata = report.pop("metadata")
    assert report == {"success": True, "kind": "done", "response": "Read."}
    assert metadata.pop("execution_time_ms") > 0
    assert metadata.pop("session").startswith("20")
    assert metadata.pop("usage")["input"] > 0
    assert metadata == {
        "tools_used": ["read_file"],
        "model": "openai:emulated-model",
        "agent": "orchestrator",
    }


def test_nobody_is_there_to_answer_so_nothing_is_written(person: Person) -> None:
    with person.provide([WRITE], "I could not write it."):
        printed = person.run("Write.", "--output", "json")
    assert printed.status == 2
    assert json.loads(printed.out)["success"] is False
    assert not (person.project / "new.txt").exists()
    assert [line["decision"] for line in person.read_audit()] == ["denied"]


@pytest.mark.slow  # takes half a second or more
def test_yes_answers_confirm_and_nothing_stricter(person: Person) -> None:
    (person.project / "old.txt").write_text("old")
    remove = call("execute_command", {"command": "rm old.txt"})
    with person.provide([WRITE], [remove], "Half of it."):
        printed = person.run("Write, and remove.", "--yes", "--output", "markdown")
    assert printed.status == 2
    assert (person.project / "new.txt").read_text() == "hello\n"
    assert (person.project / "old.txt").exists()
    assert "# Run of adh" in printed.out
    assert "asked, and ran by --yes" in printed.out
    assert "asked, and denied by nobody" in printed.out


@pytest.mark.slow  # takes half a second or more
def test_a_rule_that_denies_holds_without_safety_too(person: Person) -> None:
    folder = person.config / "policies"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "mine: {no: {pattern: write_file, supervision: deny, risk: high}}"
    )
    with person.provide([WRITE], "Denied."):
        printed = person.run("Write.", "--no-safety", "--yes")
    assert printed.status == 2
    assert "⚠️  WARNING: Running with safety checks disabled!" in printed.err
    assert not (person.project / "new.txt").exists()


def test_without_safety_a_write_of_medium_risk_runs_unasked(person: Person) -> None:
    with person.provide([WRITE], "Written."):
        assert person.run("Write.", "--no-safety").status == 0
    assert (person.project / "new.txt").exists()


def test_a_policy_file_counts_for_this_run(person: Person, tmp_path: Path) -> None:
    policy = tmp_path / "ci.yaml"
    policy.write_text(
        "ci: {write: {pattern: write_file, supervision: automatic, risk: low, priority: 5}}"
    )
    with person.provide([WRITE], "Written."):
        assert person.run("Write.", "--policy", str(policy)).status == 0
    assert (person.project / "new.txt").exists()


def test_a_broken_rule_stops_the_start_with_its_file_and_line(person: Person) -> None:
    folder = person.config / "policies"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "mine:\n  no: {pattern: write_file, supervision: never, risk: high}\n"
    )
    with person.provide("Done.") as provider:
        printed = person.run("Write.")
    assert (printed.status, printed.out) == (2, "")
    assert "mine.yaml:2" in printed.err
    assert provider.requests == []


def test_no_key_says_what_to_set_before_anything_is_sent(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    printed = person.run("Hello.")
    assert (printed.status, printed.out) == (2, "")
    assert "Set OPENAI_API_KEY, in the environment or in a .env file." in printed.err


def test_a_failure_of_the_provider_is_status_1_with_its_advice(person: Person) -> None:
    with person.provide("x", faults=(ErrorResponse("auth"),)):
        printed = person.run("Hello.", "--output", "json")
    report = json.loads(printed.out)
    assert printed.status == 1
    assert (report["success"], report["kind"], report["response"]) == (False, "failed", "")
    assert "error" in report
    assert KEY not in printed.out + printed.err


def test_the_task_may_come_from_standard_input(person: Person) -> None:
    with person.provide("Ok.") as provider:
        assert person.run("-", text="From a pipe.\n").status == 0
    assert "From a pipe." in str(provider.requests[0].body)
    assert person.run("-", text="  ").status == 2


def test_verbose_tells_each_step_on_standard_error(person: Person) -> None:
    with person.provide([call("list_directory", {})], "Listed."):
        printed = person.run("List.", "--verbose")
    assert printed.out == "Listed.\n"
    assert "⏳ Sending message to AI..." in printed.err
    assert "list_directory" in printed.err
    assert "[automatic, low, files." in printed.err


def test_instructions_of_a_folder_count_once_it_is_trusted(person: Person) -> None:
    (person.project / "AGENTS.md").write_text("Speak like a pirate.")
    with person.provide("Ok.", "Aye.") as provider:
        printed = person.run("Hello.")
        assert "not trusted: AGENTS.md" in printed.err
        assert "pirate" not in str(provider.requests[0].body)
        assert person.adh("config", "trust").out == f"{person.project} is trusted\n"
        assert "not trusted" not in person.run("Hello.").err
        assert "pirate" in str(provider.requests[1].body)
    assert person.adh("config", "distrust").status == 0
    assert "AGENTS.md" in person.adh("agents").err


def test_keys_of_a_folder_count_once_it_is_trusted(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    (person.project / ".env").write_text("OPENAI_API_KEY=sk-of-the-project-5d1f\n")
    assert person.run("Hello.").status == 2
    person.adh("config", "trust")
    with person.provide("Ok."):
        assert person.run("Hello.").status == 0


def test_a_run_is_a_conversation_that_can_be_listed_shown_exported_and_deleted(
    person: Person, tmp_path: Path
) -> None:
    assert "there is no conversation" in person.adh("sessions", "list").err
    with person.provide("It is done."):
        person.run("Do it.")
    (row,) = json.loads(person.adh("sessions", "list", "--output", "json").out)
    assert (row["title"], row["turns"], row["status"]) == ("Do it.", 1, "closed")
    beginning = row["id"][:17]
    listed = person.adh("sessions", "list").out
    assert listed.startswith(row["id"])
    assert "1 turn, closed" in listed
    shown = person.adh("sessions", "show", beginning).out
    assert "## You\n\nDo it." in shown
    assert "## Agent\n\nIt is done." in shown
    exported = person.adh("sessions", "export", beginning, "--to", str(tmp_path / "out"))
    files = [Path(line) for line in exported.out.splitlines()]
    assert [path.suffix for path in files] == [".md", ".jsonl"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    assert person.adh("sessions", "delete", row["id"]).status == 2
    assert person.adh("sessions", "delete", "--yes", row["id"]).status == 0
    assert person.adh("sessions", "show", row["id"]).status == 2


def test_debug_writes_a_private_log_without_secrets(person: Person) -> None:
    with person.provide("x", faults=(ErrorResponse("auth"),)):
        assert person.run("Hello.", "--debug").status == 1
    log = person.data / "adh.log"
    assert log.stat().st_mode & 0o777 == 0o600
    logging.getLogger("adh").error("the key is %s", KEY)
    assert "the key is" in log.read_text()
    assert KEY not in log.read_text()


def test_without_debug_there_is_no_log(person: Person) -> None:
    with person.provide("Ok."):
        person.run("Hello.")
    assert not (person.data / "adh.log").exists()


def test_an_explanation_names_what_decides_and_with_all_the_rest(person: Person) -> None:
    short = person.adh("policies", "read_file", ".env").out
    assert "decides: files.read_secrets" in short
    assert "does not match" not in short
    assert "do not match; --all shows why" in short
    assert (
        "does not match: path_matches" in person.adh("policies", "--all", "read_file", ".env").out
    )
