from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from adh.demo.demo_model import FIRST_MESSAGE, choose_faults, choose_reply, open_demo
from adh.demo.sandbox_project import FILES, TRICK_COMMAND, make_sandbox
from adh.storage.places import find_places
from adh.storage.trust import TrustedFolders
from holdfast import Message, Text, ToolCall, ToolResult, assistant, user
from holdfast.testing.emulator import DropAfter, EmulatedRequest, ErrorResponse


class Turn:
    """A turn of the emulated model: its calls get the given results."""

    def __init__(self, text: str) -> None:
        self.messages: list[Message] = [user(text)]
        self.calls: list[tuple[str, str]] = []
        self.answer = ""

    def run(self, *, denied: str = "", results: dict[str, str] | None = None) -> Turn:
        for number in range(20):
            reply = choose_reply(EmulatedRequest(messages=tuple(self.messages)))
            calls = [part for part in reply if isinstance(part, ToolCall)]
            self.answer = "".join(part.text for part in reply if isinstance(part, Text))
            if not calls:
                return self
            named = [
                ToolCall(id=f"{number}.{index}", name=one.name, arguments=one.arguments)
                for index, one in enumerate(calls)
            ]
            self.messages.append(Message(role="assistant", parts=tuple(named)))
            for one in named:
                self.calls.append((one.name, one.arguments))
                is_denied = bool(denied) and denied in one.arguments
                text = "denied" if is_denied else (results or {}).get(one.name, "done")
                # No word of an error: the protocol of the demo does not carry it.
                found = ToolResult(one.id, one.name, (Text(text),))
                self.messages.append(Message(role="tool", parts=(found,)))
        raise AssertionError("the model never answered")


WRITTEN = {"write_file": '{"path":"prices.py","bytes":141,"changed":true}'}
PASSED = {
    **WRITTEN,
    "execute_command": '{"stderr":"Ran 3 tests in 0.000s\\n\\nOK\\n","return_code":0}',
}
FAILED = {**WRITTEN, "execute_command": '{"stderr":"FAILED (failures=1)\\n","return_code":1}'}


def test_the_model_asks_for_the_trick_the_edit_and_the_tests() -> None:
    turn = Turn(FIRST_MESSAGE).run(results=PASSED)
    names = [name for name, _ in turn.calls]
    assert names == [
        "list_directory",
        "read_file",
        "execute_command",
        "read_file",
        "read_file",
        "write_file",
        "execute_command",
    ]
    assert TRICK_COMMAND in turn.calls[2][1]
    assert turn.answer.startswith("Fixed: the three tests pass.")


def test_the_model_goes_on_when_the_trick_is_denied() -> None:
    turn = Turn(FIRST_MESSAGE).run(denied=TRICK_COMMAND, results=PASSED)
    assert turn.answer.startswith("Fixed")


def test_the_model_claims_nothing_that_was_denied() -> None:
    edit = Turn(FIRST_MESSAGE).run(denied="100 - discount", results=PASSED)
    assert edit.answer.startswith("The edit was not made")
    tests = Turn(FIRST_MESSAGE).run(denied="unittest", results=PASSED)
    assert "did not run" in tests.answer
    failing = Turn(FIRST_MESSAGE).run(results=FAILED)
    assert "still fail" in failing.answer


@pytest.mark.parametrize(
    ("text", "command"), [("show the secret", "cat .env"), ("Clean up everything", "rm -rf /")]
)
def test_other_messages_lead_to_other_rules(text: str, command: str) -> None:
    turn = Turn(text).run(denied=command)
    assert [arguments for _, arguments in turn.calls] == [f'{{"command":"{command}"}}']
    assert "not" in turn.answer


def test_a_message_that_it_does_not_know_gets_the_list_of_those_it_knows() -> None:
    assert FIRST_MESSAGE in Turn("hello").run().answer


def test_a_second_message_starts_anew() -> None:
    turn = Turn(FIRST_MESSAGE).run(results=PASSED)
    turn.messages += [assistant(turn.answer), user(FIRST_MESSAGE)]
    before = len(turn.calls)
    turn.run(results=PASSED)
    assert len(turn.calls) == 2 * before


def test_the_provider_is_limited_once_and_breaks_off_once() -> None:
    kinds = [
        type(fault)
        for number in range(1, 12)
        for fault in choose_faults(EmulatedRequest(number=number))
    ]
    assert kinds.count(ErrorResponse) == 1
    assert kinds.count(DropAfter) == 1


def test_the_tests_of_the_sandbox_fail_until_the_edit_of_the_model(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    make_sandbox(folder)

    def run_tests() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "unittest"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )

    before = run_tests()
    assert before.returncode == 1
    assert "27.0" in before.stderr or "33.0" in before.stderr
    content = next(
        a for name, a in Turn(FIRST_MESSAGE).run(results=PASSED).calls if name == "write_file"
    )
    (folder / "prices.py").write_text(json.loads(content)["content"])
    # Bytecode of the file before the edit would be taken: same second, same size.
    os.utime(folder / "prices.py", (1, 1))
    after = run_tests()
    assert after.returncode == 0
    assert "Ran 3 tests" in after.stderr


def test_a_folder_with_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        make_sandbox(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_the_sandbox_is_whole_and_its_secret_is_not_in_its_repository(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "shop"
    make_sandbox(folder)
    assert set(FILES) <= {path.name for path in folder.iterdir()}
    if (folder / ".git").exists():
        listed = subprocess.run(
            ["git", "-C", folder, "ls-files"], capture_output=True, text=True, check=True
        )
        assert ".env" not in listed.stdout.split()
        assert "prices.py" in listed.stdout.split()


ENVIRON = {
    "PATH": "/usr/bin:/bin",
    "TERM": "xterm",
    "HOME": "/nowhere",
    "XDG_DATA_HOME": "/nowhere/data",
    "OPENAI_API_KEY": "sk-of-the-person",
}


def test_the_demo_has_a_home_of_its_own_and_no_key_of_the_person() -> None:
    with open_demo(ENVIRON) as demo:
        places = find_places(demo.environ, demo.project)
        assert places.data.is_relative_to(demo.project.parent)
        assert places.config.is_relative_to(demo.project.parent)
        assert "sk-of-the-person" not in demo.environ.values()
        assert demo.environ["TERM"] == "xterm"
        assert TrustedFolders(places.trust_file).is_trusted(demo.project)
        assert demo.base_url.startswith("http://127.0.0.1:")
        assert (demo.project / "test_prices.py").is_file()
    assert not demo.project.parent.exists()


def test_a_temporary_folder_can_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_demo(ENVIRON, keep=True) as demo:
        pass
    assert (demo.project / "prices.py").is_file()


def test_a_folder_of_a_demo_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    with open_demo(ENVIRON, folder) as demo:
        (demo.project / "prices.py").write_text("changed")
    with open_demo(ENVIRON, folder) as demo:
        assert (demo.project / "prices.py").read_text() == "changed"


def test_a_folder_of_somebody_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with (
        pytest.raises(FileExistsError, match="not empty"),
        open_demo(ENVIRON, tmp_path),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
