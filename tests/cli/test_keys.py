"""`holdfast keys` as a process: keys are made, listed, revoked and rotated while a journal is open."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

from holdfast import SqliteJournal
from holdfast.journal.service_store.service_store_opening import open_service_store
from holdfast.server.access.keys import digest_secret


def run(*words: object) -> tuple[int, str, str]:
    done = holdfast("keys", *map(str, words))
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def create(path: Path, *words: object) -> tuple[str, str]:
    """Make a key; return it and its id."""
    status, out, err = run("create", "--journal", path, "--name", "ci", *words)
    assert status == 0, err
    return out.strip(), err.split()[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


def test_a_key_is_printed_once_and_only_its_digest_is_stored(path: Path) -> None:
    key, key_id = create(path, "--scopes", "read,run", "--tenant", "acme", "--expires", "90d")
    assert re.fullmatch(r"hf_[\w-]{43}", key)
    status, out, _ = run("list", "--journal", path)
    assert status == 0
    assert out.startswith(f"{key_id}  ci  run,read  tenant acme  valid until ")
    assert out.endswith("  never used\n")
    stored = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert key.encode() not in stored
    assert digest_secret(key) in stored


def test_it_works_while_the_journal_is_open(path: Path) -> None:
    with SqliteJournal(path) as journal:
        key, _ = create(path)
        store = open_service_store(journal)
        found = asyncio.run(store.find_key(digest_secret(key)))
        assert found is not None
        assert found.name == "ci"
        store.close()


@pytest.mark.slow  # starts a program or a server
def test_a_key_is_revoked(path: Path) -> None:
    key, key_id = create(path)
    assert run("revoke", "--journal", path, key_id) == (0, f"{key_id} (ci) is revoked\n", "")
    assert f"{key_id}  ci  run,read,answer  revoked 20" in run("list", "--journal", path)[1]
    store = open_service_store(str(path))
    found = asyncio.run(store.find_key(digest_secret(key)))
    assert found is not None
    assert not found.is_valid(found.created_at)
    store.close()
    status, _, err = run("rotate", "--journal", path, key_id)
    assert (status, "is not valid any more" in err) == (2, True)


@pytest.mark.slow  # starts a program or a server
def test_several_keys_are_revoked_or_none(path: Path) -> None:
    ids = [create(path)[1] for _ in range(2)]
    status, out, err = run("revoke", "--journal", path, ids[0], "unknown")
    assert (status, out) == (2, "")
    assert "there is no key 'unknown'" in err
    assert run("revoke", "--journal", path, *ids)[1].count("is revoked") == 2


def test_a_key_is_rotated(path: Path) -> None:
    old, old_id = create(path, "--expires", "30d")
    status, new, err = run("rotate", "--journal", path, old_id, "--grace", "1h")
    assert status == 0
    assert new.strip() != old
    assert f"{old_id} stays valid until 20" in err
    lines = run("list", "--journal", path)[1].splitlines()
    assert len(lines) == 2
    assert all("valid until" in line for line in lines)


def test_a_key_that_was_exposed_is_rotated_without_grace(path: Path) -> None:
    _, old_id = create(path)
    assert run("rotate", "--journal", path, old_id, "--grace", "0")[0] == 0
    assert f"{old_id}  ci  run,read,answer  expired 20" in run("list", "--journal", path)[1]


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("create", "--name", "ci", "--scopes", "fly"), "--scopes: unknown scope 'fly'"),
        (("create", "--name", "ci", "--expires", "soon"), "--expires: is not a duration"),
        (("create", "--name", "  "), "--name: must be a text that is not empty"),
        (("create", "--name", "a\x1b[2J"), "--name: contains a character that cannot be printed"),
        (("list",), "`holdfast keys create` creates it"),
        (("revoke", "abc"), "`holdfast keys create` creates it"),
    ],
)
def test_a_wrong_argument_is_named_and_nothing_is_created(
    path: Path, words: tuple[str, ...], named: str
) -> None:
    status, out, err = run(words[0], "--journal", path, *words[1:])
    assert status in (1, 2)
    assert (out, named in err) == ("", True), err
    assert list(path.parent.iterdir()) == []


def test_a_journal_in_memory_has_no_keys() -> None:
    status, _, err = run("list", "--journal", "memory:")
    assert (status, "is in memory" in err) == (2, True)


@pytest.mark.slow  # starts a program or a server
def test_keys_are_in_the_database_of_a_postgres_journal(url: str) -> None:
    status, _, err = run("create", "--journal", url, "--name", "ci")
    assert status == 0, err
    assert "  ci  " in run("list", "--journal", url)[1]


def test_keys_need_no_web_server() -> None:
    program = (
        "import sys\n"
        "sys.modules['starlette'] = sys.modules['uvicorn'] = None\n"
        "from holdfast.cli.main import main\n"
        "sys.exit(main(['keys', 'create', '--journal', sys.argv[1], '--name', 'ci']))\n"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run([*words, "/nowhere/a.db"], check=False, capture_output=True, text=True)
    assert "No such file or directory" in done.stderr
