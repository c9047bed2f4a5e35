import json
import os
import resource
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adh.storage.audit_log import AuditEntry, AuditError, AuditFilter, AuditLog
from holdfast.models import SecretValues

AT = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


def entry(**fields: object) -> AuditEntry:
    return AuditEntry(**{"at": AT, "event": "decision", **fields})  # type: ignore[arg-type]


def test_a_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "data" / "audit.log")
    written = entry(
        session="s",
        user="ada",
        agent="a",
        request_id="r",
        folder="/p",
        repository="/p",
        call="t1.i0.tool.0",
        tool="write_file",
        parameters={"file_path": "a.txt", "create_dirs": True, "n": [1, {"x": None}]},
        rule="files.write_file (built-in)",
        level="confirm",
        risk="medium",
        decision="allowed",
        decided_by="person",
        reason="ok",
        checks=("backup: passed",),
        result="done",
        seconds=0.5,
    )
    log.write(written)
    assert list(log.read()) == [written]
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600


def test_secrets_are_not_written(tmp_path: Path) -> None:
    log = AuditLog(
        tmp_path / "audit.log",
        redact_patterns=("project-\\w+",),
        secrets=SecretValues(["0123456789abcdef0123456789abcdef"]),
    )
    log.write(
        entry(
            parameters={
                "command": "curl -H 'Authorization: Bearer sk-abcdef123456' x",
                "api_key": "plain words",
                "nested": [{"password": "hunter2"}],
                "text": "project-zeus and 0123456789ABCDEF0123456789abcdef",
            },
            result="password=hunter2",
            reason="token: ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        )
    )
    text = log.path.read_text()
    for secret in ("sk-abc", "plain words", "hunter2", "zeus", "0123456789", "ghp_"):
        assert secret not in text


def test_a_result_is_cut_at_200_characters_and_a_parameter_says_how_much_is_missing(
    tmp_path: Path,
) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.write(entry(result="x y " * 100, parameters={"content": "words " * 1_000}))
    (found,) = log.read()
    assert len(found.result) == 200
    assert str(found.parameters["content"]).endswith("(4,000 more characters)")


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_whatever_the_parameters_are_a_line_is_one_line(
    tmp_path_factory: pytest.TempPathFactory, parameters: dict[str, object]
) -> None:
    log = AuditLog(tmp_path_factory.mktemp("log") / "audit.log")
    log.write(entry(parameters=parameters))
    log.write(entry(tool="second"))
    assert [found.tool for found in log.read()] == ["", "second"]


def test_a_surrogate_of_a_file_name_is_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.write(entry(parameters={"file_path": "a\udcff"}, result="\ud800"))
    assert len(list(log.read())) == 1


def test_a_torn_line_costs_nothing_but_itself(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.write(entry(tool="first"))
    log.path.write_bytes(log.path.read_bytes() + b'{"at":"2026-03')
    log.write(entry(tool="second"))
    damaged: list[int] = []
    assert [found.tool for found in log.read(on_damage=damaged.append)] == ["first", "second"]
    assert damaged == [2]


def test_lines_are_filtered(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    for session, tool in (("a", "x"), ("a", "y"), ("b", "x")):
        log.write(entry(session=session, tool=tool, decision="denied"))
    assert len(list(log.read(AuditFilter(session="a", decision="denied")))) == 2
    assert len(list(log.read(AuditFilter(session="a", tool="y")))) == 1
    assert list(log.read(AuditFilter(decision="allowed"))) == []


def test_no_log_has_no_lines(tmp_path: Path) -> None:
    assert list(AuditLog(tmp_path / "none" / "audit.log").read()) == []


PROGRAM = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from adh.storage.audit_log import AuditEntry, AuditLog
log = AuditLog(Path(sys.argv[1]))
for number in range(50):
    log.write(AuditEntry(at=datetime.now(UTC), event="outcome", tool=sys.argv[2], result=str(number)))
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), name]) for name in ("a", "b")
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    damaged: list[int] = []
    found = list(AuditLog(path).read(on_damage=damaged.append))
    assert damaged == []
    for name in ("a", "b"):
        assert [one.result for one in found if one.tool == name] == [str(n) for n in range(50)]


def test_a_full_disk_is_an_error_and_not_a_lost_line(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    log.write(entry(tool="first"))
    size = log.path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        with pytest.raises(AuditError):
            log.write(entry(tool="second"))
        with pytest.raises(AuditError):
            log.write(entry(tool="third"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.write(entry(tool="fourth"))
    assert [found.tool for found in log.read()] == ["first", "fourth"]


@pytest.mark.parametrize("kind", ["folder", "fifo", "link"])
def test_what_is_not_a_log_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.log"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditError) as caught:
        AuditLog(path).write(entry())
    assert str(path) in str(caught.value)
    assert not (tmp_path / "elsewhere").exists()


def test_a_log_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.touch(0o644)
    AuditLog(path).write(entry())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["event"] == "decision"
